"""A table's updates as a stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kstreamnb.core.operator import FusedStep, Stateless


@dataclass(frozen=True)
class TableToStream(Stateless):
    """Forwards the new value of each change; a deleted row is a record with a null value.

    Shape: table[K, V] -> stream[K, V]; 1 -> 1; key, time and headers kept.
    Source: Kafka Streams `KTable#toStream`.
    """

    reads_new: ClassVar[bool] = True

    def fused(self) -> FusedStep:
        """One line."""
        return FusedStep("value = value[0]")
