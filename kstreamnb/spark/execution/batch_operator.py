"""Levels over static DataFrames: what the workers do with rows that Spark has sorted.

Spark sorts; a task gets its records as one stream in canonical order, a few thousand at a time, and gives parcels.
Between levels the parcels are sorted by their first record and merged on the way in, so no level holds its input.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from kstreamnb.core.codec import SerializedValue
from kstreamnb.core.heap import gc_relaxed
from kstreamnb.core.time import Clock
from kstreamnb.errors import KStreamError
from kstreamnb.runtime.task.task import GlobalTask
from kstreamnb.spark.execution.failures import pack_failure
from kstreamnb.spark.execution.record_batch import OrderKey, RecordBatch, pack, unpack
from kstreamnb.spark.execution.record_merge import Arrival, place_of
from kstreamnb.spark.execution.rows import FAILURE, REPORT, STORE
from kstreamnb.spark.execution.stateful_operator import addressed, report_of
from kstreamnb.spark.execution.task_batch import commit, run_parcels
from kstreamnb.spark.execution.worker_cache import (
    CachedTask,
    DeploymentBlob,
    new_task,
    outlets_of,
    read,
)
from kstreamnb.spark.planning.placement import PlacedTask

__all__ = [
    "BATCH_SCHEMA",
    "BatchPlan",
    "Column",
    "column_values",
    "first_level",
    "header_values",
    "next_level",
]


BATCH_SCHEMA = "g int, target int, source int, seq int, m bigint, lane bigint, at bigint, depth bigint, blob binary"
_KINDS = (pa.int32(), pa.int32(), pa.int32(), pa.int32(), pa.int64(), pa.int64(), pa.int64(), pa.int64(), pa.binary())
_ARROW = pa.schema([(part.split()[0], kind) for part, kind in zip(BATCH_SCHEMA.split(", "), _KINDS, strict=True)])
_PART = 20_000
Work = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
Row9 = tuple[int, int, int, int, int, int, int, int, bytes]


@dataclass(frozen=True)
class Column:
    """Where the records of one topic are among the columns of the sorted rows."""

    topic: str
    key: str
    value: str
    headers: str | None


@dataclass(frozen=True)
class BatchPlan:
    """What the workers need: deployment, columns by topic, parcels of global topics, wall clock, arrival order.

    ``arrival``: rows come lane by lane in order of arrival, and not merged by time.
    """

    bundle: DeploymentBlob
    columns: tuple[Column, ...]
    global_parcels: Any
    wall_clock_ms: int = 0
    arrival: bool = False
    keep_stores: bool = True


class _Runner:
    """One task from its first record to its last."""

    def __init__(self, plan: BatchPlan, placed: PlacedTask) -> None:
        deployment = read(plan.bundle)
        self.plan, self.placed = plan, placed
        self.source = len(deployment.lanes) + placed.number
        self.outlets = outlets_of(plan.bundle, placed)
        tables = _global_tables(plan, placed.application) if placed.uses_global else None
        self.held: CachedTask = new_task(plan.bundle, placed, tables, now_ms=plan.wall_clock_ms, track=False)
        self.seq, self.seconds = -1, 0.0
        self.out: dict[str, int] = {}

    def feed(self, arrivals: list[Arrival]) -> Iterator[Row9]:
        """Some more records, all of them after the ones before."""
        began = time.perf_counter()
        parcels = run_parcels(self.held.task, arrivals, self.held.positions, self.outlets)
        self.seconds += time.perf_counter() - began
        yield from self._rows(parcels)

    def finish(self) -> Iterator[Row9]:
        """Flush caches, give the stores, report."""
        yield from self._rows(commit(self.held.task, self.outlets))
        task = self.held.task
        keys = task.state_keys() if self.plan.keep_stores and self.placed.stateful else []
        for begin in range(0, len(keys), _PART):
            yield self._row(STORE, task.delta_of(keys[begin : begin + _PART]))
        zero = {"consumed": 0, "dropped": {}}
        report = report_of(self.placed, self.held, zero, "none", self.out, self.seconds)
        yield self._row(REPORT, pickle.dumps(report, 5))

    def _rows(self, parcels: list[RecordBatch]) -> Iterator[Row9]:
        for target, parcel in addressed(self.plan.bundle, self.placed, parcels):
            self.out[parcel.topic] = self.out.get(parcel.topic, 0) + len(parcel)
            yield self._row(target, pack(parcel), parcel.order)

    def _row(self, target: int, blob: bytes, order: OrderKey | None = None) -> Row9:
        self.seq += 1
        return _row(self.plan.bundle, self.placed.level, target, self.source, self.seq, blob, order)


def first_level(plan: BatchPlan) -> Work:
    """Sorted rows of records in, parcels out; records for later levels become parcels as they are."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        deployment = read(plan.bundle)
        places = sorted(deployment.lanes, key=deployment.lanes.__getitem__)
        columns = {column.topic: column for column in plan.columns}
        runner: _Runner | None = None
        counted: dict[int, tuple[int, int]] = {}
        seqs: dict[int, int] = {}
        try:
            for batch in batches:
                rows: list[Row9] = []
                for begin, end in _stretches(batch.column("g").to_numpy(zero_copy_only=False)):
                    arrivals = _arrivals(batch.slice(begin, end - begin), places, columns, counted)
                    here: list[Arrival] = []
                    for arrival in arrivals:
                        target = deployment.readers[places[arrival.source]]
                        if deployment.tasks[target].level == 0 and not plan.arrival:
                            here.append(arrival)
                        else:
                            seq = seqs[arrival.source] = seqs.get(arrival.source, -1) + 1
                            rows.append(_lane_row(plan.bundle, target, arrival, seq, plan.arrival))
                    if here:
                        target = deployment.readers[places[here[0].source]]
                        if runner is None or runner.placed.number != target:
                            rows += runner.finish() if runner is not None else ()
                            runner = _Runner(plan, deployment.tasks[target])
                        rows += runner.feed(here)
                yield _batch(rows)
            yield _batch(list(runner.finish()) if runner is not None else [])
        except KStreamError as error:
            yield _batch([_failed(plan, runner, error)])

    return _seldom_collecting(run)


