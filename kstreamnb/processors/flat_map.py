"""Turn each record of a stream into any number of records, keys included."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import BindContext, Forward, Process
from kstreamnb.core.record import Headers


@dataclass(frozen=True)
class FlatMap:
    """Forwards every pair of ``mapper(key, value)``, in its order.

    Shape: stream[K, V] -> stream[K2, V2]; 1 -> 0..n; key changed; time and headers kept.
    Source: Kafka Streams `KStream#flatMap`.
    """

    mapper: Callable[[Any, Any], Iterable[tuple[Any, Any]]]

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        mapper = self.mapper

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            for new_key, new_value in mapper(key, value):
                forward(new_key, new_value, timestamp, headers)

        return process
