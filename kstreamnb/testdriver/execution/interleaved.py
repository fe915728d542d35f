"""Interleaved strategy: processes input records one by one, each with all its consequences, in loops that stay open.

Tasks of a foreign-key join feed each other in a cycle, so none can process all input before the next one; and events
that are recorded level by level would have to be sorted. The order is that of the sequential strategy, without its work
for each record: records of one partition that one record caused are processed together, before what they cause.
"""

from __future__ import annotations

from operator import length_hint

from kstreamnb.runtime.task.open_loops import OpenLoops
from kstreamnb.testdriver.execution.input_batch import InputBatch
from kstreamnb.testdriver.execution.router import Router
from kstreamnb.testdriver.execution.task_group import TaskGroup
from kstreamnb.testdriver.execution.topic_log import OutputRow


def run(router: Router, tasks: TaskGroup, batch: InputBatch) -> None:
    """Process records one after another; output written before an error is logged."""
    loops, rows = OpenLoops(tasks.order, tasks.reader_of, tasks.offsets), tasks.rows

    def process(records: list[OutputRow]) -> list[OutputRow]:
        try:
            index = loops.process(records[0][:2], records)
        except BaseException:
            for row in records[len(records) - length_hint(loops.iterator) :]:
                tasks.numbered(row)  # as in `settle`, which has the other rows
            raise
        return tasks.log_rows(index) if rows else []

    try:
        with loops.opened():
            for row in batch.input_records(router):
                caused = [row]
                while len(caused) == 1:  # the most frequent case, in which there is nothing to sort
                    index = loops.process(caused[0][:2], caused)
                    caused = tasks.log_rows(index) if rows else rows
                if caused:
                    tasks.settle(caused, process)
    finally:
        for row in tasks.log_rows(loops.reader_of(loops.partition)) if rows else ():  # of a task that failed
            tasks.numbered(row)
        for task in tasks.order:
            tasks.log_changes(task)
