"""Captures from a real broker."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections import Counter
from decimal import Decimal
from functools import partial

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kstreamnb import StreamsBuilder, replay
from kstreamnb.core.codec import SerializedValue
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.serdes import Serdes
from kstreamnb.errors import ConfigError, UnknownTopicError
from kstreamnb.kafka import capture as capture_module
from kstreamnb.kafka.capture import CaptureLimits, capture
from kstreamnb.kafka.producer import produce
from kstreamnb.kafka.registry import SchemaRegistry
from kstreamnb.samples import Sample
from tests.kafka.apps import PATIENCE_S, settle

pytestmark = pytest.mark.kafka

_capture = partial(Sample.capture, seconds=PATIENCE_S)
"""Reads everything, also on a machine that needs more than the default of 10 s."""

_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}


def _fill(servers, topic, count=60, partitions=3):
    records = [
        TopicRecord(topic, n % partitions, n // partitions, 10 * n + 1, f"k{n % 7}", {"n": n}) for n in range(count)
    ]
    produce(servers, records, keep_partitions=True)
    return records


def test_everything_comes_in_the_order_of_time(servers, topic):
    """A capture contains records as a task would take them, with Kafka's offsets, and reports what it read."""
    orders = topic(3)
    records = _fill(servers, orders)
    sample = _capture(servers, orders)
    assert records == list(sample)
    assert ("captured; everything read", f"{orders} offsets 0: 0 to 20, 1: 0 to 20, 2: 0 to 20") == sample.notes
    assert Sample.from_text(sample.to_text()) == sample


def test_a_limit_of_records_takes_those_that_are_first_by_time(servers, topic):
    """The same records on every run, whichever the broker delivers first."""
    orders = topic(3)
    records = _fill(servers, orders)
    samples = [_capture(servers, orders, records=10) for _ in range(3)]
    assert {samples[0].content_hash} == {sample.content_hash for sample in samples}
    assert 10 == len(samples[0])
    assert records[: len(samples[0])] == list(samples[0])
    assert "limit of 10 records reached" in samples[0].notes[0]
    assert "of 20" in samples[0].notes[1]


def test_a_capture_begins_where_it_is_told(servers, topic):
    """A capture begins at a time or at offsets; "latest" waits for new records."""
    orders = topic(3)
    records = _fill(servers, orders)
    assert records[30:] == list(_capture(servers, orders, from_=301))
    at = _capture(servers, orders, from_={orders: {0: 19, 1: 20}})
    assert [(0, 1), (1, 0), (2, 20)] == [(p, sum(r.partition == p for r in at)) for p in range(3)]
    assert [] == list(Sample.capture(servers, orders, from_="latest", seconds=0.3))
    with pytest.raises(ConfigError, match='offsets are given for topic "x"'):
        _capture(servers, orders, from_={"x": {0: 1}})
    with pytest.raises(ConfigError, match='"7" does not exist'):
        _capture(servers, orders, from_={orders: {7: 1}})
    with pytest.raises(ConfigError, match="must be at least 0, got -1"):
        _capture(servers, orders, from_={orders: {0: -1}})


def test_a_capture_that_follows_gets_what_comes(servers, topic):
    """New records are captured until a limit is reached."""
    orders = topic(1)
    late = threading.Timer(0.5, _fill, (servers, orders, 5, 1))
    late.start()
    sample = Sample.capture(servers, orders, follow=True, records=5, seconds=120)
    late.join()
    assert 5 == len(sample)
    assert "limit of 5 records reached" in sample.notes[0]


def test_bytes_and_seconds_are_limits_too(servers, topic):
    """The first limit reached ends a capture, and progress is reported."""
    orders = topic(1)
    _fill(servers, orders, partitions=1)
    told = []
    taken = capture(servers, [orders], CaptureLimits(None, 120, 50), progress=lambda *figures: told.append(figures))
    assert "limit of 50 bytes reached" == taken.ended
    assert 50 <= told[-1][1] < 70
    assert len(taken.records) == told[-1][0]
    ended = capture(servers, [orders], CaptureLimits(None, 0.4, follow=True)).ended
    assert "limit of 0.4 seconds reached" == ended
    with pytest.raises(ConfigError, match="needs a limit"):
        CaptureLimits(None, None, follow=True)
    with pytest.raises(ConfigError, match="records must be greater than 0, got 0"):
        CaptureLimits(records=0)


