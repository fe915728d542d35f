"""How an operator works with a query: status, metrics, stores, journal, lists of queries."""

from __future__ import annotations

import gc
import json
import logging
import os
import re
import subprocess
import threading
import time
import urllib.error
import urllib.request
import weakref
from pathlib import Path
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.kafka.producer import produce
from kstreamnb.spark.io import offset_source
from tests.kafka.apps import PATIENCE_S, START_MS, Bench, counting, counts, rows

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def all_stores(name: str) -> ks.Topology:
    """A store of each kind over one input."""
    builder = ks.StreamsBuilder(name)
    stream = builder.stream(f"{name}-in", value_serde="long")
    grouped = stream.group_by_key()
    grouped.count(store="counts").to_stream().to(f"{name}-out", value_serde="long")
    grouped.windowed_by(ks.TimeWindows.of_size_with_no_grace("10ms")).count(store="windows")
    grouped.windowed_by(ks.SessionWindows.of_inactivity_gap_with_no_grace("50ms")).count(store="sessions")
    versioned = ks.Materialized(ks.Stores.persistent_versioned_key_value_store("versions", history="1h"))
    stream.to_table(value_serde="long", materialized=versioned)
    return builder.build()


def word_of(page: Path) -> str:
    """Return the application id that a page of a checkpoint holds."""
    return str(json.loads(page.read_text())["application"])


def as_dict(metrics: Any) -> dict[str, float]:
    """Values of metrics by ``group:name{tags}``."""
    found = {}
    for group, name, tags, value in metrics:
        found[f"{group}:{name}{{{','.join(f'{tag}={word}' for tag, word in tags)}}}"] = value
    return found


@pytest.fixture(autouse=True)
def _brokers_have_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A status waits 2 s for the ends of topics, and goes without a lag then: a busy broker may answer later."""
    monkeypatch.setattr(offset_source, "_GLANCE_S", PATIENCE_S)


class Gate(ks.spark.FunctionSink):
    """A sink that is slow to open, on request."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self.free, self.reached = threading.Event(), threading.Event()
        self.free.set()

    def open(self) -> None:
        """Wait until it is released."""
        if not self.free.is_set():
            self.reached.set()
        self.free.wait(120)


def test_metrics_carry_the_names_of_kafka_streams(bench: Bench) -> None:
    """S0-57, S1-39, S1-40: counts, rates, lag, lateness and latency, also correct after a run over existing records."""
    bench.fill("measured-in", 60, 2)
    query = bench.run(counting("measured"), max_records=20)
    found = as_dict(query.metrics())
    client = "{application-id=measured}"
    assert 60 == found[f"stream-thread-metrics:records-published-total{client}"]
    assert 60 == found[f"stream-thread-metrics:process-total{client}"]
    assert 3 <= found[f"stream-thread-metrics:commit-total{client}"]
    assert 0 < found[f"stream-thread-metrics:commit-latency-avg{client}"]
    assert 1 == found[f"stream-metrics:topic-replicas-min{client}"]  # S4-39: one broker
    assert 0 == found[f"consumer-fetch-manager-metrics:records-lag-max{client}"]
    assert 60 == found[f"producer-metrics:record-send-total{client}"]
    tasks = {metric.tags: metric.value for metric in query.metrics() if metric.name == "stream-time"}
    assert START_MS + 59 == max(tasks.values())
    assert all(metric.value > 0 for metric in query.metrics() if metric.name == "state-bytes")
    assert {"record-lateness-avg", "record-lateness-max", "dropped-records-total", "record-e2e-latency-max"} <= {
        metric.name for metric in query.metrics()
    }
    sizes = [figures.consumed for figures in query.recent()]
    assert 60 == sum(sizes)
    assert 20 >= max(sizes)
    assert query.status().positions == bench.group("measured")
    bench.fill("measured-in", 7, 2, begin=60)
    assert 7 == query.status().lag
    assert {"measured-in": {0: 30, 1: 30}} == query.status().positions


