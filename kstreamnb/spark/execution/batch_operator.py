"""Levels over static DataFrames: what the workers do with packed rows and record batches.

Spark sorts both by their first record, and they are merged on the way in: a task gets its records as one stream in
canonical order, a few thousand at a time, and returns batches. A level holds only what overlaps in time.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa

from kstreamnb.core.codec import SerializedValue
from kstreamnb.core.heap import gc_relaxed
from kstreamnb.core.serde import Serde
from kstreamnb.core.time import Clock
from kstreamnb.errors import KStreamError, SerdeError
from kstreamnb.frame_cells import python_values
from kstreamnb.runtime.task.task import Counters, Task
from kstreamnb.spark.execution.event_times import EventTimes, event_times_of
from kstreamnb.spark.execution.failures import pack_failure
from kstreamnb.spark.execution.frame_rows import FrameRows, by_partition, in_order
from kstreamnb.spark.execution.record_batch import ORDER, RecordBatch, pack, root_order, unpack
from kstreamnb.spark.execution.record_merge import Arrival, partition_of
from kstreamnb.spark.execution.rows import FAILURE, REPORT, STORE, RowFunction, row_batch, rows_in
from kstreamnb.spark.execution.state_codec import pack_delta
from kstreamnb.spark.execution.stateful_operator import addressed, report_of
from kstreamnb.spark.execution.task_batch import commit, run_batches
from kstreamnb.spark.execution.worker_cache import CachedTask, new_global_task, new_task, output_format, worker_state
from kstreamnb.spark.planning.deployment import Deployment, TaskPlacement
from kstreamnb.spark.planning.output_topics import at_source

_ORDER = ", ".join(f"{name} bigint" for name in ORDER)
BATCH_SCHEMA = f"g int, target int, source int, seq int, {_ORDER}, blob binary"
_KINDS = (pa.int32(), pa.int32(), pa.int32(), pa.int32(), pa.int64(), pa.int64(), pa.int64(), pa.int64(), pa.binary())
_ARROW = pa.schema([(part.split()[0], kind) for part, kind in zip(BATCH_SCHEMA.split(", "), _KINDS, strict=True)])
_PART = 20_000
Row9 = tuple[int, int, int, int, int, int, int, int, bytes]
Part = TypeVar("Part", Arrival, FrameRows)


@dataclass(frozen=True)
class BatchPlan:
    """The input of the workers: deployment, packed batches of global topics, wall clock.

    ``arrival``: rows come partition by partition in order of arrival, not merged by time.
    """

    deployment: Deployment
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
            yield self._row(target, pack(batch), batch.order.first())

    def _row(self, target: int, blob: bytes, first: tuple[int, int, int, int] = (0, 0, 0, 0)) -> Row9:
        self.seq += 1
        return _row(self.plan.deployment, self.placed.level, target, self.source, self.seq, blob, first)


def packed_rows(plan: BatchPlan, topic: str, serde: Serde, about: Mapping[str, str]) -> RowFunction:
    """Return the function that packs the rows of a topic for the first level.

    Args:
        plan: the plan of the run.
        topic: the topic.
        serde: the serde of its keys.
        about: the name of the keys' column, if they have one, as "column".
    """

    def run(arrows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        deployment = plan.deployment
        count = deployment.application.partitions.get(topic, 1)
        ranks = [deployment.input_ranks[0, topic, partition] for partition in range(count)]
        targets = {rank: deployment.readers[0, topic, partition] for partition, rank in enumerate(ranks)}
        try:
            with at_source(deployment.application.plan, topic):
                for arrow in arrows:
                    parts = by_partition(arrow, ranks, serde, sort=not plan.arrival)
                    yield _batch([_row(deployment, -1, targets[p.rank], p.rank, 0, p.pack(), p.first()) for p in parts])
        except SerdeError as error:
            error.add_note(f'Detail: it is a key of input "{topic}", column "{about["column"]}"')
            yield _batch([_failed(None, error)])

    return run


class _FirstLevel:
    """The first level in one process: packed rows, sorted by group and first time, become records of tasks."""

    def __init__(self, plan: BatchPlan) -> None:
        self.plan = plan
        self.task_run: _TaskRun | None = None
        self._group: int | None = None
        self._merge = _Merge[FrameRows]()
        self._event_times = event_times_of(plan.deployment, plan.wall_clock_ms)
        self._counted: dict[int, tuple[int, int]] = {}
        self._seqs: dict[int, int] = {}

    def add(self, row: Row9) -> Iterator[Row9]:
        """Add packed rows; yields what the rows before them cause."""
        group, target, rank, _, *first, blob = row
        if target == FAILURE:
            yield row
            return
        if group != self._group:
            yield from self._process(self._merge.rest())
            self._group = group
        if not self.plan.arrival:
            yield from self._process(self._merge.before(tuple(first)))
        self._merge.add(FrameRows.unpack(rank, blob))

    def finish(self) -> Iterator[Row9]:
        """Process the remaining rows and end the last task."""
        yield from self._process(self._merge.rest())
        if self.task_run is not None:
            yield from self.task_run.finish()

    def _process(self, ready: list[FrameRows]) -> Iterator[Row9]:
        deployment, arrival = self.plan.deployment, self.plan.arrival
        for parts in in_order(ready, arrival=arrival):
            here: list[Arrival] = []
            for part in parts:
                batch = record_batch(deployment, part, self._counted, self._event_times)
                target = deployment.readers[deployment.input_partitions[part.rank]]
                if deployment.tasks[target].level == 0 and not arrival:
                    here.append(Arrival(part.rank, 0, batch))
                    continue
                seq = self._seqs[part.rank] = self._seqs.get(part.rank, -1) + 1
                level = -1 if arrival else 0  # level 0 sorts what came in order of arrival
                yield _row(deployment, level, target, part.rank, seq, pack(batch), batch.order.first())
            if here:
                target = deployment.readers[deployment.input_partitions[here[0].source]]
                if self.task_run is None or self.task_run.placed.number != target:
                    yield from self.task_run.finish() if self.task_run is not None else ()
                    self.task_run = _TaskRun(self.plan, deployment.tasks[target])
                yield from self.task_run.feed(here)


class _NextLevel:
    """A later level in one process: batches, sorted by group and first record, become batches of its tasks."""

    def __init__(self, plan: BatchPlan, level: int) -> None:
        self.plan, self.level = plan, level
        self.task_run: _TaskRun | None = None
        self._merge = _Merge[Arrival]()

    def add(self, row: Row9) -> Iterator[Row9]:
        """Add a batch; yields what the batches before it cause."""
        deployment, target = self.plan.deployment, row[1]
        if target < 0 or deployment.tasks[target].level != self.level:
            yield deployment.routing_key_at(self.level + 1, target, row[2]), *row[1:]
            return
        if self.task_run is None or self.task_run.placed.number != target:
            yield from self.finish()
            self.task_run = _TaskRun(self.plan, deployment.tasks[target])
        batch = unpack(row[8])
        yield from self.task_run.feed(self._merge.before(batch.order.first()))
        self._merge.add(Arrival(row[2], row[3], batch))

    def finish(self) -> Iterator[Row9]:
        """Process the remaining batches and end the last task."""
        if self.task_run is not None:
            yield from self.task_run.feed(self._merge.rest())
            yield from self.task_run.finish()


def first_level(plan: BatchPlan) -> RowFunction:
    """Turn packed rows into batches; records for later levels become batches unchanged."""
    return _run_level(lambda: _FirstLevel(plan))


def next_level(plan: BatchPlan, level: int) -> RowFunction:
    """Turn batches, sorted by group and first record, into batches."""
    return _run_level(lambda: _NextLevel(plan, level))


def _run_level(create: Callable[[], _FirstLevel | _NextLevel]) -> RowFunction:
    """Return the function that runs a level in each process; the first failure ends it."""

    def run(arrows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        level = create()
        with gc_relaxed():
            try:
                for arrow in arrows:
                    yield _batch([made for row in rows_in(arrow) for made in level.add(row)])
                yield _batch(list(level.finish()))
            except KStreamError as error:
                yield _batch([_failed(level.task_run, error)])

    return run


class _Merge(Generic[Part]):
    """Overlapping sorted parts; what comes before the first record of the next part is ready."""

    def __init__(self) -> None:
        self._open: list[Part] = []

    def add(self, part: Part) -> None:
        """Add a part; its first record is not before that of any other."""
        self._open.append(part)

    def before(self, border: tuple[int, ...]) -> list[Part]:
        """Return what comes before an order key, if enough records wait."""
        if sum(map(len, self._open)) < _PART:
            return []
        cuts = [(part, part.position(border)) for part in self._open]
        self._open = [part.part(at, len(part)) for part, at in cuts if at < len(part)]
        return [part.part(0, at) for part, at in cuts if at]

    def rest(self) -> list[Part]:
        """Return all remaining records."""
        ready, self._open = self._open, []
        return ready


def _row(
    deployment: Deployment,
    level: int,
    target: int,
    source: int,
    seq: int,
    blob: bytes,
    first: tuple[int, int, int, int] = (0, 0, 0, 0),
) -> Row9:
    return deployment.routing_key_at(level + 1, target, source), target, source, seq, *first, blob


def _failed(task_run: _TaskRun | None, error: KStreamError) -> Row9:
    name, source = ("", 0) if task_run is None else (task_run.placed.name, task_run.source)
    return 0, FAILURE, source, 0, 0, 0, 0, 0, pack_failure(name, error)


def _batch(rows: list[Row9]) -> pa.RecordBatch:
    return row_batch(rows, _ARROW)


def record_batch(
    deployment: Deployment,
    rows: FrameRows,
    counted: dict[int, tuple[int, int]],
    event_times: Mapping[tuple[int, str], EventTimes],
) -> RecordBatch:
    """Return rows as records; ``counted``: the records and the highest event time of a partition so far, by rank."""
    application, topic, partition = deployment.input_partitions[rows.rank]
    timestamps, count = rows.times, len(rows)
    names = rows.arrow.schema.names
    keys, values, headers = (column_values(rows.arrow.column(name)) if name in names else None for name in "kvh")
    done, before = counted.get(rows.rank, (0, -1))
    offsets = np.arange(done, done + count, dtype=np.int64)
    order = root_order(timestamps, offsets, rows.rank, before)
    batch = RecordBatch(topic, partition, order, timestamps, keys or [], values or [], header_values(headers), offsets)
    extractor = event_times.get((application, topic))
    if extractor is not None:
        batch.order = root_order(extractor.of(topic, partition, batch.records()), offsets, rows.rank, before)
    counted[rows.rank] = done + count, int(batch.order.max_timestamp[-1])
    return batch


def column_values(column: Any) -> list[Any]:
    """Return Python values of an Arrow column; binary ones are Kafka's bytes."""
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return [None if item is None else SerializedValue(item) for item in column.to_pylist()]
    kind = column.type
    if (pa.types.is_integer(kind) or pa.types.is_floating(kind)) and not column.null_count:
        return column.to_numpy(zero_copy_only=False).tolist()
    if pa.types.is_struct(kind) and not column.null_count:
        names = [field.name for field in kind]
        parts = [column_values(part) for part in column.flatten()]
        return [dict(zip(names, row, strict=True)) for row in zip(*parts, strict=True)] if parts else []
    return python_values(column)


def header_values(column: list[Any] | None) -> list[Any] | None:
    """Return headers of rows as tasks take them; None if no row has any."""
    if column is None:
        return None
    headers = [tuple((pair["key"], pair["value"]) for pair in pairs or ()) for pairs in column]
    return headers if any(headers) else None


def _global_tables(plan: BatchPlan, application: int) -> Task:
    """Return the global tables of an application, filled once in each worker."""
    tables = worker_state(plan.deployment).tables
    if application not in tables:
        clock = Clock(plan.wall_clock_ms)
        task = tables[application] = new_global_task(plan.deployment, application, clock, track=False)
        for blob in plan.global_batches.value.get(application, ()):
            batch = unpack(blob)
            task.run(*partition_of(batch), batch.records())
    return tables[application]
