"""Turn each record of a stream into another one, key included."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import BindContext, Forward, FusedStep, Process
from kstreamnb.core.record import Headers


@dataclass(frozen=True)
class Map:
    """Forwards the pair ``mapper(key, value)`` in place of the record.

    Shape: stream[K, V] -> stream[K2, V2]; 1 -> 1; key changed; time and headers kept.
    Source: Kafka Streams `KStream#map`.
    """

    mapper: Callable[[Any, Any], tuple[Any, Any]]

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        mapper = self.mapper

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            key, value = mapper(key, value)
            forward(key, value, timestamp, headers)

        return process

    def fused(self) -> FusedStep:
        """The same as one line of a fused chain."""
        return FusedStep("key, value = {f}(key, value)", self.mapper)
