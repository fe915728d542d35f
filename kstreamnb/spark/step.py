"""One task through one micro-batch: merge what came in, run the task, pack what it produced.

The same function serves streaming queries and runs over static DataFrames. It knows parcels and tasks, not Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from kstreamnb.core.wire import Encoded, to_bytes
from kstreamnb.spark.parcel import COMMIT, WALL, Numbers, Order, Parcel, to_kafka

__all__ = ["Arrival", "Outlets", "Positions", "commit", "place_of", "run_parcels"]

Positions = dict[tuple[str, int], int]
"""The next offset of each partition of an internal topic: how many of its records the task has seen."""

_PORTABLE = frozenset({str, int, float, bool, bytes, type(None), Encoded})


@dataclass(frozen=True, slots=True)
class Arrival:
    """A parcel with its producer (a lane of an input partition, or a task) and its number among that producer's."""

    source: int
    seq: int
    parcel: Parcel


@dataclass(frozen=True)
class Outlets:
    """How the records that one sub-topology produces are packed.

    ``serdes`` of the topics whose records are in plain wire form; ``inner`` topics stay inside the query; ``direct``
    are those among them that are the user's own, whose readers may have other serdes; ``kafka``: all other topics'
    records leave as Kafka's bytes.
    """

    serdes: Mapping[str, tuple[Any, Any]]
    inner: frozenset[str]
    direct: frozenset[str]
    kafka: bool

    def parcel(self, topic: str, partition: int | Numbers, order: Order, columns: Sequence[Sequence[Any]]) -> Parcel:
        """A parcel from the columns timestamp, key, value and headers of produced records."""
        timestamps, keys, values, headers = columns
        key_serde, value_serde = self.serdes.get(topic, (None, None))
        leaves = self.kafka and topic not in self.inner
        shape = to_kafka if leaves else _as_bytes if topic in self.direct else _portable
        return Parcel(
            topic,
            partition,
            order,
            np.asarray(timestamps, np.int64),
            shape(list(keys), key_serde),
            shape(list(values), value_serde),
            list(headers) if any(headers) else None,
            kafka=leaves,
        )


def run_parcels(task: Any, arrivals: list[Arrival], positions: Positions, outlets: Outlets) -> list[Parcel]:
    """Feed a task everything that arrived, in canonical order, and give what it produced."""
    marks: list[int] = []
    orders: list[Order] = []
    for topic, partition, records, order in _runs(arrivals, positions):
        if topic == WALL:
            _tick(task, records, marks)
        else:
            task.run(topic, partition, records, marks)
        orders.append(order)
    if not orders:
        return []
    order = Order.concat(orders)
    made = np.asarray([0, *marks], np.int64)
    counts = made[1:] - made[:-1]
    return _parcels(task.drain(), _deep(task, order if (counts == 1).all() else order.take(_causes(counts))), outlets)


def commit(task: Any, outlets: Outlets) -> list[Parcel]:
    """Flush caches at the end of a batch."""
    task.commit()
    for store in task.stores.values():
        if hasattr(store, "clear_cache"):
            store.clear_cache()  # a task that is rebuilt elsewhere has no cache: neither may this one go on with it
    produced = task.drain()
    return _parcels(produced, _deep(task, Order.of_root(COMMIT, len(produced))), outlets)


def _deep(task: Any, order: Order) -> Order:
    """The order keys of produced records, those that went round in a circle deeper by their rounds."""
    take: Callable[[], list[int]] | None = getattr(task, "take_depths", None)
    if take is None:
        return order
    return Order(order.m, order.lane, order.offset, order.depth + np.asarray(take(), np.int64))


def _tick(task: Any, ticks: list[Any], marks: list[int]) -> None:
    clock = task.scope.clock
    for _, now_ms, key, _, _ in ticks:
        clock.now_ms = max(clock.now_ms, now_ms)
        if key != "set":
            task.punctuate_wall_clock()
        marks.append(task.produced)


def _causes(counts: Numbers) -> Numbers:
    return np.repeat(np.arange(len(counts)), counts)


def _runs(
    arrivals: list[Arrival], positions: Positions
) -> Iterator[tuple[str, int, list[tuple[int, int, Any, Any, Any]], Order]]:
    """Records in canonical order, cut wherever the topic partition changes."""
    arrivals.sort(key=lambda arrival: (arrival.source, arrival.seq))
    places = sorted({(a.parcel.topic, place_of(a.parcel)) for a in arrivals})
    if len(places) == 1 and len({a.source for a in arrivals}) == 1:
        for arrival in arrivals:
            parcel = arrival.parcel
            yield *places[0], _numbered(parcel, places[0], positions), parcel.order
        return
    yield from _merged(arrivals, places, positions)


