"""Routing keys: group values that Spark's hash partitioning sends to a chosen partition.

Spark places a group by ``pmod(murmur3(value), partitions)``. With arbitrary values several tasks would share a
partition while others stay empty; choosing each task's value with the same function spreads tasks evenly.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

_MASK = 0xFFFFFFFF
_SEED = 42


def spark_hash(value: int) -> int:
    """Return Spark SQL's ``hash`` of one int column, as a signed 32-bit number.

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


class RoutingKeys:
    """Assigns group values to names: values that names had before, else the smallest unused one for their partition.

    Example:
        >>> keys = RoutingKeys(4, {"old": 7})
        >>> keys.of("old", 2), keys.of("new", 2)
        (7, 2)
        >>> [spark_hash(keys.of(f"task {n}", n % 4)) % 4 for n in range(5)]
        [0, 1, 2, 3, 0]
    """

    def __init__(self, partitions: int, known: Mapping[str, int]) -> None:
        self._partitions, self._known = partitions, known
        self._taken = frozenset(known.values())
        self._unused: list[list[int]] = [[] for _ in range(partitions)]
        self._candidates = count()

    def of(self, name: str, partition: int) -> int:
        """Return the group value of a name; the groups of a new one go to ``partition``."""
        if name in self._known:
            return self._known[name]
        unused = self._unused[partition]
        while not unused:
            value = next(self._candidates)
            if value not in self._taken:
                self._unused[spark_hash(value) % self._partitions].append(value)
        return unused.pop(0)
