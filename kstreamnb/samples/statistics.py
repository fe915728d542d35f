"""Statistics of a sample: keys, skew over partitions, and how late its records are."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from operator import attrgetter
from typing import Any

from kstreamnb.charts import Bars, Charted, Charts
from kstreamnb.core.codec import SerializedValue
from kstreamnb.core.formatting import clean, pluralize
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.time import format_duration, format_ms
from kstreamnb.errors import ConfigError, expect_known
from kstreamnb.samples.description import size_of
from kstreamnb.samples.text import format_cell
from kstreamnb.topology.nodes import grouped

_STEPS_MS = [
    *(step * size for size in (1, 10, 100) for step in (1, 2, 5)),
    *(step * size for size in (1000, 60_000) for step in (1, 2, 5, 10, 15, 20, 30)),
    *(step * 3_600_000 for step in (1, 2, 3, 6, 12, 24, 48, 72, 168)),
]
_CLASSES_MS = (1000, 10_000, 60_000, 600_000, 3_600_000, 86_400_000)


@dataclass(frozen=True)
class Lateness:
    """How far records are behind the highest timestamp before them in their partition, in ms.

    That is the distance to stream time at which a task takes them. ``sorted_ms`` holds it for every record.
    """

    sorted_ms: tuple[int, ...]

    @property
    def late(self) -> int:
        """Number of records behind stream time."""
        return sum(1 for each in self.sorted_ms if each > 0)

    @property
    def max_ms(self) -> int:
        """The latest record's distance."""
        return self.sorted_ms[-1] if self.sorted_ms else 0

    def quantile_ms(self, share: float) -> int:
        """Return the distance that a share of the records stays within.

        Args:
            share: a share of the records, 0 to 1.
        """
        return self.sorted_ms[max(0, ceil(share * len(self.sorted_ms)) - 1)] if self.sorted_ms else 0

    def classes(self) -> tuple[tuple[str, int], ...]:
        """Count the records in order, those up to one second late, up to ten seconds, and so on to the latest.

        Example:
            >>> Lateness((0, 0, 500, 90_000)).classes()
            (('in order', 2), ('up to 1s', 1), ('up to 10s', 0), ('up to 1m', 0), ('up to 10m', 1))
        """
        ends = [bisect_right(self.sorted_ms, limit) for limit in (0, *_CLASSES_MS)]
        names = ["in order", *(f"up to {format_duration(limit)}" for limit in _CLASSES_MS), "later"]
        counts = [end - start for start, end in pairwise((0, *ends, len(self.sorted_ms)))]
        last = max((number for number, count in enumerate(counts) if count), default=0)
        return tuple(zip(names, counts, strict=True))[: last + 1]

    def suggested_grace_ms(self, share: float = 0.999) -> int:
        """Return the shortest round duration that keeps a share of the records, whatever their windows.

        Args:
            share: a share of the records, 0 to 1. Default: 0.999.
        """
        wanted = self.quantile_ms(share)
        return next((step for step in (0, *_STEPS_MS) if step >= wanted), ceil(wanted / 86_400_000) * 86_400_000)


@dataclass(frozen=True)
class TopicStatistics:
    """One topic of a sample. ``top_keys`` are the most frequent ones; ``partitions`` counts records.

    ``bytes`` holds the size of each partition's keys and values, as a text table has them.
    """

    topic: str
    records: int
    keys: int
    null_keys: int
    tombstones: int
    undecodable: int
    top_keys: tuple[tuple[str, int], ...]
    partitions: tuple[tuple[int, int], ...]
    first_ms: int
    last_ms: int
    lateness: Lateness
    bytes: tuple[tuple[int, int], ...] = ()

    def bars(self, of: str) -> Iterator[Bars]:
        """Yield charts of lateness, keys and partitions; ``of`` ends their titles.

        Args:
            of: the end of each title.
        """
        others = self.records - self.null_keys - sum(count for _, count in self.top_keys)
        rest = ((f"{self.keys - len(self.top_keys):,} other keys", others),) if others else ()
        yield Bars(f"behind stream time on arrival{of}", "records", self.lateness.classes())
        yield Bars(f"by key{of}", "records", (*self.top_keys, *rest))
        for unit, counts in (("records", self.partitions), ("bytes", self.bytes)):
            named = ((f"partition {number}" if number >= 0 else "by key", count) for number, count in counts)
            yield Bars(f"by partition{of}", unit, tuple(named))

    @property
    def skew(self) -> float:
        """Records of the fullest partition over the mean of those that have any; 1.0 is even."""
        counts = [count for _, count in self.partitions]
        return max(counts) * len(counts) / sum(counts) if counts else 1.0

    def __str__(self) -> str:
        late, most = self.lateness, ", ".join(f"{key} {count:,}" for key, count in self.top_keys)
        partitions = ", ".join(f"{number if number >= 0 else 'by key'}: {count:,}" for number, count in self.partitions)
        odd = {"without key": self.null_keys, "without value": self.tombstones, "undecodable": self.undecodable}
        oddly = "".join(f", {count:,} {word}" for word, count in odd.items() if count)
        lines = [
            f"{clean(self.topic)}: {pluralize(self.records, 'record')}{oddly}",
            f"  time        {format_ms(self.first_ms)} to {format_ms(self.last_ms)}",
            f"  keys        {self.keys:,}, most frequent {most or 'none'}",
            f"  partitions  {partitions}; skew {self.skew:.2f}",
            f"  lateness    {pluralize(late.late, 'record')} behind stream time; half within "
            f"{format_duration(late.quantile_ms(0.5))}, 99% within {format_duration(late.quantile_ms(0.99))}, "
            f"all within {format_duration(late.max_ms)}",
            f"  grace       {format_duration(late.suggested_grace_ms())} keeps 99.9% of the records",
        ]
        return "\n".join(lines)