def test_what_no_serde_reads_stays_as_bytes(servers, topic):
    """Undecodable records are kept and shown, never lost."""
    orders = topic(1)
    producer = Producer({"bootstrap.servers": servers})
    for key, value in ((b"a", b"1"), (b"\xff", b"{"), (None, None)):
        producer.produce(orders, value, key, 0)
    producer.flush()
    sample = _capture(servers, orders)
    assert [("a", 1), (SerializedValue(b"\xff"), SerializedValue(b"{")), (None, None)] == [
        (r.key, r.value) for r in sample
    ]
    assert 1 == len(sample.undecodable)
    assert "undecoded:7b" in repr(sample)
    raw = _capture(servers, orders, key_serde=Serdes.bytes(), value_serde=Serdes.bytes())
    assert [b"1", b"{", None] == [record.value for record in raw]


def test_a_capture_commits_nothing_and_sees_committed_records_only(servers, topic, admin):
    """No group is created, and no aborted record is captured."""
    orders = topic(1)
    producer = Producer({"bootstrap.servers": servers, "transactional.id": orders})
    producer.init_transactions(30)
    for value, keep in ((b"1", True), (b"2", False)):
        producer.begin_transaction()
        producer.produce(orders, value, partition=0)
        producer.flush()
        (producer.commit_transaction if keep else producer.abort_transaction)(30)
    settle(admin, orders)
    assert [1] == [record.value for record in _capture(servers, orders)]
    group = Consumer({"bootstrap.servers": servers, "group.id": "kstreamnb-reader"})
    assert [-1001] == [each.offset for each in group.committed([TopicPartition(orders, 0)], 10)]
    group.close()


def test_a_capture_sees_what_was_committed_a_moment_ago(servers, topic):
    """A broker shows a transaction to readers some time after its commit; an open one does not block the capture
    forever.
    """
    orders = topic(1)
    producer = Producer({"bootstrap.servers": servers, "transactional.id": orders})
    producer.init_transactions(30)
    for number in range(1, 6):
        producer.begin_transaction()
        producer.produce(orders, b"%d" % number, partition=0)
        producer.commit_transaction(30)
        assert [*range(1, number + 1)] == [record.value for record in _capture(servers, orders)]
    producer.begin_transaction()
    producer.produce(orders, b"6", partition=0)
    producer.flush()
    assert 5 == len(_capture(servers, orders))
    producer.abort_transaction(30)


def test_a_capture_that_waits_for_new_records_does_not_wait_for_open_transactions(servers, topic, monkeypatch):
    """Without a limit, the result does not depend on where the topics end when the capture begins."""
    orders = topic(1)
    producer = Producer({"bootstrap.servers": servers, "transactional.id": orders})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(orders, b"1", partition=0)
    producer.flush()
    monkeypatch.setattr(capture_module, "_SETTLE_S", 50.0)  # the broker aborts the transaction after a minute
    began = time.monotonic()
    assert [] == list(Sample.capture(servers, orders, follow=True, seconds=0.2))
    assert [] == list(Sample.capture(servers, orders, from_="latest", seconds=0.2))
    assert time.monotonic() - began < 50
    producer.commit_transaction(30)


def test_an_interrupt_keeps_what_was_read(servers, topic):
    """Ctrl-C ends a capture early and keeps its records; here it comes once there are sixty."""
    orders = topic(1)
    _fill(servers, orders, partitions=1)

    def interrupt(records: int, size: int, seconds: float) -> None:
        if records == 60:
            signal.raise_signal(signal.SIGINT)

    sample = Sample.capture(servers, orders, follow=True, seconds=120, progress=interrupt)
    assert 60 == len(sample)
    assert "captured; interrupted" == sample.notes[0]


def test_secrets_can_be_taken_out_at_once(servers, topic):
    """Redaction and key hashing are applied before anything is shown."""
    orders = topic(1)
    _fill(servers, orders, partitions=1)
    sample = _capture(servers, orders, redact=["n"], hash_keys="salt")
    assert {0} == {record.value["n"] for record in sample}
    assert 7 == len({record.key for record in sample})
    assert not any(record.key.startswith("k") and len(record.key) == 2 for record in sample)


