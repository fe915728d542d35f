"""A query whose cluster has no executors for it, as an operator sees it."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.kafka.broker_process import LocalBroker
from kstreamnb.spark.jvm.executors import has_executors
from tests.cluster.crashes import VICTIMS, run_victim
from tests.cluster.deployments import SETTINGS
from tests.cluster.services import PATIENCE_S, Standalone
from tests.kafka.apps import Bench, counting
from tests.kafka.crashes import BROKER_CONFIG
from tests.kafka.deployed import INSIDE, WHILE

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

ROOT = str(Path(__file__).parents[2])
WAITING = "waiting because Spark has no executors"


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    """A broker that may start slowly, as that of the crash matrix."""
    with LocalBroker(config=BROKER_CONFIG, timeout_s=180.0) as running:
        yield running


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[Standalone]:
    """A master, whose state is lost when it ends, and no worker yet."""
    running = Standalone(tmp_path / "spark", workers=0)
    yield running
    running.stop()


@pytest.fixture(autouse=True)
def stopped() -> Iterator[None]:
    """No query, session or JVM is left."""
    yield
    ks.spark.stop_all()
    end_session()


def session(cluster: Standalone) -> Any:
    """Start a session on a cluster."""
    settings = {**SETTINGS, "spark.executorEnv.PYTHONPATH": ROOT}
    return ks.spark.spark_session("executors", master=cluster.url, settings=settings)


def end_session() -> None:
    """End the session and its JVM, as the end of the process does."""
    running = ks.spark.spark_session()
    process = running.sparkContext._gateway.proc
    running.stop()
    process.stdin.close()
    process.wait(PATIENCE_S)


def until(reached: Callable[[], Any], *why: Callable[[], object]) -> None:
    """Wait for a state."""
    end = time.monotonic() + PATIENCE_S
    while not reached():
        assert time.monotonic() < end, [each() for each in why]
        time.sleep(0.2)


def health(url: str) -> tuple[int, str]:
    """Return what a load balancer or Kubernetes sees."""
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_log_health_and_status_tell_of_missing_executors_until_there_are_some(
    own_cluster: Standalone, broker: LocalBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """No worker runs at the start; one comes, ends, and another one comes; then the master returns without its
    state, which only a restart cures.
    """
    bench = Bench(session(own_cluster), broker.bootstrap_servers, tmp_path)
    topology = counting("waits")
    driver = ks.TopologyTestDriver(topology, partitions={"waits-in": 2, "waits-out": 2})
    bench.admin.create_topic("waits-out", partitions=2)
    ks.monitoring.log_to(tmp_path / "log.jsonl")
    driver.pipe(bench.fill("waits-in", 50, 2))
    options = {"slow_batch": "2s", "changelogs": True}
    with ThreadPoolExecutor() as pool:
        deployed = pool.submit(bench.deploy, topology, **options)
        until(lambda: f"executors: {WAITING}; the cluster may have no free cores" in caplog.text)
        assert not deployed.done()
        own_cluster.workers = [own_cluster.add_worker()]
        query = deployed.result(PATIENCE_S)
    with ks.monitoring.serve(query) as server:
        assert query.await_input(PATIENCE_S)
        assert 200 == health(server.url)[0]
        own_cluster.end_worker()
        driver.pipe(bench.fill("waits-in", 50, 2, begin=50))
        until(lambda: health(server.url)[0] == 503, query.status)
        assert WAITING in health(server.url)[1]
        status = query.status()
        assert (True, "running") == (status.stuck, status.state)
        assert WAITING in str(status)
        own_cluster.workers = [own_cluster.add_worker()]
        assert query.await_input(PATIENCE_S)
        until(lambda: health(server.url)[0] == 200, query.status)
        assert not query.status().stuck
        own_cluster.kill_master()
        own_cluster.start_master()
        until(lambda: not has_executors(bench.spark))  # it ends the executor of an application that it does not know
        driver.pipe(bench.fill("waits-in", 50, 2, begin=100))
        until(lambda: WAITING in health(server.url)[1], query.status)
        query.stop()
    assert WAITING in (tmp_path / "log.jsonl").read_text()
    end_session()
    bench.spark = session(own_cluster)
    query = bench.deploy(topology, **options)
    assert query.await_input(PATIENCE_S)
    expected = driver.create_output_topic("waits-out", value_serde=ks.Serdes.long()).read_records()
    assert sorted((each.key, each.value, each.timestamp) for each in expected) == sorted(bench.read("waits-out"))
    assert dict(driver.store("counts").all()) == dict(query.store("counts").all())
    assert not list(ks.testing.verify_state(query).rows)


@pytest.mark.slow
@pytest.mark.parametrize("victim", VICTIMS, ids=lambda word: word.replace(" ", "-"))
def test_what_is_killed_at_any_moment_loses_and_doubles_nothing(
    victim: str, broker: LocalBroker, tmp_path: Path
) -> None:
    """Every output record and store equals the test driver's; ``python -m tests.cluster.crashes`` kills more often."""
    cluster = Standalone(tmp_path / "spark", recovers=True)
    try:
        for cell in run_victim(victim, 1, broker, cluster, tmp_path, (WHILE, INSIDE)):
            assert cell.ok, cell
            assert 1 == cell.kills
            assert cell.records > 0
    finally:
        cluster.stop()
