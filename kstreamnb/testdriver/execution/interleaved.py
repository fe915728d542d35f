"""Interleaved strategy: processes input records one by one, each with all its consequences, in loops that stay open.

Tasks of a foreign-key join feed each other in a cycle, so none can process all input before the next one; and events
that are recorded level by level would have to be sorted. The order is that of the sequential strategy, without its work
for each record.
"""

from __future__ import annotations

from itertools import groupby

from kstreamnb.runtime.context.record_context import Partition
from kstreamnb.runtime.task.open_loops import OpenLoops, ReaderOf
from kstreamnb.testdriver.execution.input_batch import InputBatch, least_head_order
from kstreamnb.testdriver.execution.router import Router
from kstreamnb.testdriver.execution.task_group import TaskGroup
from kstreamnb.testdriver.execution.topic_log import OutputRow


def run(router: Router, tasks: TaskGroup, batch: InputBatch) -> None:
    """Process records one after another; output written before an error is logged."""

    def reader_of(partition: Partition) -> int:
        return router.reader(partition[0]).tasks[partition[1]]

    def process(row: OutputRow) -> list[OutputRow]:
        """Process a row; return those that it caused, for the same or other tasks."""
        index = loops.process(row[:2], row)
        return tasks.log_rows(index) if tasks.rows else []

    loops = OpenLoops(tasks.order, reader_of, tasks.offsets)
    try:
        with loops.opened():
            for row in batch.input_records(router):
                read = process(row)
                while read:
                    read = [after for row in _in_order(read, loops.reader_of) for after in process(row)]
    finally:
        if tasks.rows:  # of a task that failed
            tasks.log_rows(loops.reader_of(loops.partition))
        for task in tasks.order:
            tasks.log_changes(task)


def _in_order(rows: list[OutputRow], reader_of: ReaderOf) -> list[OutputRow]:
    """Sort records that one record caused: by the task that reads them, then in the order in which it takes them."""
    if len(rows) == 1:
        return rows
    partitions = [row[:2] for row in rows]
    if partitions.count(partitions[0]) == len(rows):
        return rows
    readers = [*map(reader_of, partitions)]
    groups = groupby(sorted(range(len(rows)), key=readers.__getitem__), readers.__getitem__)
    return [rows[at] for _, same in groups for at in least_head_order(list(same), rows, partitions)]
