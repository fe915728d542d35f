"""The local broker: crashes and restarts, and reading and publishing across them."""

from __future__ import annotations

import os
import signal
import threading
import time
from datetime import timedelta

import pytest
from confluent_kafka.admin import ConfigResource, ResourceType

from kstreamnb.errors import BrokerError, UnknownTopicError
from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.bounded_reader import BoundedReader, fetch, pieces_between
from kstreamnb.kafka.broker_process import LocalBroker
from kstreamnb.kafka.java import _CHECKSUMS, KAFKA_VERSION, checksum, kafka_jars
from kstreamnb.kafka.output_batch import OutputBatch, columns_of
from kstreamnb.kafka.transactional_writer import TransactionalWriter
from tests.kafka.apps import Bench, settle
from tests.kafka.old_brokers import broker_of

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A broker of this module, which may be killed; its folder has letters that Java's properties have to escape."""
    with broker_of(data=tmp_path_factory.mktemp("Daten für €")) as broker:
        yield broker


def test_a_killed_broker_comes_back_with_its_data(own):
    """After kill -9 the same address serves the same records; readers and writers continue."""
    admin = Admin(own.bootstrap_servers)
    admin.create_topic("out", partitions=2)
    writer = TransactionalWriter(own.bootstrap_servers, "app", "q1")
    writer.open()
    rows = [("out", n % 2, 5, b"k", b"%d" % n, ()) for n in range(10)]
    writer.publish(0, "offsets 0", columns_of(rows))
    assert (own.data / "logs").is_dir()
    own.kill()
    assert not own.running
    back = threading.Timer(1.0, own.start)
    back.start()
    assert OutputBatch(1, 10) == writer.publish(1, "offsets 1", columns_of(rows))
    back.join()
    assert own.running
    settle(admin, "out")
    reader = BoundedReader(own.bootstrap_servers, ["out"])
    pieces = pieces_between(reader.beginning(), reader.end())
    assert 20 == sum(len(records) for _, _, records in fetch(own.bootstrap_servers, pieces))
    assert 1 == TransactionalWriter(own.bootstrap_servers, "app", "q1").open().batch


def test_a_broker_that_is_away_is_an_error_in_the_end(own):
    """The retry limit ends with an error that says what failed and where."""
    with broker_of() as other:
        address = other.bootstrap_servers
    with pytest.raises(BrokerError, match=f'listing topics failed at "{address}"'):
        Admin(address, patience_s=0.5).topics()


def test_a_stopped_broker_starts_again_and_shows_itself(own):
    """Stopping preserves data and address."""
    address = own.bootstrap_servers
    assert f'at "{address}"' in repr(own)
    Admin(address).create_topic("preserved")
    own.stop()
    assert "stopped" in repr(own)
    assert address == own.start().bootstrap_servers
    assert "preserved" in Admin(address).topics()
    assert own is own.start()


@pytest.mark.parametrize("grace_s", [0.0, 60.0, None], ids=["killed", "ended", "crashed"])
def test_an_archive_of_classes_is_used_only_if_its_writer_ended(own, tmp_path, grace_s):
    """A broker that takes too long to end is killed, perhaps while it writes, as one that crashes."""
    own.start()
    own._archive = tmp_path / "broker.jsa.1"
    own._archive.touch()
    if not grace_s:
        os.killpg(own._process.pid, signal.SIGSTOP)  # it cannot end before it is killed
    own.kill() if grace_s is None else own.stop(grace_s=grace_s)
    assert (tmp_path / "broker.jsa").exists() is bool(grace_s)
    own.start()


def test_a_broker_that_starts_slowly_keeps_its_address(own):
    """Clients know the old address: a startup that takes too long does not choose another."""
    address, timeout_s = own.bootstrap_servers, own.timeout_s
    own.stop()
    own.timeout_s = 0.05
    with pytest.raises(BrokerError, match=r"the local broker did not answer within 0\.05 s"):
        own.start()
    own.timeout_s = timeout_s
    assert address == own.start().bootstrap_servers
    assert 0o600 == (own.data / "server.properties").stat().st_mode & 0o777


def test_the_jars_are_those_that_were_published():
    """Their checksum is pinned; it covers names and contents."""
    assert _CHECKSUMS[KAFKA_VERSION] == checksum(kafka_jars())


