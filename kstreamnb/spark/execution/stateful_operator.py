"""One level of sub-topologies as an operator of a Spark query.

Rows are ``(g, target, source, seq, blob)``: group value, task that the row is for, producer, number, packed parcel.
Rows for other levels, output, reports and failures pass. A failure of the user's code is a row too: it reaches the
driver as the error that it is, instead of as the text of a traceback through two languages.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from kstreamnb.core.heap import freeze_heap, gc_relaxed
from kstreamnb.errors import KStreamError
from kstreamnb.spark.execution.failures import pack_failure
from kstreamnb.spark.execution.processor_attributes import attributes_of, give_attributes
from kstreamnb.spark.execution.record_batch import WALL, RecordBatch, pack, unpack
from kstreamnb.spark.execution.record_merge import Arrival, place_of
from kstreamnb.spark.execution.rows import DELTA, FAILURE, OUT, REPORT, Row5, row_batch
from kstreamnb.spark.execution.state_log import KEY_SCHEMA, LOG_SCHEMA, StateLog
from kstreamnb.spark.execution.task_batch import commit, run_parcels
from kstreamnb.spark.execution.worker_cache import (
    CachedTask,
    DeploymentBlob,
    check_in,
    check_out,
    new_global,
    new_task,
    note_failure,
    outlets_of,
    placed_at,
    read,
    replica,
)
from kstreamnb.spark.planning.placement import PlacedTask, Replica

__all__ = [
    "StatefulOperator",
    "addressed",
    "report_of",
    "run_group",
    "stateless_level",
]


_MOST_RECORDS = 20_000
_OutRow = Row("g", "target", "source", "seq", "blob")


class StatefulOperator(StatefulProcessor):
    """A stateful level for `transformWithState`; the state of a group is the log of its task."""

    def __init__(self, bundle: DeploymentBlob, level: int) -> None:
        self.bundle, self.level = bundle, level

    def init(self, handle: Any) -> None:
        """Declare the state; on the driver this runs once before the query starts."""
        self._log = handle.getMapState("log", KEY_SCHEMA, LOG_SCHEMA)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Run the task of one group over everything that came for it."""
        given: list[Row5] = [tuple(row) for row in rows]
        log = StateLog(self._log, verify=self.bundle.verify)
        with gc_relaxed():
            for row in run_group(self.bundle, self.level, key[0], given, log):
                yield _OutRow(*row)

    def close(self) -> None:
        """Spare the tasks kept in memory from the next garbage collection."""
        freeze_heap()


