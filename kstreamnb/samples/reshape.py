"""Samples from samples: slices, merges, shifts in time, and disorder.

Slices keep the offsets of their records; a change of order counts them again.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from kstreamnb.core.arguments import expect, expect_number
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.signatures import taking
from kstreamnb.core.time import Duration, Instant, duration_ms, instant_ms
from kstreamnb.errors import ConfigError
from kstreamnb.samples.columns import number_offsets, partitioned

if TYPE_CHECKING:  # its class lists these functions
    from kstreamnb.dsl.option_fields import SerdeLike
    from kstreamnb.samples.sample import Sample


def head(self: Sample, count: int = 10) -> Sample:
    """Return the first records.

    Args:
        count: maximum number of records. Default: 10.
    """
    expect_number(count, "number of records")
    return replace(self, records=self.records[:count])


def where(self: Sample, predicate: Callable[[TopicRecord], bool]) -> Sample:
    """Return the records for which a predicate holds.

    Args:
        predicate: function ``(record) -> bool``; gets each `TopicRecord`.
    """
    taking(predicate, "record")
    return replace(self, records=tuple(record for record in self.records if predicate(record)))


def between(self: Sample, start: Instant, end: Instant) -> Sample:
    """Return the records from a time up to, but not including, another.

    Args:
        start: first instant, inclusive: an aware datetime, ISO text such as "2026-01-01T00:00Z", or epoch milliseconds.
        end: last instant, exclusive, in the same forms.
    """
    low, high = instant_ms(start, "start of the slice"), instant_ms(end, "end of the slice")
    return where(self, lambda record: low <= record.timestamp < high)


def of_topic(self: Sample, *topics: str) -> Sample:
    """Return the records of some topics.

    Args:
        topics: names of the topics to keep.

    Raises: ConfigError for a topic that the sample does not have.
    """
    for topic in topics:
        if topic not in self.topics:
            detail = f"it has {', '.join(self.topics)}" if self.topics else "it is empty"
            raise ConfigError(f'the sample has no topic "{topic}"', detail=detail)
    return where(self, lambda record: record.topic in topics)


def merge(self: Sample, *others: Sample) -> Sample:
    """Return all records in the order in which a task would take them: lowest head first, by time, topic and partition.

    The order within a partition of one sample is kept. If two samples share a partition, theirs are interleaved.

    Args:
        others: samples to merge with this one.

    Raises: ConfigError for anything but samples.
    """
    samples = (self, *others)
    for other in others:
        expect(other, type(self), "each sample to merge")
    lanes: dict[tuple[str, int, int], list[TopicRecord]] = {}
    for source, sample in enumerate(samples):
        for record in sample.records:
            lanes.setdefault((record.topic, record.partition, source), []).append(record)
    ordered = heapq.merge(*(_lane(lane, records) for lane, records in lanes.items()))
    merged = tuple(entry[-1] for entry in ordered)
    shared = len({lane[:2] for lane in lanes}) < len(lanes)
    notes = tuple(note for sample in samples for note in sample.notes)
    serdes = {topic: serde for sample in reversed(samples) for topic, serde in sample.serdes.items()}
    return replace(self, records=number_offsets(merged) if shared else merged, notes=notes, schema=(), serdes=serdes)


def _lane(lane: tuple[str, int, int], rows: list[TopicRecord]) -> Iterator[tuple[int, str, int, int, int, TopicRecord]]:
    greatest = -(1 << 63)
    for row, record in enumerate(rows):
        greatest = max(greatest, record.timestamp)
        yield greatest, *lane, row, record


def shift(self: Sample, by: Duration) -> Sample:
    """Shift all records later by a duration, or earlier by a negative one.

    Args:
        by: duration such as "1h" or "-5m"; a negative one moves records to earlier times.
    """
    step = duration_ms(by, "shift")
    return replace(self, records=tuple(r._replace(timestamp=r.timestamp + step) for r in self.records))


def starting_at(self: Sample, start: Instant) -> Sample:
    """Shift all records so that the earliest is at an instant.

    Args:
        start: new event time of the earliest record: an aware datetime, ISO text or epoch milliseconds.
    """
    if not self.records:
        return self
    return shift(self, f"{instant_ms(start, 'start') - min(record.timestamp for record in self.records)}ms")


def with_partitions(self: Sample, partitions: int | Mapping[str, int], *, key_serde: SerdeLike | None = None) -> Sample:
    """Return the records in the partitions that their keys choose, given one number for all topics or one for each.

    Args:
        partitions: number of partitions of every topic, or a mapping from topics to numbers.
        key_serde: serde, or its name, whose bytes choose the partition. Default: text.

    Raises: ConfigError for a topic that the sample does not have; topics that are not named get one partition.
    """
    if isinstance(partitions, Mapping):
        of_topic(self, *partitions)
    return replace(self, records=partitioned(self.records, partitions, key_serde))


def disorder(self: Sample, *, seed: int, by: Duration | None = None, share: float = 1.0) -> Sample:
    """Return the records in a different order of arrival, with unchanged timestamps.

    A ``share`` of the records arrives later, each by its own part of the duration ``by``; so none is later than
    that. Without ``by`` the order within each partition is arbitrary.

    Args:
        seed: seed of the random order; the same seed gives the same order on every machine.
        by: longest delay of a record, such as "30s". Default: None, any order within each partition.
        share: share of the records that arrive later, from 0 to 1. Default: 1.0.

    Raises: ConfigError for a share outside of 0 to 1, or a negative duration.
    """
    expect(share, float | int, "share")
    if not 0 <= share <= 1:
        raise ConfigError(f"share of late records must be between 0 and 1, got {share}")
    longest = None if by is None else duration_ms(by, "disorder")
    if longest is not None and longest < 0:
        raise ConfigError(f"by must not be negative, got {longest} ms", hint="pass a positive duration by=")
    lanes: dict[tuple[str, int], list[tuple[float, int, TopicRecord]]] = {}
    expect_number(seed, "seed")
    random = Random(seed)
    for row, record in enumerate(self.records):
        chosen, delay = random.random() < share, random.random()
        if longest is None:
            arrival = delay if chosen else row / len(self.records)
        else:
            arrival = record.timestamp + (delay * longest if chosen else 0)
        lanes.setdefault((record.topic, record.partition), []).append((arrival, row, record))
    slots = {place: iter(sorted(lane)) for place, lane in lanes.items()}
    moved = (next(slots[record.topic, record.partition])[2] for record in self.records)
    return replace(self, records=number_offsets(moved))
