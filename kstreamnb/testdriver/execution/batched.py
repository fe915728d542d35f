"""Batched strategy: processes many input records task by task, with the result of record-by-record processing.

Tasks share nothing but topics. So each task may process everything that all input records cause for it before the next
task runs, if it gets its records in the order of record-by-record processing: by input record, depth, writing task and
sequence. That requires an order of tasks in which no task feeds an earlier one (`Router.task_order`), and that no
global store changes meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from operator import itemgetter, lt
from typing import Any, TypeAlias

from kstreamnb.core.heap import collector_paused
from kstreamnb.core.record import Headers
from kstreamnb.errors import ProcessingError
from kstreamnb.runtime.context.record_context import Partition, WireRecord
from kstreamnb.testdriver.execution.input_batch import InputBatch
from kstreamnb.testdriver.execution.router import Router
from kstreamnb.testdriver.execution.task_group import OutputRoute, TaskGroup
from kstreamnb.testdriver.execution.topic_log import OutputRow

TaskArrival: TypeAlias = tuple[int, int, int, int, str, int, int, object, object, Headers]
"""``(input record, depth, writing task, sequence, topic, partition, timestamp, key, value, headers)``.

The first four are unique, so arrivals can be sorted as they are: keys and values are never compared.
"""

_NO_END = 1 << 62


def run(router: Router, tasks: TaskGroup, batch: InputBatch) -> None:
    """Process records task by task; raise the error of the first record that fails, after all records before it."""
    _BatchedRun(router, tasks).run(batch)


class _BatchedRun:
    """One pass of many input records through all tasks.

    ``_end`` is the input record that failed: later tasks skip what it and its successors cause.
    """

    def __init__(self, router: Router, tasks: TaskGroup) -> None:
        assert router.task_order is not None
        self._router, self._tasks, self._order = router, tasks, router.task_order
        self._arrivals: list[list[TaskArrival]] = [[] for _ in self._order]
        self._rows: dict[str, list[tuple[int, int, int, int, OutputRow]]] = {}
        self._end = _NO_END
        self._steps: list[tuple[tuple[int, int, int, int], int]] = []
        self._error: ProcessingError | None = None

    def run(self, batch: InputBatch) -> None:
        tasks = self._tasks
        base = len(tasks.recorded)
        for number, record in enumerate(batch.input_records(self._router)):
            reader = self._router.reader(record[0]).tasks[record[1]]
            self._arrivals[reader].append((number, 0, -1, 0, *record))
        with collector_paused():
            for index in self._order:
                if self._arrivals[index]:
                    self._run_task(index)
        self._sort_events(base)
        for topic, rows in self._rows.items():
            rows.sort()
            tasks.logs[topic].rows += [row[4] for row in rows if row[0] < self._end]
        if self._error is not None:
            raise self._error

    def _run_task(self, index: int) -> None:
        """Process everything that arrived at one task."""
        task, recorder = self._tasks.order[index], self._tasks.recorder
        arrivals = sorted(self._arrivals[index])
        if self._end < _NO_END:
            arrivals = [arrival for arrival in arrivals if arrival[0] < self._end]
        arrivals = _by_least_head(arrivals)
        marks, before = list[int](), len(self._tasks.recorded)
        try:
            for topic, partition, records in self._stretches(arrivals):
                task.run(topic, partition, records, marks)
        except ProcessingError as error:
            self._error, self._end = error, arrivals[len(marks)][0]
        taken = [] if recorder is None else recorder.taken_since(before)
        for number, (arrival, position) in enumerate(zip(arrivals, taken, strict=False)):
            self._steps.append(((arrival[0], arrival[1], index, number), position))
        self._route_rows(index, arrivals, marks, task.drain())
        self._tasks.log_changes(task)

    def _sort_events(self, base: int) -> None:
        """Sort recorded events by input record: they were recorded task by task."""
        log = self._tasks.recorded
        if len(self._order) > 1 and self._steps:
            starts = [position for _, position in self._steps]
            ends = [*starts[1:], len(log)]
            events = log[base : starts[0]]
            for (key, start), end in sorted(zip(self._steps, ends, strict=True)):
                if key[0] <= self._end:
                    events += log[start:end]
            log[base:] = events

    def _stretches(self, arrivals: list[TaskArrival]) -> list[tuple[str, int, list[WireRecord]]]:
        """Cut arrivals into runs of one partition, and assign offsets."""
        offsets, current = self._tasks.offsets, ("", -1)
        stretches: list[tuple[str, int, list[WireRecord]]] = []
        for _, _, _, _, topic, partition, timestamp, key, value, headers in arrivals:
            if partition != current[1] or topic != current[0]:
                current, records = (topic, partition), list[WireRecord]()
                offset = offsets.get(current, 0)
                stretches.append((topic, partition, records))
            records.append((offset, timestamp, key, value, headers))
            offset = offsets[current] = offset + 1
        return stretches

    def _route_rows(self, index: int, arrivals: list[TaskArrival], marks: list[int], rows: list[OutputRow]) -> None:
        """Log what a task wrote and pass it to its readers, each row with its position in the processing order."""
        before = sequence = 0
        outputs: dict[str, tuple[OutputRoute, list[Any], bool]] = {}
        for arrival, mark in zip(arrivals, marks, strict=False):
            if mark == before:
                continue
            root, depth = arrival[0], arrival[1]
            for row in rows[before:mark]:
                topic, partition, timestamp, key, value, headers = row
                if topic not in outputs:
                    output = self._tasks.output(index, topic)
                    converts = output.route is not None and output.written_as not in (None, output.route.serdes)
                    outputs[topic] = output, self._rows.setdefault(topic, []), converts
                output, logged, converts = outputs[topic]
                logged.append((root, depth, index, sequence, output.logged(row)))
                if output.route is not None:
                    if converts:
                        key, value = output.delivered(row)
                    arrived = (root, depth + 1, index, sequence, topic, partition, timestamp, key, value, headers)
                    self._arrivals[output.route.tasks[partition]].append(arrived)
                sequence += 1
            before = mark


def _by_least_head(arrivals: list[TaskArrival]) -> list[TaskArrival]:
    """Sort arrivals of one input record and depth as a task takes them: partition with the least head first."""
    steps = list(map(itemgetter(0, 1), arrivals))
    if all(map(lt, steps, islice(steps, 1, None))):
        return arrivals
    ordered: list[TaskArrival] = []
    start, size = 0, len(arrivals)
    while start < size:
        end = start + 1
        while end < size and steps[end] == steps[start]:
            end += 1
        ordered += _merge_heads(arrivals[start:end])
        start = end
    return ordered


def _merge_heads(arrivals: Sequence[TaskArrival]) -> Sequence[TaskArrival]:
    queues: dict[Partition, list[TaskArrival]] = {}
    for arrival in arrivals if len(arrivals) > 1 else ():
        queues.setdefault((arrival[4], arrival[5]), []).append(arrival)
    if len(queues) <= 1:
        return arrivals
    merged = []
    while queues:
        first = min(queues, key=lambda partition: (queues[partition][0][6], partition))
        merged.append(queues[first].pop(0))
        if not queues[first]:
            del queues[first]
    return merged
