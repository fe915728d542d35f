"""A bounded part of some topics, taken without leaving a trace: no group offsets, committed records only."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from confluent_kafka import Consumer, Message, TopicPartition

from kstreamnb.core.codec import SerializedValue
from kstreamnb.core.progress import Done, under_way
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.serde import Serde
from kstreamnb.core.serdes import Serdes
from kstreamnb.core.time import Instant
from kstreamnb.errors import ConfigError, SerdeError
from kstreamnb.kafka.batch_offsets import Offsets, ranges
from kstreamnb.kafka.bounded_reader import BoundedReader, arrived, at_end, bounded_consumer, raw_record
from kstreamnb.kafka.client import Servers

__all__ = ["CaptureLimits", "Captured", "Progress", "capture", "ends_of"]

Progress: TypeAlias = Callable[[int, int, float], None]
"""``progress(records, bytes, seconds)``, called a few times a second."""

_BATCH = 500
_POLL_S = 0.1
_SETTLE_S = 5.0  # a transaction that is open for longer is not of a moment ago


@dataclass(frozen=True)
class CaptureLimits:
    """Where a capture ends, whatever comes first; None is no limit.

    Units: ``seconds`` of waiting and reading; ``bytes`` of keys and values. ``follow`` waits for records that are
    yet to come; without it the capture ends where the topics ended when it began.
    """

    records: int | None = 1000
    seconds: float | None = 10.0
    bytes: int | None = None
    follow: bool = False

    def __post_init__(self) -> None:
        limits = {"records": self.records, "seconds": self.seconds, "bytes": self.bytes}
        given = {name: limit for name, limit in limits.items() if limit is not None}
        if self.follow and not given:
            raise ConfigError(
                "a capture that follows its topics has no limit", hint="give records=, seconds= or bytes="
            )
        for name, limit in given.items():
            if isinstance(limit, bool) or not isinstance(limit, (int, float)):
                raise ConfigError(f"the limit of {name} of a capture is a number, not a {type(limit).__name__}")
            if limit <= 0:
                raise ConfigError(f"a capture cannot end after {limit} {name}", hint=f"{name}=None is no limit")


@dataclass(frozen=True)
class Captured:
    """What was taken: ``ended`` says why no more, ``bounds`` what each partition gave."""

    records: tuple[TopicRecord, ...]
    ended: str
    bounds: tuple[str, ...]


@dataclass
class _Reading:
    """A capture under way."""

    limits: CaptureLimits
    positions: dict[tuple[str, int], int]
    ends: dict[tuple[str, int], int] | None
    messages: list[Message] = field(default_factory=list)
    bytes: int = 0
    ended: str = ""

    def take(self, message: Message) -> None:
        """Keep a message, unless it is beyond the end or a limit."""
        place, offset = (message.topic(), message.partition()), message.offset()
        if self.ended:
            return
        if self.ends is not None and offset >= self.ends[place]:
            self.reach(place, offset)
            return
        self.messages.append(message)
        self.reach(place, offset + 1)
        self.bytes += len(message.key() or b"") + len(message.value() or b"")
        if self.limits.bytes is not None and self.bytes >= self.limits.bytes:
            self.ended = f"limit of {self.limits.bytes:,} bytes reached"
        elif self.limits.records is not None and len(self.messages) >= self.limits.records:
            self.ended = f"limit of {self.limits.records:,} records reached"

    def reach(self, place: tuple[str, int], offset: int) -> None:
        """Note how far a partition was read; beyond its end nothing is taken."""
        end = offset if self.ends is None else self.ends[place]
        self.positions[place] = max(self.positions[place], min(offset, end))

    def check(self, seconds: float) -> None:
        """Notice that everything was read, or that time is over."""
        ends = self.ends
        if not self.ended and ends is not None and all(self.positions[place] >= ends[place] for place in ends):
            self.ended = "everything read"
        if not self.ended and self.limits.seconds is not None and seconds >= self.limits.seconds:
            self.ended = f"limit of {self.limits.seconds:g} seconds reached"


def _check_topics(topics: Sequence[object]) -> None:
    """Raise ConfigError unless each topic is named by a text."""
    hint = 'name them one by one: capture(servers, "orders", "payments")'
    if not topics:
        raise ConfigError("a capture names no topic", hint=hint)
    for topic in topics:
        if not isinstance(topic, str) or not topic:
            said = "an empty one" if topic == "" else f"a {type(topic).__name__}"
            raise ConfigError(f"a topic of a capture is named by text, not by {said}", hint=hint)


def capture(
    servers: Servers,
    topics: Sequence[str],
    limits: CaptureLimits | None = None,
    *,
    from_: Instant | str | Mapping[str, Mapping[int, int]] = "earliest",
    key_serde: Serde | None = None,
    value_serde: Serde | None = None,
    progress: Progress | None = None,
) -> Captured:
    """Take records from topics until a limit, the end, or an interrupt, which keeps what was read.

    ``from_`` is "earliest", "latest" (which waits for new records), an instant, or offsets by topic and partition.
    Without ``follow`` a limit of records takes those that are first by event time, on every run the same ones. What
    a serde cannot read stays as `SerializedValue` bytes.
    """
    limits = limits or CaptureLimits()
    _check_topics(topics)
    reader = BoundedReader(servers, topics)
    bounded = not limits.follow and from_ != "latest"
    start, end = _start(reader, from_), ends_of(reader) if bounded else reader.end()
    ends: Offsets | None = None
    if bounded:
        ends = end if limits.records is None else reader.batch_end(start, end, limits.records)
    places = {(topic, part): first for topic, part, first, _ in ranges(start, end)}
    last = None if ends is None else {(topic, part): final for topic, part, _, final in ranges(start, ends)}
    reading = _Reading(limits, dict(places), last)
    if last is not None:
        reading.check(0.0)
    consumer = bounded_consumer(servers)
    try:
        consumer.assign([TopicPartition(topic, part, first) for (topic, part), first in places.items()])
        with under_way("records", limits.records) as done:
            _read(consumer, servers, reading, progress, done)
    except KeyboardInterrupt:
        reading.ended = "interrupted"
    finally:
        consumer.close()
    if last is not None and reading.ended == "everything read" and ends != end:
        reading.ended = f"limit of {limits.records:,} records reached"
    serdes = key_serde or Serdes.string(), value_serde or Serdes.json()
    records = tuple(_record(message, *serdes) for message in reading.messages)
    return Captured(records, reading.ended, _bounds(places, reading.positions, end))


def _start(reader: BoundedReader, from_: Instant | str | Mapping[str, Mapping[int, int]]) -> Offsets:
    if not isinstance(from_, Mapping):
        return reader.admin.offsets(reader.topics(), from_)
    beginning = reader.beginning()
    for topic in from_:
        if topic not in beginning:
            raise ConfigError(f'offsets are given for topic "{topic}", which is not captured')
    return {topic: {**parts, **from_.get(topic, {})} for topic, parts in beginning.items()}


def ends_of(reader: BoundedReader) -> Offsets:
    """Where the topics end now, behind what was committed a moment ago: brokers show that to readers a little later."""
    written, found = reader.admin.offsets(reader.topics(), committed=False), reader.end()
    patience = time.monotonic() + _SETTLE_S
    while time.monotonic() < patience and any(end < last for _, _, end, last in ranges(found, written)):
        time.sleep(_POLL_S / 10)
        found = reader.end()
    return found


def _read(consumer: Consumer, servers: Servers, reading: _Reading, progress: Progress | None, done: Done) -> None:
    began = time.monotonic()
    while not reading.ended:
        before = len(reading.messages)
        for message in arrived(consumer, _BATCH, _POLL_S):
            if at_end(message, servers):
                reading.reach((message.topic(), message.partition()), message.offset())
            else:
                reading.take(message)
        seconds = time.monotonic() - began
        reading.check(seconds)
        done(len(reading.messages) - before)
        if progress is not None:
            progress(len(reading.messages), reading.bytes, seconds)


def _record(message: Message, key_serde: Serde, value_serde: Serde) -> TopicRecord:
    offset, timestamp, key, value, headers = raw_record(message)
    place = message.topic(), message.partition(), offset, timestamp
    return TopicRecord(*place, _decoded(key_serde, key), _decoded(value_serde, value), headers)


def _decoded(serde: Serde, data: SerializedValue | None) -> object:
    try:
        return serde.deserialize(data)
    except SerdeError:
        return data


def _bounds(start: dict[tuple[str, int], int], positions: dict[tuple[str, int], int], end: Offsets) -> tuple[str, ...]:
    """One line for each topic: from where to where each partition was read, and where it ended."""
    lines: dict[str, list[str]] = {}
    for (topic, part), first in sorted(start.items()):
        reached = positions[topic, part]
        rest = f" of {end[topic][part]:,}" if reached < end[topic][part] else ""
        lines.setdefault(topic, []).append(f"{part}: {first:,} to {reached:,}{rest}")
    return tuple(f"{topic} offsets {', '.join(parts)}" for topic, parts in lines.items())
