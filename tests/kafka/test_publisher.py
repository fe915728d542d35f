"""Exactly-once publishing: transactions, fencing, replays, refusals."""

from __future__ import annotations

import logging
import random
import threading
import time
import weakref
from contextlib import closing, suppress

import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, KafkaException, Producer, TopicPartition

from kstreamnb.dsl.builder import StreamsBuilder
from kstreamnb.errors import (
    ApplicationStateError,
    BrokerError,
    CheckpointError,
    DataLossError,
    FencedError,
    RecordRefusedError,
    TransactionTimeoutError,
)
from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.at_least_once_writer import AtLeastOnceWriter
from kstreamnb.kafka.bounded_reader import BoundedReader, fetch, pieces_between
from kstreamnb.kafka.output_batch import Marker, OutputBatch, columns_of
from kstreamnb.kafka.producer import RecordProducer
from kstreamnb.kafka.transactional_writer import TransactionalWriter
from kstreamnb.runtime.context.config import Config
from kstreamnb.spark.operations.application_topics import with_limits
from tests.kafka.apps import settle
from tests.kafka.old_brokers import MINOR, broker_of

pytestmark = pytest.mark.kafka

_LARGEST_TIME = "message_timestamp_after_max_ms" if MINOR >= (3, 6) else "message_timestamp_difference_max_ms"


def _records(topic, batch, count=3):
    return [(topic, n % 2, 1000 + n, b"k%d" % n, b"v%d-%d" % (batch, n), (("h", b"x"),)) for n in range(count)]


def _columns(topic, batch, count=3):
    return columns_of(_records(topic, batch, count))


def _committed(servers, topic):
    settle(Admin(servers), topic)
    reader = BoundedReader(servers, [topic])
    return [
        (topic, partition, *record[1:])
        for topic, partition, records in fetch(servers, pieces_between(reader.beginning(), reader.end()))
        for record in records
    ]


def _positions(servers, name, topic):
    """Return the offsets committed under the application's id for two partitions of a topic."""
    group = Consumer({"bootstrap.servers": servers, "group.id": name})
    found = group.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)], 60)
    group.close()
    return [each.offset for each in found]


def _writer(servers, name, query="q1"):
    writer = TransactionalWriter(servers, name, query)
    writer.open()
    return writer


def _published(writer, batch, source, output, positions):
    """Publish a batch as a query does that starts again after errors that may pass: on a busy machine, several."""
    output = list(output)
    for _ in range(4):
        try:
            return writer.publish(batch, source, output, positions)
        except BrokerError as error:
            if not error.restartable:
                raise
        writer.open()
    return writer.publish(batch, source, output, positions)


def test_batches_arrive_whole_with_their_timestamps_and_headers(servers, topic, name):
    """Every record of every batch is in Kafka once, and the marker names the last batch."""
    out = topic(2, "-out")
    writer = TransactionalWriter(servers, name, "q1")
    assert writer.open() is None
    for batch in range(3):
        assert OutputBatch(batch, 3) == writer.publish(batch, f"offsets {batch}", _columns(out, batch))
    expected = sorted(record for batch in range(3) for record in _records(out, batch))
    assert expected == sorted(_committed(servers, out))
    marker = TransactionalWriter(servers, name, "q1").open()
    assert isinstance(marker, Marker)
    assert ("q1", 2) == (marker.query, marker.batch)


def test_a_replayed_batch_is_suppressed(servers, topic, name):
    """A batch whose commit was not confirmed publishes nothing when it is repeated."""
    out = topic(2, "-out")
    _writer(servers, name).publish(0, "offsets", _columns(out, 0))
    again = _writer(servers, name)
    assert OutputBatch(0, 3, suppressed=True) == again.publish(0, "offsets", _columns(out, 0))
    assert 3 == len(_committed(servers, out))
    assert OutputBatch(1, 3) == again.publish(1, "more", _columns(out, 1))


def test_a_replay_may_come_in_other_pieces(servers, topic, name):
    """A batch's output does not depend on how many of its records were packed together."""
    out = topic(2, "-out")
    records = [*_records(out, 0), (out, 0, 1009, None, b"v", ()), (out, 1, 1009, b"k", None, ())]
    writer = _writer(servers, name)
    assert OutputBatch(0, 5) == writer.publish(0, "offsets", columns_of(records))
    pieces = [columns for record in records for columns in columns_of([record])]
    assert OutputBatch(0, 5, suppressed=True) == writer.publish(0, "offsets", pieces)


