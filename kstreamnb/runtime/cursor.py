"""The record in hand: which one a task is at, and where it came from.

In bulk nothing is noted for each record: the cursor finds the present one by how far the iterator over its batch
has come.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import length_hint
from typing import Any, TypeAlias

from kstreamnb.core.record import RecordMetadata

WireRecord: TypeAlias = tuple[int, int, Any, Any, Any]
"""``(offset, timestamp, key, value, headers)`` with key and value in wire form."""

NO_RECORD: WireRecord = (-1, -1, None, None, ())
"""Stands for the record in hand where there is none."""


class Cursor:
    """Where a task is: ``source`` is the node that took the record, ``raw`` the record as it came if that differs."""

    __slots__ = ("_batch", "_record", "partition", "raw", "source", "topic")

    def __init__(self) -> None:
        self.leave()

    def leave(self) -> None:
        """No record is in hand."""
        self.at(NO_RECORD, None, -1, "")

    def at(self, record: WireRecord, topic: str | None, partition: int, source: str) -> None:
        """One record is in hand."""
        self._record = record
        self._batch: tuple[Sequence[Any], Iterator[Any], int | None] | None = None
        self.raw: WireRecord | None = None
        self.topic, self.partition, self.source = topic, partition, source

    def step(self, record: WireRecord) -> None:
        """The next record of the same partition is in hand."""
        self._record = record

    def within(
        self, batch: Sequence[Any], iterator: Iterator[Any], topic: str, partition: int, source: str, first: int | None
    ) -> None:
        """The record that ``iterator`` gave last is in hand; ``first`` is the offset of a batch of topic records."""
        self.at(NO_RECORD, topic, partition, source)
        self._batch = batch, iterator, first

    def record(self) -> WireRecord:
        """The record in hand."""
        if self._batch is None:
            return self._record
        batch, iterator, first = self._batch
        index = len(batch) - length_hint(iterator) - 1
        if index < 0:
            return NO_RECORD
        record: Any = batch[index]
        if first is None:
            return record  # type: ignore[no-any-return]
        return first + index, record.timestamp, record.key, record.value, record.headers

    def metadata(self) -> RecordMetadata:
        """Topic, partition and offset of the record in hand."""
        return RecordMetadata(self.topic, self.partition, self.record()[0])

    def hold(self) -> tuple[Any, ...]:
        """All that `give_back` needs."""
        return self._record, self._batch, self.raw, self.topic, self.partition, self.source

    def give_back(self, held: tuple[Any, ...]) -> None:
        """Be where it was."""
        self._record, self._batch, self.raw, self.topic, self.partition, self.source = held
