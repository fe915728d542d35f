"""Give each record of a stream a new key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import FusedStep, Stateless


@dataclass(frozen=True)
class SelectKey(Stateless):
    """Forwards the record under the key ``mapper(key, value)``.

    Shape: stream[K, V] -> stream[K2, V]; 1 -> 1; key changed; value, time and headers kept.
    Source: Kafka Streams `KStream#selectKey`.
    """

    mapper: Callable[[Any, Any], Any]

    def fused(self) -> FusedStep:
        """One line."""
        return FusedStep("key = {f}(key, value)", self.mapper)
