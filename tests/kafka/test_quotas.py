"""A broker that limits the rate of a client: everything takes longer, and nothing fails."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kstreamnb.core.record import TopicRecord
from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.bounded_reader import Piece, fetch
from kstreamnb.kafka.broker_process import LocalBroker
from kstreamnb.kafka.java import java, kafka_jars, run_tool
from kstreamnb.kafka.output_batch import OutputBatch, columns_of
from kstreamnb.kafka.producer import RecordProducer
from kstreamnb.kafka.transactional_writer import TransactionalWriter
from tests.kafka.old_brokers import broker_of

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

RATE = 100_000
SIZE = 1000
SLOW: dict[str, object] = {"client.id": "slow", "batch.size": 50_000}


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """A broker that lets the client "slow" read and write 100 kB in a second."""
    folder = tmp_path_factory.mktemp("limited")
    with broker_of(data=folder / "kafka") as broker:
        jars = os.pathsep.join(map(str, kafka_jars(broker.version).glob("*.jar")))
        tool = [java(), "-cp", jars, "kafka.admin.ConfigCommand", "--bootstrap-server", broker.bootstrap_servers]
        rates = f"producer_byte_rate={RATE},consumer_byte_rate={RATE}"
        tool += ["--alter", "--add-config", rates, "--entity-type", "clients", "--entity-name", "slow"]
        assert run_tool(tool, Path(folder), 120.0) is None
        yield broker


def _values(count: int) -> list[bytes]:
    """Return values that no compression makes smaller."""
    chance = random.Random(1)
    return [chance.randbytes(SIZE) for _ in range(count)]


def test_a_transaction_waits_for_its_records_before_its_offsets(limited: LocalBroker) -> None:
    """The coordinator of the group answers after them, which takes longer than half of the transaction's timeout."""
    me: dict[str, Any] = {"bootstrap.servers": limited.bootstrap_servers, **SLOW}
    admin = Admin(limited.bootstrap_servers)
    for topic in ("in", "out"):
        admin.create_topic(topic)
    rows = [("out", 0, at, b"k", value, ()) for at, value in enumerate(_values(4400))]
    with closing(TransactionalWriter(me, "app", "q1", config={"transaction.timeout.ms": 60_000})) as writer:
        writer.open()
        assert OutputBatch(0, 4400) == writer.publish(0, "offsets 0", columns_of(rows), {"in": {0: 1}})


def test_a_flush_waits_as_long_as_records_are_acknowledged(limited: LocalBroker) -> None:
    """The whole wait is longer than the patience for the next record."""
    me: dict[str, Any] = {"bootstrap.servers": limited.bootstrap_servers, **SLOW}
    Admin(limited.bootstrap_servers).create_topic("sent")
    with RecordProducer(me, value_serde="bytes", patience_s=10.0) as producer:
        sent = [producer.send("sent", None, value, partition=0) for value in _values(3600)]
    assert all(isinstance(each.result(), TopicRecord) for each in sent)


def test_a_read_waits_for_the_rest(limited: LocalBroker) -> None:
    """Nothing arrives for some seconds, again and again."""
    admin = Admin(limited.bootstrap_servers)
    admin.create_topic("read")
    fast: dict[str, Any] = {"bootstrap.servers": limited.bootstrap_servers, "batch.size": 50_000}
    with RecordProducer(fast, value_serde="bytes") as producer:
        for value in _values(2500):
            producer.send("read", None, value, partition=0)
    me: dict[str, Any] = {"bootstrap.servers": limited.bootstrap_servers, "client.id": "slow"}
    values = [value for _, _, rows in fetch(me, [Piece("read", 0, 0, 2500)]) for _, _, _, value, _ in rows]
    assert _values(2500) == values
