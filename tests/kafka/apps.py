"""Small applications and records for the tests of deployments."""

from __future__ import annotations

import os
import random
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

import kstreamnb as ks
from kstreamnb.errors import EngineError
from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.producer import produce

START_MS = 1_790_000_000_000
PATIENCE_S = 180.0
"""How long a test waits for what comes within a second on a machine that is not busy."""


def rows(topic: str, count: int, partitions: int = 1, begin: int = 0) -> list[ks.TopicRecord]:
    """Records with increasing times, keys such as a0 and c5, each in a single partition, and their number as value."""
    chance = random.Random(begin)
    found = []
    for at in range(begin, begin + count):
        key = f"{chance.choice('abc')}{at % partitions + partitions * chance.randrange(3)}"
        found.append(ks.TopicRecord(topic, at % partitions, at // partitions, START_MS + at, key, at))
    return found


def counting(name: str, topic: str | None = None, **options: Any) -> ks.Topology:
    """A count by key, from topic ``name-in`` to ``name-out``."""
    builder = ks.StreamsBuilder(name)
    grouped = builder.stream(topic or f"{name}-in", value_serde="long").group_by_key()
    grouped.count(store="counts", **options).to_stream().to(f"{name}-out", value_serde="long")
    return builder.build()


class Bench:
    """Session, broker and a folder for checkpoints: all that the test of a deployment needs."""

    def __init__(self, spark: Any, servers: str, folder: Path) -> None:
        self.spark, self.servers, self.folder = spark, servers, folder
        self.admin = Admin(servers)
        self.queries: list[Any] = []

    def fill(self, topic: str, count: int, partitions: int = 1, begin: int = 0) -> list[ks.TopicRecord]:
        """Create a topic if it is missing, and produce records with long values."""
        self.admin.create_topic(topic, partitions=partitions, exists_ok=True)
        records = rows(topic, count, partitions, begin)
        produce(self.servers, records, value_serde=ks.Serdes.long(), keep_partitions=True)
        return records

    def deploy(self, topology: ks.Topology, checkpoint: str = "checkpoint", **options: Any) -> Any:
        """A query that is stopped at the end of the test at the latest."""
        options = {"spark": self.spark, "bootstrap_servers": self.servers, **options}
        query = ks.deploy(topology, checkpoint=self.folder / checkpoint, **options)
        self.queries.append(query)
        return query

    def run(self, topology: ks.Topology, checkpoint: str = "checkpoint", **options: Any) -> Any:
        """Run a query over the existing records."""
        query = self.deploy(topology, checkpoint, available_now=True, **options)
        assert query.await_termination(PATIENCE_S)
        query.stop()
        return query

    def read(self, topic: str, value: Any = None) -> list[tuple[Any, Any, int]]:
        """Committed records of a topic: key, value, timestamp."""
        settle(self.admin, topic)
        options = {"records": None, "seconds": PATIENCE_S}
        sample = ks.Sample.capture(self.servers, topic, value_serde=value or ks.Serdes.long(), **options)
        return [(record.key, record.value, record.timestamp) for record in sample]

    def group(self, application: str) -> dict[str, dict[int, int]]:
        """Return the offsets committed under an application's id, once no transaction is open."""
        from kstreamnb.kafka.application_reset import committed_positions

        places = [TopicPartition(name, part) for name, count in self.admin.topics().items() for part in range(count)]
        waiting = Consumer({"bootstrap.servers": self.servers, "group.id": application})  # asks for stable offsets
        waiting.committed(places, PATIENCE_S)
        waiting.close()
        return committed_positions(self.admin, application)


def free_port() -> int:
    """Return a port for a server that is started later; no client's connection is given one of these meanwhile."""
    lowest, count = 20_000, 12_000  # below those of connections; each process of the tests begins with another one
    for number in range(count):
        port = lowest + (os.getpid() + number) % count
        with socket.socket() as found:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of an earlier server may linger
            try:
                found.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise OSError("no port is free")


class Start:
    """A start of a query, which may fail, at once or later."""

    def __init__(self, start: Callable[[], Any]) -> None:
        self.query: Any = None
        self.error = ""
        try:
            self.query = start()
        except EngineError as error:
            self.error = error.message

    def end(self) -> str:
        """Wait for the existing records and stop the query; returns "stopped", or what failed."""
        try:
            if self.query is not None:
                self.query.await_input(PATIENCE_S)
                self.query.stop()
        except EngineError as error:
            self.error = error.message
        return self.error or "stopped"


def settle(admin: Admin, topic: str, patience_s: float = PATIENCE_S) -> None:
    """Wait for the markers of committed transactions: readers see them slightly after the commit returns."""
    end = time.monotonic() + patience_s
    while admin.offsets([topic]) != admin.offsets([topic], committed=False) and time.monotonic() < end:
        time.sleep(0.02)


def final(records: list[tuple[Any, Any, int]]) -> dict[Any, Any]:
    """The last value of each key."""
    return {key: value for key, value, _ in records}


def counts(records: list[ks.TopicRecord]) -> dict[str, int]:
    """How often each key occurs."""
    found: dict[str, int] = {}
    for record in records:
        found[record.key] = found.get(record.key, 0) + 1
    return found
