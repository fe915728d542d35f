"""Loops of several tasks that stay open: each record is processed with all its consequences before the next one.

Tasks of a foreign-key join feed each other in a circle, so none can process all input before the next one. Here every
partition is a coroutine that receives its next record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any, TypeAlias

from kstreamnb.core.heap import collector_paused
from kstreamnb.runtime.context.record_context import Batch, Partition, RecordPosition
from kstreamnb.runtime.context.record_queue import least_head_order
from kstreamnb.runtime.task.task import Task

PartitionRecord: TypeAlias = tuple[Partition, Any]
"""A partition and its next record: a row that a task has produced, or a wire record, which has its own offset."""

_ROW = 6


@dataclass(slots=True)
class _Loop:
    """The loop of a partition; ``first`` is the offset of its first record, None if records have their own."""

    task: int
    source: str
    first: int | None
    send: Callable[[Any], None]
    taken: int = 0


class OpenLoops(Batch):
    """The loops of some tasks by partition, for one use; as a batch, it holds the record that is being processed.

    Args:
        tasks: the tasks.
        reader_of: returns the index of the task that reads a partition.
        offsets: the next offsets of partitions whose records are rows; counted on when the loops close.

    Attributes:
        partition: the partition of the current record.
    """

    def __init__(
        self, tasks: Sequence[Task], reader_of: Callable[[Partition], int], offsets: dict[Partition, int]
    ) -> None:
        super().__init__([()], "", -1, "", None)
        self.iterator = iter(())
        self.partition: Partition = "", -1
        self._tasks, self._reader_of, self._offsets = tasks, cache(reader_of), offsets
        self._stack = ExitStack()
        self._loops: dict[Partition, _Loop] = {}

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Close the loops at the end, with the error that ended the processing, if there was one."""
        with collector_paused(), self._stack:
            self._stack.callback(self._count_on)
            yield

    def process(self, partition: Partition, record: Any) -> int:
        """Process the next record of a partition; return the index of the task that read it."""
        self.records[0] = record  # type: ignore[index] # a list
        loop = self._loops.get(partition) or self._open(partition)
        self.partition = partition  # only now: another thread may ask for the position
        loop.taken += 1
        loop.send(record)
        return loop.task

    def in_order(self, arrivals: list[PartitionRecord]) -> list[PartitionRecord]:
        """Sort what was caused at once by the task that reads it, and as the task takes it."""
        if len(arrivals) <= 1:
            return arrivals
        partitions = [partition for partition, _ in arrivals]
        if partitions.count(partitions[0]) == len(arrivals):
            return arrivals
        records, readers = [record for _, record in arrivals], [*map(self._reader_of, partitions)]
        groups = groupby(sorted(range(len(readers)), key=readers.__getitem__), readers.__getitem__)
        return [arrivals[at] for _, same in groups for at in least_head_order(list(same), records, partitions)]

    def taken(self, topic: str, partition: int) -> int:
        """Return how many records of a partition were taken."""
        return self._loops[topic, partition].taken

    def position_of(self, index: int) -> RecordPosition:
        """Return the position of the record."""
        loop = self._loops[self.partition]
        return *self.partition, loop.source, None if loop.first is None else loop.first + loop.taken - 1

    def _open(self, partition: Partition) -> _Loop:
        index = self._reader_of(partition)
        task = self._tasks[index]
        first = self._offsets.get(partition, 0) if len(self.records[0]) == _ROW else None
        send = self._stack.enter_context(task.interleave(self, partition, first or 0))
        loop = self._loops[partition] = _Loop(index, task.queue_of(*partition).source, first, send)
        return loop

    def _count_on(self) -> None:
        for partition, loop in self._loops.items():
            if loop.first is not None:
                self._offsets[partition] = loop.first + loop.taken
