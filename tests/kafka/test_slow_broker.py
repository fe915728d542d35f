"""A broker that pauses, as on a loaded machine: nothing is lost, nothing ends, and every client finds it again."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException

from kstreamnb.core.record import TopicRecord
from kstreamnb.errors import BrokerError
from kstreamnb.kafka import bounded_reader
from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.application_reset import committed_positions
from kstreamnb.kafka.bounded_reader import BoundedReader, Piece, fetch
from kstreamnb.kafka.broker_process import LocalBroker
from kstreamnb.kafka.capture import CaptureLimits, capture
from kstreamnb.kafka.client import Servers
from kstreamnb.kafka.offset_metadata import OffsetMetadata, commit_offsets
from kstreamnb.kafka.output_batch import OutputBatch, columns_of
from kstreamnb.kafka.producer import produce
from kstreamnb.kafka.transactional_writer import TransactionalWriter
from kstreamnb.spark.io.offset_source import KafkaOffsetSource
from tests.kafka.broker_cluster import java_of

pytestmark = pytest.mark.kafka

PAUSE_S = 2.5  # the broker's controller calls it away after 2 s


@pytest.fixture
def own(tmp_path: Path) -> Iterator[LocalBroker]:
    """A broker that may be paused."""
    with LocalBroker(data=tmp_path / "kafka", timeout_s=120.0) as broker:
        yield broker


def paused(broker: LocalBroker, until: Callable[[], bool]) -> None:
    """Pause a broker for some seconds, again and again, until a condition holds."""
    process = java_of(broker)
    for number in range(40):
        if until():
            return
        os.kill(process, signal.SIGSTOP)
        time.sleep(PAUSE_S + number % 5 / 10)
        os.kill(process, signal.SIGCONT)
        time.sleep(1.0)
    raise TimeoutError("the pauses had no effect")


def cut_off(broker: LocalBroker, *clients: Any) -> None:
    """Pause a broker until each client has heard of a cluster without brokers: librdkafka then forgets them."""

    def ask(client: Any) -> None:
        try:
            while client.list_topics("in", timeout=10.0).brokers:
                time.sleep(0.01)
        except KafkaException as error:  # its last refresh of metadata has cut it off
            if error.args[0].code() != KafkaError._TRANSPORT:
                raise

    with ThreadPoolExecutor(len(clients)) as pool:
        asked = [pool.submit(ask, each) for each in clients]
        paused(broker, lambda: all(each.done() for each in asked))
    for each in asked:
        each.result()


@pytest.mark.slow  # until each client asks in the moment in which no broker is known
def test_every_client_finds_a_broker_again_that_was_too_slow(own: LocalBroker) -> None:
    """Without its re-bootstrap librdkafka never does; with it, sometimes. A query would wait for it without an end."""
    servers = {"bootstrap.servers": own.bootstrap_servers, "metadata.recovery.strategy": "none"}
    admin, source = Admin(servers), KafkaOffsetSource(servers, ("in",))
    for topic in ("in", "out"):
        admin.create_topic(topic)

    def send(number: int) -> None:
        produce(own.bootstrap_servers, [TopicRecord("in", 0, 0, 5 + number, f"k{number}", number, ())])

    send(0)
    assert [("in", 0, 1)] == [(t, p, len(rows)) for t, p, rows in fetch(servers, [Piece("in", 0, 0, 1)])]
    source.follow({"in": {0: 1}})
    follower = source._follower
    assert follower is not None
    with closing(TransactionalWriter(servers, "shop", "q1")) as writer:
        writer.open()
        assert OutputBatch(0, 1) == writer.publish(0, "offsets 0", columns_of([("out", 0, 5, b"k", b"v", ())]))
        (idle, _), *_ = bounded_reader._idle.values()
        cut_off(own, admin.client, idle, follower._consumer, writer._producer)
        began = time.monotonic()
        assert 1 == BoundedReader(own.bootstrap_servers, ["in"]).end()["in"][0]
        assert {"in": {0: 1}} == admin.offsets(["in"])
        send(1)
        assert [1] == [len(rows) for _, _, rows in fetch(servers, [Piece("in", 0, 1, 2)])]
        source.follow({"in": {0: 2}})  # once a look-up has found what did not arrive
        send(2)
        assert {"in": {0: 3}} == source.arrived({"in": {0: 2}}, 30.0)
        with pytest.raises(BrokerError, match="publishing"):
            writer.publish(1, "offsets 1", columns_of([("out", 0, 6, b"k", b"w", ())]), {"in": {0: 3}})
        writer.open()
        writer.publish(1, "offsets 1", columns_of([("out", 0, 6, b"k", b"w", ())]), {"in": {0: 3}})
        assert time.monotonic() - began < 60
    source.close()
    assert [2] == [len(rows) for _, _, rows in fetch(own.bootstrap_servers, [Piece("out", 0, 0, 3)])]


@pytest.mark.slow  # until each client asks in the moment in which no broker is known
def test_a_capture_finds_a_broker_again(own: LocalBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waited until its limit in seconds; without one, as `parity` captures, it waited without an end."""
    servers = {"bootstrap.servers": own.bootstrap_servers, "metadata.recovery.strategy": "none"}
    Admin(servers).create_topic("in")
    produce(own.bootstrap_servers, [TopicRecord("in", 0, 0, 5, "k", 1, ())])
    consumers = [bounded_reader.bounded_consumer(servers)]
    cut_off(own, *consumers)

    def consumer_of(given: Servers) -> Consumer:
        return consumers.pop() if consumers else bounded_reader.bounded_consumer(given)

    monkeypatch.setattr("kstreamnb.kafka.capture.bounded_consumer", consumer_of)
    captured = capture(servers, ["in"], CaptureLimits(seconds=60))
    assert (1, "everything read") == (len(captured.records), captured.ended)


def test_topics_are_created_and_deleted_by_a_broker_that_pauses(own: LocalBroker) -> None:
    """Its controller refuses them while it takes its only broker for away; an answer may come too late."""
    admin, over = Admin(own.bootstrap_servers), Event()
    admin.topics()

    def create(number: int) -> list[str]:
        names = list[str]()
        while not over.is_set():
            names.append(f"t{number}-{len(names)}")
            admin.create_topic(names[-1])
            if len(names) % 3 == 0:
                admin.delete_topics(names.pop())
                names.append("gone")
            admin.describe(names[0])
        return names

    with ThreadPoolExecutor(6) as pool:
        created = [pool.submit(create, number) for number in range(6)]
        ends = time.monotonic() + 20
        try:
            paused(own, lambda: time.monotonic() > ends or any(each.done() for each in created))
        finally:
            over.set()
        wanted = {name for each in created for name in each.result()} - {"gone"}
    assert wanted == admin.topics().keys()


def test_offsets_are_committed_once_a_broker_is_back(own: LocalBroker) -> None:
    """A hand-over ends with this: the query has stopped, and its last step must not fail for a short outage."""
    admin = Admin(own.bootstrap_servers, patience_s=120.0)
    admin.create_topic("read")
    commit_offsets(admin, "shop", [("read", 0, 1, OffsetMetadata(5))])
    own.kill()
    with ThreadPoolExecutor(1) as pool:
        committed = pool.submit(commit_offsets, admin, "shop", [("read", 0, 2, OffsetMetadata(6))])
        time.sleep(45.0)
        own.start()
        committed.result(120)
    assert {"read": {0: 2}} == committed_positions(admin, "shop")