def test_a_replay_that_computes_other_records_is_told(servers, topic, name):
    """The same input with another output is suppressed too, and reported as not deterministic."""
    out = topic(2, "-out")
    writer = _writer(servers, name)
    writer.publish(0, "offsets", _columns(out, 0))
    assert OutputBatch(0, 2, suppressed=True, differs=True) == writer.publish(0, "offsets", _columns(out, 0, 2))


def test_a_batch_that_was_not_committed_leaves_nothing(servers, topic, name):
    """S4-13: killed between producing and committing: no output, changelog or offsets; after the restart all of
    them.
    """
    out, changelog = topic(2, "-out"), topic(2, "-changelog")

    def published(writer, **options):
        columns = columns_of([*_records(out, 0), *_records(changelog, 0)])
        return writer.publish(0, "offsets", columns, {out: {0: 7, 1: 8}}, **options)

    for last in ("produced", "offsets"):

        def crash(step, last=last):
            if step == last:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            published(_writer(servers, name), between=crash)
        again = TransactionalWriter(servers, name, "q1")
        assert again.open() is None
        assert [[], []] == [_committed(servers, each) for each in (out, changelog)]
        assert [OFFSET_INVALID] * 2 == _positions(servers, name, out)
    assert OutputBatch(0, 6) == published(again)
    assert [3, 3] == [len(_committed(servers, each)) for each in (out, changelog)]
    assert [7, 8] == _positions(servers, name, out)


def test_a_zombie_is_fenced_at_any_step(servers, topic, name, caplog, capfd):
    """Once a newer writer is open, the older one cannot publish; librdkafka logs it, and nothing else is printed."""
    caplog.set_level(logging.DEBUG, logger="kstreamnb.query.kafka")
    out = topic(2, "-out")
    for step in ("begin", "produced", "offsets"):
        old = _writer(servers, name + step)
        opened = []

        def take_over(reached, step=step, opened=opened):
            if reached == step:
                opened.append(_writer(servers, name + step))

        with pytest.raises(FencedError, match=r"a newer deployment .* has taken over") as caught:
            old.publish(0, "offsets", _columns(out, 0), {out: {0: 1}}, between=take_over)
        assert not caught.value.restartable
        assert opened[0].marker is None
        opened[0].publish(0, "offsets", _columns(out, 0))
    assert 9 == len(_committed(servers, out))
    records = [record for record in caplog.records if record.name == "kstreamnb.query.kafka"]
    said = [record.fields for record in records]
    assert {"kafka says"} == {fields["event"] for fields in said}
    assert [] == [each.getMessage() for each in records if each.levelname == "CRITICAL"]
    assert any("fenced" in fields["message"] for fields in said)
    assert ("", "") == capfd.readouterr()


def test_a_zombie_that_is_fenced_between_two_records_says_so(servers, topic, name):
    """S0-50: for the next record the client reports only a fatal error; that triggers no restart."""
    out = topic(2, "-out")
    old = _writer(servers, name)
    newer = _writer(servers, name)

    def halting():
        yield from _columns(out, 0)
        with suppress(KafkaException):  # Kafka has refused them by then
            old._producer.flush(60)

    with pytest.raises(FencedError, match=r"a newer deployment .* has taken over") as caught:
        old.publish(0, "offsets", halting())
    assert not caught.value.restartable
    newer.publish(0, "offsets", _columns(out, 0))
    assert 3 == len(_committed(servers, out))


@pytest.mark.parametrize(
    ("reason", "batch", "source"),
    [
        ("came after batch 2 was published to Kafka", 1, "offsets 1"),
        ("was published with different input", 2, "different"),
    ],
)
def test_a_checkpoint_that_contradicts_the_marker_is_refused(servers, topic, name, reason, batch, source):
    """Older and diverging checkpoints are refused with the reason, and publish nothing."""
    out = topic(2, "-out")
    first = _writer(servers, name)
    for number in range(3):
        first.publish(number, f"offsets {number}", _columns(out, number))
    second = _writer(servers, name)
    with pytest.raises(CheckpointError, match=reason) as caught:
        second.publish(batch, source, _columns(out, 9))
    assert not caught.value.restartable
    assert caught.value.hint
    assert 9 == len(_committed(servers, out))


