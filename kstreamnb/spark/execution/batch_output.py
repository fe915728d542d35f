"""The output of a micro-batch in canonical order, the reports of its tasks, and the failure that ends it."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kstreamnb.kafka.output_batch import OutputColumns, OutputRecord
from kstreamnb.spark.execution.failures import raise_first
from kstreamnb.spark.execution.record_batch import Numbers, OrderKey, RecordBatch, repeated, unpack
from kstreamnb.spark.execution.rows import DELTA, FAILURE, OUT, PUBLISHED, REMOVED, REPORT, TaskReport
from kstreamnb.topology.nodes import grouped


class PublishedSlot(NamedTuple):
    """Records of one slot of a batch that an executor has published, in this attempt or an earlier one.

    ``times`` are count, sum, minimum and maximum of the records' timestamps, in ms; ``process`` names the process that
    has the slot open now.
    """

    slot: int
    records: int
    checksum: str
    differs: bool
    times: tuple[int, int, int, int]
    process: str


@dataclass
class BatchOutput:
    """The rows of the last level by kind.

    ``batches`` are record batches with producer and number, by application and topic; ``deltas`` are changes of tasks'
    states as (producer, number of the entry in its log, delta); ``published`` is what executors have published instead;
    ``removed`` is input that was gone before it was read, as (topic, partition, first offset, the one after the last).
    """

    batches: dict[tuple[int, str], list[tuple[int, int, RecordBatch]]] = field(default_factory=dict)
    reports: list[TaskReport] = field(default_factory=list)
    deltas: list[tuple[int, int, bytes]] = field(default_factory=list)
    published: list[PublishedSlot] = field(default_factory=list)
    removed: list[tuple[str, int, int, int]] = field(default_factory=list)

    @classmethod
    def of(cls, table: pa.Table, owners: list[int]) -> BatchOutput:
        """Read a batch's rows; ``owners`` gives the application of each producer.

        Raises: the failure of a task, with the user's exception as its cause.
        """
        columns = [table.column(name).to_pylist() for name in ("target", "source", "seq", "blob")]
        rows: dict[int, list[Any]] = grouped(zip(*columns, strict=True), itemgetter(0))
        if FAILURE in rows:
            raise_first([blob for *_, blob in rows[FAILURE]])

        def loaded(target: int) -> list[Any]:
            return [pickle.loads(blob) for *_, blob in rows.get(target, ())]

        output = cls({}, loaded(REPORT), [row[1:] for row in rows.get(DELTA, ())], loaded(PUBLISHED))
        output.removed.extend(chain.from_iterable(loaded(REMOVED)))
        for _, source, seq, blob in rows.get(OUT, ()):
            batch = unpack(blob)
            output.batches.setdefault((owners[source], batch.topic), []).append((source, seq, batch))
        return output

    def columns(self, application: int = 0) -> Iterator[OutputColumns]:
        """Return the records of an application by topic; those of each partition in canonical order."""
        own = [key for key in sorted(self.batches) if key[0] == application]
        return chain.from_iterable(merge_columns(key[1], self.batches[key]) for key in own)

    def records(self, application: int = 0) -> Iterator[OutputRecord]:
        """Return the same, record by record."""
        return chain.from_iterable(columns.records() for columns in self.columns(application))

    def times(self) -> list[tuple[int, int, int, int]]:
        """Return count, sum, minimum and maximum of timestamps, in ms, for each part of the output."""
        here = [[each for _, _, each in group if len(each)] for group in self.batches.values()]
        return [*map(times_of, filter(None, here)), *(slot.times for slot in self.published)]

    def count(self) -> int:
        """Number of output records."""
        return sum(len(batch) for group in self.batches.values() for _, _, batch in group)


def times_of(batches: Iterable[RecordBatch]) -> tuple[int, int, int, int]:
    """Return count, sum, minimum and maximum of the timestamps of some records, in ms."""
    stamps = np.concatenate([each.timestamps for each in batches])
    total = int(stamps.sum(dtype=np.float64))  # 64 bits are too few for the sum of a few thousand times in µs
    return len(stamps), total, int(stamps.min()), int(stamps.max())


def merge_columns(topic: str, batches: Iterable[tuple[int, int, RecordBatch]]) -> list[OutputColumns]:
    """Merge the records of one topic from (producer, number, batch), those of each partition in canonical order.

    Partitions with a single producer need no merge.
    """
    batches = sorted(batches, key=lambda each: each[:2])
    columns = [
        OutputColumns(topic, repeated(each.partition, len(each)), each.timestamps, each.keys, each.values, each.headers)
        for _, _, each in batches
    ]
    sources = [source for source, _, _ in batches]
    numbers = [set(each.partitions.tolist()) for each in columns]
    partitions = {(partition, source) for source, each in zip(sources, numbers, strict=True) for partition in each}
    if len({partition for partition, _ in partitions}) == len(partitions):
        return columns
    order = OrderKey.concat([batch.order for _, _, batch in batches])
    producer = np.concatenate([np.full(len(batch), number) for number, _, batch in batches])
    return [_taken(topic, columns, order.sorted_index(producer))]


def _taken(topic: str, columns: list[OutputColumns], index: Numbers) -> OutputColumns:
    """Return the records at some positions of several consecutive columns."""

    def chosen(parts: Iterable[list[Any]]) -> list[Any]:
        return list(map(list(chain.from_iterable(parts)).__getitem__, index.tolist()))

    known = any(each.headers is not None for each in columns)
    headers = chosen(each.headers or [()] * len(each.keys) for each in columns) if known else None
    partitions = np.concatenate([each.partitions for each in columns])[index]
    timestamps = np.concatenate([each.timestamps for each in columns])[index]
    keys, values = chosen(each.keys for each in columns), chosen(each.values for each in columns)
    return OutputColumns(topic, partitions, timestamps, keys, values, headers)
