"""Levels over static DataFrames: what the workers do with rows that Spark has sorted.

Spark sorts; a task gets its records as one stream in canonical order, a few thousand at a time, and returns batches.
Between levels the batches are sorted by their first record and merged on the way in, so no level holds its input.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from kstreamnb.core.codec import SerializedValue
from kstreamnb.core.heap import gc_relaxed
from kstreamnb.core.time import Clock
from kstreamnb.errors import KStreamError
from kstreamnb.runtime.context.event_time import EventTimes
from kstreamnb.runtime.task.task import GlobalTask
from kstreamnb.spark.execution.event_times import event_times_of
from kstreamnb.spark.execution.failures import pack_failure
from kstreamnb.spark.execution.record_batch import OrderKey, RecordBatch, pack, unpack
from kstreamnb.spark.execution.record_merge import Arrival, partition_of
from kstreamnb.spark.execution.rows import FAILURE, REPORT, STORE
from kstreamnb.spark.execution.state_codec import pack_delta
from kstreamnb.spark.execution.stateful_operator import addressed, report_of
from kstreamnb.spark.execution.task_batch import Counters, commit, run_batches
from kstreamnb.spark.execution.worker_cache import CachedTask, new_task, output_format, worker_state
from kstreamnb.spark.planning.deployment import Deployment, TaskPlacement

BATCH_SCHEMA = (
    "g int, target int, source int, seq int, "
    "max_timestamp bigint, input_rank bigint, offset bigint, depth bigint, blob binary"
)
_KINDS = (pa.int32(), pa.int32(), pa.int32(), pa.int32(), pa.int64(), pa.int64(), pa.int64(), pa.int64(), pa.binary())
_ARROW = pa.schema([(part.split()[0], kind) for part, kind in zip(BATCH_SCHEMA.split(", "), _KINDS, strict=True)])
_PART = 20_000
Work = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
Row9 = tuple[int, int, int, int, int, int, int, int, bytes]


@dataclass(frozen=True)
class TopicColumns:
    """The columns of the sorted rows that hold one topic's records."""

    topic: str
    key: str
    value: str
    headers: str | None


@dataclass(frozen=True)
class BatchPlan:
    """The input of the workers: deployment, columns by topic, packed batches of global topics, wall clock.

    ``arrival``: rows come partition by partition in order of arrival, not merged by time.
    """

    deployment: Deployment
    columns: tuple[TopicColumns, ...]
    global_batches: Any
    wall_clock_ms: int = 0
    arrival: bool = False
    keep_stores: bool = True


class _TaskRun:
    """One task from its first record to its last."""

    def __init__(self, plan: BatchPlan, placed: TaskPlacement) -> None:
        self.plan, self.placed = plan, placed
        self.source = plan.deployment.producer(placed)
        self.form = output_format(plan.deployment, placed)
        tables = _global_tables(plan, placed.application) if placed.uses_global else None
        self.cached: CachedTask = new_task(plan.deployment, placed, tables, now_ms=plan.wall_clock_ms, track=False)
        self.seq, self.seconds = -1, 0.0
        self.out: dict[str, int] = {}

    def feed(self, arrivals: list[Arrival]) -> Iterator[Row9]:
        """Process some more records, all of which follow those before."""
        began = time.perf_counter()
        batches = run_batches(self.cached.task, arrivals, self.cached.positions, self.form)
        self.seconds += time.perf_counter() - began
        yield from self._rows(batches)

    def finish(self) -> Iterator[Row9]:
        """Flush caches, give the stores, report."""
        yield from self._rows(commit(self.cached.task, self.form))
        task = self.cached.task
        keys = task.state_keys() if self.plan.keep_stores and self.placed.stateful else []
        for begin in range(0, len(keys), _PART):
            yield self._row(STORE, pack_delta(task.delta_of(keys[begin : begin + _PART])))
        zero: Counters = {"consumed": 0, "dropped": {}}
        report = report_of(self.placed, self.cached, zero, "none", self.out, self.seconds)
        yield self._row(REPORT, pickle.dumps(report, 5))

    def _rows(self, batches: list[RecordBatch]) -> Iterator[Row9]:
        for target, batch in addressed(self.plan.deployment, self.placed, batches):
            self.out[batch.topic] = self.out.get(batch.topic, 0) + len(batch)
            yield self._row(target, pack(batch), batch.order)

    def _row(self, target: int, blob: bytes, order: OrderKey | None = None) -> Row9:
        self.seq += 1
        return _row(self.plan.deployment, self.placed.level, target, self.source, self.seq, blob, order)


