"""Producing to a real broker: futures, callbacks, and partitions that agree with librdkafka's."""

from __future__ import annotations

import json
import logging
from collections import Counter
from typing import Any

import pytest
from confluent_kafka import Producer

from kstreamnb.core.codec import partition_for
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.serdes import Serdes
from kstreamnb.errors import BrokerError, EngineError, PartitionError, SerdeError
from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.log_handler import KafkaLogHandler
from kstreamnb.kafka.partitioners import RoundRobin
from kstreamnb.kafka.producer import RecordProducer, produce
from kstreamnb.samples import Sample
from kstreamnb.simulation.log import create_topic
from tests.kafka.apps import PATIENCE_S
from tests.unit.simulation.test_log import by_level, by_user

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
    """Futures and callbacks report the same."""
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
    sample = Sample.capture(servers, orders, value_serde=Serdes.long(), seconds=PATIENCE_S)
    assert sorted(sent) == sorted(sample)


def test_a_partition_that_does_not_exist_is_refused_in_words(servers, topic):
    """The client refuses it at once, with an exception that says nothing about the topic; later records are sent."""
    orders = topic(1)
    producer = RecordProducer(servers)
    assert 0 == producer.send(orders, "k", 1).result(30).offset
    with pytest.raises(BrokerError, match=f'sending to topic "{orders}" failed') as raised:
        producer.send(orders, "k", 1, partition=9)
    assert "Unknown partition" in str(raised.value.detail)
    assert "the last partition of the topic is 0, not 9" in str(raised.value.hint)
    assert 1 == producer.send(orders, "k", 1, partition=0).result(30).offset


def test_a_future_completes_without_a_flush(servers, topic):
    """Waiting for one record needs no later send."""
    orders = topic(1)
    assert 0 == RecordProducer(servers).send(orders, "k", 1).result(30).offset
    handler = KafkaLogHandler(
        RecordProducer(servers, key_serde=Serdes.bytes()), orders, app_name="a", app_version="1", delivery="sync"
    )
    log = logging.Logger("shop")
    log.addHandler(handler)
    log.warning("sold out")
    assert {0: 2} == Admin(servers).offsets([orders])[orders]


def test_a_sample_goes_to_kafka_and_comes_back(servers, topic):
    """Keys choose the partitions, or those of the sample are kept; order and times are preserved."""
    orders = topic(2)
    sample = Sample.from_records([TopicRecord(orders, 1, n, 5 + n, "k", n) for n in range(5)])
    assert 5 == produce(servers, sample, keep_partitions=True)
    assert sample == Sample.capture(servers, orders, seconds=PATIENCE_S)
    assert 5 == produce(servers, sample)
    own = partition_for(b"k", 2)
    both = Sample.capture(servers, orders, seconds=PATIENCE_S)
    assert 5 + 5 * own == sum(record.partition == own for record in both)


def test_what_cannot_be_sent_is_told(servers, topic):
    """A wrong partition fails the future and the callback; a wrong value fails immediately."""
    orders, told = topic(1), []
    producer = RecordProducer(servers)
    future = producer.send(orders, "k", 1, partition=9, delivered=lambda *a: told.append(a))
    producer.flush()
    with pytest.raises(BrokerError, match="sending to topic .* failed"):  # noqa: RUF043
        future.result()
    assert isinstance(told[0][1], EngineError)
    with pytest.raises(SerdeError, match='serde "string" cannot write'):
        producer.send(orders, 5, 1)


def test_a_partition_that_does_not_exist_is_an_error_of_the_kit(servers, topic):
    """The client refuses it at once if it knows the topic, otherwise once it does."""
    orders = topic(2)
    with pytest.raises(BrokerError, match="sending to topic"):
        produce(servers, [TopicRecord(orders, 7, 0, 5, "a", 1)], keep_partitions=True)


