"""One task through one micro-batch: merge what came in, run the task, pack what it produced.

The same function serves streaming queries and runs over static DataFrames. It knows parcels and tasks, not Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kstreamnb.core.codec import SerializedValue, to_bytes
from kstreamnb.spark.execution.cyclic_task import CyclicTask
from kstreamnb.spark.execution.record_batch import COMMIT, WALL, Numbers, OrderKey, RecordBatch, to_kafka
from kstreamnb.spark.execution.record_merge import Arrival, Merged, Positions

__all__ = ["Outlets", "commit", "run_parcels"]

_PORTABLE = frozenset({str, int, float, bool, bytes, type(None), SerializedValue})


@dataclass(frozen=True)
class Outlets:
    """How the records that one sub-topology produces are packed.

    ``serdes`` of the topics whose records are in plain wire form; ``inner`` topics stay inside the query; ``mixed``
    are topics that are read or written with other serdes elsewhere, so that only bytes will do; ``kafka``: all topics
    that are not inner leave as Kafka's bytes.
    """

    serdes: Mapping[str, tuple[Any, Any]]
    inner: frozenset[str]
    mixed: frozenset[str]
    kafka: bool

    def parcel(
        self, topic: str, partition: int | Numbers, order: OrderKey, columns: Sequence[Sequence[Any]]
    ) -> RecordBatch:
        """A parcel from the columns timestamp, key, value and headers of produced records."""
        timestamps, keys, values, headers = columns
        key_serde, value_serde = self.serdes.get(topic, (None, None))
        leaves = self.kafka and topic not in self.inner
        shape = to_kafka if leaves else _as_bytes if topic in self.mixed else _portable
        return RecordBatch(
            topic,
            partition,
            order,
            np.asarray(timestamps, np.int64),
            shape(list(keys), key_serde),
            shape(list(values), value_serde),
            list(headers) if any(headers) else None,
            kafka=leaves,
        )


def run_parcels(task: Any, arrivals: list[Arrival], positions: Positions, outlets: Outlets) -> list[RecordBatch]:
    """Feed a task everything that arrived, in canonical order, and give what it produced."""
    if not any(len(arrival.parcel) for arrival in arrivals):
        return []
    marks: list[int] = []
    merged = Merged(arrivals)
    feed = _feed_circle if isinstance(task, CyclicTask) else _feed
    order = OrderKey.concat(list(feed(task, merged, positions, marks)))
    made = np.asarray([0, *marks], np.int64)
    counts = made[1:] - made[:-1]
    caused = order if (counts == 1).all() else order.take(np.repeat(np.arange(len(counts)), counts))
    return _parcels(task.drain(), _deep(task, caused), outlets)


def _feed(task: Any, merged: Merged, positions: Positions, marks: list[int]) -> Iterator[OrderKey]:
    """Records in order, as many at once as come from one partition."""
    merged.number(positions)
    for (topic, partition), records, order in merged.runs():
        if topic == WALL:
            _tick(task, records, marks)
        else:
            task.run(topic, partition, records, marks)
        yield order


def _feed_circle(task: CyclicTask, merged: Merged, positions: Positions, marks: list[int]) -> Iterator[OrderKey]:
    """Root by root: what a root sets going around comes before the next one. The circle counts offsets itself."""
    for records, order in merged.roots():
        if records[0][1][0] == WALL:
            _tick(task, [record for _, _, record, _ in records], [])
        else:
            task.run_root(records)
        marks.append(task.produced)
        yield order


def commit(task: Any, outlets: Outlets) -> list[RecordBatch]:
    """Flush caches at the end of a batch."""
    task.commit()
    for store in task.stores.values():
        if hasattr(store, "clear_cache"):
            store.clear_cache()  # a task that is rebuilt elsewhere has no cache: neither may this one go on with it
    produced = task.drain()
    return _parcels(produced, _deep(task, OrderKey.of_root(COMMIT, len(produced))), outlets)


def _deep(task: Any, order: OrderKey) -> OrderKey:
    """The order keys of produced records; a circle knows their depths."""
    if not isinstance(task, CyclicTask):
        return order
    return OrderKey(order.m, order.lane, order.offset, np.asarray(task.take_depths(), np.int64))


def _tick(task: Any, ticks: list[Any], marks: list[int]) -> None:
    clock = task.scope.clock
    for _, now_ms, key, _, _ in ticks:
        clock.now_ms = max(clock.now_ms, now_ms)
        if key != "set":
            task.punctuate_wall_clock()
        marks.append(task.produced)


def _parcels(produced: list[Any], order: OrderKey, outlets: Outlets) -> list[RecordBatch]:
    """Produced records as parcels: one a topic, and one a partition where it is an internal topic."""
    if not produced:
        return []
    parcels: list[RecordBatch] = []
    for topic, (partitions, *columns), keys in _by_topic(produced, order):
        place = np.asarray(partitions, np.int64)
        if topic not in outlets.inner:
            parcels.append(outlets.parcel(topic, place, keys, columns))
            continue
        for partition in sorted(set(partitions)):
            mine = np.flatnonzero(place == partition)
            if len(mine) == len(place):
                parcels.append(outlets.parcel(topic, partition, keys.deeper(), columns))
            else:
                part = [[column[at] for at in mine.tolist()] for column in columns]
                parcels.append(outlets.parcel(topic, partition, keys.take(mine).deeper(), part))
    return parcels


def _by_topic(produced: list[Any], order: OrderKey) -> Iterator[tuple[str, Sequence[Sequence[Any]], OrderKey]]:
    """Produced records by topic, as columns, with their order keys."""
    written, *everything = zip(*produced, strict=True)
    if len(set(written)) == 1:
        yield written[0], everything, order
        return
    topics: dict[str, list[int]] = {}
    for at, topic in enumerate(written):
        topics.setdefault(topic, []).append(at)
    for topic, rows in topics.items():
        _, *columns = zip(*map(produced.__getitem__, rows), strict=True)
        yield topic, columns, order.take(np.asarray(rows))


def _portable(column: list[Any], serde: Any) -> list[Any]:
    """A column whose items can be rebuilt in any process: builtin values as they are, all else as bytes."""
    if set(map(type, column)) <= _PORTABLE:
        return column
    return [item if type(item) in _PORTABLE else SerializedValue(to_bytes(serde, item) or b"") for item in column]


def _as_bytes(column: list[Any], serde: Any) -> list[Any]:
    return [None if item is None else SerializedValue(item) for item in to_kafka(column, serde)]
