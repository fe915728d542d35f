"""Timestamp extractors: determine the event time of a record that has just been read.

An extractor that gives a negative time drops the record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, Self

from kstreamnb.core.record import TopicRecord
from kstreamnb.core.signatures import taking
from kstreamnb.core.time import Clock
from kstreamnb.errors import ConfigError, ProcessingError, expect_known


class TimestampExtractor(Protocol):
    """Determines a record's event time."""

    def extract(self, record: TopicRecord, partition_time_ms: int) -> int:
        """Return the event time in ms; a negative one drops the record.

        Args:
            record: the record, with the timestamp that Kafka stores.
            partition_time_ms: the highest time so far in the record's partition, -1 before the first.
        """


@dataclass(frozen=True)
class FailOnInvalidTimestamp:
    """Uses the record's own timestamp; raises an error for a negative one. The default.

    Example:
        >>> try:
        ...     FailOnInvalidTimestamp().extract(TopicRecord("orders", 0, 0, -1, "shoe", 1), 5)
        ... except ProcessingError as error:
        ...     print(error)
        a record of topic "orders" has a negative timestamp, -1
    """

    def extract(self, record: TopicRecord, partition_time_ms: int) -> int:
        """Return the record's timestamp if it is not negative.

        Args:
            record: the record as it was read.
            partition_time_ms: highest timestamp so far in the record's partition, in epoch milliseconds; not used.

        Raises: ProcessingError for a negative timestamp.
        """
        if record.timestamp < 0:
            raise negative_timestamp(*record[:4])
        return record.timestamp


def negative_timestamp(topic: str, partition: int, offset: int, timestamp: int, *, node: str = "") -> ProcessingError:
    """Build the error about a negative timestamp from a source that allows none."""
    fact = f'a record of topic "{topic}" has a negative timestamp, {timestamp}'
    at, detail = (topic, partition, offset, timestamp), f"partition {partition}, offset {offset}"
    hint, java = "choose another timestamp extractor for the topic", "has invalid (negative) timestamp."
    return ProcessingError(fact, node=node, coordinates=at, detail=detail, hint=hint, java=java)


@dataclass(frozen=True)
class LogAndSkipOnInvalidTimestamp:
    """Uses the record's own timestamp; a record with a negative one is dropped, counted and reported.

    Example:
        >>> LogAndSkipOnInvalidTimestamp().extract(TopicRecord("orders", 0, 0, -1, "shoe", 1), 5)
        -1
    """

    def extract(self, record: TopicRecord, partition_time_ms: int) -> int:
        """Return the record's timestamp unchanged.

        Args:
            record: the record as it was read.
            partition_time_ms: highest timestamp so far in the record's partition, in epoch milliseconds; not used.
        """
        return record.timestamp


@dataclass(frozen=True)
class UsePartitionTimeOnInvalidTimestamp:
    """Uses the record's own timestamp, or the partition's time in place of a negative one.

    Example:
        >>> UsePartitionTimeOnInvalidTimestamp().extract(TopicRecord("orders", 0, 0, -1, "shoe", 1), 5)
        5
    """

    def extract(self, record: TopicRecord, partition_time_ms: int) -> int:
        """Return the record's timestamp, or the highest one before it.

        Args:
            record: the record as it was read.
            partition_time_ms: highest timestamp so far in the record's partition, in epoch milliseconds; -1 before the
                first.

        Raises: ProcessingError for a negative timestamp of the first record of a partition.
        """
        if record.timestamp >= 0:
            return record.timestamp
        if partition_time_ms < 0:
            fact = f'the first record of topic "{record.topic}" has a negative timestamp, {record.timestamp}'
            detail = f"partition {record.partition} has no earlier timestamp to fall back on"
            java = "Could not infer new timestamp for input record because partition time is unknown."
            raise ProcessingError(fact, detail=detail, java=java)
        return partition_time_ms


@dataclass(frozen=True)
class WallclockTimestampExtractor:
    """Uses the engine's wall clock at the time it takes the record; the engine passes its clock with `on`.

    Args:
        clock: an object with ``now_ms``, in epoch milliseconds. Default: None; the engine passes its own with `on`.

    Example:
        >>> from types import SimpleNamespace
        >>> extractor = WallclockTimestampExtractor().on(SimpleNamespace(now_ms=7))
        >>> extractor.extract(TopicRecord("orders", 0, 0, 1, "shoe", 1), 5)
        7
    """

    clock: Clock | None = field(default=None, compare=False)

    def on(self, clock: Clock) -> Self:
        """Return the same extractor, reading a clock.

        Args:
            clock: an object with ``now_ms``, in epoch milliseconds.
        """
        return type(self)(clock)

    def extract(self, record: TopicRecord, partition_time_ms: int) -> int:
        """Return the clock's time.

        Args:
            record: the record as it was read; its own timestamp is not used.
            partition_time_ms: highest timestamp so far in the record's partition, in epoch milliseconds; not used.

        Raises: ConfigError if the extractor has no clock; engines hand in theirs.
        """
        if self.clock is None:
            hint = "the engine hands in its clock with on(clock)"
            raise ConfigError("the wall clock extractor has no clock", hint=hint)
        return self.clock.now_ms


@dataclass(frozen=True)
class _FunctionExtractor:
    """A user's function as an extractor."""

    function: Callable[[TopicRecord, int], int]

    def extract(self, record: TopicRecord, partition_time_ms: int) -> int:
        """Return what the function returns."""
        return self.function(record, partition_time_ms)

    def __str__(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)


def extractor_of(value: object) -> TimestampExtractor:
    """Return an extractor from an extractor, a function ``(record, partition_time_ms) -> ms``, or the name of one of
    Kafka's.

    Example:
        >>> by_value = extractor_of(lambda record, partition_time_ms: record.value["at"])
        >>> by_value.extract(TopicRecord("orders", 0, 0, 5, None, {"at": 7}), -1)
        7
    """
    if hasattr(value, "extract") and not isinstance(value, type):
        return value
    if isinstance(value, str):
        return _named(value)
    if not callable(value):
        hint = "pass a function of (record, partition_time_ms), or an object with an extract method"
        raise ConfigError(f'expected a timestamp extractor, got type "{type(value).__name__}"', hint=hint)
    return _FunctionExtractor(taking(value, "record", "partition_time_ms"))


def _named(name: str) -> TimestampExtractor:
    """Return one of Kafka's extractors by the name of its class, with or without its package."""
    kinds = (
        FailOnInvalidTimestamp, LogAndSkipOnInvalidTimestamp, UsePartitionTimeOnInvalidTimestamp,
        WallclockTimestampExtractor,
    )  # fmt: skip
    by_name = {kind.__name__: kind for kind in kinds}
    word = name.rsplit(".", 1)[-1]
    hint = "pass your own extractor as a function"
    expect_known("timestamp extractor", [word], by_name, error=ConfigError, hint=hint)
    return by_name[word]()
