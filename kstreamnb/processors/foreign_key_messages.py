"""What the two halves of a foreign-key join send each other, and its bytes, as on Kafka's internal topics.

The left table's task subscribes at the task of the foreign key; the answer carries the hash of the left value
that it answers, so that the left table's task recognises an answer to a value that is gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar, NamedTuple

from kstreamnb.core.serde import Serde, complete
from kstreamnb.processors.foreign_key_hash import HASH_BYTES

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


@dataclass(frozen=True)
class SubscriptionSerde(Serde):
    """Bytes of a subscription: version 1 and a flag, instruction, hash if any, primary key, partition.

    ``key_serde`` None stands for the application's default.
    """

    key_serde: Serde | None = None

    name: ClassVar[str] = "foreign-key subscription"  # type: ignore[misc]
    expects: ClassVar[str] = "subscriptions of a foreign-key join"

    def with_defaults(self, key_serde: Serde, value_serde: Serde) -> SubscriptionSerde:
        """Fill in the application's defaults."""
        return SubscriptionSerde(complete(self.key_serde or key_serde, key_serde, value_serde))

    def _write(self, value: Subscription) -> bytes:
        key = _of(self.key_serde).serialize(value.primary_key) or b""
        flag = 1 if value.value_hash is not None else 1 | _NO_HASH
        head = bytes((flag, value.instruction)) + (value.value_hash or b"")
        return head + key + value.primary_partition.to_bytes(4, signed=True)

    def _read(self, data: bytes) -> Subscription:
        at = 2 if data[0] & _NO_HASH else 2 + HASH_BYTES
        key = _of(self.key_serde).deserialize(data[at:-4])
        return Subscription(data[2:at] or None, Instruction(data[1]), key, int.from_bytes(data[-4:], signed=True))


@dataclass(frozen=True)
class ResponseSerde(Serde):
    """Bytes of an answer: version 0 and a flag, hash if any, foreign value if any.

    ``value_serde`` None stands for the application's default.
    """

    value_serde: Serde | None = None

    name: ClassVar[str] = "foreign-key response"  # type: ignore[misc]
    expects: ClassVar[str] = "responses of a foreign-key join"

    def with_defaults(self, key_serde: Serde, value_serde: Serde) -> ResponseSerde:
        """Fill in the application's defaults."""
        return ResponseSerde(complete(self.value_serde or value_serde, key_serde, value_serde))

    def _write(self, value: Response) -> bytes:
        data = _of(self.value_serde).serialize(value.foreign_value) or b""
        return (bytes(1) + value.value_hash if value.value_hash is not None else bytes((_NO_HASH,))) + data

    def _read(self, data: bytes) -> Response:
        at = 1 if data[0] & _NO_HASH else 1 + HASH_BYTES
        return Response(data[1:at] or None, _of(self.value_serde).deserialize(data[at:] or None))


def _of(serde: Serde | None) -> Serde:
    assert serde is not None, "with_defaults() comes before the first record"
    return serde
