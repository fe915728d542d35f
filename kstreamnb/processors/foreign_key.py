"""A foreign-key join in four steps: subscribe, keep the subscription, answer it, and resolve the answer.

The left table's task sends each row's wish to hear of a foreign key to the task that has the key. There subscriptions
are kept, and answered now and with each change of the right table's row; an answer to an older row is recognised.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import BindContext, Forward, Process, TableView
from kstreamnb.core.record import Headers, ValueAndTimestamp
from kstreamnb.core.serde import Serde
from kstreamnb.processors.foreign_key_wire import (
    Instruction,
    Response,
    Subscription,
    subscription_prefix,
    value_hash,
)

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
        key_bytes = context.key_serde(self.foreign_key_serde).serialize
        value_bytes = context.value_serde(self.value_serde).serialize
        extract: Callable[[Any, Any], Any] = (
            self.foreign_key if self.with_key else lambda key, value: self.foreign_key(value)
        )
        drop, partition, versioned, left = context.drop, context.partition, self.versioned, self.left

        def subscribe(key: Any, change: Any, timestamp: int, headers: Headers) -> None:
            new, old, is_latest = change
            if versioned and not is_latest:
                drop("out of order", key, new, timestamp)
                return
            old_foreign = None if old is None else extract(key, old)
            new_foreign = None if new is None else extract(key, new)
            if new is not None and new_foreign is None and not left:
                drop("null foreign key", key, new, timestamp)
            changed = old_foreign is not None and key_bytes(old_foreign) != key_bytes(new_foreign)
            instructions = _instructions(new, old, new_foreign, old_foreign, changed, left)
            digest = None if new is None or not instructions else value_hash(value_bytes(new) or b"")
            for to_old, instruction in instructions:
                message = Subscription(digest, instruction, key, partition)
                forward(old_foreign if to_old else new_foreign, message, timestamp, headers)

        return subscribe


_Instructions = tuple[tuple[bool, Instruction], ...]


def _instructions(new: Any, old: Any, new_foreign: Any, old_foreign: Any, changed: bool, left: bool) -> _Instructions:
    """What a left or an inner join sends: to the old foreign key (True) or to the new one (False)."""
    if left and new is None and old is None:
        return ()
    if not left and (new is None or new_foreign is None):
        return () if old_foreign is None else ((True, _FORGET_AND_TELL),)
    return ((True, _FORGET), (False, _TELL)) if changed else ((False, _TELL if left else _TELL_IF_FOUND),)


@dataclass(frozen=True)
class SubscriptionReceive:
    """Keep or forget each subscription, then hand it on under (foreign key, primary key).

    Shape: stream of (KO, Subscription[K]) -> stream of ((KO, K), Subscription[K]); 1 -> 1; store:
        subscriptions.
    Late: never. A null foreign key is dropped unless an answer without a row is asked for.

    Source: Kafka Streams `SubscriptionReceiveProcessorSupplier`; differences: none.
    """

    store: str
    foreign_key_serde: Serde | None = None
    primary_key_serde: Serde | None = None

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        store, drop = context.store(self.store), context.drop
        foreign_bytes = context.key_serde(self.foreign_key_serde).serialize
        primary_bytes = context.key_serde(self.primary_key_serde).serialize

        def receive(key: Any, message: Subscription, timestamp: int, headers: Headers) -> None:
            if key is None:
                if message.instruction != _TELL:
                    drop("null foreign key", key, message, timestamp)
                    return
            else:
                prefix = subscription_prefix(foreign_bytes(key) or b"")
                forget = message.instruction in (_FORGET, _FORGET_AND_TELL)
                row = None if forget else ValueAndTimestamp(message, timestamp)
                store.put(prefix + (primary_bytes(message.primary_key) or b""), row)
            forward((key, message.primary_key), message, timestamp, headers)

        return receive


@dataclass(frozen=True)
class SubscriptionJoin:
    """Answer each subscription with the right table's row of its foreign key.

    Shape: stream of ((KO, K), Subscription[K]), KTable[KO, VO] -> stream of (K, Response[VO]); 1 -> at most
        1;
        store: the right table's; repartition: by K.
    Late: never.

    Source: Kafka Streams `SubscriptionJoinProcessorSupplier`; differences: none.
    """

    view: TableView

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        get = self.view.bind(context)

        def answer(keys: Any, message: Subscription, timestamp: int, headers: Headers) -> None:
            foreign_key, primary_key = keys
            row = None if foreign_key is None else get(foreign_key)
            if row is not None and row[1] > timestamp:
                timestamp = row[1]
            instruction = message.instruction
            if instruction == _FORGET or (instruction == _TELL_IF_FOUND and row is None):
                return
            value = None if row is None or instruction == _FORGET_AND_TELL else row[0]
            response = Response(message.value_hash, value, message.primary_partition)
            forward(primary_key, response, timestamp, headers)

        return answer


@dataclass(frozen=True)
class ForeignTableJoin:
    """Tell every subscriber of a foreign key about each change of the right table's row.

    Shape: KTable[KO, VO] -> stream of (K, Response[VO]); a change -> one for each subscriber, in the order of
        the primary keys' bytes; store: subscriptions; repartition: by K.
    Late: a change that is not its key's latest in a versioned table is dropped. A null key is dropped.

    Source: Kafka Streams `ForeignTableJoinProcessorSupplier`, KIP-914; differences: none.
    """

    store: str
    foreign_key_serde: Serde | None = None
    primary_key_serde: Serde | None = None
    versioned: bool = False

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        scan, drop, versioned = context.store(self.store).prefix_scan, context.drop, self.versioned
        foreign_bytes = context.key_serde(self.foreign_key_serde).serialize
        primary_key = context.key_serde(self.primary_key_serde).deserialize

        def tell(key: Any, change: Any, timestamp: int, headers: Headers) -> None:
            new, _, is_latest = change
            if key is None or (versioned and not is_latest):
                drop("null key" if key is None else "out of order", key, new, timestamp)
                return
            prefix = subscription_prefix(foreign_bytes(key) or b"")
            size = len(prefix)
            for store_key, (message, _) in scan(prefix):
                response = Response(message.value_hash, new, message.primary_partition)
                forward(primary_key(store_key[size:]), response, timestamp, headers)

        return tell


@dataclass(frozen=True)
class SubscriptionResolve:
    """Join each answer with the left table's current row; an answer to an older row is dropped.

    Shape: stream of (K, Response[VO]), KTable[K, V] -> stream of (K, VR or None); 1 -> at most 1; store: the
        left table's; repartition: no.
    Late: an answer whose hash is not that of the current left value is dropped as "expired".

    Args:
        value_serde: the left table's value serde; None is the application's default.

    Source: Kafka Streams `ResponseJoinProcessorSupplier`; differences: none.
    """

    view: TableView
    joiner: Callable[[Any, Any], Any]
    left: bool = False
    value_serde: Serde | None = None

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        get, drop, left, joiner = self.view.bind(context), context.drop, self.left, self.joiner
        value_bytes = context.value_serde(self.value_serde).serialize

        def resolve(key: Any, response: Response, timestamp: int, headers: Headers) -> None:
            row = get(key)
            value = None if row is None else row[0]
            digest = None if value is None else value_hash(value_bytes(value) or b"")
            if digest != response.value_hash:
                details = {
                    "answers": "deleted row" if response.value_hash is None else response.value_hash.hex(),
                    "current": "deleted row" if digest is None else digest.hex(),
                }
                drop("expired", key, response.foreign_value, timestamp, details)
                return
            foreign = response.foreign_value
            joined = joiner(value, foreign) if foreign is not None or (left and value is not None) else None
            forward(key, joined, timestamp, headers)

        return resolve