def test_a_foreign_checkpoint_is_refused_and_leaves_the_query_that_runs_alone(servers, topic, name):
    """Deploying over a wrong folder fails immediately, and the correct deployment continues."""
    out = topic(2, "-out")
    first = _writer(servers, name)
    first.publish(0, "offsets 0", _columns(out, 0))
    settle(Admin(servers), first.marker_topic)
    with pytest.raises(CheckpointError, match="belongs to another checkpoint") as caught:
        _writer(servers, name, "q2")
    assert not caught.value.restartable
    assert OutputBatch(1, 3) == first.publish(1, "offsets 1", _columns(out, 1))


def test_a_late_batch_without_a_marker_is_refused(servers, topic, name):
    """A checkpoint that has advanced needs the marker of what it published."""
    with pytest.raises(DataLossError, match=r"batch 5 .* follows no earlier batch in Kafka"):
        _writer(servers, name).publish(5, "offsets", _columns(topic(2, "-out"), 5))


def test_the_marker_is_found_behind_many_aborted_batches(servers, topic, name):
    """The search goes back to the marker, however far it is."""
    out = topic(1, "-out")

    def give_up(step):
        if step == "produced":
            raise KeyboardInterrupt

    _writer(servers, name).publish(0, "offsets", _columns(out, 0, 1))
    for _ in range(12):
        with pytest.raises(KeyboardInterrupt):
            _writer(servers, name).publish(1, "more", _columns(out, 1, 1), between=give_up)
    assert 0 == _writer(servers, name).marker.batch


def test_the_marker_is_read_after_older_writers_are_fenced(servers, topic, name):
    """An older writer may commit until it is fenced: its last batch counts."""
    out = topic(2, "-out")
    old, new = _writer(servers, name), TransactionalWriter(servers, name, "q1")
    old.publish(0, "offsets 0", _columns(out, 0))

    def commit_once_more(step):
        if step == "checked":
            old.publish(1, "offsets 1", _columns(out, 1))

    assert 1 == new.open(between=commit_once_more).batch
    assert OutputBatch(1, 3, suppressed=True) == new.publish(1, "offsets 1", _columns(out, 1))
    assert 6 == len(_committed(servers, out))


def test_a_gap_in_the_batches_is_refused(servers, topic, name):
    """A cluster restored from an older copy lacks batches: the next one would hide that."""
    out = topic(2, "-out")
    writer = _writer(servers, name)
    writer.publish(0, "offsets 0", _columns(out, 0))
    with pytest.raises(DataLossError, match=r'batches 1 to 6 of ".*" are missing in Kafka'):
        writer.publish(7, "offsets 7", _columns(out, 7))
    with pytest.raises(DataLossError, match=r'batch 1 of ".*" is missing in Kafka'):
        writer.publish(2, "offsets 2", _columns(out, 2))
    assert 3 == len(_committed(servers, out))
    writer.without_output = {1}
    assert OutputBatch(2, 3) == writer.publish(2, "offsets 2", _columns(out, 2))
    assert 6 == len(_committed(servers, out))


def _expire(admin, out):
    """Wait until Kafka has aborted the transaction that writes to a topic."""
    end = time.monotonic() + 30
    while admin.offsets([out]) != admin.offsets([out], committed=False):
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.parametrize("step", ["produced", "offsets"])
def test_a_transaction_that_outlives_its_timeout_is_published_again(servers, topic, name, admin, step):
    """No successor: the writer opens again with a longer timeout, and the batch is published once."""
    out = topic(2, "-out")
    writer = TransactionalWriter(servers, name, "q1", config={"transaction.timeout.ms": 1000})
    writer.open()

    def linger(reached):
        if reached == step:
            writer._producer.flush(10)
            time.sleep(1)
            _expire(admin, out)

    with pytest.raises(TransactionTimeoutError, match=r'the transaction of batch 0 of ".*" exceeded') as caught:
        writer.publish(0, "offsets", _columns(out, 0), {out: {0: 7}}, between=linger)
    assert caught.value.restartable
    assert writer.open() is None
    assert writer._timeout_ms >= 2000
    assert OutputBatch(0, 3) == _published(writer, 0, "offsets", _columns(out, 0), {out: {0: 7}})
    assert 3 == len(_committed(servers, out))


