"""When a query's reader looks up offsets, and when it relies on the records that arrive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.kafka.batch_offsets import Offsets
from kstreamnb.runtime.context.config import Config
from kstreamnb.spark.contracts import OffsetSource
from kstreamnb.spark.io import stream_source
from kstreamnb.spark.io.offset_source import FEW_RECORDS
from kstreamnb.spark.io.stream_source import QuerySourceReader, SourceSettings
from kstreamnb.spark.planning.placement import plan_application, plan_deployment


class Topic(OffsetSource):
    """A partition with committed offsets, of which some have arrived."""

    raw = False

    def __init__(self, last: int) -> None:
        self.last, self.has_arrived, self.looked, self.followed = last, 0, 0, -1

    def beginning(self) -> Offsets:
        """The first offset."""
        return {"in": {0: 0}}

    def end(self) -> Offsets:
        """Look up the last offset."""
        self.looked += 1
        return {"in": {0: self.last}}

    def check(self, start: Offsets, end: Offsets) -> None:
        """Nothing is ever lost."""

    def now_ms(self) -> int:
        """A clock that does not advance."""
        return 0

    def follow(self, begin: Offsets) -> None:
        """Note from where records are received."""
        self.followed = begin["in"][0]

    def arrived(self, begin: Offsets, seconds: float) -> Offsets | None:
        """The records that a test has let arrive."""
        return None if self.followed < 0 else {"in": {0: max(begin["in"][0], self.has_arrived)}}

    def read(self, pieces: Sequence[tuple[str, int, int, int]]) -> Iterator[Any]:
        """No test here reads."""
        yield from ()


def reader_of(topic: Topic, *, follows: bool = True, bounded: bool = False) -> QuerySourceReader:
    """A reader of a query that copies the topic."""
    builder = ks.StreamsBuilder("copying")
    builder.stream("in").to("out")
    application = plan_application(builder.build(), Config(), {"in": 1, "out": 1}, direct=True)
    deployment = plan_deployment("copying", [application], 1)
    return QuerySourceReader(SourceSettings(topic, deployment, follows=follows, bounded=bounded))


def latest(reader: QuerySourceReader, begin: int) -> int:
    """The end of the batch that begins at an offset."""
    start = {"clock": 0, "tick": 0, "offsets": {"in": {"0": begin}}}
    found: int = reader.latestOffset(start)["offsets"]["in"]["0"]
    return found


def test_records_that_arrive_make_a_batch_without_a_look_up() -> None:
    """The first batch looks up where the topic ends; after that, records are received."""
    topic = Topic(last=5)
    reader = reader_of(topic)
    assert 5 == latest(reader, 0)
    assert (1, 5) == (topic.looked, topic.followed)
    assert 5 == latest(reader, 5)
    topic.has_arrived = 7
    assert 7 == latest(reader, 5)
    assert 1 == topic.looked


def test_a_query_far_behind_at_intervals_or_over_existing_records_receives_nothing() -> None:
    """Large pieces are read by workers; between triggers too much would wait; a bounded run has its end."""
    behind, at_intervals, bounded = Topic(FEW_RECORDS + 1), Topic(5), Topic(5)
    assert FEW_RECORDS + 1 == latest(reader_of(behind), 0)
    assert 5 == latest(reader_of(at_intervals, follows=False), 0)
    reader = reader_of(bounded)
    reader.prepareForTriggerAvailableNow()
    assert 5 == latest(reader, 0)
    assert [-1] * 3 == [behind.followed, at_intervals.followed, bounded.followed]


def test_offsets_that_never_arrive_are_read_after_several_look_ups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends of transactions have offsets too; but if the connection is stuck, the look-up's answer counts."""
    monkeypatch.setattr(stream_source, "_LOOK_S", 0.0)
    topic = Topic(last=5)
    reader = reader_of(topic)
    assert 5 == latest(reader, 0)
    topic.last = 8
    assert [5, 5, 8] == [latest(reader, 5) for _ in range(3)]


def test_a_topic_that_has_grown_is_refused_though_records_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    """New partitions do not arrive: the look-up once a second detects them."""
    monkeypatch.setattr(stream_source, "_LOOK_S", 0.0)
    topic = Topic(last=5)
    reader = reader_of(topic)
    assert 5 == latest(reader, 0)
    monkeypatch.setattr(topic, "end", lambda: {"in": {0: 5, 1: 0}})
    with pytest.raises(ks.errors.PartitionError, match="has grown from 1 to 2 partitions"):
        latest(reader, 5)


def test_a_spark_that_does_not_say_where_a_batch_begins() -> None:
    """Spark 4.1 asks for offsets without arguments; a batch begins at the end of the one that it planned last."""
    topic = Topic(last=5)
    reader = reader_of(topic, follows=False)
    end = reader.latestOffset()
    begin = reader.initialOffset()
    assert {"in": {"0": 5}} == end["offsets"]
    reader.partitions(begin, end)
    assert end == reader.latestOffset()
    topic.last = 8
    again = reader_of(topic, follows=False)  # after a restart it plans an empty batch at the last offset in the log
    assert 1 == len(again.partitions(end, end))
    assert again.getCache(end, end) is None
    later = again.latestOffset()
    assert {"in": {"0": 8}} == later["offsets"]
    assert again.getCache(end, later) is None  # left to a worker, as each first batch is


def test_a_bounded_run_has_its_end_from_its_first_batch() -> None:
    """Spark 4.1 does not announce it."""
    topic = Topic(last=5)
    reader = reader_of(topic, bounded=True)
    assert 5 == latest(reader, 0)
    topic.last = 8
    assert 5 == latest(reader, 5)
