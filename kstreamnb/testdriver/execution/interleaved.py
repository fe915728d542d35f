"""Interleaved strategy: processes input records one by one, each with all its consequences, in loops that stay open.

Tasks of a foreign-key join feed each other in a cycle, so none can process all input before the next one; and events
that are recorded level by level would have to be sorted. The order is that of the sequential strategy, without its work
for each record.
"""

from __future__ import annotations

from itertools import groupby

from kstreamnb.runtime.context.record_context import Partition
from kstreamnb.runtime.task.open_loops import OpenLoops, PartitionRecord, ReaderOf
from kstreamnb.testdriver.execution.input_batch import InputBatch, least_head_order
from kstreamnb.testdriver.execution.router import Router
from kstreamnb.testdriver.execution.task_group import TaskGroup


def run(router: Router, tasks: TaskGroup, batch: InputBatch) -> None:
    """Process records one after another; output written before an error is logged."""

    def reader_of(partition: Partition) -> int:
        return router.reader(partition[0]).tasks[partition[1]]

    def process(arrival: PartitionRecord) -> list[PartitionRecord]:
        """Process a record; return those that it caused, for the same or other tasks."""
        loops.process(*arrival)
        return [(row[:2], row) for row in tasks.log_rows(loops.reader_of(arrival[0]))] if tasks.rows else []

    loops = OpenLoops(tasks.order, reader_of, tasks.offsets)
    try:
        with loops.opened():
            for row in batch.input_records(router):
                read = process((row[:2], row))
                while read:
                    read = [after for arrival in _in_order(read, loops.reader_of) for after in process(arrival)]
    finally:
        if tasks.rows:  # of a task that failed
            tasks.log_rows(loops.reader_of(loops.partition))
        for task in tasks.order:
            tasks.log_changes(task)


def _in_order(arrivals: list[PartitionRecord], reader_of: ReaderOf) -> list[PartitionRecord]:
    """Sort records that one record caused: by the task that reads them, then in the order in which it takes them."""
    if len(arrivals) == 1:
        return arrivals
    partitions, records = zip(*arrivals, strict=True)
    if partitions.count(partitions[0]) == len(arrivals):
        return arrivals
    readers = [*map(reader_of, partitions)]
    groups = groupby(sorted(range(len(readers)), key=readers.__getitem__), readers.__getitem__)
    return [arrivals[at] for _, same in groups for at in least_head_order(list(same), records, partitions)]
