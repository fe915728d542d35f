"""The merge of everything that came for a task, by order key: the canonical order, whoever sent it.

Records of one root and depth that lie in several partitions go as the queues of a task would have them: least head
first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from kstreamnb.core.record import Headers
from kstreamnb.spark.execution.record_batch import Numbers, OrderKey, RecordBatch

__all__ = ["Arrival", "Merged", "Place", "Positions", "Taken", "place_of"]

Place = tuple[str, int]
"""Topic and partition."""

Positions = dict[Place, int]
"""The next offset of each partition of an internal topic: how many of its records the task has seen."""

Taken = tuple[int, int, Any, Any, Headers]
"""A record as a task takes it: ``(offset, timestamp, key, value, headers)``."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A parcel with its producer (a lane of an input partition, or a task) and its number among that producer's."""

    source: int
    seq: int
    parcel: RecordBatch


def place_of(parcel: RecordBatch) -> Place:
    """Where the records of a parcel lie that is addressed to a task."""
    if not isinstance(parcel.partition, int):
        raise TypeError(f"a parcel for a task has one partition; {parcel.topic} has a column of them")
    return parcel.topic, parcel.partition


class Merged:
    """Records of several parcels in canonical order.

    ``places`` are their partitions, ``where`` the rank of each record's among them, and ``index`` the positions of
    the records in order. ``counted`` are the ranks of partitions whose records know their offsets.
    """

    def __init__(self, arrivals: list[Arrival]) -> None:
        arrivals = sorted(arrivals, key=lambda arrival: (arrival.source, arrival.seq))
        self.single = len({(place_of(a.parcel), a.source) for a in arrivals}) == 1
        self.places = sorted({place_of(arrival.parcel) for arrival in arrivals})
        rank = {place: number for number, place in enumerate(self.places)}
        self.counted = {rank[place_of(a.parcel)] for a in arrivals if a.parcel.offsets is not None}
        self.order = OrderKey.concat([arrival.parcel.order for arrival in arrivals])
        self.records: list[Taken] = []
        for arrival in arrivals:
            self.records += arrival.parcel.records()
        self.where: Numbers = np.concatenate(
            [np.full(len(a.parcel), rank[place_of(a.parcel)], np.int64) for a in arrivals]
        )
        if self.single:
            self.index: Numbers = np.arange(len(self.records))
            return
        source = np.concatenate([np.full(len(arrival.parcel), arrival.source) for arrival in arrivals])
        order = self.order
        self.index = np.lexsort((np.arange(len(source)), source, order.depth, order.offset, order.lane, order.m))

    def number(self, positions: Positions) -> None:
        """Give records of internal topics their offsets, in the order in which they lie in their partition."""
        records = self.records
        for rank, place in enumerate(self.places):
            if rank in self.counted:
                continue
            mine = self.index if self.single else self.index[self.where[self.index] == rank]
            first = positions.get(place, 0)
            positions[place] = first + len(mine)
            for offset, at in enumerate(mine.tolist(), first):
                records[at] = (offset, *records[at][1:])

    def runs(self) -> Iterator[tuple[Place, list[Taken], OrderKey]]:
        """The records in order, cut wherever the partition changes."""
        if self.single:
            yield self.places[0], self.records, self.order
            return
        index = _least_head_first(self.index, self.order, self.where, self.records)
        where = self.where[index]
        cuts = [0, *(np.flatnonzero(np.diff(where)) + 1).tolist(), len(where)]
        for begin, end in pairwise(cuts):
            part = index[begin:end]
            yield self.places[int(where[begin])], [self.records[at] for at in part.tolist()], self.order.take(part)

    def roots(self) -> Iterator[tuple[list[tuple[int, Place, Taken, bool]], OrderKey]]:
        """The records of each root together, as (depth, place, record, whether its offset is known)."""
        sorted_ = self.order.take(self.index)
        same = (np.diff(sorted_.m) == 0) & (np.diff(sorted_.lane) == 0) & (np.diff(sorted_.offset) == 0)
        cuts = [0, *(np.flatnonzero(~same) + 1).tolist(), len(self.index)]
        for begin, end in pairwise(cuts):
            found = []
            for at in self.index[begin:end].tolist():
                rank = int(self.where[at])
                found.append((int(self.order.depth[at]), self.places[rank], self.records[at], rank in self.counted))
            yield found, sorted_.take(slice(begin, begin + 1))


def _least_head_first(index: Numbers, order: OrderKey, where: Numbers, records: list[Taken]) -> Numbers:
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


def _by_heads(group: list[int], where: Numbers, records: list[Taken]) -> list[int]:
    greatest: dict[int, int] = {}
    keys: dict[int, tuple[int, int]] = {}
    for at in group:
        place = int(where[at])
        greatest[place] = max(greatest.get(place, -1), records[at][1])
        keys[at] = (greatest[place], place)
    return sorted(group, key=keys.__getitem__)
