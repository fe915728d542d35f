"""Third step of a foreign-key join: subscriptions and changes of the right table are answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import BindContext, Forward, Process, TableView
from kstreamnb.core.record import Headers
from kstreamnb.core.serde import Serde
from kstreamnb.processors.foreign_key_messages import Instruction, Response, Subscription
from kstreamnb.processors.foreign_key_serde import bound_key_serde, subscription_prefix


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
        silent, told = Instruction.DELETE_KEY_NO_PROPAGATE, Instruction.DELETE_KEY_AND_PROPAGATE
        if_found = Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE

        def answer(keys: Any, message: Subscription, timestamp: int, headers: Headers) -> None:
            foreign_key, primary_key = keys
            row = None if foreign_key is None else get(foreign_key)
            if row is not None and row[1] > timestamp:
                timestamp = row[1]
            instruction = message.instruction
            if instruction == silent or (instruction == if_found and row is None):
                return
            value = None if row is None or instruction == told else row[0]
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
        foreign_bytes = bound_key_serde(self.foreign_key_serde, context).serialize
        primary_key = bound_key_serde(self.primary_key_serde, context).deserialize

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
