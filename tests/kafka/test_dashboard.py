"""A real Prometheus scrapes a deployment: every panel of the dashboard has a value, and every alert rule is evaluated.

Needs Debian's package ``prometheus``, which ``make test-kafka`` installs where that is allowed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

import kstreamnb as ks
from kstreamnb.kafka.broker_process import LocalBroker
from tests.kafka.apps import PATIENCE_S, START_MS, Bench, free_port

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

DASHBOARD = Path(ks.__file__).parent / "spark" / "operations" / "dashboard.json"
RUNNING = "kafka_streams_stream_running"
Ask = Callable[..., Any]


def sessions() -> ks.Topology:
    """Counts by key and by session, and the records that a handler refuses."""
    builder = ks.StreamsBuilder("watched")
    grouped = builder.stream("watched-in", value_serde="long").group_by_key()
    grouped.count(store="counts").to_stream().to("watched-out", value_serde="long")
    grouped.windowed_by(ks.SessionWindows.of(gap="1s", grace="0ms")).count(store="sessions")
    return builder.build()


@pytest.fixture
def watched(bench: Bench) -> Iterator[tuple[Any, Any]]:
    """A deployment with metrics, and records that are late for their sessions."""
    bench.fill("watched-in", 200, 2)
    query = bench.deploy(sessions(), changelogs=True)
    assert query.await_input(PATIENCE_S)
    late = [ks.TopicRecord("watched-in", 0, 0, START_MS - 3_600_000, "a0", 7)]
    ks.kafka.produce(bench.servers, late, value_serde=ks.Serdes.long(), keep_partitions=True)
    assert query.await_input(PATIENCE_S)
    server = ks.monitoring.serve_metrics()
    yield query, server
    server.close()


@pytest.fixture
def prometheus(watched: tuple[Any, Any], tmp_path: Path) -> Iterator[Ask]:
    """A Prometheus that scrapes the deployment twice a second."""
    with scraping(watched[1].url, tmp_path) as ask:
        yield ask


@contextmanager
def scraping(url: str, tmp_path: Path) -> Iterator[Ask]:
    """A Prometheus with the rules of the kit, which scrapes an address twice a second; a function that asks it."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("needs Debian's package prometheus")
    (tmp_path / "rules.yml").write_text(
        ks.monitoring.prometheus_rules(ks.monitoring.alert_rules(state_bytes=100, dead_letter_topic="dead"))
    )
    target = url.removeprefix("http://").partition("/")[0]
    config = {
        "global": {"scrape_interval": "500ms", "evaluation_interval": "500ms"},
        "rule_files": ["rules.yml"],
        "scrape_configs": [{"job_name": "kstreamnb", "static_configs": [{"targets": [target]}]}],
    }
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    for kind, file in (("config", "prometheus.yml"), ("rules", "rules.yml")):
        subprocess.run(["promtool", "check", kind, file], cwd=tmp_path, check=True, capture_output=True)
    address = f"127.0.0.1:{free_port()}"
    options = ["--config.file=prometheus.yml", "--storage.tsdb.path=data", f"--web.listen-address={address}"]
    with (tmp_path / "prometheus.log").open("w") as log:
        process = subprocess.Popen([program, *options], cwd=tmp_path, stdout=log, stderr=log)

    def ask(path: str, **question: str) -> Any:
        with urlopen(f"http://{address}/api/v1/{path}?{urlencode(question)}", timeout=30) as answer:
            return json.load(answer)["data"]

    try:
        wait_for(lambda: ask("query", query="up == 1")["result"])
        yield ask
    finally:
        process.terminate()
        process.wait(30)


def wait_for(reached: Callable[[], Any]) -> Any:
    """Return what a question answers as soon as it answers."""
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            if found := reached():
                return found
        except (URLError, ConnectionError):
            pass  # it has not started
        assert time.monotonic() < end
        time.sleep(0.2)