def test_a_timeout_that_the_broker_refuses_is_lowered_again(servers, name):
    """The next attempt has the timeout that worked."""
    writer = TransactionalWriter(servers, name, "q1")
    writer._timeout_ms = 24 * 3_600_000
    with pytest.raises(BrokerError, match="publishing for"):
        writer.open()
    assert writer.open() is None


@pytest.mark.parametrize("kind", [TransactionalWriter, AtLeastOnceWriter])
def test_closing_while_a_batch_is_published_ends_it(servers, topic, name, admin, kind):
    """The batch fails with a clear error, no transaction stays open, and it can be published again."""
    out = topic(2, "-out")
    writer = _writer(servers, name) if kind is TransactionalWriter else AtLeastOnceWriter(servers, name)
    closing = threading.Thread(target=writer.close)

    def slow():
        yield from _columns(out, 0)
        closing.start()
        assert writer._closing.wait(10)
        yield from _columns(out, 0)

    with pytest.raises(ApplicationStateError, match="was closed while it published"):
        writer.publish(0, "offsets", slow())
    closing.join(20)
    assert not closing.is_alive()
    settle(admin, out, 20.0)  # Kafka writes the end of an aborted transaction a moment after it has accepted it
    assert admin.offsets([out]) == admin.offsets([out], committed=False)
    writer.open()
    assert OutputBatch(0, 3) == writer.publish(0, "offsets", _columns(out, 0))
    sent = len(_committed(servers, out))
    assert sent == 3 or (kind is AtLeastOnceWriter and sent > 3)


def test_a_batch_whose_output_fails_leaves_no_open_transaction(servers, topic, name, admin):
    """It is aborted immediately: freeing a producer with an open transaction can abort the process."""
    out = topic(2, "-out")

    def failing():
        yield from _columns(out, 0)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        _writer(servers, name).publish(0, "offsets", failing())
    settle(admin, out, 20.0)
    assert admin.offsets([out]) == admin.offsets([out], committed=False)


def test_a_transaction_that_finds_no_coordinator_of_the_group_is_aborted_in_time(tmp_path):
    """The topic of group offsets cannot be created. Nothing is committed, and the writer can be opened again."""
    with broker_of(data=tmp_path / "kafka", config={"offsets.topic.replication.factor": 2}) as broker:
        servers = broker.bootstrap_servers
        Admin(servers).create_topic("out", partitions=2)
        with closing(TransactionalWriter(servers, "shop", "q1", config={"transaction.timeout.ms": 8000})) as writer:
            writer.open()
            with pytest.raises(BrokerError, match='publishing for "shop"') as caught:
                writer.publish(0, "offsets 0", _columns("out", 0), {"in": {0: 1}})
            assert caught.value.restartable
            assert writer.open() is None
            assert OutputBatch(0, 3) == writer.publish(0, "offsets 0", _columns("out", 0))
        assert 3 == len(_committed(servers, "out"))


def test_a_damaged_marker_is_said_and_a_later_one_is_read(servers, name, admin):
    """Fields of later versions are ignored; anything that is not a marker is refused."""
    admin.create_topic(f"{name}-commits")
    marker = {"query": "q1", "batch": 3, "source": "a", "output": "b", "more": 1}
    with RecordProducer(servers) as producer:
        producer.send(f"{name}-commits", "sink", marker)
    assert 3 == _writer(servers, name).marker.batch
    with RecordProducer(servers) as producer:
        producer.send(f"{name}-commits", "sink", "{", partition=0)
    with pytest.raises(CheckpointError, match=f'the marker in topic "{name}-commits" cannot be read'):
        _writer(servers, name)


def test_positions_are_committed_for_lag_tools(servers, topic, name):
    """The source offsets are visible under the application's group."""
    out = topic(2, "-out")
    _writer(servers, name).publish(0, "offsets", _columns(out, 0), {out: {0: 7, 1: 8}})
    assert [7, 8] == _positions(servers, name, out)


