"""What an application has written to one topic, in order, and how far it has been read."""

from __future__ import annotations

from typing import Any

from kstreamnb.core.codec import SerializedValue, decode, to_bytes
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.serde import Serde

__all__ = ["TopicLog", "convert"]


class TopicLog:
    """Rows ``(topic, partition, timestamp, key, value, headers)`` in wire form, read once each.

    ``serdes`` are key and value serde of the wire form; None where rows hold bytes only. ``named``: the topic was
    written, but its rows are not kept.
    """

    __slots__ = ("_offsets", "name", "named", "read", "rows", "serdes")

    def __init__(self, name: str, serdes: tuple[Serde, Serde] | None) -> None:
        self.name, self.serdes = name, serdes
        self.rows: list[Any] = []
        self.read = 0
        self.named = False
        self._offsets: dict[int, int] = {}

    def __len__(self) -> int:
        """Number of rows that have not been read."""
        return len(self.rows) - self.read

    def take(self, key_serde: Serde, value_serde: Serde) -> TopicRecord:
        """The next row as a record."""
        _, partition, timestamp, key, value, headers = self.rows[self.read]
        found = TopicRecord(
            self.name,
            partition,
            self._offsets.get(partition, 0),
            timestamp,
            self._value(0, key, key_serde),
            self._value(1, value, value_serde),
            headers,
        )
        self.read += 1
        self._offsets[partition] = found.offset + 1
        return found

    def _value(self, side: int, wire: Any, serde: Serde) -> Any:
        if wire is None:
            return None
        if self.serdes is None or self.serdes[side] == serde:
            return decode(serde, wire)
        return serde.deserialize(to_bytes(self.serdes[side], wire))


def convert(wire: Any, writer: Serde, reader: Serde) -> Any:
    """The wire form of one serde as that of another: by way of the bytes, unless they are the same."""
    if wire is None or type(wire) is SerializedValue or writer == reader:
        return wire
    return SerializedValue(to_bytes(writer, wire) or b"")
