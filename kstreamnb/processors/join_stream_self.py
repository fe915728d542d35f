"""A stream joined with itself over one store: what the optimiser puts in place of two window stores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import BindContext, Forward, Process
from kstreamnb.core.record import Headers
from kstreamnb.processors.joiner import combiner


@dataclass(frozen=True)
class StreamSelfJoin:
    """Join each record with earlier records of the same stream, both ways round, and with itself.

    Shape: KStream[K, V] -> KStream[K, VR]; n -> matches; key kept; store: one window store; repartition: no.
    Units: ``before_ms, after_ms, grace_ms``: stream time in ms; retention is their sum.
    Late: the pair of a record with itself is left out once the record is older than the retention.

    Source: Kafka Streams `KStreamKStreamSelfJoin`; differences: none (a left join becomes an inner one, as
        there).
    """

    store: str
    before_ms: int
    after_ms: int
    grace_ms: int
    joiner: Callable[..., Any]
    with_key: bool = False

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        fetch, drop = context.store(self.store).fetch_between, context.drop
        combine = combiner(self.joiner, with_key=self.with_key)
        before, after = self.before_ms, self.after_ms
        retention = before + after + self.grace_ms
        time = context.cell("time", -1)

        def join(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None or value is None:
                drop("null key" if key is None else "null value", key, value, timestamp)
                return
            if timestamp > time[0]:
                time[0] = timestamp
            for at, other in fetch(key, max(0, timestamp - before), max(0, timestamp + after)):
                forward(key, combine(key, value, other), at if at > timestamp else timestamp, headers)
            with_itself = timestamp > time[0] - retention + 1
            for at, other in fetch(key, max(0, timestamp - after), max(0, timestamp + before)):
                if at > timestamp and with_itself:
                    with_itself = False
                    forward(key, combine(key, value, value), timestamp, headers)
                forward(key, combine(key, other, value), at if at > timestamp else timestamp, headers)
            if with_itself:
                forward(key, combine(key, value, value), timestamp, headers)

        return join
