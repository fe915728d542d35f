"""Producing to a real broker: futures, callbacks, and partitions that agree with librdkafka's."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from kstreamnb.core.record import TopicRecord
from kstreamnb.core.serdes import Serdes
from kstreamnb.core.wire import partition_for
from kstreamnb.errors import EngineError, SerdeError
from kstreamnb.kafka.produce import RecordProducer, produce
from kstreamnb.samples import Sample

pytestmark = pytest.mark.kafka


def test_keys_go_where_librdkafkas_murmur2_sends_them(servers, topic):
    """Our partitioner and that of a real producer agree on keys of every length."""
    orders = topic(24)
    keys = [bytes((7 * n + m) % 256 for m in range(n % 37)) + b"%d" % n for n in range(500)]
    placed = {}
    producer = Producer({"bootstrap.servers": servers, "partitioner": "murmur2_random"})
    for key in keys:
        producer.produce(orders, b"", key, on_delivery=lambda _, m: placed.update({m.key(): m.partition()}))
    producer.flush()
    assert {key: partition_for(key, 24) for key in keys} == placed


def test_a_future_gives_the_record_with_its_offset(servers, topic):
    """Futures and callbacks tell the same."""
    orders, told = topic(4), []
    with RecordProducer(servers, value_serde=Serdes.long()) as producer:
        futures = [
            producer.send(
                orders, f"KEY-{n}", n, timestamp=100 + n, headers=(("h", None),), delivered=lambda *a: told.append(a)
            )
            for n in range(10)
        ]
    sent = [future.result() for future in futures]
    assert [0, 2, 1, 3, 0, 0, 1, 1, 1, 1] == [record.partition for record in sent]
    assert sorted(sent) == sorted(record for record, error in told if error is None)
    sample = Sample.capture(servers, orders, value_serde=Serdes.long())
    assert sorted(sent) == sorted(sample)


def test_a_sample_goes_to_kafka_and_comes_back(servers, topic):
    """Keys choose the partitions, or those of the sample are kept; order and times stay."""
    orders = topic(2)
    sample = Sample.from_records([TopicRecord(orders, 1, n, 5 + n, "k", n) for n in range(5)])
    assert 5 == produce(servers, sample, keep_partitions=True)
    assert sample == Sample.capture(servers, orders)
    assert 5 == produce(servers, sample)
    own = partition_for(b"k", 2)
    assert 5 + 5 * own == sum(record.partition == own for record in Sample.capture(servers, orders))


def test_what_cannot_be_sent_is_told(servers, topic):
    """A wrong partition fails the future and the callback; a wrong value fails at once."""
    orders, told = topic(1), []
    producer = RecordProducer(servers)
    future = producer.send(orders, "k", 1, partition=9, delivered=lambda *a: told.append(a))
    producer.flush()
    with pytest.raises(EngineError, match="sending to topic .* failed"):  # noqa: RUF043
        future.result()
    assert isinstance(told[0][1], EngineError)
    with pytest.raises(SerdeError, match='serde "string" cannot write'):
        producer.send(orders, 5, 1)
