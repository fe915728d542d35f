"""What a batch gave: output in canonical order, reports of tasks, and the failure that ends it, if there is one."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from kstreamnb.core.record import Headers
from kstreamnb.spark.failure import raise_first
from kstreamnb.spark.level import DELTA, FAILURE, OUT, REPORT
from kstreamnb.spark.parcel import Order, Parcel, unpack

__all__ = ["BatchOutput", "Produced6", "merge_parcels"]

Produced6 = tuple[str, int, int, Any, Any, Headers]
"""``(topic, partition, timestamp, key, value, headers)``."""


@dataclass
class BatchOutput:
    """The rows that came out of the last level, sorted out by what they are.

    ``deltas`` are changes of tasks' states as (producer, number of the entry in its log, delta).
    """

    parcels: dict[tuple[int, str], list[tuple[int, int, Parcel]]] = field(default_factory=dict)
    reports: list[dict[str, Any]] = field(default_factory=list)
    deltas: list[tuple[int, int, bytes]] = field(default_factory=list)

    @classmethod
    def of(cls, table: pa.Table, owners: list[int]) -> BatchOutput:
        """Read a batch's rows; ``owners`` gives the application of each producer.

        Raises: the failure of a task, with the user's exception as its cause.
        """
        found = cls()
        failures = []
        columns = [table.column(name).to_pylist() for name in ("target", "source", "seq", "blob")]
        for target, source, seq, blob in zip(*columns, strict=True):
            if target == OUT:
                parcel = unpack(blob)
                found.parcels.setdefault((owners[source], parcel.topic), []).append((source, seq, parcel))
            elif target == REPORT:
                found.reports.append(pickle.loads(blob))
            elif target == DELTA:
                found.deltas.append((source, seq, blob))
            elif target == FAILURE:
                failures.append(blob)
        if failures:
            raise_first(failures)
        return found

    def records(self, application: int = 0) -> Iterator[Produced6]:
        """The records of an application, by topic; those of each partition in canonical order."""
        mine = [key for key in sorted(self.parcels) if key[0] == application]
        return chain.from_iterable(merge_parcels(key[1], self.parcels[key]) for key in mine)

    def count(self) -> int:
        """Number of output records."""
        return sum(len(parcel) for group in self.parcels.values() for _, _, parcel in group)


def merge_parcels(topic: str, parcels: Iterable[tuple[int, int, Parcel]]) -> Iterator[Produced6]:
    """The records of one topic from (producer, number, parcel), those of each partition in canonical order."""
    parcels = sorted(parcels, key=lambda each: each[:2])
    rows: list[Produced6] = []
    places: set[tuple[int, int]] = set()
    for source, _, parcel in parcels:
        count = len(parcel)
        headers = [()] * count if parcel.headers is None else parcel.headers
        if isinstance(parcel.partition, int):
            partitions = [parcel.partition] * count
        else:
            partitions = parcel.partition.tolist()
        places.update((partition, source) for partition in set(partitions))
        rows.extend(
            zip(
                [topic] * count,
                partitions,
                parcel.timestamps.tolist(),
                parcel.keys,
                parcel.values,
                headers,
                strict=True,
            )
        )
    if len({partition for partition, _ in places}) == len(places):
        return iter(rows)  # every partition has one producer only, whose records are in order
    order = Order.concat([parcel.order for _, _, parcel in parcels])
    producer = np.concatenate([np.full(len(parcel), number) for number, _, parcel in parcels])
    index = np.lexsort((np.arange(len(rows)), producer, order.depth, order.offset, order.lane, order.m))
    return map(rows.__getitem__, index.tolist())
