"""Turn the value of each record of a stream into another one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import FusedStep, Stateless


@dataclass(frozen=True)
class MapValues(Stateless):
    """Forwards ``mapper(value)``, or ``mapper(key, value)`` when ``with_key``, in place of the value.

    Shape: stream[K, V] -> stream[K, V2]; 1 -> 1; key, time and headers kept; a null value is shown to the mapper.
    Source: Kafka Streams `KStream#mapValues`.
    """

    mapper: Callable[..., Any]
    with_key: bool = False

    def fused(self) -> FusedStep:
        """One line."""
        return FusedStep("value = {f}(key, value)" if self.with_key else "value = {f}(value)", self.mapper)
