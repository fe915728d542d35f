"""Second step of a foreign-key join: the foreign key's task keeps the subscriptions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import BindContext, Forward, Process
from kstreamnb.core.record import Headers, ValueAndTimestamp
from kstreamnb.core.serde import Serde
from kstreamnb.processors.foreign_key_messages import Instruction, Subscription
from kstreamnb.processors.foreign_key_serde import bound_key_serde, subscription_prefix


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
        foreign_bytes = bound_key_serde(self.foreign_key_serde, context).serialize
        primary_bytes = bound_key_serde(self.primary_key_serde, context).serialize
        answered, forgotten = Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE, _FORGOTTEN

        def receive(key: Any, message: Subscription, timestamp: int, headers: Headers) -> None:
            if key is None:
                if message.instruction != answered:
                    drop("null foreign key", key, message, timestamp)
                    return
            else:
                prefix = subscription_prefix(foreign_bytes(key) or b"")
                keep = None if message.instruction in forgotten else ValueAndTimestamp(message, timestamp)
                store.put(prefix + (primary_bytes(message.primary_key) or b""), keep)
            forward((key, message.primary_key), message, timestamp, headers)

        return receive


_FORGOTTEN = (Instruction.DELETE_KEY_NO_PROPAGATE, Instruction.DELETE_KEY_AND_PROPAGATE)
