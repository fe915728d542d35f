"""Keep or refuse records of a stream by a predicate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import FusedStep, Stateless


@dataclass(frozen=True)
class Filter(Stateless):
    """Forwards the records for which ``predicate(key, value)`` holds, or with ``negate`` the others.

    Shape: stream[K, V] -> stream[K, V]; 1 -> 0..1; key, time and headers kept; nulls are shown to the predicate.
    Source: Kafka Streams `KStream#filter`, `KStream#filterNot`.
    """

    predicate: Callable[[Any, Any], Any]
    negate: bool = False

    def fused(self) -> FusedStep:
        """One line."""
        return FusedStep(
            "if {f}(key, value): return" if self.negate else "if not {f}(key, value): return", self.predicate
        )
