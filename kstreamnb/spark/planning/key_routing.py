"""Group values that Spark's hash partitioning sends to the partition we want.

Spark places a group by ``pmod(murmur3(value), partitions)``, which lets several tasks collide in one partition while
others stay empty. Choosing the value for each task by that very function spreads tasks evenly.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

__all__ = ["GroupValues", "spark_hash"]

_MASK = 0xFFFFFFFF
_SEED = 42


def spark_hash(value: int) -> int:
    """Spark SQL's ``hash`` of one int column, as a signed 32-bit number.

    Example:
        >>> [spark_hash(n) for n in range(3)]
        [933211791, -559580957, 1765031574]
    """
    k = (value & _MASK) * 0xCC9E2D51 & _MASK
    k = (k << 15 | k >> 17) * 0x1B873593 & _MASK
    h = _SEED ^ k
    h = ((h << 13 | h >> 19) * 5 + 0xE6546B64) & _MASK
    h ^= 4  # the number of bytes
    h = (h ^ h >> 16) * 0x85EBCA6B & _MASK
    h = (h ^ h >> 13) * 0xC2B2AE35 & _MASK
    h ^= h >> 16
    return h if h < 0x80000000 else h - 0x100000000


class GroupValues:
    """Hands out group values for Spark partitions, each value once, smallest first.

    Example:
        >>> values = GroupValues(4)
        >>> [spark_hash(values.take(partition)) % 4 for partition in (0, 1, 2, 3, 0)]
        [0, 1, 2, 3, 0]
    """

    def __init__(self, partitions: int, taken: frozenset[int] = frozenset()) -> None:
        self.partitions = partitions
        self._taken = set(taken)
        self._found: list[list[int]] = [[] for _ in range(partitions)]
        self._candidates: Iterator[int] = count()

    def take(self, partition: int) -> int:
        """The next value whose groups go to ``partition``."""
        waiting = self._found[partition]
        while not waiting:
            value = next(self._candidates)
            if value not in self._taken:
                self._found[spark_hash(value) % self.partitions].append(value)
        return waiting.pop(0)