def test_topics_of_several_formats_are_captured_masked_kept_and_replayed(servers, topic, tmp_path):
    """Each topic has its own serde; those that are not named have the default one."""
    registry = SchemaRegistry("mock://formats")
    fields = [{"name": "card", "type": "long"}, {"name": "amount", "type": {**_DECIMAL}}]
    payments, counts, orders = topic(1), topic(1, "-counts"), topic(1, "-orders")
    avro = registry.avro(payments, json.dumps({"type": "record", "name": "Payment", "fields": fields}))
    payment = {"card": 4111, "amount": Decimal("1.50")}
    produce(servers, [TopicRecord(payments, 0, 0, 1, "a", payment)], value_serde=avro)
    produce(servers, [TopicRecord(counts, 0, 0, 2, 7, 5)], key_serde="long", value_serde="long")
    produce(servers, [TopicRecord(orders, 0, 0, 3, "a", {"card": 4111})])
    serdes = {"value_serde": {payments: avro, counts: "long"}, "key_serde": {counts: "long"}}
    sample = _capture(servers, payments, counts, orders, **serdes)
    assert [("a", payment), (7, 5), ("a", {"card": 4111})] == [(record.key, record.value) for record in sample]
    masked = _capture(servers, payments, counts, orders, redact=["card", "iban?"], **serdes)
    assert [{**payment, "card": 0}, 5, {"card": 0}] == [record.value for record in masked]
    masked.to_parquet(tmp_path / "masked.parquet")
    back = Sample.from_parquet(tmp_path / "masked.parquet")
    assert back == masked
    builder = StreamsBuilder("payments")
    builder.stream(payments, value_serde=avro).map_values(lambda value: str(value["amount"])).to("amounts")
    assert ["1.50"] == [record.value for record in replay(builder.build(), back.of_topic(payments)).output("amounts")]


def test_an_unknown_topic_is_named(servers):
    """A wrong name is an error, not an endless wait."""
    with pytest.raises(UnknownTopicError, match='topic "nowhere" does not exist'):
        _capture(servers, "nowhere")


def test_a_limit_of_records_is_reached_exactly(servers, topic):
    """The first records by time, spread over the partitions."""
    orders = topic(3)
    records = _fill(servers, orders, count=2000)
    sample = _capture(servers, orders, records=1000)
    assert records[:1000] == list(sample)
    assert {0, 1, 2} == {record.partition for record in sample}


def test_a_limit_counts_records_and_not_offsets(servers, topic):
    """Transaction markers and aborted records do not count towards the limit."""
    orders = topic(1)
    producer = Producer({"bootstrap.servers": servers, "transactional.id": orders})
    producer.init_transactions(30)
    for number in range(12):
        producer.begin_transaction()
        producer.produce(orders, b"%d" % number, partition=0)
        producer.flush()
        (producer.commit_transaction if number % 2 else producer.abort_transaction)(30)
    assert [1, 3, 5, 7] == [record.value for record in _capture(servers, orders, records=4)]


def test_a_limit_of_a_thousand_takes_a_thousand_spread_over_partitions(servers, topic):
    """Of 2,000 records in four partitions, which a transaction wrote, with markers behind each batch of them."""
    orders = topic(4)
    producer = Producer({"bootstrap.servers": servers, "transactional.id": orders})
    producer.init_transactions(30)
    for begin in range(0, 2000, 100):
        producer.begin_transaction()
        for n in range(begin, begin + 100):
            producer.produce(orders, str(n).encode(), f"k{n}".encode(), n % 4, timestamp=1000 + n)
        producer.commit_transaction(30)
    sample = _capture(servers, orders, records=1000)
    assert sorted(range(1000)) == sorted(record.value for record in sample)
    assert {0: 250, 1: 250, 2: 250, 3: 250} == Counter(record.partition for record in sample)
    assert "limit of 1,000 records reached" in sample.notes[0]


def test_a_thousand_of_two_thousand_are_a_thousand_over_every_partition(servers, topic):
    """Partitions that are read in turns do not end a capture before it has all its records."""
    orders = topic(4)
    records = _fill(servers, orders, count=2000, partitions=4)
    sample = _capture(servers, orders, records=1000)
    assert records[:1000] == list(sample)
    assert dict.fromkeys(range(4), 250) == Counter(record.partition for record in sample)