def test_a_query_prints_what_runs_where(bench: Bench) -> None:
    """S2-51: tasks with partitions, stores and positions; the answer depends on when it is asked."""
    bench.admin.create_topic("printed-in", partitions=2)
    query = bench.deploy(counting("printed"))
    assert re.fullmatch('application "printed": (starting|running), before its first batch', str(query).splitlines()[0])
    assert re.search(r"\n0_1 +\| 1 +\| printed-in-1 \| counts +\| not run yet ", str(query))
    bench.fill("printed-in", 10, 2)
    assert query.await_input(PATIENCE_S)
    assert f'application "printed": running, after batch {query.status().batch}' in str(query)
    assert "topic printed-in: 0 at 5, 1 at 5" in str(query)
    assert "not run yet" not in str(query)
    query.stop()
    assert 'application "printed": stopped' in str(query)


def test_lag_tools_see_the_application_as_a_consumer_group(bench: Bench) -> None:
    """S1-37: the application's id is a Kafka group; its offsets and the topics' ends give the lag."""
    bench.fill("grouped-in", 30, 2)
    bench.run(counting("grouped"))
    bench.fill("grouped-in", 10, 2, begin=30)
    ends, committed = bench.admin.offsets(["grouped-in"]), bench.group("grouped")  # once no transaction is open
    groups = {each.group_id for each in bench.admin.client.list_consumer_groups().result(30).valid}
    assert "grouped" in groups
    lag = {part: end - committed["grouped-in"][part] for part, end in ends["grouped-in"].items()}
    assert {0: 5, 1: 5} == lag


def test_nothing_runs_but_python_its_jvm_and_their_workers(bench: Bench) -> None:
    """S1-08, S2-30: no server, no daemon: all processes of a deployment are children of this process."""
    bench.fill("library-in", 10)
    query = bench.deploy(counting("library"))
    assert query.await_input(PATIENCE_S)
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()]
    children: dict[str, list[tuple[str, str]]] = {}
    for pid, parent, command in rows:
        children.setdefault(parent, []).append((pid, command))
    waiting, found = [str(os.getpid())], []
    while waiting:
        for pid, command in children.get(waiting.pop(), ()):
            shell = "exec 3<&0" in command  # except the test's broker
            if not (shell or command.startswith("ps ") or "<defunct>" in command):
                found.append(command)
                waiting.append(pid)
    programs = {Path(command.split()[0]).name for command in found}
    assert "java" in programs
    assert {name for name in programs if not name.startswith("python")} <= {"java", "jspawnhelper"}
    assert 1 == sum(command.split()[0].endswith("java") for command in found)


def test_prometheus_reads_the_metrics_of_all_active_queries(bench: Bench) -> None:
    """S0-57, S4-55: one endpoint; every metric under the name that the dashboards use."""
    bench.fill("scraped-in", 10)
    query = bench.deploy(counting("scraped"))
    assert query.await_input(PATIENCE_S)
    server = ks.monitoring.serve_metrics()
    try:
        text = urllib.request.urlopen(server.url, timeout=120).read().decode()
    finally:
        server.close()
    assert 'kafka_streams_stream_thread_process_total{application_id="scraped"} 10.0' in text
    assert text.count("# TYPE kafka_streams_stream_thread_process_total counter") == 1
    board = json.loads((Path(ks.__file__).parent / "spark" / "operations" / "dashboard.json").read_text())
    asked = {target["expr"] for panel in board["panels"] for target in panel["targets"]}
    names = {name for expr in asked for name in re.findall(r"kafka_streams_\w+", expr)}
    assert names
    assert [] == sorted(name for name in names if name not in text)