@dataclass(frozen=True)
class SampleStatistics(Charted):
    """Statistics of every topic of a sample: text, and charts of lateness, keys and partitions.

    Args:
        topics: statistics of each topic.

    Example:
        >>> records = [TopicRecord("orders", 0, at, time, "shoe", 1) for at, time in enumerate((0, 60_000, 15_000))]
        >>> print(statistics_of(records))
        orders: 3 records
          time        1970-01-01T00:00:00Z to 1970-01-01T00:01:00Z
          keys        1, most frequent shoe 3
          partitions  0: 3; skew 1.00
          lateness    1 record behind stream time; half within 0ms, 99% within 45s, all within 45s
          grace       1m keeps 99.9% of the records
    """

    topics: tuple[TopicStatistics, ...]

    def __getitem__(self, topic: str) -> TopicStatistics:
        by_name = {each.topic: each for each in self.topics}
        expect_known("topic", [topic], by_name, error=ConfigError)
        return by_name[topic]

    @property
    def charts(self) -> Charts:
        """The charts of every topic, with facts that no bar shows as notes."""
        alone = len(self.topics) == 1
        bars = [bar for each in self.topics for bar in each.bars("" if alone else f": {each.topic}")]
        facts = [[" ".join(line.split()) for line in str(each).splitlines()] for each in self.topics]
        notes = [line for first, time, *_, grace in facts for line in (first, time, grace)]
        return Charts("statistics of a sample", tuple(bars), tuple(notes or ["no records"]))

    def __str__(self) -> str:
        return "\n".join(map(str, self.topics)) or "no records"

    __repr__ = __str__


def statistics_of(records: Iterable[TopicRecord], top: int = 3) -> SampleStatistics:
    """Compute statistics of records in their order of arrival."""
    by_topic = grouped(records, attrgetter("topic"))
    return SampleStatistics(tuple(_topic(name, by_topic[name], top) for name in sorted(by_topic)))


def _count_keys(keys: list[Any]) -> Counter[str]:
    """Count the occurrences of each key, by its cell; each text is formatted once."""
    if all(type(key) is str for key in keys):
        return Counter({format_cell(key): count for key, count in Counter(keys).items()})
    return Counter(map(format_cell, keys))


def _topic(topic: str, records: list[TopicRecord], top: int) -> TopicStatistics:
    keys = _count_keys([record.key for record in records if record.key is not None])
    partitions = Counter(record.partition for record in records)
    greatest: dict[int, int] = {}
    late = []
    sizes: Counter[int] = Counter()
    for record in records:
        sizes[record.partition] += size_of(record)
        before = max(greatest.get(record.partition, record.timestamp), record.timestamp)
        greatest[record.partition] = before
        late.append(before - record.timestamp)
    times = [record.timestamp for record in records]
    return TopicStatistics(
        topic,
        len(records),
        len(keys),
        sum(record.key is None for record in records),
        sum(record.value is None for record in records),
        sum(SerializedValue in (type(record.key), type(record.value)) for record in records),
        tuple(sorted(keys.items(), key=lambda each: (-each[1], each[0]))[:top]),
        tuple(sorted(partitions.items())),
        min(times),
        max(times),
        Lateness(tuple(sorted(late))),
        tuple(sorted(sizes.items())),
    )