def test_an_unknown_partition_fails_the_batch_and_can_be_repeated(servers, topic, name):
    """A batch that cannot be delivered is aborted; the writer opens again."""
    out = topic(1, "-out")
    writer = _writer(servers, name)
    with pytest.raises(BrokerError, match=r"publishing for .* failed") as caught:
        writer.publish(0, "offsets", columns_of([(out, 9, 0, b"k", b"v", ())]))
    assert caught.value.restartable
    assert writer.open() is None
    assert OutputBatch(0, 1) == writer.publish(0, "offsets", columns_of([(out, 0, 0, b"k", b"v", ())]))
    assert 1 == len(_committed(servers, out))


@pytest.mark.parametrize(
    ("config", "record", "said"),
    [
        ({}, (0, b"k", bytes(2_000_000)), "Message size too large"),
        ({"max_message_bytes": "200"}, (0, b"k", bytes(range(256)) * 80), "Message size too large"),
        ({_LARGEST_TIME: "3600000"}, (4_000_000_000_000, b"k", b"v"), "Invalid timestamp"),
        ({"cleanup_policy": "compact"}, (0, None, b"v"), "failed to validate record"),
    ],
    ids=["for-the-producer", "for-the-topic", "of-the-future", "without-a-key"],
)
@pytest.mark.parametrize("kind", [TransactionalWriter, AtLeastOnceWriter])
def test_a_record_that_kafka_never_takes_is_said_at_once(servers, topic, name, admin, config, record, said, kind):
    """It fails again each time: no restart helps, and an open transaction does not block other readers."""
    out = topic(1, "-out", **config)
    writer = _writer(servers, name) if kind is TransactionalWriter else AtLeastOnceWriter(servers, name)
    timestamp, key, value = record
    with pytest.raises(RecordRefusedError) as caught:
        writer.publish(0, "offsets", columns_of([(out, 0, 0, b"k", b"v", ()), (out, 0, timestamp, key, value, ())]))
    assert not caught.value.restartable
    same = "failed to validate record" if MINOR < (3, 6) else said  # for records that are in no transaction
    assert said in str(caught.value.detail) or same in str(caught.value.detail)
    assert caught.value.hint is not None
    assert ('"message.max.bytes" ("max.request.size" in Java)' in caught.value.hint) == ("too large" in said)
    assert out in str(caught.value.detail)
    if kind is TransactionalWriter:
        settle(admin, out, 20.0)
        assert admin.offsets([out]) == admin.offsets([out], committed=False)
        assert [] == _committed(servers, out)


def test_the_size_of_javas_requests_is_that_of_librdkafkas_messages(servers, topic, name):
    """A record of 2 MB passes if the producer and the topic take it."""
    out = topic(1, "-out", max_message_bytes="4000000")
    writer = TransactionalWriter(servers, name, "q1", config={"max.request.size": 3_000_000})
    writer.open()
    rows = [(out, 0, 5, b"k", random.Random(1).randbytes(2_000_000), ())]
    assert OutputBatch(0, 1) == writer.publish(0, "offsets", columns_of(rows))


def test_records_are_limited_to_what_the_producer_takes(servers, topic, admin):
    """A size by librdkafka's name wins in the producer, so tasks must not refuse smaller records."""
    builder = StreamsBuilder()
    builder.stream(topic()).to(topic(1, "-out"))
    config = Config.of({"producer.max.request.size": 5, "production.exception.handler": "continue"})
    given = {"bootstrap.servers": servers, "max.request.size": 5, "message.max.bytes": 3_000_000}
    limited = with_limits(config, builder.build(), admin, given)
    assert 3_000_000 == limited.client_settings("producer")["max.request.size"]


def test_the_epoch_itself_is_published_as_one_millisecond(servers, topic, name):
    """Librdkafka sends a record of time 0 with the wall clock; a published record must not depend on that."""
    out = topic(1, "-out")
    _writer(servers, name).publish(0, "offsets", columns_of([(out, 0, 0, b"k", b"v", ())]))
    assert [1] == [record[2] for record in _committed(servers, out)]


