"""Finds the end of a batch of bounded size: always a prefix of the merge of all partitions by event time.

The merge takes the lowest head first, which is the order of (highest timestamp so far in the partition, topic,
partition, offset). The first offsets at or after a time T split every partition at the same position of that
order, so the results of a topology do not depend on how its input is divided into batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kstreamnb.errors import ConfigError

PartitionId = tuple[str, int]
"""Topic and number."""

Offsets = dict[str, dict[int, int]]
"""Offsets by topic and partition."""

_FURTHER_MS = 60_000


def ranges(start: Offsets, end: Offsets) -> Iterator[tuple[str, int, int, int]]:
    """Yield ``(topic, partition, from, to)`` for every partition in ``end``, in order; a new partition begins at 0."""
    for topic in sorted(end):
        for partition in sorted(end[topic]):
            yield topic, partition, start.get(topic, {}).get(partition, 0), end[topic][partition]


def by_partition(offsets: Offsets) -> dict[PartitionId, int]:
    """Return the offset of each partition."""
    return {(topic, part): offset for topic, parts in offsets.items() for part, offset in parts.items()}


def count_between(start: Offsets, end: Offsets) -> int:
    """Count the offsets between two sets of offsets."""
    return sum(last - first for _, _, first, last in ranges(start, end))


def batch_end_by_time(
    start: Offsets,
    end: Offsets,
    limit: int,
    *,
    at_time: Callable[[int], Offsets],
    times_ms: tuple[int, int],
    exact: bool = False,
) -> tuple[Offsets, int]:
    """Return end offsets for at most ``limit`` records, those first in the merge, and a time that all of them reach.

    The search by time accepts any end between half the limit and the limit. If a single timestamp has more records than
    that, they are divided by topic and partition, the order of the merge.

    Args:
        start: where the batch begins.
        end: up to where there are records.
        limit: records at most.
        at_time: looks up the first offsets at or after a time in ms.
        times_ms: a time that no record before ``start`` exceeds, and the highest time of all, or any lower one: brokers
            before Kafka 3.0 do not know the highest, and return that of a first record.
        exact: search until the end has exactly ``limit`` records, with more look-ups at the brokers.
    """
    if limit < 1:
        raise ConfigError(f"a batch must have at least 1 record, got a limit of {limit}")
    (low, high), before, after = (times_ms[0], times_ms[1] + 1), start, end
    few, many, halve, known, further = 0, count_between(start, end), False, False, 0
    least = limit if exact else limit // 2 + 1
    if many <= limit:
        return end, low
    while high - low > 1 or not known:
        step = (high - low) // 2 if halve else (high - low) * ((least + limit) // 2 - few) // (many - few)
        beyond = high - low == 1 or (further and not known)  # more records than the limit are before no time yet
        middle = high if beyond else low + max(1, min(high - low - 1, step))
        ends = _within(at_time(middle), start, end)
        count = count_between(start, ends)
        if least <= count <= limit:
            return ends, middle
        if count > limit:
            high, after, many, known = middle, ends, count, True
        else:
            low, before, few = middle, ends, count
        if low == high:
            further = 2 * further or _FURTHER_MS
            high += further
        halve = not halve
    return _share(before, after, limit - few), low


def _within(ends: Offsets, start: Offsets, end: Offsets) -> Offsets:
    """Limit offsets to the range from start to end."""
    result: Offsets = {topic: {} for topic in end}
    for topic, partition, first, last in ranges(start, end):
        result[topic][partition] = max(first, min(last, ends.get(topic, {}).get(partition, last)))
    return result


def _share(before: Offsets, after: Offsets, limit: int) -> Offsets:
    """Take the first ``limit`` offsets after ``before``, partition by partition."""
    result: Offsets = {topic: {} for topic in after}
    for topic, partition, first, last in ranges(before, after):
        count = min(last - first, limit)
        limit -= count
        result[topic][partition] = first + count
    return result
