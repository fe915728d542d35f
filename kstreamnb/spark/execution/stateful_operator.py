"""One level of sub-topologies as an operator of a Spark query.

Rows are ``(g, target, source, seq, blob)``: group value, addressed task, producer, number, packed record batch. Rows
for other levels, output, reports and failures pass. A failure of the user's code is a row too, so that it reaches the
driver as the error that it is, instead of as the text of a traceback through two languages.
"""

from __future__ import annotations

import pickle
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from operator import itemgetter

import numpy as np
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from kstreamnb.core.heap import freeze_heap, gc_relaxed
from kstreamnb.core.time import Clock
from kstreamnb.errors import KStreamError
from kstreamnb.runtime.context.task_context import RowsOf
from kstreamnb.runtime.task.task import Counters, Task
from kstreamnb.spark.execution.cyclic_task import single_tasks
from kstreamnb.spark.execution.event_times import extracted_topics
from kstreamnb.spark.execution.failures import pack_failure
from kstreamnb.spark.execution.processor_attributes import attributes_of, give_attributes
from kstreamnb.spark.execution.record_batch import WALL, RecordBatch, pack, unpack
from kstreamnb.spark.execution.record_merge import Arrival, partition_of
from kstreamnb.spark.execution.rows import (
    DELTA,
    FAILURE,
    OUT,
    REPORT,
    Row5,
    RowFunction,
    TaskReport,
    row_batch,
    rows_in,
)
from kstreamnb.spark.execution.seed import plant
from kstreamnb.spark.execution.state_log import KEY_SCHEMA, LOG_SCHEMA, StateLog
from kstreamnb.spark.execution.task_batch import changelog, commit, run_batches
from kstreamnb.spark.execution.task_files import TaskFiles
from kstreamnb.spark.execution.worker_cache import (
    CachedTask,
    acquire,
    local_folder,
    memory_left,
    new_global_task,
    new_task,
    output_format,
    release,
    replica_of,
    worker_state,
)
from kstreamnb.spark.execution.worker_progress import noted
from kstreamnb.spark.planning.deployment import FIRST_SLOT, Deployment, Placed, Replica, TaskPlacement
from kstreamnb.topology.nodes import grouped

_MOST_RECORDS = 20_000
_OutRow = Row("g", "target", "source", "seq", "blob")


class StatefulOperator(StatefulProcessor):
    """A stateful level for `transformWithState`; the state of a group is the log of its task."""

    def __init__(self, deployment: Deployment, level: int) -> None:
        # Packed: Spark also unpickles this on the driver, in a process without the files that were sent to executors.
        self.deployment, self.level = deployment.as_packed(), level

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state; on the driver this runs once before the query starts."""
        self._log = handle.getMapState("log", KEY_SCHEMA, LOG_SCHEMA)

    def handleInputRows(self, key: tuple[int], rows: Iterator[Row], timerValues: object) -> Iterator[Row]:
        """Run the task of one group over all rows that are addressed to it."""
        taken: list[Row5] = [tuple(row) for row in rows]
        log = StateLog(self._log, verify=self.deployment.options.verify)
        with gc_relaxed():
            for row in run_group(self.deployment.load(), self.level, key[0], taken, log):
                yield _OutRow(*row)

    def close(self) -> None:
        """Exempt the kept tasks from the next garbage collection."""
        freeze_heap()


def stateless_level(deployment: Deployment, level: int) -> RowFunction:
    """Return the function of a stateless level for `mapInArrow`."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        groups: dict[int, list[Row5]] = grouped(chain.from_iterable(map(rows_in, batches)), itemgetter(0))
        with gc_relaxed():
            for group in sorted(groups):
                yield row_batch(list(run_group(deployment, level, group, groups[group], None)))
        freeze_heap()

    return run


def run_group(deployment: Deployment, level: int, group: int, rows: list[Row5], log: StateLog | None) -> Iterator[Row5]:
    """Run one group's task over its rows; yields its output, and other rows readdressed to the next level.

    Executors that publish must all know of a failure: they publish nothing then.
    """
    receivers = deployment.pass_through_keys if deployment.options.slots and level + 1 == len(deployment.levels) else ()
    placed = deployment.placements[level].get(group)
    own = [] if placed is None else [row for row in rows if row[1] == placed.number]
    others = rows if placed is None else [row for row in rows if row[1] != placed.number]
    passed_on = ((deployment.routing_key_at(level + 1, *row[1:3]), *row[1:]) for row in others)
    results = _run_placed(deployment, placed, own, log) if placed is not None and own else ()
    for row in chain(passed_on, results):
        if receivers and row[1] == FAILURE:
            yield from ((key, *row[1:]) for key in receivers)
        else:
            yield row