def first_level(plan: BatchPlan) -> Work:
    """Turn sorted rows of records into batches; records for later levels become batches unchanged."""

    def run(arrows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        deployment, level = plan.deployment, -1 if plan.arrival else 0  # level 0 sorts what came in order of arrival
        partitions = deployment.input_partitions
        columns = {column.topic: column for column in plan.columns}
        task_run: _TaskRun | None = None
        counted: dict[int, tuple[int, int]] = {}
        event_times = event_times_of(deployment, plan.wall_clock_ms)
        seqs: dict[int, int] = {}
        try:
            for arrow in arrows:
                rows: list[Row9] = []
                for begin, end in _stretches(arrow.column("g").to_numpy(zero_copy_only=False)):
                    arrivals = _arrivals(arrow.slice(begin, end - begin), partitions, columns, counted, event_times)
                    here: list[Arrival] = []
                    for arrival in arrivals:
                        target = deployment.readers[partitions[arrival.source]]
                        if deployment.tasks[target].level == 0 and not plan.arrival:
                            here.append(arrival)
                        else:
                            seq = seqs[arrival.source] = seqs.get(arrival.source, -1) + 1
                            producer = deployment, level, target, arrival.source, seq
                            rows.append(_row(*producer, pack(arrival.batch), arrival.batch.order))
                    if here:
                        target = deployment.readers[partitions[here[0].source]]
                        if task_run is None or task_run.placed.number != target:
                            rows += task_run.finish() if task_run is not None else ()
                            task_run = _TaskRun(plan, deployment.tasks[target])
                        rows += task_run.feed(here)
                yield _batch(rows)
            yield _batch(list(task_run.finish()) if task_run is not None else [])
        except KStreamError as error:
            yield _batch([_failed(plan, task_run, error)])

    return _seldom_collecting(run)


def next_level(plan: BatchPlan, level: int) -> Work:
    """Turn parcels, sorted by group and first record, into batches."""

    def run(arrows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        deployment = plan.deployment
        task_run: _TaskRun | None = None
        merge = _Merge()
        try:
            for arrow in arrows:
                rows: list[Row9] = []
                for row in zip(*(column.to_pylist() for column in arrow.columns), strict=True):
                    target = row[1]
                    if target < 0 or deployment.tasks[target].level != level:
                        rows.append((deployment.routing_key_at(level + 1, target, row[2]), *row[1:]))
                        continue
                    if task_run is None or task_run.placed.number != target:
                        if task_run is not None:
                            rows += [*task_run.feed(merge.rest()), *task_run.finish()]
                        task_run, merge = _TaskRun(plan, deployment.tasks[target]), _Merge()
                    batch = unpack(row[8])
                    rows += task_run.feed(merge.before(batch))
                    merge.add(Arrival(row[2], row[3], batch))
                yield _batch(rows)
            if task_run is not None:
                yield _batch([*task_run.feed(merge.rest()), *task_run.finish()])
        except KStreamError as error:
            yield _batch([_failed(plan, task_run, error)])

    return _seldom_collecting(run)


def _seldom_collecting(run: Work) -> Work:
    def spared(arrows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with gc_relaxed():
            yield from run(arrows)

    return spared


class _Merge:
    """Overlapping record batches; records before the first record of the next batch are ready."""

    def __init__(self) -> None:
        self._open: list[Arrival] = []
        self._waiting_records = 0

    def add(self, arrival: Arrival) -> None:
        """Add a batch; its first record is not before that of any other."""
        self._open.append(arrival)
        self._waiting_records += len(arrival.batch)

    def before(self, batch: RecordBatch) -> list[Arrival]:
        """Return the records before a batch's first record, if enough records wait."""
        if self._waiting_records < _PART or not len(batch):
            return []
        border = _first(batch.order)
        ready, waiting = [], []
        for arrival in self._open:
            at = _position(arrival.batch.order, border)
            if at:
                ready.append(replace(arrival, batch=arrival.batch.part(0, at)))
            if at < len(arrival.batch):
                waiting.append(replace(arrival, batch=arrival.batch.part(at, len(arrival.batch))))
        self._open = waiting
        self._waiting_records = sum(len(arrival.batch) for arrival in waiting)
        return ready

    def rest(self) -> list[Arrival]:
        """Return all remaining records."""
        ready, self._open, self._waiting_records = self._open, [], 0
        return ready


def _position(order: OrderKey, border: tuple[int, int, int, int]) -> int:
    """Count the sorted keys that are less than a key."""
    low, high = 0, len(order)
    for column, value in zip((order.max_timestamp, order.input_rank, order.offset, order.depth), border, strict=True):
        part = column[low:high]
        low, high = low + int(np.searchsorted(part, value, "left")), low + int(np.searchsorted(part, value, "right"))
    return low


def _first(order: OrderKey) -> tuple[int, int, int, int]:
    return int(order.max_timestamp[0]), int(order.input_rank[0]), int(order.offset[0]), int(order.depth[0])


def _row(
    deployment: Deployment, level: int, target: int, source: int, seq: int, blob: bytes, order: OrderKey | None
) -> Row9:
    group = deployment.routing_key_at(level + 1, target, source)
    first = _first(order) if order is not None and len(order) else (0, 0, 0, 0)
    return group, target, source, seq, *first, blob


def _failed(plan: BatchPlan, task_run: _TaskRun | None, error: KStreamError) -> Row9:
    name, source = ("", 0) if task_run is None else (task_run.placed.name, task_run.source)
    return 0, FAILURE, source, 0, 0, 0, 0, 0, pack_failure(name, error)


def _batch(rows: list[Row9]) -> pa.RecordBatch:
    columns: Sequence[Sequence[Any]] = list(zip(*rows, strict=True)) if rows else [()] * len(_KINDS)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, kind) for column, kind in zip(columns, _KINDS, strict=True)], schema=_ARROW
    )


