"""Interleaved strategy: processes input records one by one, each with all its consequences, in loops that stay open.

Tasks of a foreign-key join feed each other in a circle, so none can process all input before the next one; and events
that are recorded level by level would have to be sorted. Here every partition is a coroutine that receives its next
record. The order is that of the sequential strategy, without its work for each record.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from itertools import groupby
from typing import Any

from kstreamnb.core.heap import collector_paused
from kstreamnb.runtime.context.record_context import Batch, Partition, RecordPosition
from kstreamnb.testdriver.execution.input_batch import InputBatch, least_head_order
from kstreamnb.testdriver.execution.router import Router
from kstreamnb.testdriver.execution.task_group import TaskGroup
from kstreamnb.testdriver.execution.topic_log import OutputRow


def run(router: Router, tasks: TaskGroup, batch: InputBatch) -> None:
    """Process records one after another; output written before an error is logged."""
    rows = batch.input_records(router)
    with collector_paused(), ExitStack() as stack:
        loops = _Loops(router, tasks, stack, rows[0])
        stack.callback(loops.end)
        for row in rows:
            read = loops.process(row)
            while read:
                read = [after for row in loops.in_order(read) for after in loops.process(row)]


class _Current(Batch):
    """The record that is being processed, of whichever task: the only one in ``records``."""

    def __init__(self, row: OutputRow, offsets: dict[Partition, int]) -> None:
        super().__init__([row], "", -1, "", None)
        self.iterator = iter(())
        self.first: dict[Partition, int] = {}
        self.sources: dict[Partition, str] = {}
        self._offsets = offsets

    def taken(self, topic: str, partition: int) -> int:
        """Return how many records of a partition were taken."""
        return self._offsets[topic, partition] - self.first[topic, partition]

    def position_of(self, index: int) -> RecordPosition:
        """Return the position of the record."""
        partition: Partition = self.records[0][:2]
        return *partition, self.sources[partition], self._offsets[partition] - 1


class _Loops(dict[Partition, tuple[int, Callable[[Any], None]]]):
    """By partition, the index of its task and a function that processes its next row; opened for the first row."""

    def __init__(self, router: Router, tasks: TaskGroup, stack: ExitStack, row: OutputRow) -> None:
        super().__init__()
        self._router, self._tasks, self._stack, self._current = router, tasks, stack, _Current(row, tasks.offsets)

    def __missing__(self, partition: Partition) -> tuple[int, Callable[[Any], None]]:
        current, first = self._current, self._tasks.offsets.setdefault(partition, 0)
        index = self._router.reader(partition[0]).tasks[partition[1]]
        task = self._tasks.order[index]
        current.first[partition], current.sources[partition] = first, task.queue_of(*partition).source
        loop = self[partition] = index, self._stack.enter_context(task.interleave(current, partition, first))
        return loop

    def process(self, row: OutputRow) -> list[OutputRow]:
        """Process a row in the task that reads it; return the rows that other tasks, or the same, have to read."""
        partition, tasks = row[:2], self._tasks
        index, send = self[partition]
        self._current.records[0] = row  # type: ignore[index] # a list
        tasks.offsets[partition] += 1
        send(row)
        return tasks.log_rows(index) if tasks.rows else []

    def in_order(self, rows: list[OutputRow]) -> list[OutputRow]:
        """Sort rows by the task that reads them, and as the task takes them."""
        if len(rows) == 1:
            return rows
        partitions = [row[:2] for row in rows]
        if partitions.count(partitions[0]) == len(rows):
            return rows
        readers = [self[partition][0] for partition in partitions]
        groups = groupby(sorted(range(len(rows)), key=readers.__getitem__), readers.__getitem__)
        return [rows[at] for _, same in groups for at in least_head_order(list(same), rows, partitions)]

    def end(self) -> None:
        """Log the rows that a task wrote before it failed, and changes of stores."""
        tasks = self._tasks
        if tasks.rows:
            tasks.log_rows(self[self._current.records[0][:2]][0])
        for task in tasks.order:
            tasks.log_changes(task)
