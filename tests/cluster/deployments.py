"""A supervised deployment: its driver is restarted whenever it exits, and its output is compared at the end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kstreamnb as ks
from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.producer import produce
from tests.cluster.application import HELD, RULES
from tests.cluster.services import PATIENCE_S
from tests.kafka.apps import settle

_MAIN = "from tests.cluster.application import main; main()"
SETTINGS = {
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.cores": "1",
    "spark.driver.host": "127.0.0.1",
}
"""For small processes."""

ROUND = [f"{letter}{number}" for letter in "abc" for number in range(4)]
"""The keys of one round of records."""


class Deployment:
    """The application on a cluster, with a constant flow of records.

    Args:
        name: the name of the application.
        servers: Kafka's address.
        master: Spark's address.
        checkpoint: a folder or an address.
        python: the executors' Python.
        folder: holds the user's module and logs.
        settings: further settings of the session.
        variables: further environment variables of the driver.
    """

    def __init__(
        self,
        name: str,
        servers: str,
        master: str,
        checkpoint: str,
        python: Path,
        folder: Path,
        settings: Mapping[str, str] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.name, self.servers, self.admin = name, servers, Admin(servers)
        modules = folder / "modules"
        modules.mkdir(parents=True)
        (modules / "rules.py").write_text(RULES.replace("__FOLDER__", repr(str(folder))))
        self._options = {
            "name": name,
            "servers": servers,
            "master": master,
            "checkpoint": checkpoint,
            "settings": {**SETTINGS, **(settings or {})},
            "modules": str(modules),
        }
        self._folder, self._python, self._variables = folder, python, dict(variables or {})
        self.starts: list[dict[str, Any]] = []
        self.ends: list[dict[str, Any]] = []
        self.sent = 0
        self._fed, self._stopping = threading.Event(), threading.Event()
        self._process: subprocess.Popen[str] | None = None
        for topic in (f"{name}-in", f"{name}-counts", f"{name}-letters"):
            self.admin.create_topic(topic, partitions=2)
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._feed, self._supervise)]
        for thread in self._threads:
            thread.start()

    def _feed(self) -> None:
        while not self._fed.wait(0.2):
            begin = self.sent
            rows = [ks.TopicRecord(f"{self.name}-in", 0, at, begin + at, key, at) for at, key in enumerate(ROUND)]
            produce(self.servers, rows, value_serde=ks.Serdes.long())
            self.sent += len(rows)

    def _supervise(self) -> None:
        # On YARN, Spark gives executors the driver's PYTHONPATH, and they shall not find the kit by it.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environment |= {"PYSPARK_PYTHON": str(self._python), "PYSPARK_DRIVER_PYTHON": sys.executable, **self._variables}
        program = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r}); {_MAIN}"
        command = [sys.executable, "-c", program, json.dumps(self._options)]
        while not self._stopping.is_set():
            with (self._folder / "driver.log").open("a") as log:
                self._process = subprocess.Popen(
                    command, env=environment, cwd=self._folder, text=True, stdout=subprocess.PIPE, stderr=log
                )
            assert self._process.stdout is not None
            for line in self._process.stdout:
                if line.startswith("{"):
                    said = json.loads(line)
                    (self.ends if "error" in said else self.starts).append(said)
            self._process.wait()
            self._process.stdout.close()

    def stop(self) -> None:
        """Stop the flow of records and the driver, even if the test failed."""
        self._fed.set()
        self._stopping.set()
        for thread in self._threads:
            while thread.is_alive():
                self.kill_driver()
                thread.join(1)

    def published(self) -> int:
        """Return how many records of the counts are committed."""
        return sum(self.admin.offsets([f"{self.name}-counts"])[f"{self.name}-counts"].values())

    def await_output(self, after: int = 0, patience_s: float = PATIENCE_S) -> float:
        """Wait until more output is committed; return how many seconds that took."""
        began = time.monotonic()
        while self.published() <= after:
            assert time.monotonic() < began + patience_s, (self.starts, self.ends, self.log())
            time.sleep(0.1)
        return time.monotonic() - began

    def hold(self, point: str) -> None:
        """Wait until a batch has arrived at a point; it stays there."""
        (self._folder / HELD).unlink(missing_ok=True)
        (self._folder / point).touch()
        end = time.monotonic() + PATIENCE_S
        while not (self._folder / HELD).exists():
            assert time.monotonic() < end, (point, self.starts, self.ends, self.log())
            time.sleep(0.01)

    def release(self, point: str) -> None:
        """Let batches pass a point."""
        (self._folder / point).unlink()

    def log(self) -> str:
        """Return the last lines that the driver wrote."""
        return (self._folder / "driver.log").read_text()[-3000:]

    def kill_driver(self) -> None:
        """Kill the driver; its JVM ends with it, and another driver is started."""
        if self._process is not None:
            self._process.kill()

    def finish(self) -> dict[str, list[int]]:
        """Stop the flow, wait for its output, stop the driver, and return the counts by key in order.

        A driver that ends meanwhile is restarted: an executor's death may still end the query.
        """
        self._fed.set()
        self._threads[0].join()
        end = time.monotonic() + PATIENCE_S
        while self._records() < self.sent:
            assert time.monotonic() < end, (self._records(), self.sent, self.starts, self.ends, self.log())
            time.sleep(0.2)
        self.stop()
        settle(self.admin, f"{self.name}-counts")
        counts: dict[str, list[int]] = {}
        for record in self._captured("counts"):
            counts.setdefault(record.key, []).append(record.value)
        return counts

    def _records(self) -> int:
        """Return how many records were counted, from the last counts: offsets also count transaction markers."""
        return sum({record.key: record.value for record in self._captured("counts")}.values())

    def letters(self) -> dict[str, list[int]]:
        """Return the counts of updates by letter."""
        settle(self.admin, f"{self.name}-letters")
        found: dict[str, list[int]] = {}
        for record in self._captured("letters"):
            found.setdefault(record.key, []).append(record.value)
        return found

    def _captured(self, topic: str) -> ks.Sample:
        options: dict[str, Any] = {"records": None, "seconds": PATIENCE_S}
        return ks.Sample.capture(self.servers, f"{self.name}-{topic}", value_serde=ks.Serdes.long(), **options)

    def expected(self) -> dict[str, list[int]]:
        """Return the counts if every record is counted once."""
        return {key: list(range(1, self.sent // len(ROUND) + 1)) for key in ROUND}

    def expected_letters(self) -> dict[str, list[int]]:
        """Return the counts of updates by letter if every record is counted once."""
        keys = Counter(key[0] for key in ROUND)
        return {letter: list(range(1, keys[letter] * self.sent // len(ROUND) + 1)) for letter in keys}