def _stretches(column: Any) -> Iterator[tuple[int, int]]:
    """Return where runs of equal values begin."""
    if len(column):
        cuts = [0, *(np.flatnonzero(np.diff(column)) + 1).tolist(), len(column)]
        yield from pairwise(cuts)


def _arrivals(
    arrow: pa.RecordBatch,
    partitions: Sequence[tuple[int, str, int]],
    columns: dict[str, TopicColumns],
    counted: dict[int, tuple[int, int]],
    event_times: Mapping[tuple[int, str], EventTimes],
) -> Iterator[Arrival]:
    """Yield the records of each input partition; ``counted``: its records and greatest event time so far, by rank."""
    ranks = arrow.column("input_rank").to_numpy(zero_copy_only=False)
    times = arrow.column("ts").to_numpy(zero_copy_only=False)
    for rank in np.unique(ranks).tolist():
        index = np.flatnonzero(ranks == rank)
        whole = len(index) == len(ranks)
        application, topic, partition = partitions[rank]
        column = columns[topic]
        keys, values, headers = (
            None if name is None else column_values(arrow.column(name), None if whole else index)
            for name in (column.key, column.value, column.headers)
        )
        count, before = counted.get(rank, (0, -1))
        timestamps = times[index].astype(np.int64)
        offsets = np.arange(count, count + len(index), dtype=np.int64)
        zeros = np.zeros(len(index), np.int64)
        order = OrderKey(timestamps, zeros + rank, offsets, zeros)
        batch = RecordBatch(
            topic, partition, order, timestamps, keys or [], values or [], header_values(headers), offsets
        )
        extractor = event_times.get((application, topic))
        merged_by = timestamps if extractor is None else extractor.of(topic, partition, batch.records())
        order.max_timestamp = np.maximum(np.maximum.accumulate(np.asarray(merged_by, np.int64)), before)
        counted[rank] = count + len(index), int(order.max_timestamp[-1])
        yield Arrival(rank, 0, batch)


def column_values(column: Any, index: Any = None) -> list[Any]:
    """Return Python values of an Arrow column; binary ones are Kafka's bytes."""
    if index is not None:
        column = column.take(pa.array(index))
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return [None if item is None else SerializedValue(item) for item in column.to_pylist()]
    kind = column.type
    if (pa.types.is_integer(kind) or pa.types.is_floating(kind)) and not column.null_count:
        return column.to_numpy(zero_copy_only=False).tolist()
    if pa.types.is_struct(kind) and not column.null_count:
        names = [field.name for field in kind]
        parts = [column_values(part) for part in column.flatten()]
        return [dict(zip(names, row, strict=True)) for row in zip(*parts, strict=True)] if parts else []
    return column.to_pylist()


def header_values(column: list[Any] | None) -> list[Any] | None:
    """Return headers of rows as tasks take them; None if no row has any."""
    if column is None:
        return None
    found = [tuple((pair["key"], pair["value"]) for pair in pairs or ()) for pairs in column]
    return found if any(found) else None


def _global_tables(plan: BatchPlan, application: int) -> GlobalTask:
    """Return the global tables of an application, filled once in each worker."""
    tables = worker_state(plan.deployment).tables
    if application not in tables:
        global_plan = plan.deployment.global_plan(application)
        assert global_plan is not None
        task = tables[application] = GlobalTask(global_plan, Clock(plan.wall_clock_ms))
        for blob in plan.global_batches.value.get(application, ()):
            batch = unpack(blob)
            task.run(*partition_of(batch), batch.records())
    return tables[application]
