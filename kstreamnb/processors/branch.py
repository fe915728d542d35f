"""Split a stream: each record goes to the first branch whose predicate holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import BindContext, Forward, Process
from kstreamnb.core.record import Headers


@dataclass(frozen=True)
class Branch:
    """Forwards each record to the child of the first predicate that holds, else to the default child.

    ``children`` names one node for each predicate and then the default node, None where there is none:
    records that match nothing are then gone in silence.

    Shape: stream[K, V] -> n streams[K, V]; 1 -> 0..1; everything kept.
    Source: Kafka Streams `KStream#split`, `BranchedKStream`.
    """

    predicates: tuple[Callable[[Any, Any], Any], ...]
    children: tuple[str | None, ...]

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        targets = [None if child is None else context.forward_to(child) for child in self.children]
        branches = [
            (predicate, target or _nowhere) for predicate, target in zip(self.predicates, targets, strict=False)
        ]
        default = targets[len(self.predicates)] if len(targets) > len(self.predicates) else None

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            for predicate, target in branches:
                if predicate(key, value):
                    target(key, value, timestamp, headers)
                    return
            if default is not None:
                default(key, value, timestamp, headers)

        return process


def _nowhere(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
    """A branch that nobody looks at."""