def test_a_hundred_records_tell_where_they_lie(servers, topic):
    """S2-08, S1-36: futures hold partition and offset; `result()` waits for them; counts follow Kafka's hash."""
    mine = topic(4)
    with RecordProducer(servers, value_serde=Serdes.string()) as producer:
        first = producer.send(mine, "KEY-0", "VALUE-0")
        producer.flush()
        assert (0, 0) == (first.result().partition, first.result().offset)
        rest = [producer.send(mine, f"KEY-{n}", f"VALUE-{n}") for n in range(1, 100)]
    placed = [future.result() for future in [first, *rest]]
    assert {0: 25, 1: 33, 2: 15, 3: 27} == Counter(record.partition for record in placed)
    assert 100 == len({(record.partition, record.offset) for record in placed})
    with (
        pytest.raises(SerdeError, match=f'key of a record for topic "{mine}": serde "long" cannot write'),
        RecordProducer(servers, key_serde=Serdes.long()) as wrong,
    ):
        wrong.send(mine, "KEY-0", "VALUE-0")


def test_a_strategy_of_the_user_chooses_partitions(servers, topic):
    """S2-03, S2-14: by user regardless of the key, round-robin without one, by the JSON value; out of range fails."""
    mine = topic(4)
    users = [{"userId": f"u{n % 7}", "number": n} for n in range(40)]
    lines = [{"line": n, "level": "ERROR" if n % 4 == 0 else "INFO"} for n in range(20)]

    def sent(partitioner: Any, values: list[Any]) -> list[Any]:
        with RecordProducer(servers, partitioner=partitioner) as producer:
            futures = [producer.send(mine, None, value) for value in values]
        return [future.result() for future in futures]

    homes = {(record.value["userId"], record.partition) for record in sent(by_user, users)}
    assert 7 == len(homes)
    assert {0: 3, 1: 3, 2: 3, 3: 3} == Counter(record.partition for record in sent(RoundRobin(), [0] * 12))
    levels = sent(by_level, lines)
    assert {3} == {record.partition for record in levels if record.value["level"] == "ERROR"}
    assert [by_level(mine, None, line, 4) for line in lines] == [record.partition for record in levels]
    with pytest.raises(PartitionError, match=f'the partitioner chose partition 4 of topic "{mine}"'):
        sent(lambda *_: 4, [1])


@pytest.mark.parametrize(("settings", "least", "most"), [({}, 1, 2), ({"batch.size": 0}, 100, 100)])
def test_batches_save_requests(servers, topic, settings, least, most):
    """S2-10: a hundred small records that linger are one or two requests, without batches a hundred.

    They linger a minute here instead of 5 ms, and are sent on flush: on a busy machine the calls may take any time.
    """
    mine, counted = topic(1), []

    def note(statistics: str) -> None:
        brokers = json.loads(statistics)["brokers"].values()
        counted.append(sum(broker["req"].get("Produce", 0) for broker in brokers))

    watched = {"statistics.interval.ms": 20, "stats_cb": note, "linger.ms": 60_000}
    producer = RecordProducer({"bootstrap.servers": servers, **watched, **settings})
    futures = [producer.send(mine, None, number) for number in range(100)]
    producer.flush()
    assert list(range(100)) == [future.result().offset for future in futures]
    known = len(counted)
    while len(counted) < known + 2:
        producer._producer.poll(0.1)
    assert least <= counted[-1] <= most


def test_a_topic_is_created_once_and_says_what_it_is(servers, name):
    """S2-07: four partitions; a second call finds it existing; one broker cannot hold two replicas.

    A topic with two replicas is shown on `Log`: the local broker is a single one.
    """
    made = create_topic(name, on=servers, partitions=4, config={"cleanup.policy": "compact"})
    assert (name, 4, 1, {"cleanup.policy": "compact"}) == (
        made.name, made.partitions, made.replicas, dict(made.config),
    )  # fmt: skip
    with pytest.raises(BrokerError, match=f'creating topic "{name}" failed') as again:
        create_topic(name, on=servers)
    assert "already exists" in str(again.value.detail)
    with pytest.raises(BrokerError, match=f'creating topic "{name}-2" failed') as many:
        create_topic(f"{name}-2", on=servers, replication_factor=2)
    assert "replication factor" in str(many.value.detail).lower()


def test_a_missing_topic_is_answered_with_how_to_create_it(servers: str) -> None:
    """The broker of the tests creates no topics on its own."""
    sample = Sample.from_text("topic | key | value | time\nno-such-topic | a | 1 | 0")
    with pytest.raises(BrokerError, match='sending to topic "no-such-topic" failed') as caught:
        produce(servers, sample)
    assert "create it with ks.kafka.Admin(servers).create_topic(…)" in str(caught.value.hint)