def _run_placed(deployment: Deployment, placed: Placed, rows: list[Row5], log: StateLog | None) -> Iterator[Row5]:
    if isinstance(placed, TaskPlacement) and placed.uses_global and replica_of(deployment, placed) is None:
        return  # a failure of its global tables ends the batch
    source = deployment.producer(placed)
    next_group = deployment.routing_key_at(placed.level + 1, OUT, source)
    began = time.perf_counter()
    arrivals = [Arrival(row[2], row[3], unpack(row[4])) for row in rows if row[4]]
    cached = acquire(deployment, placed.number)
    if isinstance(placed, TaskPlacement) and not placed.stateful:
        log = None  # a stateless task in a stateful level
    now_ms = _first_clock(arrivals)
    if log is not None:
        with noted(deployment.options.positions, placed.name, log.restoring):
            cached = log.load(cached, lambda: _new(deployment, placed, now_ms), _files(deployment, placed, now_ms))
        if log.found == "new" and deployment.options.seed:
            plant(deployment.options.seed, placed.name, cached)
    cached = cached or _new(deployment, placed, now_ms)
    before = cached.task.counters()
    cached.clock.now_ms = max([cached.clock.now_ms, *(arrival.batch.clock_ms for arrival in arrivals)])
    try:
        with noted(deployment.options.positions, placed.name, cached.task):
            batches = _run_task(deployment, placed, cached, arrivals)
    except KStreamError as error:
        if isinstance(placed, Replica):
            worker_state(deployment).failed.add(placed.number)  # tasks that would read it need not start
        cached.close()
        yield next_group, FAILURE, source, 0, pack_failure(placed.name, error)
        return
    if log is not None:
        delta = log.save(cached)
        if delta is not None and deployment.options.live:
            yield next_group, DELTA, source, cached.seq, delta
    release(deployment, placed, cached)
    out: dict[str, int] = {}
    for seq, (target, batch) in enumerate(addressed(deployment, placed, batches)):
        batch.clock_ms = cached.clock.now_ms
        out[batch.topic] = out.get(batch.topic, 0) + len(batch)
        yield deployment.routing_key_at(placed.level + 1, target, source), target, source, seq, pack(batch)
    repeats = isinstance(placed, Replica) and deployment.replica_targets(placed.application)[0] != placed.number
    if repeats:
        before["dropped"] = cached.task.counters()["dropped"]  # the first replica has counted them
    report = report_of(placed, cached, before, log.found if log else "none", out, time.perf_counter() - began)
    if log is not None:
        report["stores"] = _stores(cached)
    report["lateness_ms"] = _lateness(deployment, placed, arrivals)
    report["inputs"] = 0 if repeats else _inputs(deployment, arrivals)
    yield next_group, REPORT, source, 0, pickle.dumps(report, 5)


def _stores(cached: CachedTask) -> dict[str, tuple[int, int, int, int]]:
    """Return for each store its rows, its bytes, and how many rows the batch wrote or deleted, and deleted."""
    figures: dict[str, tuple[int, int, int, int]] = {}
    for name, store in cached.task.stores.items():
        own = name.rpartition("/")[2]
        rows, size, changed, deleted = figures.get(own, (0, 0, 0, 0))  # members of a cycle have a store each
        updates, deletions = cached.changed.get(name, (0, 0))
        rows, size = rows + len(store.raw) - (None in store.raw), size + cached.sizes.get(name, 0)
        figures[own] = (rows, size, changed + updates, deleted + deletions)
    return figures


def _run_task(deployment: Deployment, placed: Placed, cached: CachedTask, arrivals: list[Arrival]) -> list[RecordBatch]:
    task = cached.task
    if isinstance(placed, Replica):
        assert isinstance(task, Task)
        for arrival in sorted(arrivals, key=lambda arrival: (arrival.source, arrival.seq)):
            task.run(*partition_of(arrival.batch), arrival.batch.records())
        return []
    members = single_tasks([task])
    if placed.uses_global and members[0].global_state is not (tables := replica_of(deployment, placed)):
        attributes = attributes_of(task)
        for member in members:
            member.connect(tables)  # binds all nodes again, with new processors
        give_attributes(task, attributes)
    form = output_format(deployment, placed)
    produced = run_batches(task, arrivals, cached.positions, form) + commit(task, form)
    return produced + changelog(task) if deployment.options.changelogs and placed.stateful else produced


