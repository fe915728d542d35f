"""Where a batch of bounded size ends: always at a prefix of the merge of all partitions by event time.

The merge takes the least head first, which is the order of (greatest timestamp so far in the partition, topic,
partition, offset). The first offset at or after a time T cuts every partition at one place of that order; so the
results of a topology cannot depend on how its input is cut into batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kstreamnb.errors import ConfigError

__all__ = ["Offsets", "count_between", "batch_end_by_time", "ranges"]

Offsets = dict[str, dict[int, int]]
"""Offsets by topic and partition."""


def ranges(start: Offsets, end: Offsets) -> Iterator[tuple[str, int, int, int]]:
    """``(topic, partition, from, to)`` of every partition in ``end``, in order; a new partition begins at 0."""
    for topic in sorted(end):
        for partition in sorted(end[topic]):
            yield topic, partition, start.get(topic, {}).get(partition, 0), end[topic][partition]


def count_between(start: Offsets, end: Offsets) -> int:
    """Number of offsets between two sets of them."""
    return sum(last - first for _, _, first, last in ranges(start, end))


def batch_end_by_time(
    start: Offsets,
    end: Offsets,
    limit: int,
    *,
    at_time: Callable[[int], Offsets],
    times_ms: tuple[int, int],
) -> tuple[Offsets, int]:
    """End offsets of at most ``limit`` records that come first in the merge, and a time that all of them reach.

    ``at_time`` looks up the first offsets at or after a time; ``times_ms`` are a time that no record before ``start``
    lies after, and the greatest time of all. Between half the limit and the limit any cut will do; where one
    timestamp alone has more records, they are cut by topic and partition, as the merge has them.
    """
    if limit < 1:
        raise ConfigError(f"a batch of at most {limit} records makes no progress")
    (low, high), before, after = (times_ms[0], times_ms[1] + 1), start, end
    few, many, halve = 0, count_between(start, end), False
    if many <= limit:
        return end, low
    while high - low > 1:
        step = (high - low) // 2 if halve else (high - low) * (limit * 3 // 4 - few) // (many - few)
        middle = low + max(1, min(high - low - 1, step))
        ends = _within(at_time(middle), start, end)
        count = count_between(start, ends)
        if limit // 2 < count <= limit:
            return ends, middle
        if count > limit:
            high, after, many = middle, ends, count
        else:
            low, before, few = middle, ends, count
        halve = not halve
    return _share(before, after, limit - few), low


def _within(ends: Offsets, start: Offsets, end: Offsets) -> Offsets:
    """Offsets, none of them before the start or after the end."""
    result: Offsets = {topic: {} for topic in end}
    for topic, partition, first, last in ranges(start, end):
        result[topic][partition] = max(first, min(last, ends.get(topic, {}).get(partition, last)))
    return result


def _share(before: Offsets, after: Offsets, limit: int) -> Offsets:
    """The first ``limit`` offsets after ``before``, partition by partition."""
    result: Offsets = {topic: {} for topic in after}
    for topic, partition, first, last in ranges(before, after):
        taken = min(last - first, limit)
        limit -= taken
        result[topic][partition] = first + taken
    return result
