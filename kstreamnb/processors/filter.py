"""Keep or refuse records of a stream by a predicate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import BindContext, Forward, FusedStep, Process
from kstreamnb.core.record import Headers


@dataclass(frozen=True)
class Filter:
    """Forwards the records for which ``predicate(key, value)`` holds, or with ``negate`` the others.

    Shape: stream[K, V] -> stream[K, V]; 1 -> 0..1; key, time and headers kept; nulls are shown to the predicate.
    Source: Kafka Streams `KStream#filter`, `KStream#filterNot`.
    """

    predicate: Callable[[Any, Any], Any]
    negate: bool = False

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        predicate = self.predicate
        if self.negate:

            def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
                if not predicate(key, value):
                    forward(key, value, timestamp, headers)

        else:

            def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
                if predicate(key, value):
                    forward(key, value, timestamp, headers)

        return process

    def fused(self) -> FusedStep:
        """The same as one line of a fused chain."""
        return FusedStep(
            "if {f}(key, value): return" if self.negate else "if not {f}(key, value): return", self.predicate
        )
