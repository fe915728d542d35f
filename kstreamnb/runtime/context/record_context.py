"""The record that a task is processing, and its origin.

In bulk nothing is recorded for each record: the context derives the current record from the position of the iterator
over its batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import length_hint
from typing import Any, TypeAlias

from kstreamnb.core.record import Headers, RecordMetadata

WireRecord: TypeAlias = tuple[int, int, Any, Any, Headers]
"""``(offset, timestamp, key, value, headers)`` with key and value in wire form."""

Partition: TypeAlias = tuple[str, int]
"""Topic and partition."""

RecordPosition: TypeAlias = tuple[str | None, int, str, int | None]
"""``(topic, partition, source node, offset)``; the offset is None if the record itself has it."""

NO_RECORD: WireRecord = (-1, -1, None, None, ())
"""Stands for the current record if there is none."""


class Batch:
    """Records of one partition, to be taken from ``iterator``.

    They are wire records, or, if ``first``, an offset, is given, any tuples that end with the last four fields of one.
    """

    def __init__(self, records: Sequence[Any], topic: str, partition: int, source: str, first: int | None) -> None:
        self.records, self.iterator, self.last = records, iter(records), len(records) - 1
        self._position, self._first = (topic, partition, source), first

    def index(self) -> int:
        """Index of the record that was taken last; -1 before the first."""
        return self.last - length_hint(self.iterator)

    def taken(self, topic: str, partition: int) -> int:
        """Return how many records of a partition were taken."""
        return self.index() + 1

    def position_of(self, index: int) -> RecordPosition:
        """Return the position of a record."""
        return *self._position, None if self._first is None else self._first + index

    def metadata(self) -> RecordMetadata:
        """Return topic, partition and offset of the record that was taken last."""
        index = self.index()
        topic, partition, _, offset = self.position_of(max(index, 0))
        own = -1 if index < 0 else self.records[index][0] if offset is None else offset
        return RecordMetadata(topic, partition, own)


class RecordContext:
    """The record that a task is processing; ``raw`` is its form before it was decoded, if that differs."""

    __slots__ = ("_batch", "_position", "_record", "raw")

    def __init__(self) -> None:
        self.clear()

    @property
    def topic(self) -> str | None:
        """Topic of the current record."""
        return self._current_position()[0]

    @property
    def partition(self) -> int:
        """Partition of the current record."""
        return self._current_position()[1]

    @property
    def source(self) -> str:
        """The source node of the current record."""
        return self._current_position()[2]

    def clear(self) -> None:
        """Process no record."""
        self.set(NO_RECORD, None, -1, "")

    def set(self, record: WireRecord, topic: str | None, partition: int, source: str) -> None:
        """Process one record."""
        self._record, self._position = record, (topic, partition, source, None)
        self._batch: Batch | None = None
        self.raw: WireRecord | None = None

    def advance(self, record: WireRecord) -> None:
        """Process the next record of the same partition."""
        self._record = record

    def set_origin(self, topic: str, raw: WireRecord) -> None:
        """Set the topic and the undecoded form of the next record."""
        self._position, self.raw = (topic, *self._position[1:]), raw

    def set_batch(self, batch: Batch) -> None:
        """Process the records of a batch: the current one is the one that was taken last."""
        self.clear()
        self._batch = batch

    def record(self) -> WireRecord:
        """Return the current record."""
        batch = self._batch
        if batch is None or (index := batch.index()) < 0:
            return self._record
        record, offset = batch.records[index], batch.position_of(index)[3]
        return record if offset is None else (offset, *record[-4:])

    def metadata(self) -> RecordMetadata:
        """Return topic, partition and offset of the current record."""
        if (batch := self._batch) is not None:
            return batch.metadata()
        return RecordMetadata(*self._position[:2], self._record[0])

    def save(self) -> tuple[Any, ...]:
        """Return everything that `restore` needs."""
        return self._record, self._batch, self.raw, self._position

    def restore(self, saved: tuple[Any, ...]) -> None:
        """Return to a saved record."""
        self._record, self._batch, self.raw, self._position = saved

    def _current_position(self) -> RecordPosition:
        batch = self._batch
        return self._position if batch is None else batch.position_of(max(batch.index(), 0))
