"""Loops of several tasks that stay open: each record is processed with all its consequences before the next one.

Tasks of a foreign-key join feed each other in a cycle, so none can process all input before the next one. Here every
partition has a function that is called with its next records.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from operator import length_hint
from typing import Any, TypeAlias

from kstreamnb.core.heap import collector_paused
from kstreamnb.runtime.codegen.record_loop import Loop
from kstreamnb.runtime.context.record_context import Batch, Partition, RecordPosition
from kstreamnb.runtime.task.task import Task

PartitionRecord: TypeAlias = tuple[Partition, Any]
"""A partition and its next record: a row that a task has produced, or a wire record, which has its own offset."""

ReaderOf: TypeAlias = Callable[[Partition], int]
"""Returns the index of the task that reads a partition."""

_ROW = 6


class OpenLoops(Batch):
    """The loops of some tasks by partition, for one use; as a batch, it holds the record that is being processed.

    Args:
        tasks: the tasks.
        reader_of: returns the index of the task that reads a partition.
        offsets: the next offsets of partitions whose records are rows; counted on when the loops close.

    Attributes:
        partition: the partition of the current record.
    """

    def __init__(self, tasks: Sequence[Task], reader_of: ReaderOf, offsets: dict[Partition, int]) -> None:
        super().__init__((), "", -1, "", None)
        self.partition = ("", -1)
        self._tasks, self.reader_of, self._offsets = tasks, cache(reader_of), offsets
        self._stack, self._taken = ExitStack(), defaultdict[Partition, list[int]](lambda: [0])
        self._loops = dict[Partition, tuple[int, Loop, list[int]]]()

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Close the loops at the end, with the error that ended the processing, if there was one."""
        try:
            with collector_paused(), self._stack:
                yield
        finally:
            counts = {each: self.taken(*each) for each in self._loops if each in self._offsets}
            self._offsets |= {each: self._offsets[each] + taken for each, taken in counts.items()}

    def process(self, partition: Partition, records: Sequence[Any]) -> int:
        """Process the next records of a partition; return the index of the task that reads it."""
        index, loop, taken = self._loops.get(partition) or self._open(partition, records)
        self.partition, self.records, self.last = partition, records, len(records) - 1
        self.iterator = iterator = iter(records)
        taken[0] += len(records)
        loop(iterator)
        return index

    def taken(self, topic: str, partition: int) -> int:
        """Return how many records of a partition were taken."""
        waiting = length_hint(self.iterator) if (topic, partition) == self.partition else 0
        return self._taken[topic, partition][0] - waiting

    def position_of(self, index: int) -> RecordPosition:
        """Return the position of the record."""
        partition, is_row = self.partition, len(self.records[0]) == _ROW
        source = self._tasks[self.reader_of(partition)].queue_of(*partition).source
        return *partition, source, self._offsets.get(partition, 0) + self.taken(*partition) - 1 if is_row else None

    def _open(self, partition: Partition, records: Sequence[Any]) -> tuple[int, Loop, list[int]]:
        first = self._offsets.setdefault(partition, 0) if len(records[0]) == _ROW else 0
        self.records, index = records, self.reader_of(partition)
        loop = self._stack.enter_context(self._tasks[index].interleave(self, partition, first))
        return self._loops.setdefault(partition, (index, loop, self._taken[partition]))
