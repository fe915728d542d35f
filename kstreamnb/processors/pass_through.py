"""Nodes that only join or clean paths: merges, children of a split, the null-key filter of a repartition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import BindContext, Forward, FusedStep, Process
from kstreamnb.core.record import Headers


@dataclass(frozen=True)
class PassThrough:
    """Forwards what it gets: the meeting point of a merge or a cogroup, or a branch of a split.

    Shape: any -> the same; 1 -> 1; everything kept.
    Source: Kafka Streams `KStream#merge`, `KStream#split`, `CogroupedKStream#aggregate`.
    """

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            forward(key, value, timestamp, headers)

        return process

    def fused(self) -> FusedStep:
        """The same as one line of a fused chain."""
        return FusedStep("pass")


@dataclass(frozen=True)
class RepartitionFilter:
    """Keeps records without a key out of a repartition topic, in silence: nobody could group or join them.

    Shape: stream[K, V] -> stream[K, V]; 1 -> 0..1; everything kept.
    Source: Kafka Streams, the ``-filter`` node before a repartition sink.
    """

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is not None:
                forward(key, value, timestamp, headers)

        return process

    def fused(self) -> FusedStep:
        """The same as one line of a fused chain."""
        return FusedStep("if key is None: return")
