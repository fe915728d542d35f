"""The log of one topic: rows that the application wrote, in order, and how many of them have been read."""

from __future__ import annotations

from typing import Any

from kstreamnb.core.codec import SerializedValue, decode, to_bytes
from kstreamnb.core.record import Headers, TopicRecord
from kstreamnb.core.serde import Serde
from kstreamnb.errors import SerdeError

OutputRow = tuple[str, int, int, object, object, Headers]
"""``(topic, partition, timestamp, key, value, headers)`` with key and value as `SerializedValue` or kept by a serde."""


class TopicLog:
    """Rows of one topic, each to be read once.

    Attributes:
        name: the topic.
        serdes: key and value serde of the rows; None if the rows hold bytes.
        rows: what was written, without the rows that were removed because they had been read.
        read: how many of the rows have been read.
        removed: how many rows were removed.
        named: whether the topic was written although its rows are not kept.
    """

    __slots__ = ("_offsets", "name", "named", "read", "removed", "rows", "serdes")

    def __init__(self, name: str, serdes: tuple[Serde, Serde] | None) -> None:
        self.name, self.serdes = name, serdes
        self.rows: list[OutputRow] = []
        self.read = self.removed = 0
        self.named = False
        self._offsets: dict[int, int] = {}

    def __len__(self) -> int:
        """Return the number of unread rows."""
        return len(self.rows) - self.read

    def take(self, key_serde: Serde, value_serde: Serde) -> TopicRecord:
        """Read the next row as a record."""
        _, partition, timestamp, wire_key, wire_value, headers = self.rows[self.read]
        offset, part = self._offsets.get(partition, 0), "key"
        try:
            key, part = self._read(0, wire_key, key_serde), "value"
            value = self._read(1, wire_value, value_serde)
        except SerdeError as error:
            error.add_note(f"Detail: it is the {part} of record {self.name}-{partition}@{offset}")
            error.add_note(f'Hint: create_output_topic("{self.name}", {part}_serde="bytes") reads any {part}')
            raise
        self.read += 1
        if 2 * self.read >= len(self.rows):  # in few steps, because each one moves the rows that are left
            del self.rows[: self.read]
            self.removed, self.read = self.removed + self.read, 0
        self._offsets[partition] = offset + 1
        return TopicRecord(self.name, partition, offset, timestamp, key, value, headers)

    def _read(self, side: int, wire: object, serde: Serde) -> Any:
        if wire is None:
            return None
        if self.serdes is None or self.serdes[side] == serde:
            return decode(serde, wire)
        return serde.deserialize(to_bytes(self.serdes[side], wire))


def convert(wire: object, writer: Serde, reader: Serde | None) -> object:
    """Return what ``writer`` wrote as ``reader`` expects it: by way of the bytes unless both are the same serde.

    Without a ``reader`` the result is bytes in any case.
    """
    if wire is None or type(wire) is SerializedValue or writer == reader:
        return wire
    return SerializedValue(to_bytes(writer, wire) or b"")
