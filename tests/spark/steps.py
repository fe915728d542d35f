"""Rows that are fed one after another, packed into micro-batches: many applications in one query.

Each row carries its number as order, so a batch of several rows means what the rows one after another mean; and each
application may have its own number of batches.
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
    """The wall clock shows a time, and punctuators look at it."""
    return WALL, 0, (now_ms, None, None, ())


def packed(cases: Sequence[Sequence[Step]], counts: Sequence[int], clocks: Sequence[int] | None = None) -> list[Batch]:
    """Batches of a feed for some applications: ``counts`` says in how many batches each one's rows come.

    ``clocks`` are what the wall clock of each shows in the beginning.
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
