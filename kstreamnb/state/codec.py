"""How a store converts keys and values to its internal form: wire values, one form for equal keys.

Two keys are the same row exactly when their serialized bytes are equal. Python's ``1 == True == 1.0`` would merge
rows that Kafka keeps apart, so types that equal each other are held as bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Sized
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

from kstreamnb.core.codec import CopiedValue, SerializedValue, copier, decoder, encoder
from kstreamnb.core.record import Headers, RecordMetadata, Windowed
from kstreamnb.core.serde import Serde, SerdeAround, StringSerde
from kstreamnb.core.time import MAX_TIME_MS
from kstreamnb.errors import StateError

SMALL = 1 << 29
"""Whole numbers within ``(-SMALL, SMALL)`` are kept by every serde of ints but the short one."""

Origin: TypeAlias = tuple[str | None, int, int]
"""Topic, partition and offset of a record, as `RecordMetadata` or not."""

_ENCODED = frozenset({SerializedValue, CopiedValue})
MOST_COPIES = 20_000


@dataclass(frozen=True)
class KeyCodec:
    """A key serde as functions.

    ``direct``: a row that a lookup by the key itself finds is the right one, so that `encode` is needed only when
    nothing was found. ``text`` is str if ASCII text is its own wire form.
    """

    encode: Callable[[object], Hashable]
    decode: Callable[[Hashable], Any]
    to_bytes: Callable[[Hashable], bytes]
    direct: bool
    text: type[str] | None


@dataclass(frozen=True)
class ValueCodec:
    """A value serde as functions.

    ``text`` is str if shortcuts for it are allowed, ``small`` the limit of ints, and ``copies`` is `CopiedValue` if the
    first ``most`` rows may be such copies.
    """

    encode: Callable[[object], object]
    decode: Callable[[object], Any]
    to_bytes: Callable[[object], bytes | None]
    text: type[str] | None
    small: int
    copies: type[CopiedValue] | None = None
    most: int = 0

    def from_bytes(self, data: bytes | None) -> object:
        """Return the serialized form of a value given as bytes."""
        return None if data is None else self.encode(self.decode(SerializedValue(data)))


class EncodedRow(tuple[object, int]):
    """``(wire value, timestamp)`` whose value has to be decoded; a row that is exactly a tuple is returned as is."""

    __slots__ = ()


def stamped(wire: object, timestamp: int) -> tuple[object, int] | None:
    """Return the row of a timestamped store; None for no value."""
    if wire is None:
        return None
    return EncodedRow((wire, timestamp)) if type(wire) in _ENCODED else (wire, timestamp)


class RowWithHeaders(tuple[object, int]):
    """``(value, timestamp)`` with the attribute ``headers``; operators use it like a row without headers."""

    headers: Headers

    def __new__(cls, value: object, timestamp: int, headers: Headers) -> RowWithHeaders:
        """Return a row; ``headers`` should not be empty, because rows without headers are plain tuples."""
        row = super().__new__(cls, (value, timestamp))
        row.headers = headers
        return row

    def __eq__(self, other: object) -> bool:
        return tuple.__eq__(self, other) is True and self.headers == headers_of(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__

    def __reduce__(self) -> tuple[type[RowWithHeaders], tuple[object, int, Headers]]:
        return RowWithHeaders, (*self, self.headers)


class ValueWithHeaders(NamedTuple):
    """A wire value of a session store with headers; a value without headers is not wrapped."""

    value: object
    headers: Headers


def headers_of(row: object) -> Headers:
    """Return the headers of a row, of a store's own or of a user; none for other rows."""
    return getattr(row, "headers", ())


def headers_size(headers: Headers) -> int:
    """Return the size of a row's headers in a cache of limited size (bytes), as Kafka lays them out."""
    parts = [len(data) for name, value in headers for data in (name.encode(), value) if data is not None]
    missing = sum(value is None for _, value in headers)
    size = sum(length + varint_size(length) for length in parts) + missing
    size += varint_size(len(headers)) if headers else 0
    return size + varint_size(size)


