"""Nodes that only join or clean paths: merges, children of a split, the null-key filter of a repartition."""

from __future__ import annotations

from dataclasses import dataclass

from kstreamnb.core.operator import FusedStep, Stateless


@dataclass(frozen=True)
class PassThrough(Stateless):
    """Forwards what it gets: the meeting point of a merge or a cogroup, or a branch of a split.

    Shape: any -> the same; 1 -> 1; everything kept.
    Source: Kafka Streams `KStream#merge`, `KStream#split`, `CogroupedKStream#aggregate`.
    """

    def fused(self) -> FusedStep:
        """One line."""
        return FusedStep("pass")


@dataclass(frozen=True)
class RepartitionFilter(Stateless):
    """Keeps records without a key out of a repartition topic, in silence: nobody could group or join them.

    Shape: stream[K, V] -> stream[K, V]; 1 -> 0..1; everything kept.
    Source: Kafka Streams, the ``-filter`` node before a repartition sink.
    """

    def fused(self) -> FusedStep:
        """One line."""
        return FusedStep("if key is None: return")
