"""Three Kafka brokers on this machine that replicate every topic; each is broker and controller."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import socket
import subprocess
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from confluent_kafka import ElectionType
from confluent_kafka.admin import ClusterMetadata

from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.broker_process import LocalBroker
from kstreamnb.kafka.java import java, kafka_jars

__all__ = ["BrokerCluster", "java_of"]

_CONFIG = {
    "default.replication.factor": 3,
    "min.insync.replicas": 2,
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
    "broker.session.timeout.ms": 9000,  # Kafka's own defaults: a local broker has shorter ones
    "broker.heartbeat.interval.ms": 2000,
}
_PATIENCE_S = 300.0


class BrokerCluster:
    """Three brokers, replication factor 3, min.insync.replicas 2; starts and ends as a ``with`` block."""

    def __init__(self, folder: Path, *, timeout_s: float = 180.0) -> None:
        ports = _free_ports(6)
        voters = ",".join(f"{number}@127.0.0.1:{port}" for number, port in enumerate(ports[3:], 1))
        self.brokers: dict[int, LocalBroker] = {}
        for number, port, controller in zip((1, 2, 3), ports, ports[3:], strict=False):
            own = {
                "node.id": number,
                "controller.quorum.voters": voters,
                "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            }
            data, config = folder / f"broker-{number}", _CONFIG | own
            self.brokers[number] = LocalBroker(data=data, port=port, config=config, timeout_s=timeout_s)
        self.bootstrap_servers = ",".join(f"127.0.0.1:{port}" for port in ports[:3])
        self.admin = Admin(self.bootstrap_servers, patience_s=_PATIENCE_S)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self.close)
            self._format()
            self.start(self.brokers)
            stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all brokers; nothing reads their data again."""
        for broker in self.brokers.values():
            broker.kill()

    def start(self, numbers: Iterable[int]) -> None:
        """Start brokers at the same time: none answers before two of them have elected a controller."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda number: self.brokers[number].start(), numbers))

    def process(self, number: int) -> int:
        """Return the process id of a broker."""
        return java_of(self.brokers[number])

    def leader(self, topic: str, partition: int = 0) -> int:
        """Return the number of the broker that leads a partition."""
        end = time.monotonic() + _PATIENCE_S
        while time.monotonic() < end:
            parts = self._described(topic).topics[topic].partitions
            if partition in parts and parts[partition].leader > 0:
                return int(parts[partition].leader)
            time.sleep(0.1)
        raise TimeoutError(f"{topic}-{partition} has no leader")

    def in_sync(self) -> bool:
        """Return whether every replica of every partition is in sync."""
        topics = self._described().topics.values()
        return all(len(part.isrs) == 3 for topic in topics for part in topic.partitions.values())

    def await_sync(self) -> None:
        """Wait until every replica of every partition is in sync."""
        end = time.monotonic() + _PATIENCE_S
        while not self.in_sync():
            if time.monotonic() > end:
                raise TimeoutError("replicas are out of sync")
            time.sleep(0.2)

    def elect_preferred_leaders(self) -> None:
        """Have each partition led by the first of its replicas, as ``kafka-leader-election.sh`` does."""
        self.admin.client.elect_leaders(ElectionType.PREFERRED).result(_PATIENCE_S)

    def restart(self, number: int) -> None:
        """End a broker cleanly, which first gives up its partitions, and start it again."""
        self.brokers[number].stop(grace_s=60.0)
        self.start([number])

    def _described(self, *topic: str) -> ClusterMetadata:
        return self.admin.retry(lambda: self.admin.client.list_topics(*topic, timeout=10.0), "describing topics")

    def _format(self) -> None:
        """Format the folders of all brokers with one cluster id: the first one's, which the others copy."""
        first, *others = self.brokers.values()
        if (first.data / "logs" / "meta.properties").exists():
            return
        first.data.mkdir(parents=True)
        first.bootstrap_servers = f"127.0.0.1:{first.port}"
        jars = os.pathsep.join(map(str, kafka_jars(first.version).glob("*.jar")))
        first._configure([java(), "-cp", jars], "")
        for broker in others:
            shutil.copytree(first.data / "logs", broker.data / "logs")
            meta = broker.data / "logs" / "meta.properties"
            text = re.sub(r"node\.id=.*", f"node.id={broker.config['node.id']}", meta.read_text())
            directory = urlsafe_b64encode(secrets.token_bytes(16)).decode()[1:22]
            meta.write_text(re.sub(r"directory\.id=.*", f"directory.id=A{directory}", text))


def java_of(broker: LocalBroker) -> int:
    """Return the JVM below the shell that watches it."""
    assert broker._process is not None
    command = ["ps", "-o", "pid=,comm=", "--ppid", str(broker._process.pid)]
    listed = subprocess.run(command, capture_output=True, text=True, check=True)
    return next(int(line.split()[0]) for line in listed.stdout.splitlines() if line.split()[1] == "java")


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
