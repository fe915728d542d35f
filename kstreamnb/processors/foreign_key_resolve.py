"""Last step of a foreign-key join: answers meet the left table's current row, stale ones are recognised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import BindContext, Forward, Process, TableView
from kstreamnb.core.record import Headers
from kstreamnb.core.serde import Serde
from kstreamnb.processors.foreign_key_hash import value_hash
from kstreamnb.processors.foreign_key_messages import Response
from kstreamnb.processors.foreign_key_serde import bound_value_serde


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
        value_bytes = bound_value_serde(self.value_serde, context).serialize

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
