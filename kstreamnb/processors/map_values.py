"""Turn the value of each record of a stream into another one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import BindContext, Forward, FusedStep, Process
from kstreamnb.core.record import Headers


@dataclass(frozen=True)
class MapValues:
    """Forwards ``mapper(value)``, or ``mapper(key, value)`` when ``with_key``, in place of the value.

    Shape: stream[K, V] -> stream[K, V2]; 1 -> 1; key, time and headers kept; a null value is shown to the mapper.
    Source: Kafka Streams `KStream#mapValues`.
    """

    mapper: Callable[..., Any]
    with_key: bool = False

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        mapper = self.mapper
        if self.with_key:

            def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
                forward(key, mapper(key, value), timestamp, headers)

        else:

            def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
                forward(key, mapper(value), timestamp, headers)

        return process

    def fused(self) -> FusedStep:
        """The same as one line of a fused chain."""
        return FusedStep("value = {f}(key, value)" if self.with_key else "value = {f}(value)", self.mapper)
