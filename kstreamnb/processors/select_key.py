"""Give each record of a stream a new key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import BindContext, Forward, FusedStep, Process
from kstreamnb.core.record import Headers


@dataclass(frozen=True)
class SelectKey:
    """Forwards the record under the key ``mapper(key, value)``.

    Shape: stream[K, V] -> stream[K2, V]; 1 -> 1; key changed; value, time and headers kept.
    Source: Kafka Streams `KStream#selectKey`.
    """

    mapper: Callable[[Any, Any], Any]

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        mapper = self.mapper

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            forward(mapper(key, value), value, timestamp, headers)

        return process

    def fused(self) -> FusedStep:
        """The same as one line of a fused chain."""
        return FusedStep("key = {f}(key, value)", self.mapper)