def stateless_level(
    bundle: DeploymentBlob, level: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A level without state for `mapInArrow`."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        groups: dict[int, list[Row5]] = {}
        for batch in batches:
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                groups.setdefault(row[0], []).append(row)
        with gc_relaxed():
            for group in sorted(groups):
                yield row_batch(list(run_group(bundle, level, group, groups[group], None)))
        freeze_heap()

    return run


def run_group(bundle: DeploymentBlob, level: int, group: int, rows: list[Row5], log: StateLog | None) -> Iterator[Row5]:
    """What becomes of the rows of one group: its task's output, and the rest addressed to the next level."""
    deployment = read(bundle)
    placed = placed_at(bundle, level).get(group)
    number = None if placed is None else placed.number
    mine: list[Row5] = []
    for row in rows:
        if row[1] == number:
            mine.append(row)
        else:
            _, target, source, seq, blob = row
            yield deployment.group_at(level + 1, target, source), target, source, seq, blob
    if placed is not None and mine:
        yield from _run_placed(bundle, placed, mine, log)


def _run_placed(
    bundle: DeploymentBlob, placed: PlacedTask | Replica, rows: list[Row5], log: StateLog | None
) -> Iterator[Row5]:
    if isinstance(placed, PlacedTask) and placed.uses_global and replica(bundle, placed) is None:
        return  # the failure of its global tables ends the batch
    deployment = read(bundle)
    key = (bundle.name, placed.number)
    source = len(deployment.lanes) + placed.number
    next_group = deployment.group_at(placed.level + 1, OUT, source)
    began = time.perf_counter()
    arrivals = [Arrival(row[2], row[3], unpack(row[4])) for row in rows if row[4]]
    held = check_out(key)
    if isinstance(placed, PlacedTask) and not placed.stateful:
        log = None  # a task without state in a level that has some
    now_ms = _first_clock(arrivals)
    if log is not None:
        held = log.load(held, lambda: _new(bundle, placed, now_ms))
    held = held or _new(bundle, placed, now_ms)
    before = held.task.counters()
    held.clock.now_ms = max([held.clock.now_ms, *(arrival.parcel.clock_ms for arrival in arrivals)])
    try:
        parcels = _run_task(bundle, placed, held, arrivals)
    except KStreamError as error:
        if isinstance(placed, Replica):
            note_failure(key)
        yield next_group, FAILURE, source, 0, pack_failure(placed.name, error)
        return
    if log is not None:
        delta = log.save(held)
        if delta is not None and bundle.live:
            yield next_group, DELTA, source, held.seq, delta
    check_in(key, held, bundle.memory_limit)
    out: dict[str, int] = {}
    for seq, (target, parcel) in enumerate(addressed(bundle, placed, parcels)):
        parcel.clock_ms = held.clock.now_ms
        out[parcel.topic] = out.get(parcel.topic, 0) + len(parcel)
        yield deployment.group_at(placed.level + 1, target, source), target, source, seq, pack(parcel)
    if _first_twin(bundle, placed) != placed.number:
        before["dropped"] = held.task.counters()["dropped"]  # the first replica has counted them
    report = report_of(placed, held, before, log.found if log else "none", out, time.perf_counter() - began)
    report["lateness_ms"] = _lateness(arrivals)
    yield next_group, REPORT, source, 0, pickle.dumps(report, 5)


def _run_task(
    bundle: DeploymentBlob, placed: PlacedTask | Replica, held: CachedTask, arrivals: list[Arrival]
) -> list[RecordBatch]:
    if isinstance(placed, Replica):
        for arrival in sorted(arrivals, key=lambda arrival: (arrival.source, arrival.seq)):
            parcel = arrival.parcel
            held.task.run(*place_of(parcel), parcel.records())
        return []
    if placed.uses_global and held.task.global_state is not (tables := replica(bundle, placed)):
        attributes = attributes_of(held.task)
        held.task.global_state = tables  # binds all nodes anew
        give_attributes(held.task, attributes)
    outlets = outlets_of(bundle, placed)
    return run_parcels(held.task, arrivals, held.positions, outlets) + commit(held.task, outlets)


def _first_twin(bundle: DeploymentBlob, placed: PlacedTask | Replica) -> int:
    """The first replica of the same global tables; a task itself."""
    return read(bundle).replica_targets(placed.application)[0] if isinstance(placed, Replica) else placed.number


def _lateness(arrivals: list[Arrival]) -> tuple[float, float]:
    """How far records of input topics lie behind the stream time that they meet, in ms: on average and at most."""
    late = [a.parcel.order.m - a.parcel.timestamps for a in arrivals if a.parcel.offsets is not None and len(a.parcel)]
    every = np.concatenate(late) if late else np.zeros(1, np.int64)
    return float(every.mean()), float(every.max())


def _first_clock(arrivals: list[Arrival]) -> int:
    """What the wall clock shows as the batch begins: at its first tick, else what its parcels say."""
    ticks = [int(arrival.parcel.timestamps[0]) for arrival in arrivals if arrival.parcel.topic == WALL]
    return min(ticks) if ticks else max([0, *(arrival.parcel.clock_ms for arrival in arrivals)])


def _new(bundle: DeploymentBlob, placed: PlacedTask | Replica, now_ms: int) -> CachedTask:
    if isinstance(placed, Replica):
        return new_global(read(bundle), placed.application)
    return new_task(bundle, placed, replica(bundle, placed) if placed.uses_global else None, now_ms=now_ms)


def addressed(
    bundle: DeploymentBlob, placed: PlacedTask | Replica, parcels: Iterable[RecordBatch]
) -> Iterator[tuple[int, RecordBatch]]:
    """Parcels with their targets, none of them too long; a topic that is read and sold goes both ways."""
    deployment = read(bundle)
    inner = deployment.applications[placed.application].inner
    own = f"{deployment.applications[placed.application].id}-"
    for parcel in parcels:
        for begin in range(0, len(parcel), _MOST_RECORDS):
            part = parcel if len(parcel) <= _MOST_RECORDS else parcel.part(begin, begin + _MOST_RECORDS)
            if parcel.topic in inner and isinstance(part.partition, int):
                target = deployment.readers[placed.application, part.topic, part.partition]
                if target != placed.number:  # within a circle it has gone round already
                    yield target, part
            if parcel.topic not in inner or not parcel.topic.startswith(own):
                yield OUT, part


def report_of(
    placed: PlacedTask | Replica,
    held: CachedTask,
    before: dict[str, Any],
    found: str,
    out: dict[str, int],
    seconds: float,
) -> dict[str, Any]:
    """What a task did, as plain numbers; ``out`` counts records by output topic, inner ones among them."""
    after = held.task.counters()
    dropped = {
        where: count - before["dropped"].get(where, 0)
        for where, count in after["dropped"].items()
        if count > before["dropped"].get(where, 0)
    }
    return {
        "task": placed.name,
        "level": placed.level,
        "consumed": after["consumed"] - before["consumed"],
        "produced": sum(out.values()),
        "topics": out,
        "dropped": dropped,
        "stream_time_ms": held.task.scope.stream_time[0],
        "state": found,
        "state_bytes": held.state_bytes,
        "seconds": seconds,
    }
