"""Captures a bounded part of some topics without side effects: committed records only, no group offsets."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TypeAlias

from confluent_kafka import Message, TopicPartition

from kstreamnb.core.arguments import at_least, check_arguments
from kstreamnb.core.codec import encoded
from kstreamnb.core.progress import under_way
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.serde import Serde
from kstreamnb.core.serdes import serde_of
from kstreamnb.core.time import Instant
from kstreamnb.errors import ConfigError, SerdeError, expect_known
from kstreamnb.hooks import Advance
from kstreamnb.kafka.batch_offsets import Offsets, by_partition, ranges
from kstreamnb.kafka.bounded_reader import BoundedReader, RawRecord, arrived, at_end, bounded_consumer, raw_records
from kstreamnb.kafka.client import Servers

Progress: TypeAlias = Callable[[int, int, float], None]
"""``progress(records, bytes, seconds)``, called a few times a second."""

SerdeChoice: TypeAlias = Serde | str | Mapping[str, Serde | str] | None
"""A serde or its name, for all topics or by topic."""

_BATCH = 500
_POLL_S = 0.1
_SILENT_S = 3.0
_ALL_READ = "everything read"
_SETTLE_S = 5.0  # a transaction that is open for longer did not just begin


@dataclass(frozen=True)
class CaptureLimits:
    """Limits of a capture, which ends at the first that it reaches; None means unlimited.

    Attributes:
        records: number of records; default 1000.
        seconds: time of waiting and reading; default 10.
        bytes: size of keys and values; no limit by default.
        follow: wait for records that are not written yet; by default a capture ends at the ends that the topics had
            when it began.
    """

    records: int | None = 1000
    seconds: float | None = 10.0
    bytes: int | None = None
    follow: bool = False

    def __post_init__(self) -> None:
        check_arguments(CaptureLimits.__init__, vars(self))
        limits = {"records": self.records, "seconds": self.seconds, "bytes": self.bytes}
        bounds = {name: limit for name, limit in limits.items() if limit is not None}
        if self.follow and not bounds:
            fact = "a capture that follows its topics needs a limit"
            raise ConfigError(fact, hint="give records=, seconds= or bytes=")
        for name, limit in bounds.items():
            if limit <= 0:
                raise ConfigError(f"{name} must be greater than 0, got {limit}", hint=f"{name}=None means unlimited")


@dataclass(frozen=True)
class Captured:
    """The captured records; ``ended`` is the reason of the end, ``bounds`` the range of each partition.

    ``serdes`` are those of keys and values by topic.
    """

    records: tuple[TopicRecord, ...]
    ended: str
    bounds: tuple[str, ...]
    serdes: Mapping[str, tuple[Serde, Serde]]


@dataclass
class _Reading:
    """A capture in progress."""

    limits: CaptureLimits
    positions: dict[tuple[str, int], int]
    ends: dict[tuple[str, int], int] | None
    messages: list[Message] = field(default_factory=list)
    bytes: int = 0
    ended: str = ""

    def take(self, message: Message) -> None:
        """Keep a message, unless it is beyond the end or a limit."""
        partition, offset = (message.topic(), message.partition()), message.offset()
        if self.ended:
            return
        if self.ends is not None and offset >= self.ends[partition]:
            self.reach(partition, offset)
            return
        self.messages.append(message)
        self.reach(partition, offset + 1)
        self.bytes += len(message.key() or b"") + len(message.value() or b"")
        if self.limits.bytes is not None and self.bytes >= self.limits.bytes:
            self.ended = f"limit of {self.limits.bytes:,} bytes reached"
        elif self.limits.records is not None and len(self.messages) >= self.limits.records:
            self.ended = f"limit of {self.limits.records:,} records reached"

    @property
    def missing(self) -> int:
        """Return the number of records that the limit still allows."""
        return 0 if self.limits.records is None else self.limits.records - len(self.messages)

    def reach(self, partition: tuple[str, int], offset: int) -> None:
        """Note the position in a partition, its end at most."""
        end = offset if self.ends is None else self.ends[partition]
        self.positions[partition] = max(self.positions[partition], min(offset, end))

    def check(self, seconds: float) -> None:
        """Detect that everything was read, or that time is over."""
        ends = self.ends
        if not self.ended and ends is not None and all(self.positions[each] >= end for each, end in ends.items()):
            self.ended = _ALL_READ
        if not self.ended and self.limits.seconds is not None and seconds >= self.limits.seconds:
            self.ended = f"limit of {self.limits.seconds:g} seconds reached"


def _check_topics(topics: Sequence[object]) -> None:
    """Raise ConfigError unless each topic is a text."""
    hint = 'name them one by one: capture(servers, "orders", "payments")'
    if not topics:
        raise ConfigError("a capture needs at least one topic, got none", hint=hint)
    for topic in topics:
        if not isinstance(topic, str) or not topic:
            kind = "an empty text" if topic == "" else type(topic).__name__
            raise ConfigError(f"expected the name of a topic, got {kind}", hint=hint)


def capture(
    servers: Servers,
    topics: Sequence[str],
    limits: CaptureLimits | None = None,
    *,
    from_: Instant | str | Mapping[str, Mapping[int, int]] = "earliest",
    key_serde: SerdeChoice = None,
    value_serde: SerdeChoice = None,
    progress: Progress | None = None,
) -> Captured:
    """Capture records of topics until a limit, the end, or an interrupt, which keeps the records that were read.

    Without ``follow`` a limit of records selects those that are first by event time, the same ones on every run. Keys
    and values that a serde cannot read stay `SerializedValue` bytes.

    Args:
        servers: ``host:port,…``, or settings with ``bootstrap.servers`` among them.
        topics: names of topics.
        limits: when to end; by default after 1000 records or 10 s.
        from_: "earliest" (default), "latest", which waits for new records, an instant, or offsets by topic and
            partition.
        key_serde: reads keys, or its name such as "long", or serdes by topic; text by default.
        value_serde: reads values, or its name, or serdes by topic; JSON by default.
        progress: called with records, bytes and seconds a few times a second.
    """
    limits = limits or CaptureLimits()
    _check_topics(topics)
    chosen = _by_topic(topics, key_serde, "key_serde", "string"), _by_topic(topics, value_serde, "value_serde", "json")
    serdes = {topic: (chosen[0][topic], chosen[1][topic]) for topic in topics}
    reader = BoundedReader(servers, topics)
    bounded = not limits.follow and from_ != "latest"
    start, end = _start(reader, from_), ends_of(reader) if bounded else reader.end()
    ends: Offsets | None = None
    if bounded:
        ends = end if limits.records is None else reader.batch_end(start, end, limits.records, exact=True)
    positions = {(topic, part): first for topic, part, first, _ in ranges(start, end)}
    reading = _Reading(limits, dict(positions), None if ends is None else by_partition(ends))
    reading.check(0.0)
    with under_way("records", limits.records) as done:
        try:
            _read(servers, reading, progress, done)
            # Markers of transactions and aborted records have offsets too: read on until the limit is reached.
            while ends is not None and ends != end and reading.ended == _ALL_READ and reading.missing:
                ends = reader.batch_end(ends, end, reading.missing, exact=True)
                reading.ends, reading.ended = by_partition(ends), ""
                _read(servers, reading, progress, done)
        except KeyboardInterrupt:
            reading.ended = "interrupted"
    if ends is not None and reading.ended == _ALL_READ and ends != end:
        reading.ended = f"limit of {limits.records:,} records reached"
    rows = zip(reading.messages, raw_records(reading.messages), strict=True)
    records = tuple(_record(message, row, *serdes[message.topic()]) for message, row in rows)
    return Captured(records, reading.ended, _bounds(positions, reading.positions, end), serdes)


def _by_topic(topics: Sequence[str], given: SerdeChoice, name: str, default: str) -> dict[str, Serde]:
    """Return the serde of each topic; raise ConfigError for one of a topic that is not captured."""
    if not isinstance(given, Mapping):
        return dict.fromkeys(topics, serde_of(given or default))
    for topic in given:
        if topic not in topics:
            raise ConfigError(f'{name}= names topic "{topic}", which is not captured')
    return {topic: serde_of(given.get(topic) or default) for topic in topics}


def _start(reader: BoundedReader, from_: Instant | str | Mapping[str, Mapping[int, int]]) -> Offsets:
    if not isinstance(from_, Mapping):
        return reader.admin.offsets(reader.topics, from_)
    beginning = reader.beginning()
    for topic, offsets in from_.items():
        if topic not in beginning:
            raise ConfigError(f'offsets are given for topic "{topic}", which is not captured')
        expect_known(f'partition of topic "{topic}":', offsets, beginning[topic], error=ConfigError)
        at_least(0, min(offsets.values(), default=0), f'offset of topic "{topic}"')  # librdkafka takes -1 for the end
    return {topic: {**parts, **from_.get(topic, {})} for topic, parts in beginning.items()}


def ends_of(reader: BoundedReader) -> Offsets:
    """Return the ends of topics behind records just committed, which brokers show to readers with a delay."""
    written, ends = reader.admin.offsets(reader.topics, committed=False), reader.end()
    patience = time.monotonic() + _SETTLE_S
    while time.monotonic() < patience and any(end < last for _, _, end, last in ranges(ends, written)):
        time.sleep(_POLL_S / 10)
        ends = reader.end()
    return ends


def _read(servers: Servers, reading: _Reading, progress: Progress | None, done: Advance) -> None:
    began = time.monotonic()
    with closing(_arriving(servers, reading)) as arriving:
        while not reading.ended:
            before = len(reading.messages)
            for message in next(arriving):
                if at_end(message, servers):
                    reading.reach((message.topic(), message.partition()), message.offset())
                else:
                    reading.take(message)
            seconds = time.monotonic() - began
            reading.check(seconds)
            done(len(reading.messages) - before)
            if progress is not None:
                progress(len(reading.messages), reading.bytes, seconds)


def _arriving(servers: Servers, reading: _Reading) -> Generator[list[Message], None, None]:
    """Yield messages, also none; after a silence of another consumer, because one that lost every broker gets none."""
    silent_s = _SILENT_S
    while True:
        with closing(bounded_consumer(servers)) as consumer:
            consumer.assign([TopicPartition(*partition, offset) for partition, offset in reading.positions.items()])
            heard = time.monotonic()
            while time.monotonic() - heard < silent_s:
                yield (messages := arrived(consumer, _BATCH, _POLL_S))
                heard = time.monotonic() if messages else heard
        silent_s *= 2  # the topics may be quiet


def _record(message: Message, row: RawRecord, key_serde: Serde, value_serde: Serde) -> TopicRecord:
    offset, timestamp, key, value, headers = row
    position = message.topic(), message.partition(), offset, timestamp
    return TopicRecord(*position, _decoded(key_serde, key), _decoded(value_serde, value), headers)


def _decoded(serde: Serde, data: bytes | None) -> object:
    try:
        return serde.deserialize(data)
    except SerdeError:
        return encoded(data)


def _bounds(start: dict[tuple[str, int], int], positions: dict[tuple[str, int], int], end: Offsets) -> tuple[str, ...]:
    """Describe each topic in a line: the range that was read of each partition, and its end if that is later."""
    lines: dict[str, list[str]] = {}
    for (topic, part), first in sorted(start.items()):
        reached = positions[topic, part]
        rest = f" of {end[topic][part]:,}" if reached < end[topic][part] else ""
        lines.setdefault(topic, []).append(f"{part}: {first:,} to {reached:,}{rest}")
    return tuple(f"{topic} offsets {', '.join(parts)}" for topic, parts in lines.items())