def varint_size(number: int) -> int:
    """Return the size of a signed number of variable length that is not negative: six bits, then seven a byte."""
    return max(1, ((number << 1).bit_length() + 6) // 7)


def headers_in_values(codec: ValueCodec) -> ValueCodec:
    """Return the codec of values that may be `ValueWithHeaders`, which decode to the value alone."""

    def bare(value: object) -> object:
        return value.value if type(value) is ValueWithHeaders else value

    def encode(value: object) -> object:
        wire = codec.encode(bare(value))
        headers = headers_of(value) if type(value) is ValueWithHeaders else ()
        return ValueWithHeaders(wire, headers) if headers and wire is not None else wire

    return replace(
        codec,
        encode=encode,
        decode=lambda value: codec.decode(bare(value)),
        to_bytes=lambda value: codec.to_bytes(bare(value)),
        text=None,
        small=0,
    )


_NUMBERS = frozenset({int, float, bool})


def key_codec(serde: Serde) -> KeyCodec:
    """Return the functions of a key serde."""
    plain = _distinct(serde)
    direct = len(plain) == 1 and plain <= {str, int, bytes}
    text, windowed = str if str in plain else None, serde.plain & {Windowed}
    size, start_bytes = getattr(serde, "size_ms", None), struct.Struct(">q").pack
    quick = windowed if size is not None and type(getattr(serde, "inner", None)) is StringSerde else ()

    def encode(key: Any) -> Any:
        if type(key) is str and text is str and key.isascii():
            return key
        if type(key) in quick and key[1] + size == key[2] <= MAX_TIME_MS and type(key[0]) is str and key[0].isascii():
            return key
        if type(key) in plain and serde.keeps(key):
            return key
        if key is None:
            raise StateError("the key of a store must not be None", java="key cannot be null")
        if type(key) in windowed and type(key.key) in plain and serde.keeps(key):
            return key
        data = serde.serialize(key) or b""
        kept = serde.deserialize(data)
        return kept if type(kept) in plain and serde.keeps(kept) else SerializedValue(data)

    kept_types = plain | windowed if direct and type(serde).serialize is Serde.serialize else ()

    def to_bytes(key: Any) -> bytes:
        if type(key) in quick:
            return key[0].encode() + start_bytes(key[1])  # type: ignore[no-any-return]
        if type(key) in kept_types:
            return serde._write(key)  # noqa: SLF001 - without checks: `encode` lets only keys pass that it can write
        return bytes(key) if type(key) is SerializedValue else serde.serialize(key) or b""

    return KeyCodec(encode, decoder(serde), to_bytes, direct, text)


def _distinct(serde: Serde) -> frozenset[type]:
    """Return types whose instances are equal only if their bytes are; at most one of them is a number."""
    inner = serde.inner if isinstance(serde, SerdeAround) else None
    plain: frozenset[type] = _distinct(inner) if Windowed in serde.plain and inner is not None else serde.plain
    plain = plain - {float, Windowed}
    return plain - {bool} if len(plain & _NUMBERS) > 1 else plain


def value_codec(serde: Serde, copies: Sized | None = None) -> ValueCodec:
    """Return the functions of a value serde; ``copies`` are the rows of a store that may keep copies instead of bytes.

    A copy takes a fraction of the time of bytes, but more memory: so only the first rows have one.
    """
    plain, write, copy = serde.plain, encoder(serde), copier(serde)
    small = SMALL if int in plain and (serde.width or 8) >= 4 else 0
    text = str if str in plain else None

    def to_bytes(value: object) -> bytes | None:
        return bytes(value) if type(value) is SerializedValue else serde.serialize(value)

    if copies is None:
        return ValueCodec(write, decoder(serde), to_bytes, text, small)
    kept_copy = CopiedValue if serde.is_flat({}) else None

    def encode(value: object) -> object:
        if value is None or len(copies) >= MOST_COPIES:
            return write(value)
        return value if type(value) is kept_copy else copy(value)

    return ValueCodec(encode, decoder(serde), to_bytes, text, small, kept_copy, MOST_COPIES)


def context_bytes(timestamp: int, headers: Headers, metadata: Origin | None) -> bytes:
    """Return timestamp, offset, topic, partition and headers of a record."""
    topic, partition, offset = metadata or (None, -1, -1)
    name = (topic or "").encode()
    parts = [struct.pack(">qqi", timestamp, offset, len(name)), name, struct.pack(">ii", partition, len(headers))]
    for header, value in headers:
        parts += [optional_bytes(header.encode()), optional_bytes(value)]
    return b"".join(parts)


def context_size(headers: Headers, metadata: Origin | None) -> int:
    """Return the size of a record's context in a buffer or cache of limited size, in bytes."""
    topic = metadata[0] if metadata is not None else None
    return 20 + len(topic or "") + sum(len(header) + len(value or b"") for header, value in headers)


def optional_bytes(data: bytes | None) -> bytes:
    """Return bytes preceded by their length, None as the length -1."""
    return b"\xff\xff\xff\xff" if data is None else len(data).to_bytes(4) + data


class LoggedBytes:
    """Bytes of a buffer's changelog, read from front to back."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self, size: int) -> int:
        """Return the next whole number of ``size`` bytes."""
        return int.from_bytes(self.take(size), signed=True)

    def optional(self, same: bytes | None = None) -> bytes | None:
        """Read bytes after their length: None for -1, ``same`` for another negative one."""
        length = self.number(4)
        return self.take(length) if length >= 0 else None if length == -1 else same

    def context(self) -> tuple[int, Headers, RecordMetadata | None]:
        """Read the next record's context: timestamp, headers and origin."""
        timestamp, offset = self.number(8), self.number(8)
        topic, partition, count = self.take(self.number(4)).decode(), self.number(4), self.number(4)
        headers = tuple(((self.optional() or b"").decode(), self.optional()) for _ in range(count))
        return timestamp, headers, RecordMetadata(topic, partition, offset) if topic else None
