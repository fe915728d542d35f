"""A constant flow of records while something happens to the application: kills, a new version, a stalled neighbor.

All of it is slow, because the requirements state rates and seconds: ``pytest -m slow``.
"""

from __future__ import annotations

import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

import pytest

import kstreamnb as ks
from kstreamnb.kafka.producer import produce
from kstreamnb.tools.benchmark import python_workers
from tests.kafka.apps import PATIENCE_S, Bench, counting, counts, final, rows, settle
from tests.kafka.crashes import committed

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

ALERTS = """
import sys
import kstreamnb as ks
from tests.kafka.test_flow import alerting

options = {"bootstrap_servers": sys.argv[1], "checkpoint": sys.argv[2]}
query = ks.deploy(alerting(), available_now=True, max_records=25, spark=ks.spark.spark_session(cores=1), **options)
while query.is_active():
    print(query.status(lag=False).batch, flush=True)
    query.await_termination(0.05)
query.await_termination()
"""


class Flow:
    """Records produced to a topic at a rate; with ``watched`` it notes when the committed output of a topic grew."""

    def __init__(self, bench: Bench, topic: str, rate: int, watched: str) -> None:
        self.bench, self.topic, self.rate, self.watched = bench, topic, rate, watched
        self.sent: list[ks.TopicRecord] = []
        self.grown: list[tuple[float, int]] = []
        self._over = threading.Event()

    @contextmanager
    def running(self) -> Iterator[Flow]:
        """Run the flow during the block."""
        self.bench.admin.create_topic(self.topic, partitions=2, exists_ok=True)
        threads = [threading.Thread(target=each, daemon=True) for each in (self._send, self._watch)]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._over.set()
            for thread in threads:
                thread.join()

    def _send(self) -> None:
        share, due = max(1, self.rate // 10), time.monotonic()
        while not self._over.is_set():
            records = rows(self.topic, share, 2, begin=len(self.sent))
            produce(self.bench.servers, records, value_serde=ks.Serdes.long(), keep_partitions=True)
            self.sent += records
            due += share / self.rate
            self._over.wait(max(0.0, due - time.monotonic()))

    def _watch(self) -> None:
        last = 0
        while not self._over.wait(0.02):
            if self.watched in self.bench.admin.topics():
                count = sum(self.bench.admin.offsets([self.watched])[self.watched].values())
                if count > last:
                    last = count
                    self.grown.append((time.monotonic(), count))

    def await_growth(self, since: float = 0.0) -> float:
        """Return when the output first grew after a time."""
        return wait_for(lambda: next((at for at, _ in self.grown if at > since), 0.0))

    def gap(self) -> float:
        """Return the longest time without new output."""
        times = [at for at, _ in self.grown]
        return max(after - before for before, after in pairwise(times))


def wait_for(look: Callable[[], float]) -> float:
    """Return the first result of a lookup that succeeds."""
    end = time.monotonic() + PATIENCE_S
    while not (found := look()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return found


def test_output_resumes_by_itself_within_thirty_seconds_of_a_kill(bench: Bench) -> None:
    """S0-07, S0-04: 1,000 records a second, all workers killed three times: recovery is automatic and nothing is
    lost.
    """
    with Flow(bench, "killed-in", 1000, "killed-out").running() as flow:
        query = bench.deploy(counting("killed"))
        flow.await_growth()
        took = []
        for _ in range(3):
            victims, struck = python_workers(), time.monotonic()
            assert victims
            for pid in victims:
                with suppress(ProcessLookupError):  # it has been idle for too long
                    os.kill(pid, signal.SIGKILL)
            took.append(flow.await_growth(struck + 0.5) - struck)
            flow.await_growth(time.monotonic() + 1)
    assert query.await_input(PATIENCE_S)
    query.stop()
    print(f"output resumed after {', '.join(f'{each:.1f}' for each in took)} s; {len(flow.sent):,} records")
    assert max(took) <= 30
    assert len(flow.sent) == len(bench.read("killed-out"))
    assert counts(flow.sent) == final(bench.read("killed-out"))


def test_a_new_version_takes_over_while_records_flow(bench: Bench) -> None:
    """S1-06: 100 records a second; another store is refused before the stop, new code stops output for at most 10 s."""
    with Flow(bench, "rolled-in", 100, "rolled-out").running() as flow:
        query = bench.deploy(counting("rolled"))
        flow.await_growth()
        builder = ks.StreamsBuilder("rolled")
        windows = ks.TimeWindows.of_size_with_no_grace("1h")
        grouped = builder.stream("rolled-in", value_serde="long").group_by_key().windowed_by(windows)
        grouped.count(store="counts").to_stream(lambda key, count: key.key).to("rolled-out", value_serde="long")
        with pytest.raises(ks.errors.CheckpointError, match="does not fit this topology"):
            bench.deploy(builder.build())
        flow.await_growth(time.monotonic())
        assert "running" == query.status(lag=False).state
        builder = ks.StreamsBuilder("rolled")
        table = builder.stream("rolled-in", value_serde="long").group_by_key().count(store="counts")
        table.to_stream().map_values(lambda count: 1_000_000 + count).to("rolled-out", value_serde="long")
        stopped = time.monotonic()
        query.stop()
        query = bench.deploy(builder.build())
        flow.await_growth(max(time.monotonic(), stopped + 0.5))
        flow.await_growth(time.monotonic() + 1)
    assert query.await_input(PATIENCE_S)
    query.stop()
    print(f"longest gap in the output {flow.gap():.1f} s; {len(flow.sent):,} records")
    assert flow.gap() <= 10
    values = [value for _, value, _ in bench.read("rolled-out")]
    assert len(flow.sent) == len(values)
    assert counts(flow.sent) == {key: v % 1_000_000 for key, v in final(bench.read("rolled-out")).items()}
    assert values[-1] > 1_000_000 > values[0]


def stalling(mark: Path) -> ks.Topology:
    """Counts, and blocks at each record while a file exists."""

    def wait(key: str, value: int) -> None:
        while mark.exists():
            time.sleep(0.01)

    builder = ks.StreamsBuilder("stalled")
    stream = builder.stream("stalled-in", value_serde="long").peek(wait)
    stream.group_by_key().count(store="counts").to_stream().to("stalled-out", value_serde="long")
    return builder.build()


def test_an_application_that_stalls_leaves_its_neighbor_its_latency(bench: Bench) -> None:
    """S4-18: one stalls for 30 s; the other's batches continue, and take at most twice as long as before."""
    mark = bench.folder / "stall"
    bench.fill("stalled-in", 10)
    stalled = bench.deploy(stalling(mark), "stalled")
    assert stalled.await_input(PATIENCE_S)
    with Flow(bench, "lively-in", 100, "lively-out").running() as flow:
        query = bench.deploy(counting("lively"), "lively")
        flow.await_growth()
        took: list[float] = []
        query.watch(lambda figures: took.append(figures.seconds))
        wait_for(lambda: len(took) > 30)
        before = statistics.median(took[-25:])
        mark.touch()
        bench.fill("stalled-in", 1, begin=10)
        began, first = time.monotonic(), len(took)
        while time.monotonic() < began + 30:
            time.sleep(0.1)
        during = took[first:]
        assert 10 == len(bench.read("stalled-out"))
        mark.unlink()
    assert stalled.await_input(PATIENCE_S)
    assert query.await_input(PATIENCE_S)
    print(f"{len(during)} batches in 30 s, median {before:.3f} s before and {statistics.median(during):.3f} s then")
    assert len(during) > 20
    assert statistics.median(during) <= 2 * before
    assert 11 == len(bench.read("stalled-out"))
    assert counts(flow.sent) == final(bench.read("lively-out"))


def alerting() -> ks.Topology:
    """Alerts for cards with more than two payments within 20 ms, with the owner of the card."""
    builder = ks.StreamsBuilder("alerting")
    owners = builder.table("owners", value_serde="string")
    payments = builder.stream("payments", value_serde="long")
    windows = ks.TimeWindows.of_size_and_grace("20ms", "5ms")
    often = payments.group_by_key().windowed_by(windows).count(store="often").to_stream()
    suspect = often.filter(lambda key, count: count > 2).select_key(lambda key, count: key.key)
    suspect.repartition(value_serde="long", name="suspects").join(owners, lambda count, owner: f"{owner}: {count}").to(
        "fraud-alerts", value_serde="string"
    )
    return builder.build()


def test_ten_kills_give_no_alert_twice(bench: Bench) -> None:
    """S4-34, S0-04: the process of a fraud pipeline is killed at ten random moments: alerts equal the driver's."""
    bench.admin.create_topic("owners", partitions=2)
    owners = [
        ks.TopicRecord("owners", -1, 0, 0, f"{letter}{n}", f"owner of {letter}{n}")
        for letter in "abc"
        for n in range(6)
    ]
    produce(bench.servers, owners, value_serde=ks.Serdes.string())
    records = bench.fill("payments", 3000, 2)
    chance, kills = random.Random(10), 0
    command = [sys.executable, "-c", ALERTS, bench.servers, str(bench.folder / "checkpoint")]
    while True:
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
            assert process.stdout is not None
            seen: set[str] = set()
            batches = 1 + chance.randrange(5)
            while kills < 10 and len(seen) < batches and (line := process.stdout.readline()):
                seen.add(line)
            if kills < 10 and process.poll() is None:
                time.sleep(chance.random() / 2)
                os.kill(process.pid, signal.SIGKILL)
                kills += 1
                continue
            process.communicate()
            assert 0 == process.returncode
            break
    assert 10 == kills
    settle(bench.admin, "fraud-alerts")
    driver = ks.TopologyTestDriver(alerting(), partitions=2)
    driver.pipe([*owners, *records])
    wanted: dict[int, list[object]] = {}
    for record in driver.create_output_topic("fraud-alerts").read_records():
        row = record.key.encode(), record.value.encode(), record.timestamp, tuple(record.headers)
        wanted.setdefault(record.partition, []).append(row)
    assert sum(map(len, wanted.values())) > 50
    assert dict(sorted(wanted.items())) == committed(bench.admin, "fraud-alerts")