def test_every_panel_has_a_value_and_every_rule_is_evaluated(
    bench: Bench, watched: tuple[Any, Any], prometheus: Ask
) -> None:
    """S4-35…S4-40, S0-57, S0-58: panels of latency, state, commits, replicas, lag, drops and compaction."""
    query, server = watched
    with urlopen(server.url, timeout=60) as answer:
        families = {each.name: each for each in text_string_to_metric_families(answer.read().decode())}
    assert families["kafka_streams_stream_task_dropped_records"].type == "counter"
    assert sum(each.value for each in families["kafka_streams_stream_state_total_sst_files_size"].samples) >= 0
    sizes = {each.labels["in_memory_state_id"]: each.value
             for each in families["kafka_streams_stream_state_store_bytes"].samples}  # fmt: skip
    assert sizes.keys() == {"counts", "sessions"}
    for more in range(200, 260, 20):  # rates need samples before and after
        bench.fill("watched-in", 20, 2, begin=more)
        assert query.await_input(PATIENCE_S)
        _, since = prometheus("query", query="time()")["result"]
        wait_for(lambda since=since: prometheus("query", query=f"timestamp({RUNNING}) > {since}")["result"])
    _, at = prometheus("query", query="time()")["result"]  # no rate depends on how long the questions take
    panels = json.loads(DASHBOARD.read_text())["panels"]
    found = {}
    for panel in panels:
        for target in panel["targets"]:
            result = wait_for(lambda expr=target["expr"]: prometheus("query", query=expr, time=at)["result"])
            found[panel["title"]] = [float(each["value"][1]) for each in result]
            assert all(each["metric"].get("application_id") == "watched" for each in result), panel["title"]
    print("\n".join(f"{title}: {values}" for title, values in found.items()))
    assert len(found) == len(panels)
    assert all(value == value for values in found.values() for value in values), "not a number"
    for title in ("Records processed a second", "Records published a second", "Committing a batch, ms",
                  "Commits a second", "State, in bytes", "Bytes by store", "Rows by store",
                  "Processing a record, ms"):  # fmt: skip
        assert max(found[title]) > 0, title
    assert found["Fewest replicas of a topic that is written"] == [1]
    assert found["Lag, in records"] == [0]
    assert (found["Broker reachable"], found["Automatic restarts"]) == ([1], [0])
    assert sum(found["Records dropped"]) == 1
    rules = prometheus("rules")["groups"][0]["rules"]
    assert len(rules) == len(ks.monitoring.alert_rules(dead_letter_topic="dead")) == 12
    wait_for(lambda: all(rule["health"] == "ok" for rule in prometheus("rules")["groups"][0]["rules"]))
    wait_for(lambda: any(rule["name"] == "StateTooLarge" and rule["state"] == "pending"
                         for rule in prometheus("rules")["groups"][0]["rules"]))  # fmt: skip
    assert not prometheus("query", query=rules[0]["query"])["result"], "it is not stalled"


def test_alerts_fire_and_resolve(spark: Any, tmp_path: Path) -> None:
    """The first dead letter of a process fires an alert; so does a broker that is away, until it is back."""
    builder = ks.StreamsBuilder("alarmed")
    values = builder.stream("alarmed-in", value_serde="long")
    values.map_values(lambda value: 100 // value).to("alarmed-out", value_serde="long")
    config = {"processing.exception.handler": "continue", "errors.dead.letter.queue.topic.name": "dead"}
    with (
        LocalBroker(timeout_s=180.0) as broker,
        ks.monitoring.serve_metrics() as server,
        scraping(server.url, tmp_path) as ask,
    ):

        def state(name: str) -> str:
            return next(rule["state"] for rule in ask("rules")["groups"][0]["rules"] if rule["name"] == name)

        def fires(name: str) -> bool:
            firing = ask("query", query=f'ALERTS{{alertname="{name}",alertstate="firing"}}')["result"]
            return [each["metric"].get("application_id") for each in firing] == ["alarmed"]

        assert "inactive" == wait_for(lambda: state("Failed"))
        bench = Bench(spark, broker.bootstrap_servers, tmp_path)
        for topic in ("alarmed-out", "dead"):
            bench.admin.create_topic(topic)
        rows = [ks.TopicRecord("alarmed-in", 0, at, START_MS, "a", at + 1) for at in range(3)]
        bench.admin.create_topic("alarmed-in")
        ks.kafka.produce(bench.servers, rows, value_serde=ks.Serdes.long())
        query = bench.deploy(builder.build(), config=config)
        try:
            assert query.await_input(PATIENCE_S)
            assert wait_for(lambda: ask("query", query=f"{RUNNING} == 1")["result"])
            assert {"inactive"} == {state(name) for name in ("BrokerAway", "DeadLetters")}
            zero = ks.TopicRecord("alarmed-in", 0, 3, START_MS, "a", 0)
            ks.kafka.produce(bench.servers, [zero], value_serde=ks.Serdes.long())
            assert query.await_input(PATIENCE_S)
            wait_for(lambda: state("DeadLetters") == "pending")
            assert state("BrokerAway") == "inactive"
            broker.kill()
            wait_for(lambda: fires("BrokerAway"))
            assert fires("DeadLetters")
            assert query.status().away
            broker.start()
            wait_for(lambda: state("BrokerAway") == "inactive")
            assert "running" == query.status().state
            assert {"inactive"} == {state(name) for name in ("Failed", "Stalled", "RecordsLost", "LagGrows")}
        finally:
            query.stop()
