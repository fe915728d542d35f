"""Turn the value of each record of a stream into any number of values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import BindContext, Forward, Process
from kstreamnb.core.record import Headers


@dataclass(frozen=True)
class FlatMapValues:
    """Forwards a record for every value of ``mapper(value)``, or ``mapper(key, value)`` when ``with_key``.

    Shape: stream[K, V] -> stream[K, V2]; 1 -> 0..n; key, time and headers kept.
    Source: Kafka Streams `KStream#flatMapValues`.
    """

    mapper: Callable[..., Iterable[Any]]
    with_key: bool = False

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        mapper, with_key = self.mapper, self.with_key

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            for new_value in mapper(key, value) if with_key else mapper(value):
                forward(key, new_value, timestamp, headers)

        return process
