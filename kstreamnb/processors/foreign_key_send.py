"""First step of a foreign-key join: each change of the left table becomes subscriptions to foreign keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import BindContext, Forward, Process
from kstreamnb.core.record import Headers
from kstreamnb.core.serde import Serde
from kstreamnb.processors.foreign_key_hash import value_hash
from kstreamnb.processors.foreign_key_messages import Instruction, Subscription
from kstreamnb.processors.foreign_key_serde import bound_key_serde, bound_value_serde

_FORGET = Instruction.DELETE_KEY_NO_PROPAGATE
_FORGET_AND_TELL = Instruction.DELETE_KEY_AND_PROPAGATE
_TELL = Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE
_TELL_IF_FOUND = Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE


@dataclass(frozen=True)
class SubscriptionSend:
    """Turn each change of the left table into subscriptions, keyed by foreign key.

    Shape: KTable[K, V] -> stream of (KO, Subscription[K]); a change -> 0, 1 or 2; store: none; repartition:
        by KO.
    Late: a change that is not its key's latest in a versioned table is dropped. An inner join drops a null
        foreign key, a left join asks for an answer without a row.

    Args:
        foreign_key: the extractor, of ``(value)`` or with_key ``(key, value)``; needs old values of the left
            table.
        foreign_key_serde: the right table's key serde; None is the application's default.
        value_serde: the left table's value serde; None is the application's default.
        versioned: whether the left table is versioned.

    Source: Kafka Streams `SubscriptionSendProcessorSupplier`, KIP-213, KIP-914; differences: none.
    """

    foreign_key: Callable[..., Any]
    with_key: bool = False
    left: bool = False
    foreign_key_serde: Serde | None = None
    value_serde: Serde | None = None
    versioned: bool = False

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        key_bytes = bound_key_serde(self.foreign_key_serde, context).serialize
        value_bytes = bound_value_serde(self.value_serde, context).serialize
        extract: Callable[[Any, Any], Any] = (
            self.foreign_key if self.with_key else lambda key, value: self.foreign_key(value)
        )
        drop, partition, versioned = context.drop, context.partition, self.versioned
        instruct = _left_instructions if self.left else _inner_instructions

        def subscribe(key: Any, change: Any, timestamp: int, headers: Headers) -> None:
            new, old, is_latest = change
            if versioned and not is_latest:
                drop("out of order", key, new, timestamp)
                return
            old_foreign = None if old is None else extract(key, old)
            new_foreign = None if new is None else extract(key, new)
            if new is not None and new_foreign is None and not self.left:
                drop("null foreign key", key, new, timestamp)
            changed = old_foreign is not None and key_bytes(old_foreign) != key_bytes(new_foreign)
            instructions = instruct(new, old, new_foreign, old_foreign, changed)
            digest = None if new is None or not instructions else value_hash(value_bytes(new) or b"")
            for to_old, instruction in instructions:
                message = Subscription(digest, instruction, key, partition)
                forward(old_foreign if to_old else new_foreign, message, timestamp, headers)

        return subscribe


_Instructions = tuple[tuple[bool, Instruction], ...]


def _left_instructions(new: Any, old: Any, new_foreign: Any, old_foreign: Any, changed: bool) -> _Instructions:
    """What a left join sends: to the old foreign key (True) or to the new one (False)."""
    if new is None and old is None:
        return ()
    return ((True, _FORGET), (False, _TELL)) if changed else ((False, _TELL),)


def _inner_instructions(new: Any, old: Any, new_foreign: Any, old_foreign: Any, changed: bool) -> _Instructions:
    """What an inner join sends: to the old foreign key (True) or to the new one (False)."""
    if new is None or new_foreign is None:
        return () if old_foreign is None else ((True, _FORGET_AND_TELL),)
    return ((True, _FORGET), (False, _TELL)) if changed else ((False, _TELL_IF_FOUND),)
