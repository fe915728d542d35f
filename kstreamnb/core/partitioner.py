"""Which partition a key goes to: murmur2 on its bytes, as Kafka's producers do it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from struct import Struct
from typing import Any, Protocol

from kstreamnb.core.record import Windowed
from kstreamnb.core.serde import Serde
from kstreamnb.core.serdes_scalar import WholeSerde
from kstreamnb.core.wire import Encoded, Wire, decode
from kstreamnb.errors import ConfigError

_MASK = 0xFFFFFFFF
_FACTOR = 0x5BD1E995
_MEMO = 1 << 16


class StreamPartitioner(Protocol):
    """A user's choice of partitions for the records of a sink or repartition topic."""

    def __call__(self, topic: str, key: Any, value: Any, partitions: int, /) -> int | Iterable[int] | None:
        """One partition, several (none of them: the record is dropped), or None for the default."""


@cache
def _words(size: int) -> Struct:
    return Struct(f"<{size >> 2}I{size & 3}x")


def murmur2(data: bytes) -> int:
    """Kafka's hash of some bytes, as a signed 32-bit number.

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
    """The partition of a key's bytes among ``partitions``.

    Example:
        >>> [partition_for(f"KEY-{n}".encode(), 4) for n in range(10)]
        [0, 2, 1, 3, 0, 0, 1, 1, 1, 1]
    """
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def key_partitioner(serde: Serde, partitions: int) -> Callable[[Wire], int]:
    """A function from a key's wire form to its partition, for use once a record.

    A null key goes to partition 0: Kafka's producers spread those as batches fill, and here every run has to
    give the same.
    """
    if partitions < 1:
        raise ConfigError(f"{partitions} partitions are too few")
    if partitions == 1:
        return lambda key: 0
    memo: dict[Any, int] = {}
    # Only types of which equal values have equal bytes: 1, 1.0 and True are equal, and so are 0.0 and -0.0.
    hashable = {str, bytes, Encoded, int} if isinstance(serde, WholeSerde) else {str, bytes, Encoded}
    direct = type(serde).partition_bytes is Serde.partition_bytes

    def partition(key: Wire) -> int:
        kind = type(key[0]) if type(key) is Windowed else type(key)
        known = memo.get(key) if kind in hashable else None
        if known is not None:
            return known
        if type(key) is Encoded and direct:
            data: bytes | None = key
        else:
            data = serde.partition_bytes(decode(serde, key))
        found = 0 if data is None else partition_for(data, partitions)
        if kind in hashable:
            if len(memo) >= _MEMO:
                memo.clear()
            memo[key] = found
        return found

    return partition
