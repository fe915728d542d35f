"""Merge the records that arrive for a task by order key: the canonical order, independent of their producers.

Records of one root and depth in several partitions are ordered as a task's queues would be: lowest head first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from kstreamnb.runtime.context.record_context import Partition, WireRecord
from kstreamnb.runtime.task.open_loops import PartitionRecord
from kstreamnb.spark.execution.record_batch import WALL, Numbers, OrderKey, RecordBatch, stretches

Positions: TypeAlias = dict[Partition, int]
"""The next offset of each partition of an internal topic: how many of its records the task has seen."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A record batch, its producer (the rank of an input partition, or a task), and its number among the producer's."""

    source: int
    seq: int
    batch: RecordBatch

    def __len__(self) -> int:
        return len(self.batch)

    def part(self, begin: int, end: int) -> Arrival:
        """Return the records from one position to another."""
        return replace(self, batch=self.batch.part(begin, end))

    def position(self, border: tuple[int, ...]) -> int:
        """Count the records before an order key."""
        return self.batch.order.position(border)


def partition_of(batch: RecordBatch) -> Partition:
    """Return the partition of a record batch that is addressed to a task."""
    if not isinstance(batch.partition, int):
        raise TypeError(f"expected a record batch of one partition of {batch.topic}, got a column of partitions")
    return batch.topic, batch.partition


class Merged:
    """Records of several batches in canonical order.

    ``partitions`` are their partitions, ``ranks`` the rank of each record's partition, and ``index`` the positions of
    the records in order. ``counted`` are the ranks of partitions whose records know their offsets, and ``wall`` is that
    of the wall clock, -1 without one. Offsets that records do not know are zeros until `number` is called.
    """

    def __init__(self, arrivals: list[Arrival]) -> None:
        arrivals = sorted(arrivals, key=lambda arrival: (arrival.source, arrival.seq))
        self.single = len({(partition_of(a.batch), a.source) for a in arrivals}) == 1
        self.partitions = sorted({partition_of(arrival.batch) for arrival in arrivals})
        rank = {partition: number for number, partition in enumerate(self.partitions)}
        self.wall = rank.get((WALL, 0), -1)
        self.counted = {rank[partition_of(a.batch)] for a in arrivals if a.batch.offsets is not None}
        self.order = OrderKey.concat([arrival.batch.order for arrival in arrivals])
        self._batches = [arrival.batch for arrival in arrivals]
        self._offsets: Numbers = np.zeros(len(self.order), np.int64)
        ranks = [np.full(len(each.batch), rank[partition_of(each.batch)], np.int64) for each in arrivals]
        self.ranks: Numbers = np.concatenate(ranks)
        if self.single:
            self.index: Numbers = np.arange(len(self.order))
            return
        source = np.concatenate([np.full(len(arrival.batch), arrival.source) for arrival in arrivals])
        self.index = self.order.sorted_index(source)

    @cached_property
    def records(self) -> list[WireRecord]:
        """The records in the order of arrival."""
        parts = np.split(self._offsets, np.cumsum([len(batch) for batch in self._batches])[:-1])
        batches = zip(self._batches, parts, strict=True)
        return [*chain.from_iterable(batch.records(offsets) for batch, offsets in batches)]

    def number(self, positions: Positions) -> None:
        """Give records of internal topics their offsets, in the order of their partition."""
        for rank, partition in enumerate(self.partitions):
            if rank in self.counted:
                continue
            index = self.index if self.single else self.index[self.ranks[self.index] == rank]
            first = positions.get(partition, 0)
            positions[partition] = first + len(index)
            self._offsets[index] = np.arange(first, first + len(index))

    def parts(self) -> Iterator[tuple[Numbers, list[WireRecord], OrderKey]]:
        """Yield ranks, records and order keys in order, ticks of the wall clock apart from other records."""
        if self.single:
            yield self.ranks, self.records, self.order
            return
        index = _least_head_first(self.index, self.order, self.ranks, self.records)
        for begin, end in stretches(np.diff(self.ranks[index] == self.wall)):
            part = index[begin:end]
            yield self.ranks[part], list(map(self.records.__getitem__, part.tolist())), self.order.take(part)

    def roots(self) -> tuple[list[list[tuple[int, PartitionRecord]]], OrderKey]:
        """Return the records of each root together, with their depths, and the order keys of the roots.

        Records of inner topics are rows, because the task that reads them counts their offsets.
        """
        order = self.order.take(self.index)
        records = []
        for at, depth in zip(self.index.tolist(), order.depth.tolist(), strict=True):
            rank, record = int(self.ranks[at]), self.records[at]
            partition = self.partitions[rank]
            records.append((depth, (partition, record if rank in self.counted else (*partition, *record[1:]))))
        bounds = [*stretches(order.changes(by_depth=False))]
        return [records[begin:end] for begin, end in bounds], order.take(np.asarray([begin for begin, _ in bounds]))


def _least_head_first(index: Numbers, order: OrderKey, ranks: Numbers, records: list[WireRecord]) -> Numbers:
    """Order records of one root and depth in several partitions as the queues of a task would."""
    changes = order.take(index).changes(by_depth=True)
    if not (~changes & (np.diff(ranks[index]) != 0)).any():
        return index
    result = index.tolist()
    for begin, end in stretches(changes):
        group = result[begin:end]
        if end - begin > 1 and len({int(ranks[at]) for at in group}) > 1:
            result[begin:end] = _by_heads(group, ranks, records)
    return np.asarray(result)


def _by_heads(group: list[int], ranks: Numbers, records: list[WireRecord]) -> list[int]:
    arrivals = [(int(ranks[at]), records[at]) for at in group]
    return [group[at] for at in least_heads(arrivals, lambda rank: 0)]


def least_heads(arrivals: Sequence[tuple[Any, Any]], reader_of: Callable[[Any], int]) -> list[int]:
    """Return the order in which tasks take records of several partitions: by task, then by their partitions' heads.

    Args:
        arrivals: partitions and their records.
        reader_of: returns the index of the task that reads a partition.
    """
    greatest: dict[Any, int] = {}
    keys = []
    for partition, record in arrivals:  # a late record counts as new as the one before it
        greatest[partition] = time = max(record[-4], greatest.get(partition, record[-4]))
        keys.append((reader_of(partition), time, partition))
    return sorted(range(len(keys)), key=keys.__getitem__)