def _lateness(deployment: Deployment, placed: Placed, arrivals: list[Arrival]) -> tuple[float, float]:
    """Return by how many ms records of input topics are older than their partition's stream time: mean and maximum.

    Topics with a timestamp extractor do not count: their batches hold the timestamps before extraction.
    """
    extracted = extracted_topics(deployment.applications[placed.application])
    batches = [arrival.batch for arrival in arrivals if arrival.batch.offsets is not None and len(arrival.batch)]
    late = [each.order.max_timestamp - each.timestamps for each in batches if each.topic not in extracted]
    every = np.concatenate(late) if late else np.zeros(1, np.int64)
    return float(every.mean()), float(every.max())


def _inputs(deployment: Deployment, arrivals: list[Arrival]) -> int:
    """Count the records of input topics: producers of rows are input partitions first, then tasks."""
    count = len(deployment.input_partitions)
    return sum(len(each.batch) for each in arrivals if each.source < count and each.batch.topic != WALL)


def _first_clock(arrivals: list[Arrival]) -> int:
    """Return the wall clock at the beginning of the batch: that of its first tick, else that of its record batches."""
    ticks = [int(arrival.batch.timestamps[0]) for arrival in arrivals if arrival.batch.topic == WALL]
    return min(ticks) if ticks else max([0, *(arrival.batch.clock_ms for arrival in arrivals)])


def _files(deployment: Deployment, placed: Placed, now_ms: int) -> TaskFiles | None:
    if isinstance(placed, Replica):
        return None  # of tables that each worker needs in memory
    folder, create = local_folder() / deployment.key, partial(_new, deployment, placed, now_ms)
    return TaskFiles(folder, placed.number, create, members=bool(placed.members), room=memory_left(deployment))


def _new(deployment: Deployment, placed: Placed, now_ms: int, rows_of: RowsOf | None = None) -> CachedTask:
    if isinstance(placed, Replica):
        clock = Clock()
        return CachedTask(new_global_task(deployment, placed.application, clock), clock)
    tables = replica_of(deployment, placed) if placed.uses_global else None
    return new_task(deployment, placed, tables, now_ms=now_ms, rows_of=rows_of)


def addressed(
    deployment: Deployment, placed: Placed, batches: Iterable[RecordBatch]
) -> Iterator[tuple[int, RecordBatch]]:
    """Yield record batches of bounded length with their targets; a topic that is read and output has two."""
    application = deployment.applications[placed.application]
    own = f"{application.id}-"
    for batch in batches:
        for begin in range(0, len(batch), _MOST_RECORDS):
            part = batch if len(batch) <= _MOST_RECORDS else batch.part(begin, begin + _MOST_RECORDS)
            if batch.topic in application.inner and isinstance(part.partition, int):
                target = deployment.readers[placed.application, part.topic, part.partition]
                if target != placed.number:  # within a cycle its own records were processed already
                    yield target, part
            if batch.topic not in application.inner or not batch.topic.startswith(own):
                yield from by_slot(part, deployment.options.slots)


def by_slot(batch: RecordBatch, slots: int) -> Iterator[tuple[int, RecordBatch]]:
    """Yield output with its target: the driver, or the slots, each of which has whole partitions of the topic."""
    if not slots:
        yield OUT, batch
        return
    chosen = (zlib.crc32(batch.topic.encode()) + batch.partition) % slots
    if isinstance(chosen, int):
        yield FIRST_SLOT - chosen, batch
        return
    for slot in np.unique(chosen).tolist():
        yield FIRST_SLOT - slot, batch.take(np.flatnonzero(chosen == slot))


def report_of(
    placed: Placed, cached: CachedTask, before: Counters, state: str, out: dict[str, int], took: float
) -> TaskReport:
    """Return what a task did since its counters were ``before``; ``out`` counts records by output topic."""
    after = cached.task.counters()
    dropped = dict(Counter(after["dropped"]) - Counter(before["dropped"]))
    return {
        "task": placed.name,
        "consumed": after["consumed"] - before["consumed"],
        "produced": sum(out.values()),
        "topics": out,
        "dropped": dropped,
        "stream_time_ms": max(task.context.stream_time[0] for task in single_tasks([cached.task])),
        "state": state,
        "state_bytes": cached.state_bytes,
        "seconds": took,
        "lateness_ms": (0.0, 0.0),
    }
