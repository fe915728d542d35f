"""Runs one task over one micro-batch: merges its input, processes it and packs its output.

Streaming queries and runs over static DataFrames share this module. It knows record batches and tasks, not Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter, countOf
from typing import Any, TypeAlias

import numpy as np

from kstreamnb.core.codec import SerializedValue, to_bytes
from kstreamnb.core.heap import collector_paused
from kstreamnb.core.record import Headers
from kstreamnb.core.serde import Serde
from kstreamnb.runtime.context.handlers import RecordProduced
from kstreamnb.runtime.context.record_context import Batch, Partition, RecordPosition, WireRecord
from kstreamnb.runtime.task.task import Task
from kstreamnb.spark.execution.cyclic_task import AnyTask, CyclicTask, single_tasks
from kstreamnb.spark.execution.record_batch import (
    COMMIT,
    WALL,
    Numbers,
    OrderKey,
    RecordBatch,
    are_portable,
    stretches,
    to_kafka,
)
from kstreamnb.spark.execution.record_merge import Arrival, Merged, Positions
from kstreamnb.topology.nodes import grouped
from kstreamnb.topology.partitions import changelog_topic

_SHORT_RUN = 16

Column: TypeAlias = Sequence[Any]
"""Keys or values of some records in wire form: objects of any kind."""

ProducedRow: TypeAlias = tuple[str, int, int, Any, Any, Headers]
"""A produced record: topic, partition, timestamp, key, value, headers."""


@dataclass(frozen=True)
class OutputFormat:
    """How the records that one sub-topology produces are packed.

    ``serdes`` of the topics whose records are in plain wire form; ``inner`` topics stay inside the query; ``mixed``
    are topics that are read or written with other serdes elsewhere, so that only bytes will do; ``kafka``: all topics
    that are not inner leave as Kafka's bytes.
    """

    serdes: Mapping[str, tuple[Serde, Serde]]
    inner: frozenset[str]
    mixed: frozenset[str]
    kafka: bool

    def batch(self, topic: str, partition: int | Numbers, order: OrderKey, columns: Sequence[Column]) -> RecordBatch:
        """Return a batch of produced records, whose columns are timestamp, key, value and headers."""
        timestamps, keys, values, headers = columns
        key_serde, value_serde = self.serdes.get(topic, (None, None))
        leaves = self.kafka and topic not in self.inner
        shape = to_kafka if leaves else _as_bytes if topic in self.mixed else _portable
        shaped = list(timestamps), shape(list(keys), key_serde), shape(list(values), value_serde), list(headers)
        return RecordBatch.of_columns(topic, partition, order, shaped, kafka=leaves)


def run_batches(task: AnyTask, arrivals: list[Arrival], positions: Positions, form: OutputFormat) -> list[RecordBatch]:
    """Run a task over all arrivals in canonical order; returns what it produced."""
    if not any(len(arrival.batch) for arrival in arrivals):
        return []
    marks: list[int] = []
    merged = Merged(arrivals)
    if isinstance(task, CyclicTask):
        task.positions = positions
        steps = _run_cycle(task, merged, marks)
    else:
        steps = _run(task, merged, positions, marks)
    order = OrderKey.concat(list(steps))
    made = np.asarray([0, *marks], np.int64)
    counts = made[1:] - made[:-1]
    caused = order if (counts == 1).all() else order.take(np.repeat(np.arange(len(counts)), counts))
    return _batches(task.drain(), _deep(task, caused), form)


class _Turns(Batch):
    """Records of several partitions of a task, in turn, and the rank of the partition of each."""

    def __init__(self, task: Task, partitions: dict[int, Partition], ranks: Numbers, records: list[WireRecord]) -> None:
        super().__init__(records, "", -1, "", None)
        self._task, self._partitions, self._ranks = task, partitions, ranks.tolist()

    def taken(self, topic: str, partition: int) -> int:
        """Return how many records of a partition were taken."""
        return countOf(map(self._partitions.__getitem__, self._ranks[: self.index() + 1]), (topic, partition))

    def position_of(self, index: int) -> RecordPosition:
        """Return topic, partition and source node of a record, which has its own offset."""
        partition = self._partitions[self._ranks[index]]
        return *partition, self._task.queue_of(*partition).source, None

    def process(self, marks: list[int]) -> None:
        """Process each record in the loop of its partition; all loops stay open meanwhile."""
        task, mark = self._task, marks.append
        with collector_paused(), ExitStack() as stack:
            loops = ((rank, task.interleave(self, each, 0)) for rank, each in self._partitions.items())
            sends = {rank: stack.enter_context(loop) for rank, loop in loops}
            out = task.context.out
            for record, send in zip(self.iterator, map(sends.__getitem__, self._ranks), strict=True):
                send((record,))
                mark(len(out))


def _run(task: Task, merged: Merged, positions: Positions, marks: list[int]) -> Iterator[OrderKey]:
    """Process records in order: in turn if their partitions change often, else one run after another."""
    merged.number(positions)
    for ranks, records, order in merged.parts():
        changes = np.diff(ranks)
        partitions = {rank: merged.partitions[rank] for rank in np.flatnonzero(np.bincount(ranks)).tolist()}
        often = np.count_nonzero(changes) * _SHORT_RUN > len(records)
        if merged.wall in partitions:
            _tick(task, records, marks)
        elif often and all(task.takes_records(*partition) for partition in partitions.values()):
            _Turns(task, partitions, ranks, records).process(marks)
        else:
            for begin, end in stretches(changes):
                topic, partition = partitions[int(ranks[begin])]
                task.run(topic, partition, records[begin:end], marks)
        yield order


def _run_cycle(task: CyclicTask, merged: Merged, marks: list[int]) -> Iterator[OrderKey]:
    """Process root by root, each with everything that it causes within the cycle, which counts offsets itself."""
    roots, order = merged.roots()
    for ticks, group in groupby(roots, lambda root: root[0][1][0] == (WALL, 0)):
        if not ticks:
            task.run_roots(group, marks)
            continue
        for root in group:
            _tick(task, [row[1:] for _, (_, row) in root], [])
            marks.append(task.produced)
    yield order


def commit(task: AnyTask, form: OutputFormat) -> list[RecordBatch]:
    """Flush caches at the end of a batch."""
    task.commit()
    for store in task.stores.values():
        if hasattr(store, "clear_cache"):
            store.clear_cache()  # a task rebuilt in another worker has no cache, and must produce the same result
    produced = task.drain()
    return _batches(produced, _deep(task, OrderKey.of_root(COMMIT, len(produced))), form)


def changelog(task: AnyTask) -> list[RecordBatch]:
    """Return the records of a batch for changelog topics: the last of each key, and every version of a versioned store.

    Topics keep the last record of each key anyway, so the others would only be compacted away.
    """
    plans = [each.plan for each in single_tasks([task])]
    stores = ((plan.application_id, store) for plan in plans for store in plan.topology.stores.values())
    versioned = {changelog_topic(application, store) for application, store in stores if store.kind == "versioned"}
    last: dict[Any, RecordProduced] = {}
    for number, record in enumerate(task.drain_changelog()):
        key = (record.topic, record.partition, number if record.topic in versioned else record.key)
        last.pop(key, None)  # its place is that of the last write
        last[key] = record
    topics = grouped(last.values(), attrgetter("topic"))
    return [_changelog_batch(topic, records) for topic, records in sorted(topics.items())]


def _changelog_batch(topic: str, records: list[RecordProduced]) -> RecordBatch:
    _, partitions, *columns = map(list, zip(*records, strict=True))
    order = OrderKey.of_root(COMMIT, len(records))
    return RecordBatch.of_columns(topic, np.asarray(partitions, np.int64), order, columns, kafka=True)


def _deep(task: AnyTask, order: OrderKey) -> OrderKey:
    """Return the order keys of produced records; a cycle knows their depths."""
    if not isinstance(task, CyclicTask):
        return order
    return replace(order, depth=np.asarray(task.take_depths(), np.int64))


def _tick(task: AnyTask, ticks: list[WireRecord], marks: list[int]) -> None:
    clock = task.context.clock
    for _, now_ms, key, _, _ in ticks:
        clock.now_ms = max(clock.now_ms, now_ms)
        if key != "set":
            task.punctuate_wall_clock()
        marks.append(task.produced)


def _batches(produced: list[ProducedRow], order: OrderKey, form: OutputFormat) -> list[RecordBatch]:
    """Pack produced records: one batch per topic, and per partition of an internal topic."""
    if not produced:
        return []
    batches: list[RecordBatch] = []
    for topic, (partitions, *columns), keys in _by_topic(produced, order):
        column = np.asarray(partitions, np.int64)
        if topic not in form.inner:
            batches.append(form.batch(topic, column, keys, columns))
            continue
        whole = form.batch(topic, column, replace(keys, depth=keys.depth + 1), columns)
        for partition in sorted(set(partitions)):
            index = np.flatnonzero(column == partition)
            part = whole if len(index) == len(column) else whole.take(index)
            batches.append(replace(part, partition=partition))
    return batches


def _by_topic(produced: list[ProducedRow], order: OrderKey) -> Iterator[tuple[str, Sequence[Column], OrderKey]]:
    """Yield produced records by topic, as columns, with their order keys."""
    written, *everything = zip(*produced, strict=True)
    if len(set(written)) == 1:
        yield written[0], everything, order
        return
    for topic, rows in grouped(range(len(written)), written.__getitem__).items():
        _, *columns = zip(*map(produced.__getitem__, rows), strict=True)
        yield topic, columns, order.take(np.asarray(rows))


def _portable(column: list[Any], serde: Serde | None) -> list[Any]:
    """Return a column whose items any process can rebuild: such ones unchanged, all others as bytes."""
    if serde is None or are_portable(column):
        return column  # without a serde, bytes of some kind
    return [item if are_portable((item,)) else SerializedValue(to_bytes(serde, item) or b"") for item in column]


def _as_bytes(column: list[Any], serde: Serde | None) -> list[Any]:
    return [None if item is None else SerializedValue(item) for item in to_kafka(column, serde)]
