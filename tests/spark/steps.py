"""Feeds rows one after another, packed into micro-batches: many applications in one query.

Each row carries its number as order, so a batch of several rows means the same as those rows one after another; and
each application may have its own number of batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kstreamnb.spark.execution.record_batch import WALL

__all__ = ["Batch", "Step", "packed", "tick"]

Step = tuple[str, int, tuple[Any, ...]]
"""Topic, partition, and ``(timestamp, key, value, headers)`` in wire form."""
Batch = dict[tuple[str, int], list[Any]]


def tick(now_ms: int) -> Step:
    """The wall clock reaches a time, and punctuators run."""
    return WALL, 0, (now_ms, None, None, ())


def packed(cases: Sequence[Sequence[Step]], counts: Sequence[int], clocks: Sequence[int] | None = None) -> list[Batch]:
    """Split a feed into batches for some applications: ``counts`` is the number of batches of each.

    ``clocks`` holds the initial wall-clock time of each.
    """
    most = max(counts)
    batches: list[Batch] = [{} for _ in range(most)]
    for application, (steps, count) in enumerate(zip(cases, counts, strict=True)):
        clock = clocks[application] if clocks else 0
        batches[0][f"{application}/{WALL}", 0] = [(clock, "set", None, (), -1)]
        for part in range(count):
            batch = batches[(part + 1) * most // count - 1]
            for number in range(len(steps) * part // count, len(steps) * (part + 1) // count):
                topic, partition, record = steps[number]
                batch.setdefault((f"{application}/{topic}", partition), []).append((*record, number))
    return batches
