"""A table's updates as a stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from kstreamnb.core.operator import BindContext, Forward, FusedStep, Process
from kstreamnb.core.record import Change, Headers


@dataclass(frozen=True)
class TableToStream:
    """Forwards the new value of each change; a deleted row is a record with a null value.

    Shape: table[K, V] -> stream[K, V]; 1 -> 1; key, time and headers kept.
    Source: Kafka Streams `KTable#toStream`.
    """

    reads_new: ClassVar[bool] = True

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""

        def process(key: Any, value: Change, timestamp: int, headers: Headers) -> None:
            forward(key, value[0], timestamp, headers)

        return process

    def fused(self) -> FusedStep:
        """The same as one line of a fused chain."""
        return FusedStep("value = value[0]")