def test_a_closed_publisher_says_so(servers, name):
    """Nothing is published before `open`."""
    with pytest.raises(ApplicationStateError, match="the writer is not open"):
        TransactionalWriter(servers, name, "q1").publish(0, "offsets", [])


def test_the_marker_waits_for_room_behind_a_batch_that_fills_the_queue(servers, topic, name):
    """A batch may have as many records as the producer's queue has places."""
    out = topic(2)
    config = {"queue.buffering.max.messages": 10, "linger.ms": 300}
    writer = TransactionalWriter(servers, name, "q1", config=config)
    writer.open()
    for batch in range(3):
        assert OutputBatch(batch, 10) == writer.publish(batch, f"offsets {batch}", _columns(out, batch, count=10))
    assert 30 == len(_committed(servers, out))
    writer.close()


def test_a_transaction_whose_end_was_lost_is_not_published_over(servers, topic, name):
    """Its marker is invisible, so its batch would be repeated, and the next commit would commit both."""
    out = topic(2)
    with closing(_writer(servers, name)) as writer:
        writer.publish(0, "offsets 0", _columns(out, 0))
        marker_topic = writer.marker_topic
    lost = Producer({"bootstrap.servers": servers, "transactional.id": f"{name}-lost"})
    lost.init_transactions(30)
    lost.begin_transaction()
    lost.produce(marker_topic, b"{}", b"sink", 0)
    lost.flush(30)
    again = TransactionalWriter(servers, name, "q1")
    again.settle_s = 0.5
    with pytest.raises(BrokerError, match=f'a transaction of "{name}" never ended') as caught:
        again.open()
    assert f"--topic {marker_topic} --partition 0 --start-offset " in str(caught.value.hint)
    lost.abort_transaction(30)
    settle(Admin(servers), marker_topic)
    assert again.open() is not None
    again.close()


def test_a_producer_that_never_connects_fails_the_start(servers, name, monkeypatch):
    """While other clients had a broker, new producers were made without end: their own settings may be wrong."""
    monkeypatch.setattr("kstreamnb.kafka.transactional_writer._FENCE_S", 2.0)
    writer = TransactionalWriter(servers, name, "q1", config={"bootstrap.servers": "127.0.0.1:9"})
    with pytest.raises(BrokerError, match="publishing for"):
        writer.open()


@pytest.mark.parametrize("begin", ["open", "take_over"])
def test_a_producer_that_is_given_up_cannot_fence_its_successor(servers, name, monkeypatch, begin):
    """It is freed before its successor fences: its own attempt may still be under way, and succeed later."""
    made, freed = [], []

    class Watched(Producer):
        def init_transactions(self, timeout):
            freed.append([made.index(each) for each in made if each() is None])
            super().init_transactions(timeout)

    def make(settings):
        producer = Watched(settings if made else {**settings, "bootstrap.servers": "127.0.0.1:9"})
        made.append(weakref.ref(producer))
        return producer

    monkeypatch.setattr("kstreamnb.kafka.transactional_writer.Producer", make)
    writer = TransactionalWriter(servers, name, "q1")
    getattr(writer, begin)()
    writer.close()
    assert ([], [0]) == (freed[0], freed[-1])


def test_a_writer_whose_id_has_expired_publishes_again(tmp_path):
    """S4-13: Kafka forgets the id of a query that had no input for a week; the next batch needs one more attempt."""
    config = {
        "transactional.id.expiration.ms": 1000,
        "transaction.remove.expired.transaction.cleanup.interval.ms": 200,
        "producer.id.expiration.ms": 1000,
    }
    with broker_of(data=tmp_path / "kafka", config=config) as broker:
        servers = broker.bootstrap_servers
        for each in ("in", "out"):
            Admin(servers).create_topic(each, partitions=2)
        with closing(_writer(servers, "idle")) as writer:
            _published(writer, 0, "offsets 0", _columns("out", 0), {"in": {0: 1}})
            time.sleep(4)
            _published(writer, 1, "offsets 1", _columns("out", 1), {"in": {0: 2}})
            assert [2, OFFSET_INVALID] == _positions(servers, "idle", "in")
        assert 6 == len(_committed(servers, "out"))