def test_the_journal_says_what_a_query_does(bench: Bench) -> None:
    """One JSON object per line: started, each batch with its figures, stopped; on a busy machine also restarts."""
    bench.fill("logged-in", 10)
    path = bench.folder / "queries.jsonl"
    handler = ks.monitoring.log_to(path)
    try:
        bench.run(counting("logged"))
    finally:
        logging.getLogger("kstreamnb.query").removeHandler(handler)
        handler.close()
    events = [json.loads(line) for line in path.read_text().splitlines()]
    words = [event["event"] for event in events]
    assert re.fullmatch("started( starts again( stopped)?( unfinished batch)? started)* batch stopped", " ".join(words))
    batch = events[words.index("batch")]
    assert ("logged", 0, 10, 10) == tuple(batch[name] for name in ("application", "number", "consumed", "published"))


def test_stores_of_a_running_query_are_read_as_of_its_last_batch(bench: Bench) -> None:
    """S0-56, S2-49: every kind of store, kept up to date, read only; the answer says which batch it is from."""
    records = bench.fill("stores-in", 40, 2)
    query = bench.deploy(all_stores("stores"))
    assert query.await_input(PATIENCE_S)
    view = query.store("counts")
    wanted = counts(records)
    key = min(wanted)
    assert wanted == dict(view.all())
    assert wanted[key] == view[key] == view.get(key)
    assert sorted(k for k in wanted if "a0" <= k <= "b3") == sorted(k for k, _ in view.range("a0", "b3"))
    assert sorted(k for k in wanted if k.startswith("c")) == sorted(k for k, _ in view.prefix_scan("c"))
    assert (query.status().batch, 0) == (view.batch, view.lag)
    driver = ks.TopologyTestDriver(all_stores("stores"), partitions=2)
    driver.pipe(records)
    windows = driver.get_timestamped_window_store("windows").all()
    assert list(windows) == list(query.store("windows", timestamps=True).all())
    assert list(driver.get_session_store("sessions").all()) == list(query.store("sessions").all())
    latest = {record.key: record.value for record in records}
    assert latest[key] == query.store("versions").get(key).value
    before = view.batch
    records += bench.fill("stores-in", 20, 2, begin=40)
    assert query.await_input(PATIENCE_S)
    assert counts(records) == dict(view.all())
    assert view.batch > before
    assert not hasattr(view, "put")
    with pytest.raises(ks.errors.StateError, match='store "count" does not exist') as caught:
        query.store("count")
    assert 'did you mean "counts"?' == caught.value.hint


def test_a_query_answers_for_every_kind_of_store_over_http_and_says_when_it_is_down(bench: Bench) -> None:
    """S1-32, S4-52: the rows of the view; health is 200 while it runs and 503 after it was stopped."""
    wanted = counts(bench.fill("asked-in", 20, 2))
    query = bench.deploy(all_stores("asked"))
    assert query.await_input(PATIENCE_S)
    key = min(wanted)
    with ks.monitoring.serve(query) as server:

        def ask(path: str) -> Any:
            return json.load(urllib.request.urlopen(server.url + path, timeout=120))

        newest = query.store("counts", timestamps=True)[key]
        assert {"key": key, "value": wanted[key], "timestamp": newest.timestamp} == ask(f"/stores/counts/{key}")
        assert wanted == {row["key"]: row["value"] for row in ask("/stores/counts")}
        windows = [(row["start"], row["value"]) for row in ask(f"/stores/windows/{key}")["rows"]]
        assert windows == list(query.store("windows").fetch(key, 0, 2 * START_MS))
        assert windows
        assert wanted[key] == sum(row["value"] for row in ask(f"/stores/sessions/{key}")["rows"])
        assert query.store("versions").get(key).timestamp == ask(f"/stores/versions/{key}")["timestamp"]
        assert wanted[key] == ask(f"/health?store=counts&key={key}")["value"]
        query.stop()
        with pytest.raises(urllib.error.HTTPError, match="503") as refused:
            ask("/health")
        assert "the application is not running: stopped" == json.load(refused.value)["error"]
        refused.value.close()


