"""Generates records from their offsets: in-memory input, in a module that Spark's workers can import."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import cycle, islice, repeat
from typing import Any

from kstreamnb.kafka.batch_offsets import Offsets
from kstreamnb.spark.contracts import OffsetSource

__all__ = ["PARTITIONS", "START_MS", "Made"]

PARTITIONS, START_MS = 4, 1_790_000_000_000


@dataclass
class Made(OffsetSource):
    """Records generated from their offsets, in the memory of the reader.

    Each batch holds ``batch`` records over ``PARTITIONS`` partitions; keys cycle through ``keys``, scattered.
    """

    batch: int
    batches: int
    keys: int
    raw: bool = False

    def beginning(self) -> Offsets:
        """Zero everywhere."""
        return {"numbers": dict.fromkeys(range(PARTITIONS), 0)}

    def end(self) -> Offsets:
        """After the last batch."""
        return {"numbers": dict.fromkeys(range(PARTITIONS), self.batch // PARTITIONS * self.batches)}

    def batch_end(self, start: Offsets, end: Offsets, limit: int) -> Offsets:
        """One batch further."""
        return {"numbers": {part: at + self.batch // PARTITIONS for part, at in start["numbers"].items()}}

    def check(self, start: Offsets, end: Offsets) -> None:
        """Report no loss."""

    def now_ms(self) -> int:
        """No clock."""
        return 0

    def read(self, pieces: Sequence[tuple[str, int, int, int]]) -> Iterator[Any]:
        """Records with keys and values in wire form."""
        for topic, partition, first, last in pieces:
            for begin in range(first, last, 5000):
                yield topic, partition, _records(partition, begin, min(begin + 5000, last), self.keys), None


@cache
def _period(partition: int, keys: int) -> list[str]:
    own = keys // PARTITIONS
    return [f"k{at * 7919 % own}-{partition}" for at in range(own)]


def _records(partition: int, first: int, last: int, keys: int) -> list[tuple[int, int, str, int, tuple[Any, ...]]]:
    period = _period(partition, keys)
    names = islice(cycle(period), first % len(period), None)
    offsets, times = range(first, last), range(START_MS + first, START_MS + last)
    return list(zip(offsets, times, names, offsets, repeat(()), strict=False))