def test_records_of_long_ago_are_kept(own):
    """Retention uses the records' own timestamps; here samples of any year are kept."""
    admin = Admin(own.bootstrap_servers)
    admin.create_topic("old")
    resource = ConfigResource(ResourceType.TOPIC, "old")
    found = admin.client.describe_configs([resource])[resource].result(10)
    assert "-1" == found["retention.ms"].value


def test_topics_are_created_described_and_deleted(own):
    """Administration of topics with their settings."""
    admin = Admin(own.bootstrap_servers)
    admin.create_topic("compact", partitions=3, config={"cleanup.policy": "compact"})
    found = admin.describe("compact")
    assert ("compact", 3, 1, (("cleanup.policy", "compact"),)) == (
        found.name,
        found.partitions,
        found.replicas,
        found.config,
    )
    admin.create_topic("compact", exists_ok=True)
    with pytest.raises(BrokerError, match='creating topic "compact" failed'):
        admin.create_topic("compact")
    admin.delete_topics("compact", "never-was")
    assert "compact" not in admin.topics()
    with pytest.raises(BrokerError, match='describing topic "compact" failed'):
        admin.describe("compact")


def test_settings_of_a_topic_are_given_as_values(own: LocalBroker) -> None:
    """Numbers, bools and durations become Kafka's text."""
    admin = Admin(own.bootstrap_servers)
    config = {"retention.ms": timedelta(days=7), "preallocate": True, "max.message.bytes": 5000}
    admin.create_topic("set", config={**config, "min.cleanable.dirty.ratio": 0.25})
    assert {
        "retention.ms": "604800000",
        "preallocate": "true",
        "max.message.bytes": "5000",
        "min.cleanable.dirty.ratio": "0.25",
    } == dict(admin.describe("set").config)


def test_a_publisher_outlives_a_broker_that_was_killed(own):
    """S4-13: the broker was down between two batches: the next one is committed with its offsets, within seconds."""
    admin = Admin(own.bootstrap_servers)
    for topic in ("read", "written"):
        admin.create_topic(topic)
    writer = TransactionalWriter(own.bootstrap_servers, "outlives", "query")
    writer.open()
    writer.publish(0, "offsets 0", columns_of([("written", 0, 5, b"k", b"v", ())]), {"read": {0: 1}})
    own.kill()
    own.start()
    began = time.monotonic()
    writer.publish(1, "offsets 1", columns_of([("written", 0, 6, b"k", b"w", ())]), {"read": {0: 2}})
    writer.close()
    assert time.monotonic() - began < 30
    assert {"read": {0: 2}} == Bench(None, own.bootstrap_servers, own.data).group("outlives")


def test_asking_for_a_topic_does_not_create_it() -> None:
    """Brokers create topics by default that a client asks for; one that only looks must change nothing."""
    with broker_of(config={"auto.create.topics.enable": "true"}) as broker:
        admin = Admin(broker.bootstrap_servers)
        assert set() == admin.existing(["mistyped"])
        with pytest.raises(UnknownTopicError, match='topic "mistyped" does not exist'):
            admin.offsets(["mistyped"])
        with pytest.raises(BrokerError, match='describing topic "mistyped" failed'):
            admin.describe("mistyped")
        assert "mistyped" not in admin.topics()


@pytest.mark.parametrize("existed", [True, False])
def test_a_topic_that_existed_is_not_taken_for_one_that_was_created(
    own: LocalBroker, monkeypatch: pytest.MonkeyPatch, *, existed: bool
) -> None:
    """The first answer is lost, and the second attempt finds a topic: ours, or another one with other partitions."""
    name, admin = f"foreign-{existed}", Admin(own.bootstrap_servers)
    if existed:
        admin.create_topic(name, partitions=3)
    asked = Admin(own.bootstrap_servers)
    asked.topics()
    changed = asked._change_client

    def patient() -> None:
        asked._call_s = 10.0
        changed()

    monkeypatch.setattr(asked, "_change_client", patient)
    asked._call_s = 0.0
    if existed:
        with pytest.raises(BrokerError, match=f'creating topic "{name}" failed') as caught:
            asked.create_topic(name)
        assert "exists_ok=True" in str(caught.value.hint)
    else:
        asked.create_topic(name)
    assert {name: 3 if existed else 1} == admin.topics([name])
