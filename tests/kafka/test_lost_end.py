"""Commits and aborts that Kafka notes as complete without the markers that readers of committed records wait for."""

from __future__ import annotations

import os
import signal
import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kstreamnb.background import wait_until
from kstreamnb.errors import BrokerError, DataLossError
from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.batch_marker import MARKER_KEY, last_marker, marker_value, summed
from kstreamnb.kafka.bounded_reader import fetch, pieces_between
from kstreamnb.kafka.output_batch import Marker, checksum_of, columns_of
from kstreamnb.kafka.transaction_end import repeat_call
from kstreamnb.kafka.transactional_writer import TransactionalWriter, transactional_id
from tests.kafka.broker_cluster import java_of
from tests.kafka.old_brokers import broker_of

pytestmark = [pytest.mark.kafka]

WRITERS, ROUNDS, PARTITIONS = 12, 3, 4
SOURCE, COMPLETE_COMMIT = "offsets 0", 4
HANGING = "whole", "aborted", "shown", "unshown", "crashed"


def _records(topic, batch=0):
    """Each batch leaves out a partition, which no later batch may have to end."""
    there = [p for p in range(PARTITIONS) if p != batch % PARTITIONS]
    return [(topic, p, 1000 + batch, b"k%d" % n, b"%d-%d" % (batch, n), ()) for n in range(5) for p in there]


def _marker(name, lacking=()):
    return Marker("q1", 0, checksum_of(SOURCE), summed(columns_of(_records(name))).checksum, lacking)


def _begun(servers, name, partitions, marker=None):
    """Return a producer in whose transaction are the records of some partitions, and a marker."""
    producer = Producer({"bootstrap.servers": servers, "transactional.id": transactional_id(name)})
    producer.init_transactions(60)
    producer.begin_transaction()
    for topic, partition, timestamp, key, value, _ in _records(name):
        if partition in partitions:
            producer.produce(topic, value, key, partition, timestamp=timestamp)
    if marker is not None:
        producer.produce(f"{name}-commits", marker_value(marker), MARKER_KEY, 0)
    producer.flush()
    return producer


def _note_as_complete(servers, names):
    """Write into Kafka's log of transactions that those of these applications are complete."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "forger", "enable.auto.commit": False})
    consumer.assign([TopicPartition("__transaction_state", 0, 0)])
    end, last = consumer.get_watermark_offsets(TopicPartition("__transaction_state", 0))[1], {}
    while consumer.position([TopicPartition("__transaction_state", 0)])[0].offset < end:
        for message in consumer.consume(1000, 0.5):
            last[message.key()[4:].decode()] = message
    consumer.close()
    forger = Producer({"bootstrap.servers": servers, "client.id": "__admin_client"})  # only its name may write there
    for name in names:
        message = last[transactional_id(name)]
        _, producer_id, epoch, timeout_ms, _ = struct.unpack(">hqhib", message.value()[:17])
        times = message.timestamp()[1], message.timestamp()[1]
        value = struct.pack(">hqhibiqq", 0, producer_id, epoch, timeout_ms, COMPLETE_COMMIT, 0, *times)
        forger.produce("__transaction_state", value, message.key(), 0)
    forger.flush()


def _kill(broker):
    os.kill(java_of(broker), signal.SIGKILL)
    broker.kill()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker in which transactions of all HANGING have lost their end in partition 1, of some in others, too."""
    with broker_of(data=tmp_path_factory.mktemp("kafka")) as broker:
        servers, admin = broker.bootstrap_servers, Admin(broker.bootstrap_servers)
        for name in HANGING:
            admin.create_topic(name, partitions=PARTITIONS)
            TransactionalWriter(servers, name, "q1").take_over()
        lost = {
            "whole": _begun(servers, "whole", {1, 2, 3}, _marker("whole")),
            "aborted": _begun(servers, "aborted", {1}),
            "shown": _begun(servers, "shown", {1}),
            "unshown": _begun(servers, "unshown", {1}, _marker("unshown")),
            "crashed": _begun(servers, "crashed", {1}),
        }
        _note_as_complete(servers, HANGING)
        _kill(broker)
        broker.start()
        del lost
        _begun(servers, "shown", {2, 3}, _marker("shown")).commit_transaction()
        _begun(servers, "unshown", {2, 3}).commit_transaction()
        _begun(servers, "crashed", {2, 3}, _marker("crashed", lacking=(("crashed", 1),))).commit_transaction()
        # The markers that end the new ones come a moment after the commits.
        assert wait_until(lambda: not admin.open_transactions([("shown", 3)]), 60)
        open_ = admin.open_transactions((n, p) for n in HANGING for p in range(4)).keys()
        assert open_ >= {(name, 1) for name in HANGING}
        assert ("whole", 3) in open_
        yield servers


def _published(servers, name, batches=1):
    """Publish as a deployed query does; then compare committed records with the batches."""
    writer = TransactionalWriter(servers, name, "q1")
    writer.open()
    done = [writer.publish(n, f"offsets {n}", columns_of(_records(name, n))) for n in range(batches)]
    writer.close()
    assert not Admin(servers).open_transactions([(name, n) for n in range(PARTITIONS)] + [(f"{name}-commits", 0)])
    assert _committed(servers, name) == sorted(each for n in range(batches) for each in _records(name, n))
    assert last_marker(Admin(servers), f"{name}-commits").batch == batches - 1
    return done


