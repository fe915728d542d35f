"""Turn each record of a stream into another one, key included."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import FusedStep, Stateless


@dataclass(frozen=True)
class Map(Stateless):
    """Forwards the pair ``mapper(key, value)`` in place of the record.

    Shape: stream[K, V] -> stream[K2, V2]; 1 -> 1; key changed; time and headers kept.
    Source: Kafka Streams `KStream#map`.
    """

    mapper: Callable[[Any, Any], tuple[Any, Any]]

    def fused(self) -> FusedStep:
        """One line."""
        return FusedStep("key, value = {f}(key, value)", self.mapper)
