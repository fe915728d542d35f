"""Each application of notebooks/applications survives ``kill -9``: nothing is lost, nothing is doubled.

Each starts its service twice, with another JVM each time, over one broker. The relay's test needs PostgreSQL with
wal2json, which ``make test-kafka`` installs.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

import kstreamnb as ks
from kstreamnb.background import wait_until
from kstreamnb.kafka.admin import Admin
from tests.applications import FOLDER
from tests.kafka.apps import PATIENCE_S, free_port

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

QUICK = '--driver-memory 512m --driver-java-options "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" pyspark-shell'


def module(name: str, part: str) -> ModuleType:
    """Return a module of an application, under a name that no other one has."""
    spec = importlib.util.spec_from_file_location(f"{name}_{part}", FOLDER / name / f"{part}.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


class Killable:
    """The service of an application, in a process group that can be killed, over topics of the test's broker."""

    def __init__(self, name: str, servers: str, folder: Path) -> None:
        self.name, self.servers, self.log = name, servers, folder / "service.log"
        port = str(free_port())
        self.url = f"http://127.0.0.1:{port}"
        self.settings = {"BOOTSTRAP_SERVERS": servers, "CHECKPOINT": str(folder / "checkpoint"), "PORT": port}
        self.process: subprocess.Popen[bytes] | None = None
        self._admin = Admin(servers)
        self._outputs: dict[str, tuple[object, list[ks.TopicRecord]]] = {}
        self._others: list[subprocess.Popen[bytes]] = []
        for topic, partitions in module(name, "topology").TOPICS.items():
            self._admin.create_topic(topic, partitions=partitions, exists_ok=True)

    def start(self) -> None:
        """Start it, or start it again over the same checkpoint."""
        environment = {**os.environ, **self.settings, "PYSPARK_SUBMIT_ARGS": QUICK}
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "service.py"],
                cwd=FOLDER / self.name,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def beside(self, process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        """Let a process end with the test, however the test ends."""
        self._others.append(process)
        return process

    def clean_up(self) -> None:
        """Kill what still runs."""
        for process in (self.process, *self._others):
            if process is not None and process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def end(self, number: signal.Signals) -> int:
        """Send a signal to the process, or to its whole group if it is SIGKILL; return the exit code."""
        assert self.process is not None
        send = os.killpg if number is signal.SIGKILL else os.kill
        send(self.process.pid, number)
        return self.process.wait(60)

    def get(self, path: str) -> Any:
        """Return the service's answer."""
        with urlopen(self.url + path, timeout=60) as answer:
            return json.load(answer)

    def output(self, topic: str) -> list[ks.TopicRecord]:
        """Return the committed records of a topic; they are read again only if one of its ends has moved.

        Reading takes ten times the processor time of asking for the ends, and tests ask all the time.
        """
        ends = [self._admin.offsets([topic], committed=committed) for committed in (True, False)]
        if topic not in self._outputs or self._outputs[topic][0] != ends:
            records = ks.Sample.capture(self.servers, topic, records=None, seconds=PATIENCE_S)
            self._outputs[topic] = ends, list(records)
        return self._outputs[topic][1]

    def wait_for(self, reached: Callable[[], Any]) -> None:
        """Wait until something holds, as long as the service runs.

        Its stores have a batch slightly later than Kafka, so tests wait for both.
        """
        end = time.monotonic() + PATIENCE_S
        while True:
            with suppress(URLError, ConnectionError):  # it does not answer yet
                if reached():
                    return
            assert self.process is not None
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < end, self.log.read_text()
            time.sleep(0.1)


def by_key(records: Iterable[ks.TopicRecord]) -> dict[Any, list[tuple[str, int]]]:
    """Return value and time of the records of each key, sorted: branches of a topology have no order."""
    found: dict[Any, list[tuple[str, int]]] = {}
    for record in records:
        found.setdefault(record.key, []).append((json.dumps(record.value), record.timestamp))
    return {key: sorted(values) for key, values in found.items()}


def size(grouped: dict[Any, list[tuple[str, int]]]) -> int:
    """Return the number of grouped records."""
    return sum(map(len, grouped.values()))


@pytest.fixture
def killable(request: pytest.FixtureRequest, servers: str, tmp_path: Path) -> Iterator[Killable]:
    """The application that the test is named after."""
    found = Killable(request.function.__name__.split("_")[1], servers, tmp_path)
    yield found
    found.clean_up()


def test_orders_are_decided_once_although_the_service_is_killed(killable: Killable) -> None:
    """Every paid order has one decision, every unpaid one is rejected, and no piece of the stock is sold twice."""
    made = module("orders", "made")
    orders = made.records(0, 300)
    after = [("payments", 0, 0, made.START_MS + 7_200_000, f"late{n}", {"amount": 1}) for n in range(32)]
    late = ks.Sample.from_records(after)  # after two hours, so that nobody is waited for any more
    produce, decisions = ks.kafka.produce, lambda: killable.output("validated-orders")
    produce(killable.servers, orders[:200])
    killable.start()
    killable.wait_for(decisions)
    produce(killable.servers, orders[200:400])
    killable.wait_for(lambda: len(decisions()) > 100)
    assert killable.end(signal.SIGKILL) == -signal.SIGKILL
    produce(killable.servers, [*orders[400:], *late])
    killable.start()
    killable.wait_for(lambda: len(decisions()) >= 300)
    decided = {record.key: record.value for record in decisions()}
    killable.wait_for(lambda: {row["key"]: row["value"] for row in killable.get("/stores/orders")} == decided)
    left = {row["key"]: row["value"] for row in killable.get("/stores/stock")}
    assert killable.end(signal.SIGTERM) == 0
    assert len(decided) == len(decisions()) == 300
    unpaid = {id for id, order in decided.items() if "not paid" in (order["reason"] or "")}
    assert unpaid == {f"o{n}" for n in range(7, 300, 10)}
    for product in made.PRODUCTS:
        validated = [order for order in decided.values() if order["product"] == product and not order["reason"]]
        delivered = sum(each.value["delivered"] for each in orders if (each.topic, each.key) == ("stock", product))
        assert sum(order["pieces"] for order in validated) + left[product] == delivered


def test_fraud_alerts_are_those_of_the_driver_although_the_service_is_killed(killable: Killable) -> None:
    """Each card has the alerts of the driver, none lost and none twice; the dashboard counts as many."""
    topology, made = module("fraud", "topology"), module("fraud", "made")
    sample = made.records(0, 1200)
    expected = by_key(ks.replay(topology.build(), sample, topology.TOPICS).output("fraud-alerts"))
    produce, alerts = ks.kafka.produce, lambda: by_key(killable.output("fraud-alerts"))
    produce(killable.servers, sample[:460])
    killable.start()
    killable.wait_for(alerts)
    produce(killable.servers, sample[460:860])
    time.sleep(0.3)  # somewhere in the middle
    assert killable.end(signal.SIGKILL) == -signal.SIGKILL
    produce(killable.servers, sample[860:])
    killable.start()
    killable.wait_for(lambda: size(alerts()) >= size(expected))
    killable.wait_for(lambda: sum(row["value"] for row in killable.get("/stores/alerts-per-minute")) == size(expected))
    latest = killable.get("/stores/latest-alert")
    assert killable.end(signal.SIGTERM) == 0
    assert alerts() == expected
    assert all(row["timestamp"] in {when for _, when in expected[row["key"]]} for row in latest)


def test_iot_readings_are_counted_once_although_the_application_is_killed(killable: Killable) -> None:
    """Final minutes, late readings and dead letters are those of the driver: none lost, none twice."""
    topology, made = module("iot", "topology"), module("iot", "made")
    sample, topics = made.records(0, 3000), ("minutes", "late-readings", "readings-dead")
    replay = ks.replay(topology.build(), sample, topology.TOPICS, config=topology.CONFIG)
    broken = [each._replace(timestamp=each.value["at"]) for each in sample if "celsius" not in each.value]
    expected = {topic: by_key(replay.output(topic)) for topic in topics[:2]} | {topics[2]: by_key(broken)}
    produce = ks.kafka.produce
    produce(killable.servers, sample[:1200])
    killable.start()
    killable.wait_for(lambda: killable.output("minutes"))
    produce(killable.servers, sample[1200:2200])
    time.sleep(0.3)  # somewhere in the middle
    assert killable.end(signal.SIGKILL) == -signal.SIGKILL
    produce(killable.servers, sample[2200:])
    killable.start()
    killable.wait_for(lambda: all(len(killable.output(topic)) >= size(expected[topic]) for topic in topics))
    counted = 3000 - sum(size(expected[topic]) for topic in topics[1:])
    killable.wait_for(lambda: sum(row["value"]["readings"] for row in killable.get("/stores/minutes")) == counted)
    assert killable.end(signal.SIGTERM) == 0
    assert {topic: by_key(killable.output(topic)) for topic in topics} == expected


def test_cdc_rows_are_the_databases_although_relay_and_application_are_killed(killable: Killable) -> None:
    """The table and every search are those of SQL, and each change is in the topic of rows once.

    The relay is killed in the middle of its work, and between the broker's answer and the slot: it repeats changes.
    """
    psycopg = pytest.importorskip("psycopg", reason="needs the package psycopg")
    database, made = module("cdc", "database"), module("cdc", "made")
    try:
        database.programs()
    except FileNotFoundError as missing:
        pytest.skip(str(missing))
    with database.local_postgres() as address, psycopg.connect(address, autocommit=True) as connection:

        def change(first: int, count: int) -> None:
            for statement, row in made.statements(first, count):
                connection.execute(statement, row)

        def rows() -> list[ks.TopicRecord]:
            return killable.output("products")

        change(0, 1)  # a row for the snapshot
        relay = killable.beside(made.start_relay(killable.servers, address))
        killable.start()
        killable.wait_for(rows)
        change(1, 199)
        killable.wait_for(lambda: len(killable.output("shop.public.products")) > 20)
        os.killpg(relay.pid, signal.SIGKILL)
        relay.wait()
        assert killable.end(signal.SIGKILL) == -signal.SIGKILL
        change(200, 200)
        repeated = module("cdc", "relay")
        active = "SELECT active FROM pg_replication_slots WHERE slot_name = %s"  # by the relay that was killed
        assert wait_until(lambda: connection.execute(active, [repeated.SLOT]).fetchone() == (False,), PATIENCE_S)
        changes = connection.execute(repeated.READ, [repeated.SLOT, repeated.TABLE]).fetchall()
        ks.kafka.produce(killable.servers, repeated.records(changes))  # and dies: the slot does not advance
        relay = killable.beside(made.start_relay(killable.servers, address))
        killable.start()
        killable.wait_for(lambda: len(rows()) >= 400)
        relay.send_signal(signal.SIGTERM)
        assert relay.wait(60) == 0
        left = {str(row[0]): row for row in connection.execute("SELECT id, name, cents FROM products")}

        def kept() -> dict[str, Any]:
            rows = {row["key"]: row["value"]["row"] for row in killable.get("/stores/rows")}
            return {key: tuple(row.values()) for key, row in rows.items() if row}

        killable.wait_for(lambda: kept() == left)
        for word in ("red", "lamp", "oak"):
            found = {row["id"] for row in killable.get(f"/products?q={word}")}
            assert found == {row[0] for row in left.values() if word in row[1].split()} != set()
    assert killable.end(signal.SIGTERM) == 0
    sent = by_key(each for each in made.records(0, 400) if each.value is not None)
    assert {key: len(each) for key, each in by_key(rows()).items()} == {key: len(each) for key, each in sent.items()}