def next_level(plan: BatchPlan, level: int) -> Work:
    """Parcels in, sorted by group and first record, and parcels out."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        deployment = read(plan.bundle)
        runner: _Runner | None = None
        merge = _Merge()
        try:
            for batch in batches:
                rows: list[Row9] = []
                for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    target = row[1]
                    if target < 0 or deployment.tasks[target].level != level:
                        rows.append((deployment.group_at(level + 1, target, row[2]), *row[1:]))
                        continue
                    if runner is None or runner.placed.number != target:
                        if runner is not None:
                            rows += [*_feed(runner, merge.rest()), *runner.finish()]
                        runner, merge = _Runner(plan, deployment.tasks[target]), _Merge()
                    parcel = unpack(row[8])
                    rows += _feed(runner, merge.before(parcel))
                    merge.add(Arrival(row[2], row[3], parcel))
                yield _batch(rows)
            if runner is not None:
                yield _batch([*_feed(runner, merge.rest()), *runner.finish()])
        except KStreamError as error:
            yield _batch([_failed(plan, runner, error)])

    return _seldom_collecting(run)


def _seldom_collecting(run: Work) -> Work:
    def spared(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with gc_relaxed():
            yield from run(batches)

    return spared


class _Merge:
    """Parcels that overlap; what lies before the first record of the next one may go on."""

    def __init__(self) -> None:
        self._open: list[Arrival] = []
        self._held = 0

    def add(self, arrival: Arrival) -> None:
        """Take up a parcel; its first record is not before that of any other."""
        self._open.append(arrival)
        self._held += len(arrival.parcel)

    def before(self, parcel: RecordBatch) -> list[Arrival]:
        """What lies before a parcel's first record, once that is worth the while."""
        if self._held < _PART or not len(parcel):
            return []
        first = parcel.order
        border = int(first.m[0]), int(first.lane[0]), int(first.offset[0]), int(first.depth[0])
        ready, waiting = [], []
        for arrival in self._open:
            at = _position(arrival.parcel.order, border)
            if at:
                ready.append(replace(arrival, parcel=arrival.parcel.part(0, at)))
            if at < len(arrival.parcel):
                waiting.append(replace(arrival, parcel=arrival.parcel.part(at, len(arrival.parcel))))
        self._open = waiting
        self._held = sum(len(arrival.parcel) for arrival in waiting)
        return ready

    def rest(self) -> list[Arrival]:
        """Everything that is left."""
        ready, self._open, self._held = self._open, [], 0
        return ready