def test_a_query_that_starts_again_is_not_healthy_until_it_takes_up_input(bench: Bench) -> None:
    """S3-15, S4-52: "starting" and 503 while stores are restored and the output is opened, then 200."""
    wanted = counts(bench.fill("restored-in", 20, 2))
    gate = Gate(lambda output, batch: None)
    query = bench.deploy(counting("restored"), sink=gate)
    assert query.await_input(PATIENCE_S)
    key = min(wanted)
    with ks.monitoring.serve(query) as server:
        question = f"{server.url}/health?store=counts&key={key}"
        assert wanted[key] == json.load(urllib.request.urlopen(question, timeout=120))["value"]
        gate.free.clear()
        restart = threading.Thread(target=query.restart)
        restart.start()
        assert gate.reached.wait(PATIENCE_S)
        assert "starting" == query.status(lag=False).state
        with pytest.raises(urllib.error.HTTPError, match="503") as refused:
            urllib.request.urlopen(question, timeout=120)
        assert "the application is not running: starting" == json.load(refused.value)["error"]
        refused.value.close()
        gate.free.set()
        restart.join()
        assert query.await_input(PATIENCE_S)
        bench.fill("restored-in", 1, 2, begin=20)
        assert query.await_input(PATIENCE_S)
        assert "running" == query.status().state
        assert urllib.request.urlopen(question, timeout=120).status == 200


def test_stores_are_read_from_the_checkpoint_when_the_query_is_down(bench: Bench) -> None:
    """S0-56, S2-45, S3-13: every kind, from the stopped query, and from the folder alone."""
    records = bench.fill("down-in", 40, 2)
    query = bench.run(all_stores("down"), max_records=10)
    assert counts(records) == dict(query.store("counts").all())
    alone = ks.spark.read_store(all_stores("down"), "counts", query.checkpoint, spark=bench.spark)
    assert counts(records) == dict(alone.all())
    assert 3 <= alone.batch
    driver = ks.TopologyTestDriver(all_stores("down"), partitions=2)
    driver.pipe(records)
    assert list(driver.get_window_store("windows").all()) == list(query.store("windows").all())
    assert list(driver.get_session_store("sessions").all()) == list(query.store("sessions").all())
    latest = {record.key: record.value for record in records}
    assert latest == {key: query.store("versions").get(key).value for key in latest}


def test_a_stopped_query_that_nobody_holds_is_let_go(bench: Bench) -> None:
    """With its clients and stores; Spark's own handles would keep it alive until a JVM with a large heap collects
    garbage.
    """
    bench.fill("forgotten-in", 5)
    query = bench.deploy(counting("forgotten"))
    assert query.await_input(PATIENCE_S)
    assert 5 == sum(dict(query.store("counts").all()).values())
    query.stop()
    held = weakref.ref(query)
    bench.queries.clear()
    del query
    end = time.monotonic() + PATIENCE_S
    while held() is not None and time.monotonic() < end:  # threads beside it notice its end within a second
        gc.collect()
        time.sleep(0.05)
    assert held() is None