def place_of(parcel: Parcel) -> int:
    """The one partition of a parcel that is addressed to a task."""
    if not isinstance(parcel.partition, int):
        raise TypeError(f"a parcel for a task has one partition; {parcel.topic} has a column of them")
    return parcel.partition


def _numbered(parcel: Parcel, place: tuple[str, int], positions: Positions) -> list[tuple[int, int, Any, Any, Any]]:
    if parcel.offsets is not None:
        return parcel.records()
    first = positions.get(place, 0)
    positions[place] = first + len(parcel)
    return parcel.records(first)


def _merged(
    arrivals: list[Arrival], places: list[tuple[str, int]], positions: Positions
) -> Iterator[tuple[str, int, list[tuple[int, int, Any, Any, Any]], Order]]:
    """The merge of several producers or partitions by order key, then by producer."""
    rank = {place: number for number, place in enumerate(places)}
    order = Order.concat([a.parcel.order for a in arrivals])
    where = np.concatenate([np.full(len(a.parcel), rank[a.parcel.topic, place_of(a.parcel)]) for a in arrivals])
    source = np.concatenate([np.full(len(a.parcel), a.source) for a in arrivals])
    index = np.lexsort((np.arange(len(source)), source, order.depth, order.offset, order.lane, order.m))
    records: list[tuple[int, int, Any, Any, Any]] = []
    for arrival in arrivals:
        records += arrival.parcel.records()
    real = {rank[a.parcel.topic, place_of(a.parcel)] for a in arrivals if a.parcel.offsets is not None}
    _number(records, index, where, [place for n, place in enumerate(places) if n not in real], rank, positions)
    index = _least_head_first(index, order, where, records)
    where = where[index]
    cuts = [0, *(np.flatnonzero(np.diff(where)) + 1).tolist(), len(where)]
    for begin, end in pairwise(cuts):
        part = index[begin:end]
        yield *places[int(where[begin])], [records[i] for i in part.tolist()], order.take(part)


def _number(
    records: list[Any],
    index: Numbers,
    where: Numbers,
    places: Iterable[tuple[str, int]],
    rank: dict[tuple[str, int], int],
    positions: Positions,
) -> None:
    """Give records of internal topics their offsets, in the order in which they lie in their partition."""
    for place in places:
        mine = index[where[index] == rank[place]].tolist()
        first = positions.get(place, 0)
        positions[place] = first + len(mine)
        for offset, at in enumerate(mine, first):
            records[at] = (offset, *records[at][1:])


def _least_head_first(index: Numbers, order: Order, where: Numbers, records: list[Any]) -> Numbers:
    """Order records of one root and depth that lie in several partitions as the queues of a task would."""
    sorted_ = order.take(index)
    same = (
        (np.diff(sorted_.m) == 0)
        & (np.diff(sorted_.lane) == 0)
        & (np.diff(sorted_.offset) == 0)
        & (np.diff(sorted_.depth) == 0)
    )
    if not (same & (np.diff(where[index]) != 0)).any():
        return index
    result = index.tolist()
    starts = [0, *(np.flatnonzero(~same) + 1).tolist(), len(result)]
    for begin, end in pairwise(starts):
        group = result[begin:end]
        if end - begin > 1 and len({int(where[at]) for at in group}) > 1:
            result[begin:end] = _by_heads(group, where, records)
    return np.asarray(result)


def _by_heads(group: list[int], where: Numbers, records: list[Any]) -> list[int]:
    greatest: dict[int, int] = {}
    keys: dict[int, tuple[int, int]] = {}
    for at in group:
        place = int(where[at])
        greatest[place] = max(greatest.get(place, -1), records[at][1])
        keys[at] = (greatest[place], place)
    return sorted(group, key=keys.__getitem__)


def _parcels(produced: list[Any], order: Order, outlets: Outlets) -> list[Parcel]:
    """Produced records as parcels: one a topic, and one a partition where it is an internal topic."""
    if not produced:
        return []
    topics: dict[str, list[int]] = {}
    for at, record in enumerate(produced):
        topics.setdefault(record[0], []).append(at)
    parcels: list[Parcel] = []
    for topic, rows in topics.items():
        everything = len(rows) == len(produced)
        chosen = produced if everything else [produced[at] for at in rows]
        keys = order if everything else order.take(np.asarray(rows))
        _, partitions, *columns = zip(*chosen, strict=True)
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


def _portable(column: list[Any], serde: Any) -> list[Any]:
    """A column whose items can be rebuilt in any process: builtin values as they are, all else as bytes."""
    if set(map(type, column)) <= _PORTABLE:
        return column
    return [item if type(item) in _PORTABLE else Encoded(to_bytes(serde, item) or b"") for item in column]


def _as_bytes(column: list[Any], serde: Any) -> list[Any]:
    return [None if item is None else Encoded(item) for item in to_kafka(column, serde)]