def _committed(servers, name):
    admin = Admin(servers)
    fetched = fetch(servers, pieces_between(admin.offsets([name], "earliest"), admin.offsets([name])))
    return sorted((t, p, r[1], r[2], r[3], r[4]) for t, p, records in fetched for r in records)


def test_a_batch_whose_transaction_has_no_end_at_all_is_aborted_and_published(servers: str) -> None:
    """S4-13: readers see it once."""
    assert [each.suppressed for each in _published(servers, "whole", 2)] == [False, False]


def test_records_without_an_end_whose_marker_was_never_sent_are_aborted(servers: str) -> None:
    """The next commit of the producer would commit them beside their copies."""
    assert [each.suppressed for each in _published(servers, "aborted", 2)] == [False, False]


def test_partitions_without_an_end_of_a_batch_with_a_visible_marker_are_published_again(servers: str) -> None:
    """Its other partitions keep what is committed there."""
    done = _published(servers, "shown", 2)
    assert not done[0].differs
    assert last_marker(Admin(servers), "shown-commits").lacking == ()


def test_a_crash_between_the_abort_and_the_second_commit_loses_nothing(servers: str) -> None:
    """The marker names what the batch lacks, so that a replay publishes that."""
    writer = TransactionalWriter(servers, "crashed", "q1")
    writer.open()
    assert not writer.is_replay(0, SOURCE)
    with pytest.raises(DataLossError, match="batch 0"):
        writer.is_replay(1, "offsets 1")
    writer.close()
    _published(servers, "crashed", 2)


def test_a_batch_of_which_nothing_says_whether_its_rest_was_committed_is_refused(servers: str) -> None:
    """To publish it could double the rest, not to publish it could lose what is open."""
    writer = TransactionalWriter(servers, "unshown", "q1")
    writer.open()
    with pytest.raises(DataLossError, match='lost the end of batch 0 of "unshown"') as caught:
        writer.publish(0, SOURCE, columns_of(_records("unshown")))
    assert "1 of 3 partitions are open, unshown-1" in (caught.value.detail or "")


def test_a_broker_that_goes_away_is_no_answer_about_open_transactions(tmp_path: Path) -> None:
    """Librdkafka reports an offset of -1001, and no error, for a partition whose leader has gone."""
    with broker_of(data=tmp_path / "kafka") as broker, ThreadPoolExecutor(1) as pool:
        admin = Admin(broker.bootstrap_servers, patience_s=60)
        admin.create_topic("held", partitions=PARTITIONS)
        TransactionalWriter(broker.bootstrap_servers, "held", "q1").take_over()
        holder = _begun(broker.bootstrap_servers, "held", {0, 1}, _marker("held"))
        place = "held-commits", 0
        assert admin.open_transactions([place]) == {place: 2}
        _kill(broker)
        asked = pool.submit(admin.open_transactions, [place])
        time.sleep(0.5)
        broker.start()
        assert asked.result(60) == {place: 2}
        repeat_call(holder.abort_transaction, 5.0)  # its coordinator may still start


def _publish(writer, batch, between):
    """Publish a batch; open the writer again after failures that may pass, of which an attempt to open is one."""
    end, is_open = time.monotonic() + 120, True
    while True:
        try:
            if not is_open:
                writer.open()
            writer.publish(batch, f"offsets {batch}", columns_of(_records(writer.application, batch)), between=between)
            return
        except BrokerError as error:
            if not error.restartable or time.monotonic() > end:
                raise
        between, is_open = lambda step: None, False
        time.sleep(0.2)


def test_a_lone_broker_that_is_killed_inside_commits_leaves_no_partition_open(tmp_path: Path) -> None:
    """S4-13: when a batch counts as published, readers of committed records see it once, in every partition."""
    with broker_of(data=tmp_path / "kafka", timeout_s=120.0) as broker, ThreadPoolExecutor(WRITERS) as pool:
        admin = Admin(broker.bootstrap_servers, patience_s=120)
        names = [f"lost-{n}" for n in range(WRITERS)]
        for name in names:
            admin.create_topic(name, partitions=PARTITIONS)
        writers = [TransactionalWriter(broker.bootstrap_servers, name, "q1") for name in names]
        for writer in writers:
            writer.open()
        for batch in range(ROUNDS):
            ready = Barrier(WRITERS + 1)

            def between(step: str, ready: Barrier = ready) -> None:
                if step == "offsets":
                    ready.wait(60)

            published = [pool.submit(_publish, each, batch, between) for each in writers]
            ready.wait(60)
            time.sleep(0.001 * (1 + batch))
            _kill(broker)
            broker.start()
            for each in published:
                each.result(180)
            assert not admin.open_transactions((name, partition) for name in names for partition in range(PARTITIONS))
        for name in names:
            assert _committed(broker.bootstrap_servers, name) == sorted(
                record for batch in range(ROUNDS) for record in _records(name, batch)
            )
