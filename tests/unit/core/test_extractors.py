"""Timestamp extractors."""

from __future__ import annotations

import pytest

from kstreamnb.core.extractors import (
    FailOnInvalidTimestamp,
    LogAndSkipOnInvalidTimestamp,
    UsePartitionTimeOnInvalidTimestamp,
    WallclockTimestampExtractor,
    extractor_of,
)
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.time import Clock
from kstreamnb.dsl.builder import StreamsBuilder
from kstreamnb.errors import ConfigError, ProcessingError
from kstreamnb.runtime.context.config import Config
from kstreamnb.testdriver.topology_test_driver import TopologyTestDriver

GOOD, BAD = TopicRecord("orders", 0, 3, 7, "a", None), TopicRecord("orders", 0, 4, -1, "a", None)


def test_a_valid_timestamp_is_taken_as_it_is():
    """All three extractors of the record's own time agree on a valid one."""
    for kind in (FailOnInvalidTimestamp, LogAndSkipOnInvalidTimestamp, UsePartitionTimeOnInvalidTimestamp):
        assert 7 == kind().extract(GOOD, 99)


def test_a_negative_timestamp_fails_is_dropped_or_replaced():
    """The three differ in how they handle a negative time."""
    with pytest.raises(ProcessingError, match='topic "orders" has a negative timestamp, -1') as caught:
        FailOnInvalidTimestamp().extract(BAD, 99)
    assert "has invalid (negative) timestamp." == caught.value.java
    assert -1 == LogAndSkipOnInvalidTimestamp().extract(BAD, 99)
    assert 99 == UsePartitionTimeOnInvalidTimestamp().extract(BAD, 99)
    with pytest.raises(ProcessingError, match='first record of topic "orders"'):
        UsePartitionTimeOnInvalidTimestamp().extract(BAD, -1)


def test_the_wall_clock_is_the_engines():
    """The extractor reads only the clock it was given."""
    clock = Clock(100)
    extractor = WallclockTimestampExtractor().on(clock)
    clock.advance_to(200)
    assert 200 == extractor.extract(GOOD, -1)
    with pytest.raises(ConfigError, match="has no clock"):
        WallclockTimestampExtractor().extract(GOOD, -1)


def test_a_function_is_an_extractor():
    """A user's function gets record and partition time; anything that is not callable is refused."""
    assert 8 == extractor_of(lambda record, partition_time_ms: record.timestamp + 1).extract(GOOD, -1)
    assert FailOnInvalidTimestamp() == extractor_of(FailOnInvalidTimestamp())
    with pytest.raises(ConfigError, match='expected a timestamp extractor, got type "int"'):
        extractor_of(5)


def test_an_extractor_of_kafka_is_found_by_the_name_of_its_class():
    """Settings of a Java application name their extractor by its class; the nearest name is suggested for an unknown
    one.
    """
    package = "org.apache.kafka.streams.processor."
    assert LogAndSkipOnInvalidTimestamp() == extractor_of(package + "LogAndSkipOnInvalidTimestamp")
    assert (
        WallclockTimestampExtractor()
        == Config.of({"default.timestamp.extractor": "WallclockTimestampExtractor"}).default_timestamp_extractor
    )
    with pytest.raises(ConfigError, match=r'timestamp extractor "OrderTime" does not exist') as caught:
        Config.of({"default.timestamp.extractor": "com.shop.OrderTime"})
    assert "pass your own extractor as a function" in "".join(caught.value.__notes__)


def test_an_extractor_that_takes_other_arguments_is_refused_where_the_stream_is_declared():
    """It gets the record and the partition's time."""
    with pytest.raises(ConfigError, match=r"expected a function taking \(record, partition_time_ms\)"):
        StreamsBuilder("times").stream("trips", timestamp_extractor=lambda record: record.timestamp)


def test_an_extractor_that_fails_is_reported_with_its_cause():
    """The message has the kind and text of the user's error."""
    builder = StreamsBuilder("times")
    builder.stream("trips", timestamp_extractor=lambda record, _: record.value["at"]).to("out")
    topic = TopologyTestDriver(builder.build()).create_input_topic("trips")
    with pytest.raises(ProcessingError, match="the timestamp extractor failed: KeyError: 'at'") as caught:
        topic.pipe_input("a", {"km": 1})
    assert caught.value.java == "Fatal user code error in TimestampExtractor callback for record"
