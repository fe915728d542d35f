"""The record in hand: which one a task is at, and where it came from.

In bulk nothing is noted for each record: the cursor finds the present one, and where it came from, by how far the
iterator over its batch has come.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import length_hint
from typing import Any, TypeAlias

from kstreamnb.core.record import RecordMetadata

WireRecord: TypeAlias = tuple[int, int, Any, Any, Any]
"""``(offset, timestamp, key, value, headers)`` with key and value in wire form."""

Partition: TypeAlias = tuple[str, int]
"""Topic and partition."""

Place: TypeAlias = tuple[str | None, int, str, int | None]
"""``(topic, partition, source node, offset)``; the offset is None where the record itself has it."""

NO_RECORD: WireRecord = (-1, -1, None, None, ())
"""Stands for the record in hand where there is none."""


class Batch:
    """Records of one partition, to be taken from ``iterator``; topic records where their first offset is said."""

    def __init__(self, records: Sequence[Any], topic: str, partition: int, source: str, first: int | None) -> None:
        self.records, self.iterator = records, iter(records)
        self._place, self._first = (topic, partition, source), first

    def index(self) -> int:
        """Index of the record that was taken last; -1 before the first."""
        return len(self.records) - length_hint(self.iterator) - 1

    def taken(self, topic: str, partition: int) -> int:
        """How many records of a partition were taken."""
        return self.index() + 1

    def place_of(self, index: int) -> Place:
        """Where a record comes from."""
        return *self._place, None if self._first is None else self._first + index


class RecordContext:
    """Where a task is; ``raw`` is the record in hand as it came, if that differs."""

    __slots__ = ("_batch", "_place", "_record", "raw")

    def __init__(self) -> None:
        self.leave()

    @property
    def topic(self) -> str | None:
        """Topic of the record in hand."""
        return self._find()[0]

    @property
    def partition(self) -> int:
        """Partition of the record in hand."""
        return self._find()[1]

    @property
    def source(self) -> str:
        """The node that took the record in hand."""
        return self._find()[2]

    def leave(self) -> None:
        """No record is in hand."""
        self.at(NO_RECORD, None, -1, "")

    def at(self, record: WireRecord, topic: str | None, partition: int, source: str) -> None:
        """One record is in hand."""
        self._record, self._place = record, (topic, partition, source, None)
        self._batch: Batch | None = None
        self.raw: WireRecord | None = None

    def step(self, record: WireRecord) -> None:
        """The next record of the same partition is in hand."""
        self._record = record

    def came_as(self, topic: str, raw: WireRecord) -> None:
        """The next record comes from a topic, where it looked like ``raw``."""
        self._place, self.raw = (topic, *self._place[1:]), raw

    def within(self, batch: Batch) -> None:
        """The record of a batch that was taken last is in hand."""
        self.leave()
        self._batch = batch

    def record(self) -> WireRecord:
        """The record in hand."""
        batch = self._batch
        if batch is None or (index := batch.index()) < 0:
            return self._record
        record, offset = batch.records[index], batch.place_of(index)[3]
        return record if offset is None else (offset, record.timestamp, record.key, record.value, record.headers)

    def metadata(self) -> RecordMetadata:
        """Topic, partition and offset of the record in hand."""
        return RecordMetadata(self.topic, self.partition, self.record()[0])

    def hold(self) -> tuple[Any, ...]:
        """All that `give_back` needs."""
        return self._record, self._batch, self.raw, self._place

    def give_back(self, held: tuple[Any, ...]) -> None:
        """Be where it was."""
        self._record, self._batch, self.raw, self._place = held

    def _find(self) -> Place:
        return self._place if self._batch is None else self._batch.place_of(max(self._batch.index(), 0))
