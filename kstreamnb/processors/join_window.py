"""The node before each side of a stream–stream join: keeps the side's records for the other side to find."""

from __future__ import annotations

from dataclasses import dataclass

from kstreamnb.core.operator import BindContext, Forward, Process
from kstreamnb.core.record import Headers


@dataclass(frozen=True)
class JoinWindow:
    """Forward each record to the join, then put it into this side's window store.

    Shape: KStream[K, V] -> KStream[K, V]; 1 -> 1; key kept; store: window with duplicates; repartition: no.
    Late: the store refuses what its retention has passed.
    Source: Kafka Streams `KStreamJoinWindow`; differences: none.
    """

    store: str

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        put = context.store(self.store).put

        def keep(key: object, value: object, timestamp: int, headers: Headers) -> None:
            forward(key, value, timestamp, headers)
            if key is not None:
                put(key, value, timestamp)

        return keep
