"""Kafka's bytes of a record's context (time, place, headers) and of values that may be missing, as buffers log them."""

from __future__ import annotations

import struct

from kstreamnb.core.record import Headers, RecordMetadata

__all__ = ["context_bytes", "context_size", "optional_bytes"]


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
