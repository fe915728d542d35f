"""What the two halves of a foreign-key join send each other, and its bytes, as on Kafka's internal topics.

The left table's task subscribes at the task of the foreign key; the answer carries the hash of the left value that it
answers, so that the left table's task recognises an answer to a value that is gone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import Any, ClassVar, NamedTuple

from kstreamnb.core.serde import SerdeAround
from kstreamnb.errors import EngineError

_NO_HASH = 0x80


class Instruction(IntEnum):
    """What the foreign key's task does with a subscription; the numbers are those on the wire."""

    DELETE_KEY_NO_PROPAGATE = 0
    DELETE_KEY_AND_PROPAGATE = 1
    PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE = 2
    PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE = 3


class Subscription(NamedTuple):
    """A left row's wish to hear of a foreign key: hash of its value (None: deleted), key, home partition."""

    value_hash: bytes | None
    instruction: Instruction
    primary_key: Any
    primary_partition: int


class Response(NamedTuple):
    """The foreign row for one subscriber; the partition it goes home to is not part of its bytes."""

    value_hash: bytes | None
    foreign_value: Any
    primary_partition: int | None = None


class SubscriptionSerde(SerdeAround):
    """Bytes of a subscription: version 1 and a flag, instruction, hash if any, primary key, partition."""

    of_keys = True
    name: ClassVar[str] = "foreign-key subscription"  # type: ignore[misc]
    expects: ClassVar[str] = "subscriptions of a foreign-key join"

    def _write(self, value: Subscription) -> bytes:
        key = self._inner().serialize(value.primary_key) or b""
        flag = 1 if value.value_hash is not None else 1 | _NO_HASH
        head = bytes((flag, value.instruction)) + (value.value_hash or b"")
        return head + key + value.primary_partition.to_bytes(4, signed=True)

    def _read(self, data: bytes) -> Subscription:
        at = 2 if data[0] & _NO_HASH else 2 + HASH_BYTES
        key = self._inner().deserialize(data[at:-4])
        return Subscription(data[2:at] or None, Instruction(data[1]), key, int.from_bytes(data[-4:], signed=True))


class ResponseSerde(SerdeAround):
    """Bytes of an answer: version 0 and a flag, hash if any, foreign value if any."""

    name: ClassVar[str] = "foreign-key response"  # type: ignore[misc]
    expects: ClassVar[str] = "responses of a foreign-key join"

    def _write(self, value: Response) -> bytes:
        data = self._inner().serialize(value.foreign_value) or b""
        return (bytes(1) + value.value_hash if value.value_hash is not None else bytes((_NO_HASH,))) + data

    def _read(self, data: bytes) -> Response:
        at = 1 if data[0] & _NO_HASH else 1 + HASH_BYTES
        return Response(data[1:at] or None, self._inner().deserialize(data[at:] or None))


def subscription_prefix(foreign_key: bytes) -> bytes:
    """What the store keys of all subscriptions to a foreign key begin with; the primary key's bytes follow.

    Example:
        >>> subscription_prefix(b"ab").hex()
        '000000026162'
    """
    return len(foreign_key).to_bytes(4) + foreign_key


@dataclass(frozen=True)
class SubscriptionPartitioner:
    """Sends a subscription to where the right table has the key; ``partitioner`` is the right table's own."""

    partitioner: Callable[..., Any]

    def __call__(self, topic: str, key: Any, value: Any, partitions: int, /) -> Any:
        """The partition of a foreign key."""
        return _one(self.partitioner(topic, key, None, partitions))


@dataclass(frozen=True)
class ResponsePartitioner:
    """Sends an answer home: to the partition that subscribed, or by the left table's own ``partitioner``."""

    partitioner: Callable[..., Any] | None = None

    def __call__(self, topic: str, key: Any, value: Any, partitions: int, /) -> Any:
        """The partition of a primary key."""
        if self.partitioner is None:
            return value.primary_partition
        return _one(self.partitioner(topic, key, None, partitions))


def _one(chosen: Any) -> Any:
    """The partition that a user's partitioner chose; several or none make no sense for one row."""
    if chosen is None or isinstance(chosen, int):
        return chosen
    several = tuple(chosen)
    if len(several) == 1:
        return several[0]
    raise EngineError(
        f"a partitioner of a foreign-key join chose {len(several)} partitions for one key",
        hint="choose exactly one partition, or None for the default",
        java="The partitions returned by StreamPartitioner#partitions method when used for FK join should be"
        " a singleton set",
    )


HASH_BYTES = 16
_SEED = 104_729
_MASK = 0xFFFF_FFFF_FFFF_FFFF
_C1, _C2 = 0x87C3_7B91_1142_53D5, 0x4CF5_AD43_2745_937F
_BLOCK, _RESULT = Struct("<QQ"), Struct(">QQ")


def value_hash(data: bytes) -> bytes:
    """The 16 bytes of Murmur3 (x64, 128 bits), high half first.

    Example:
        >>> value_hash(b"").hex() != value_hash(b"a").hex()
        True
    """
    h1 = h2 = _SEED
    size = len(data)
    whole = size & ~15
    for k1, k2 in _BLOCK.iter_unpack(data[:whole]):
        h1 = (_rotate(h1 ^ _mix_first(k1), 27) + h2) * 5 + 0x52DC_E729 & _MASK
        h2 = (_rotate(h2 ^ _mix_second(k2), 31) + h1) * 5 + 0x3849_5AB5 & _MASK
    if size > whole:
        k1, k2 = _BLOCK.unpack(data[whole:].ljust(16, b"\0"))
        h1, h2 = h1 ^ _mix_first(k1), h2 ^ _mix_second(k2)
    h1, h2 = h1 ^ size, h2 ^ size
    h1 = h1 + h2 & _MASK
    h2 = h2 + h1 & _MASK
    h1, h2 = _finish(h1), _finish(h2)
    h1 = h1 + h2 & _MASK
    return _RESULT.pack(h1, h2 + h1 & _MASK)


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK


def _mix_first(k: int) -> int:
    return _rotate(k * _C1 & _MASK, 31) * _C2 & _MASK


def _mix_second(k: int) -> int:
    return _rotate(k * _C2 & _MASK, 33) * _C1 & _MASK


def _finish(h: int) -> int:
    h = (h ^ h >> 33) * 0xFF51_AFD7_ED55_8CCD & _MASK
    h = (h ^ h >> 33) * 0xC4CE_B9FE_1A85_EC53 & _MASK
    return h ^ h >> 33
