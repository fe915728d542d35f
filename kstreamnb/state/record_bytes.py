"""Kafka's bytes of a record's context (time, place, headers) and of values that may be missing, as buffers log them."""

from __future__ import annotations

import struct

from kstreamnb.core.record import Headers, RecordMetadata


def context_bytes(timestamp: int, headers: Headers, metadata: RecordMetadata | None) -> bytes:
    """Timestamp, offset, topic, partition and headers of a record."""
    topic, partition, offset = metadata or (None, -1, -1)
    name = (topic or "").encode()
    parts = [struct.pack(">qqi", timestamp, offset, len(name)), name, struct.pack(">ii", partition, len(headers))]
    for header, value in headers:
        parts += [optional_bytes(header.encode()), optional_bytes(value)]
    return b"".join(parts)


def context_size(headers: Headers, metadata: RecordMetadata | None) -> int:
    """What a record's context counts for in a buffer or cache of limited size (bytes)."""
    topic = metadata[0] if metadata is not None else None
    return 20 + len(topic or "") + sum(len(header) + len(value or b"") for header, value in headers)


def optional_bytes(data: bytes | None) -> bytes:
    """Bytes behind their length, None as the length -1."""
    return b"\xff\xff\xff\xff" if data is None else len(data).to_bytes(4) + data


class LoggedBytes:
    """Bytes of a buffer's changelog, read from front to back."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, size: int) -> bytes:
        """The next bytes."""
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self, size: int) -> int:
        """The next whole number of ``size`` bytes."""
        return int.from_bytes(self.take(size), signed=True)

    def optional(self, same: bytes | None = None) -> bytes | None:
        """The next bytes behind their length: none for -1, ``same`` for another negative one."""
        length = self.number(4)
        return self.take(length) if length >= 0 else None if length == -1 else same

    def context(self) -> tuple[int, Headers, RecordMetadata | None]:
        """The next record's context: timestamp, headers and place."""
        timestamp, offset = self.number(8), self.number(8)
        topic, partition, count = self.take(self.number(4)).decode(), self.number(4), self.number(4)
        headers = tuple(((self.optional() or b"").decode(), self.optional()) for _ in range(count))
        return timestamp, headers, RecordMetadata(topic, partition, offset) if topic else None
