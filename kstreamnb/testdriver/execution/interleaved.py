"""Interleaved strategy: processes input records one by one, each with all its consequences, in loops that stay open.

Tasks of a foreign-key join feed each other in a cycle, so none can process all input before the next one; and events
that are recorded level by level would have to be sorted. The order is that of the sequential strategy, without its work
for each record: records of one partition that one record caused are processed together, before what they cause.
"""

from __future__ import annotations

from itertools import chain, groupby
from operator import itemgetter

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

    def process(rows: list[OutputRow]) -> list[OutputRow]:
        """Process rows of one partition; return those that they caused, for the same or other tasks."""
        index = loops.process(rows[0][:2], rows)
        return tasks.log_rows(index) if tasks.rows else []

    loops = OpenLoops(tasks.order, reader_of, tasks.offsets)
    each = router.global_plan is not None  # rows may change global stores, which the next one reads
    try:
        with loops.opened():
            for row in batch.input_records(router):
                read = process([row])
                while read:
                    parts = _in_order(read, loops.reader_of, each=each) if len(read) > 1 else [read]
                    read = process(parts[0]) if len(parts) == 1 else [*chain.from_iterable(map(process, parts))]
    finally:
        if tasks.rows:  # of a task that failed
            tasks.log_rows(loops.reader_of(loops.partition))
        for task in tasks.order:
            tasks.log_changes(task)


def _in_order(rows: list[OutputRow], reader_of: ReaderOf, *, each: bool) -> list[list[OutputRow]]:
    """Sort records that one record caused: by the task that reads them, then in the order in which it takes them.

    Return a list for each run of records of one partition, or with ``each`` a list for each record.
    """
    partitions = [row[:2] for row in rows]
    if partitions.count(partitions[0]) < len(rows):
        readers = [*map(reader_of, partitions)]
        groups = groupby(sorted(range(len(rows)), key=readers.__getitem__), readers.__getitem__)
        rows = [rows[at] for _, same in groups for at in least_head_order(list(same), rows, partitions)]
    return [[row] for row in rows] if each else [list(same) for _, same in groupby(rows, itemgetter(0, 1))]