def test_active_queries_are_listed_watched_and_stopped_together(bench: Bench) -> None:
    """S4-17, S4-18: two applications in one session, each with its own folder, metrics, start and end."""
    for name in ("one", "two"):
        bench.fill(f"{name}-in", 10)
    first, second = bench.deploy(counting("one"), "first"), bench.deploy(counting("two"), "second")
    seen: list[int] = []
    unwatch = second.watch(lambda figures: seen.append(figures.consumed))
    assert first.await_input(PATIENCE_S)
    assert second.await_input(PATIENCE_S)
    assert {"one", "two"} <= {query.application for query in ks.spark.active()}
    unwatch()
    first.control.end_with(ks.errors.EngineError("stalled on purpose"))
    bench.fill("two-in", 10, begin=10)
    assert second.await_input(PATIENCE_S)
    assert ("failed", "running") == (first.status().state, second.status().state)
    first.restart()
    bench.fill("one-in", 5, begin=10)
    assert first.await_input(PATIENCE_S)
    for query, word, read in ((first, "one", 15), (second, "two", 20)):
        assert {word} == {dict(metric.tags)["application-id"] for metric in query.metrics()}
        assert read == as_dict(query.metrics())[f"stream-thread-metrics:process-total{{application-id={word}}}"]
        assert {word} == {word_of(path) for path in query.checkpoint.rglob("kstreamnb.json")}
    began = time.monotonic()
    assert second in ks.spark.stop_all()
    assert time.monotonic() - began <= 5
    assert () == ks.spark.active()
    assert "stopped" == second.status().state
    assert not {first.checkpoint, *first.checkpoint.parents} & {second.checkpoint}
    assert not {second.checkpoint, *second.checkpoint.parents} & {first.checkpoint}
    end = time.monotonic() + PATIENCE_S
    while "kstreamnb-companion" in {thread.name for thread in threading.enumerate()}:  # they look once a second
        assert time.monotonic() < end
        time.sleep(0.05)


def test_changelogs_are_written_for_others_to_read(bench: Bench) -> None:
    """S0-22, S1-38, S2-50, S4-08: compacted topics with Kafka's names and settings; their last values equal the store.

    Those of windows and sessions are also deleted by age: the store's retention plus a day.
    """
    records = bench.fill("logs-in", 40, 2)
    query = bench.run(all_stores("logs"), changelogs=True, max_records=15)
    for store, kept_ms in (("windows", 10), ("sessions", 50)):
        config = dict(bench.admin.describe(f"logs-{store}-changelog").config)
        assert {"compact", "delete"} == set(config["cleanup.policy"].split(","))
        assert kept_ms + 86_400_000 == int(config["retention.ms"])
    assert () == ks.testing.verify_state(query).rows
    topic = "logs-counts-changelog"
    described = bench.admin.describe(topic)
    assert (2, "compact") == (described.partitions, dict(described.config)["cleanup.policy"])
    assert counts(records) == {key: value for key, value, _ in bench.read(topic)}
    assert counts(records) == dict(query.store("counts").all())


def test_stores_are_compared_with_their_log_and_their_changelog_topics(bench: Bench) -> None:
    """S3-12, S0-09: all equal; then a foreign record in a changelog, and a store that differs from its log, are
    named.
    """
    bench.fill("verified-in", 40, 2)
    query = bench.deploy(counting("verified"), changelogs=True, max_records=15)
    assert query.await_input(PATIENCE_S)
    key, count = next(iter(query.store("counts").all()))
    whole = ks.testing.verify_state(query)
    assert (2, ()) == (whole.stores, whole.rows)
    partition = next(record.partition for record in rows("verified-in", 40, 2) if record.key == key)
    produce(bench.servers, [ks.TopicRecord("verified-counts-changelog", partition, 0, START_MS, key, 999)],
            value_serde=ks.Serdes.long(), keep_partitions=True)  # fmt: skip
    (foreign,) = ks.testing.verify_state(query)
    assert (f"0_{partition}", "counts", key, count, 999, "changelog") == tuple(vars(foreign).values())
    _, parts = query.control.action.stores.ask("counts", list)
    raw_key, row = next((raw_key, row) for part in parts for raw_key, row in part.raw.items() if row[0] != count)
    next(part for part in parts if raw_key in part.raw).apply(raw_key, None)
    lost = next(each for each in ks.testing.verify_state(query) if each.against == "log")
    assert (None, row[0]) == (lost.found, lost.expected)
    bench.fill("verified-in", 10, 2, begin=40)
    assert query.await_input(PATIENCE_S)
    query.stop()
    again = bench.deploy(counting("verified"), changelogs=True, available_now=True)
    assert again.await_termination(PATIENCE_S)
    assert {"changelog"} == {each.against for each in ks.testing.verify_state(again)}