def _position(order: OrderKey, border: tuple[int, int, int, int]) -> int:
    """How many of some sorted keys are less than a key."""
    low, high = 0, len(order)
    for column, value in zip((order.m, order.lane, order.offset, order.depth), border, strict=True):
        part = column[low:high]
        low, high = low + int(np.searchsorted(part, value, "left")), low + int(np.searchsorted(part, value, "right"))
    return low


def _feed(runner: _Runner, arrivals: list[Arrival]) -> Iterator[Row9]:
    return runner.feed(arrivals) if arrivals else iter(())


def _row(
    bundle: DeploymentBlob, level: int, target: int, source: int, seq: int, blob: bytes, order: OrderKey | None
) -> Row9:
    group = read(bundle).group_at(level + 1, target, source)
    if order is None or not len(order):
        return group, target, source, seq, 0, 0, 0, 0, blob
    return (
        *(group, target, source, seq),
        *(int(order.m[0]), int(order.lane[0]), int(order.offset[0]), int(order.depth[0]), blob),
    )


def _lane_row(bundle: DeploymentBlob, target: int, arrival: Arrival, seq: int, arrival_order: bool) -> Row9:
    """A parcel of input records for a later stage: the first level itself where rows came in order of arrival."""
    level = -1 if arrival_order else 0
    return _row(bundle, level, target, arrival.source, seq, pack(arrival.parcel), arrival.parcel.order)


def _failed(plan: BatchPlan, runner: _Runner | None, error: KStreamError) -> Row9:
    name, source = ("", 0) if runner is None else (runner.placed.name, runner.source)
    return 0, FAILURE, source, 0, 0, 0, 0, 0, pack_failure(name, error)


def _batch(rows: list[Row9]) -> pa.RecordBatch:
    columns: Sequence[Sequence[Any]] = list(zip(*rows, strict=True)) if rows else [()] * len(_KINDS)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, kind) for column, kind in zip(columns, _KINDS, strict=True)], schema=_ARROW
    )


def _stretches(column: Any) -> Iterator[tuple[int, int]]:
    """Where equal values stand side by side."""
    if len(column):
        cuts = [0, *(np.flatnonzero(np.diff(column)) + 1).tolist(), len(column)]
        yield from pairwise(cuts)


def _arrivals(
    batch: pa.RecordBatch,
    places: list[tuple[int, str, int]],
    columns: dict[str, Column],
    counted: dict[int, tuple[int, int]],
) -> Iterator[Arrival]:
    """The records of each lane in some sorted rows; ``counted`` has records and greatest time of each lane so far."""
    lanes = batch.column("lane").to_numpy(zero_copy_only=False)
    times = batch.column("ts").to_numpy(zero_copy_only=False)
    for lane in np.unique(lanes).tolist():
        index = np.flatnonzero(lanes == lane)
        whole = len(index) == len(lanes)
        _, topic, partition = places[lane]
        column = columns[topic]
        keys, values, headers = (
            None if name is None else column_values(batch.column(name), None if whole else index)
            for name in (column.key, column.value, column.headers)
        )
        count, before = counted.get(lane, (0, -1))
        timestamps = times[index].astype(np.int64)
        m = np.maximum(np.maximum.accumulate(timestamps), before)
        counted[lane] = count + len(index), int(m[-1])
        offsets = np.arange(count, count + len(index), dtype=np.int64)
        zeros = np.zeros(len(index), np.int64)
        order = OrderKey(m, zeros + lane, offsets, zeros)
        yield Arrival(
            lane,
            0,
            RecordBatch(topic, partition, order, timestamps, keys or [], values or [], header_values(headers), offsets),
        )


def column_values(column: Any, index: Any = None) -> list[Any]:
    """Python values of an Arrow column; binary ones are Kafka's bytes."""
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
    """Headers of rows as tasks take them; None where no row has any."""
    if column is None:
        return None
    found = [tuple((pair["key"], pair["value"]) for pair in pairs or ()) for pairs in column]
    return found if any(found) else None


_tables: dict[tuple[str, int], GlobalTask] = {}


def _global_tables(plan: BatchPlan, application: int) -> GlobalTask:
    """The global tables of an application, filled once in each worker."""
    key = (plan.bundle.name, application)
    if key not in _tables:
        chosen = read(plan.bundle).global_plan(application)
        assert chosen is not None
        task = _tables[key] = GlobalTask(chosen, Clock(plan.wall_clock_ms))
        for blob in plan.global_parcels.value.get(application, ()):
            parcel = unpack(blob)
            task.run(*place_of(parcel), parcel.records())
    return _tables[key]
