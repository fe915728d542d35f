"""Serialized form of keys and values in stores and in-process topics, and the partition of a key.

A value that is immutable and would survive a round trip unchanged stays as it is and costs nothing; all others are kept
as bytes, so that later changes to an object never reach the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from struct import Struct
from typing import Any, Protocol, TypeAlias, TypeVar

from kstreamnb.core.arguments import at_least
from kstreamnb.core.record import Windowed
from kstreamnb.core.serde import Serde, StringSerde, WholeSerde
from kstreamnb.core.serdes import WindowedSerde
from kstreamnb.errors import EngineError

T = TypeVar("T")

Wire: TypeAlias = Any
"""A plain value, `SerializedValue` bytes, a `CopiedValue`, or None."""


class SerializedValue(bytes):
    """Bytes that a serde has to read before user code sees the value."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"SerializedValue({bytes(self)!r})"


class CopiedValue(dict[str, Any]):
    """A private copy of a dict of immutable values, instead of its bytes; each reader gets a copy."""

    __slots__ = ()


def encoded(data: bytes | None) -> Wire:
    """Return the serialized form of bytes from elsewhere without reading them."""
    return None if data is None else SerializedValue(data)


def encode(serde: Serde, value: object) -> Wire:
    """Return a value as stores keep it: itself if that is safe, otherwise its bytes."""
    return encoder(serde)(value)


def decode(serde: Serde, wire: Wire) -> Any:
    """Return the value that a store keeps; a new object unless it is immutable."""
    return decoder(serde)(wire)


def to_bytes(serde: Serde, wire: Wire) -> bytes | None:
    """Return Kafka's bytes of a value as stores keep it."""
    return bytes(wire) if type(wire) is SerializedValue else serde.serialize(wire)


def encoder(serde: Serde) -> Callable[[Any], Wire]:
    """Return `encode` bound to one serde, for use once per record."""
    plain, keeps, write = serde.plain, serde.keeps, serde.serialize

    def encode_value(value: object) -> Wire:
        kind = type(value)
        if value is None or kind is SerializedValue or (kind in plain and keeps(value)):
            return value  # bytes from elsewhere stay unread
        return encoded(write(value))

    if isinstance(serde, StringSerde):
        return lambda value: value if type(value) is str and value.isascii() else encode_value(value)
    if isinstance(serde, WholeSerde):
        least, most = -(1 << 8 * serde.width - 1), (1 << 8 * serde.width - 1) - 1
        return lambda value: value if type(value) is int and least <= value <= most else encode_value(value)
    return encode_value


def copier(serde: Serde) -> Callable[[Any], Wire]:
    """Return a function like `encode` for values that only this process reads: it prefers copies to bytes."""
    write, copy_value, is_flat = encoder(serde), serde.copy_value, serde.is_flat
    if type(serde).is_flat is not Serde.is_flat:
        return lambda value: CopiedValue(value) if type(value) is dict and is_flat(value) else write(value)
    if type(serde).copy_value is Serde.copy_value:
        return write
    return lambda value: write(value) if (copied := copy_value(value)) is None else copied


def decoder(serde: Serde) -> Callable[[Wire], Any]:
    """Return `decode` bound to one serde, for use once per record."""
    read = serde.deserialize

    def decode_value(wire: Wire) -> Any:
        kind = type(wire)
        return read(wire) if kind is SerializedValue else wire.copy() if kind is CopiedValue else wire

    return decode_value


_MASK = 0xFFFFFFFF
_FACTOR = 0x5BD1E995
MEMO = 1 << 16
"""Results that a cache by key keeps; it is emptied when it is full."""


class StreamPartitioner(Protocol):
    """A user's choice of partitions for the records of a sink or repartition topic."""

    def __call__(self, topic: str, key: object, value: object, partitions: int, /) -> int | Iterable[int] | None:
        """Choose one partition, several (none of them: the record is dropped), or None for the default."""


