"""Local brokers of earlier versions of Kafka; those before 3.3 run with ZooKeeper."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import time
from typing import Any

from kstreamnb.data_files import text_of
from kstreamnb.errors import BrokerError
from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.broker_process import _JVM, _WATCH, LocalBroker
from kstreamnb.kafka.java import KAFKA_VERSION, java, kafka_jars

__all__ = ["MINOR", "VERSION", "ZooKeeperBroker", "broker_of"]

VERSION = os.environ.get("KAFKA_BROKER", KAFKA_VERSION)
"""The version of Kafka that the tests of this folder run, which ``python -m tests.kafka.versions`` sets."""

MINOR = tuple(map(int, VERSION.split(".")[:2]))
"""Its first two numbers."""

_FIRST_WITHOUT = (3, 3)
_QUORUM = re.compile("process|node|controller|share|broker")
_ZOOKEEPER_S = 60.0


def broker_of(version: str = VERSION, **options: Any) -> LocalBroker:
    """Return a broker of a version, which is not started yet; ``options`` are those of a local broker."""
    numbers = tuple(map(int, version.split(".")[:2]))
    return (LocalBroker if numbers >= _FIRST_WITHOUT else ZooKeeperBroker)(version=version, **options)


class ZooKeeperBroker(LocalBroker):
    """A broker with a separate ZooKeeper process, which ends with `close`."""

    _zookeeper: subprocess.Popen[bytes] | None = None

    def close(self) -> None:
        """End both processes and remove temporary data."""
        self.stop()
        if self._zookeeper is not None and self._zookeeper.stdin is not None:
            self._zookeeper.stdin.close()
            self._zookeeper.wait()
        super().close()

    def _answers(self) -> bool:
        """Return whether it answers, and knows its topics: with ZooKeeper, it learns of them a moment later."""
        if not super()._answers():
            return False
        admin, end = Admin(self.bootstrap_servers), time.monotonic() + self.timeout_s
        while any((self.data / "logs").glob("*-0")) and not admin.topics():
            if time.monotonic() > end:
                return False
            time.sleep(0.1)
        return True

    def _configure(self, command: list[str], controller: str) -> None:
        """Write the settings of a broker whose controller's address is that of ZooKeeper."""
        if self._zookeeper is None:
            self._zookeeper_address = controller
            self._start_zookeeper(int(controller.split(":")[1]))
        access = self._access(controller) if self.users else {"listeners": f"PLAINTEXT://{self.bootstrap_servers}"}
        lines = {
            "broker.id": 1,
            "zookeeper.connect": self._zookeeper_address,
            "zookeeper.session.timeout.ms": 2000,
            "log.dirs": self.data / "logs",
            **{name: re.sub(",CONTROLLER:[^,]*", "", value) for name, value in access.items()},
            **({"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"} if self.users else {}),
            **self.config,
        }
        shared = text_of("kstreamnb.kafka", "broker.properties").splitlines()
        kept = [line for line in shared if not _QUORUM.match(line)]
        own = [f"{name}={json.dumps(str(value))[1:-1]}" for name, value in lines.items()]  # as in the base class
        path = self.data / "server.properties"
        path.touch(mode=0o600)
        path.write_text("\n".join([*kept, *own, ""]))

    def _start_zookeeper(self, port: int) -> None:
        jars = os.pathsep.join(sorted(map(str, kafka_jars(self.version).glob("*.jar"))))
        command = [java(), *_JVM, "-Xms64m", "-Xmx128m", "-Dzookeeper.admin.enableServer=false", "-cp", jars]
        command += ["org.apache.zookeeper.server.ZooKeeperServerMain", str(port), str(self.data / "zookeeper"), "500"]
        log = (self.data / "zookeeper.log").open("ab")
        self._zookeeper = subprocess.Popen(
            ["sh", "-c", _WATCH, "sh", *command], stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
        )
        log.close()
        end = time.monotonic() + _ZOOKEEPER_S
        while not _listens(port):
            if time.monotonic() > end or self._zookeeper.poll() is not None:
                raise BrokerError("ZooKeeper did not start", detail=(self.data / "zookeeper.log").read_text()[-2000:])
            time.sleep(0.1)


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