@cache
def _words(size: int) -> Struct:
    return Struct(f"<{size >> 2}I{size & 3}x")


def murmur2(data: bytes) -> int:
    """Return Kafka's hash of some bytes as a signed 32-bit number.

    Example:
        >>> murmur2(b"kafka") & 0x7FFFFFFF
        1348980580
    """
    size = len(data)
    h = 0x9747B28C ^ size
    for k in _words(size).unpack(data):
        k = k * _FACTOR & _MASK
        h = (h * _FACTOR ^ (k ^ k >> 24) * _FACTOR) & _MASK
    if size & 3:
        h = (h ^ int.from_bytes(data[size & ~3 :], "little")) * _FACTOR & _MASK
    h = (h ^ h >> 13) * _FACTOR & _MASK
    h ^= h >> 15
    return h if h < 0x80000000 else h - 0x100000000


def partition_for(key: bytes, partitions: int) -> int:
    """Return the partition of a key's bytes among ``partitions``.

    Example:
        >>> [partition_for(f"KEY-{n}".encode(), 4) for n in range(10)]
        [0, 2, 1, 3, 0, 0, 1, 1, 1, 1]
    """
    return (murmur2(key) & 0x7FFFFFFF) % partitions


class ByText(dict[str, T]):
    """Caches a function's results by text key, so that a known key costs no call.

    Example:
        >>> places = ByText(lambda key: partition_for(key.encode(), 4))
        >>> places["KEY-1"], len(places)
        (2, 1)
    """

    def __init__(self, find: Callable[[str], T]) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, key: str) -> T:
        if len(self) >= MEMO:
            self.clear()
        return self.setdefault(key, self._find(key))


def indexed_type(serde: Serde) -> type:
    """Return the type of the keys of a serde whose partitions are looked up; their equal values have equal bytes."""
    return int if isinstance(serde, WholeSerde) else str


def key_partitioner(serde: Serde, partitions: int, by_inner: bool = False) -> Callable[[Wire], int]:
    """Return a function from a key's serialized form to its partition, for use once per record.

    The bytes of the whole key choose it, or with ``by_inner`` those of the key within its window. A null key goes to
    partition 0: Kafka's producers spread such records as batches fill, but here every run must give the same result.
    """
    at_least(1, partitions, "partitions")
    if partitions == 1:
        return lambda key: 0
    if by_inner and isinstance(serde, WindowedSerde):
        read, write = decoder(serde), encoder(serde.inner_serde)
        of_inner = key_partitioner(serde.inner_serde, partitions)
        return lambda key: of_inner(key[0] if type(key) is Windowed else write(read(key).key))
    # Only types whose equal values have equal bytes: 1, 1.0 and True are equal, and so are 0.0 and -0.0.
    hashable = {str, bytes, SerializedValue, indexed_type(serde)}

    def find(key: Wire) -> int:
        data = to_bytes(serde, key)
        return 0 if data is None else partition_for(data, partitions)

    known = ByText(find)
    return lambda key: known[key] if type(key[0] if type(key) is Windowed else key) in hashable else find(key)


def by_inner_key(topic: str, key: object, *_: object) -> None:
    """Mark a sink that partitions by the key within the window, as Kafka's DSL does, and refuse a null key."""
    if key is None:
        fact = f'topic "{topic}" has windowed keys, but a record has no key'
        raise EngineError(fact, hint="filter such records out", java="NullPointerException")


def by_home(topic: str, key: object, value: Any, *_: object) -> int:
    """Return the partition that an answer of a foreign-key join names, so that sinks need no call."""
    return value[2]  # type: ignore[no-any-return]


def partitioner_of(key_serde: Serde | None) -> Callable[..., None] | None:
    """Return the partitioner of sinks whose user gave none: `by_inner_key` for windowed keys, else None."""
    return by_inner_key if isinstance(key_serde, WindowedSerde) else None
