"""Running an application: its tasks, its changelogs, takeover by another instance, and its reports."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

import kstreamnb as ks
from kstreamnb.charts import Lines
from kstreamnb.errors import EngineError
from kstreamnb.kafka.output_batch import OutputBatch
from kstreamnb.spark.contracts import QueryBatch
from kstreamnb.spark.operations.prometheus import MetricsCollector, exposed_name
from kstreamnb.spark.telemetry.metrics import MetricsBook
from tests.semantics.test_aggregations import WORDS
from tests.spark.file_source import FileOffsetSource
from tests.spark.inprocess import Cluster
from tests.spark.streams import Row, batched, placed
from tests.unit.spark.query.streams import launch, query_without_spark

EXACTLY = {"processing_guarantee": "exactly_once_v2", "commit_interval": "1h"}
AT_LEAST = {"processing_guarantee": "at_least_once", "commit_interval": "1h"}
GUARANTEES = pytest.mark.parametrize("config", [EXACTLY, AT_LEAST], ids=["exactly once", "at least once"])


def counting(name: str, store: str = "counts") -> ks.Topology:
    """Records by key."""
    builder = ks.StreamsBuilder(name)
    builder.stream("in").group_by_key().count(store=store).to_stream().to("out")
    return builder.build()


def fill(driver: Any, numbers: range) -> None:
    """Records of five keys, with their number as value and time."""
    topic = driver.create_input_topic("in")
    for number in numbers:
        topic.pipe_input(f"KEY-{number % 5}", number, at=number)


# --- S0-22: changelogs ----------------------------------------------------------------------------------------------
def test_the_last_values_of_a_changelog_are_the_store() -> None:
    """S0-22: every update of the word count is also a record of its changelog, under Kafka's name."""
    driver = ks.TopologyTestDriver(WORDS.build(), {"application.id": "x"}, changelogs=True)
    for row in WORDS.input:
        driver.create_input_topic("text").pipe_input(row.key, row.value, at=row.timestamp)
    assert {"x-counts-repartition", "x-counts-changelog", "counts"} == driver.produced_topic_names()
    log = driver.create_output_topic("x-counts-changelog", "string", "long").read_key_values_to_list()
    assert driver.create_output_topic("counts").read_key_values_to_list() == log
    assert {"the": 3, "duck": 2, "and": 1, "stream": 1} == dict(log) == dict(driver.get_key_value_store("counts").all())


def test_nothing_of_an_aborted_batch_is_ever_read() -> None:
    """S0-22: output and changelog are in one transaction: after a crash before its end both stay invisible."""
    driver = ks.simulation.ClusterDriver(counting("app"), EXACTLY)
    topics = ("out", "app-counts-changelog")

    def read(isolation: Any) -> list[int]:
        return [driver.create_output_topic(topic, isolation=isolation).queue_size() for topic in topics]

    fill(driver, range(10))
    assert 10 == driver.run_ready()
    assert [10, 10] == read("read_uncommitted")
    driver.application.crash("before_commit")
    driver.application.commit()
    assert [0, 0] == read("read_committed")
    driver.application.restart()
    assert 10 == driver.run_ready()
    driver.application.commit()
    assert [20, 20] == read("read_uncommitted")
    assert [10, 10] == read("read_committed")
    changelog = driver.create_output_topic("app-counts-changelog", value_serde=ks.Serdes.long())
    assert {f"KEY-{n}": 2 for n in range(5)} == changelog.read_key_values_to_map()


# --- S0-48, S0-49: tasks ----------------------------------------------------------------------------------------------
def test_a_topology_lists_the_tasks_that_run_it() -> None:
    """S0-48: one task for each partition of each sub-topology, with its inputs and stores."""
    builder = ks.StreamsBuilder("shop")
    orders = builder.stream("in")
    orders.group_by_key().count(store="by-key")
    orders.group_by(lambda key, value: value).count(store="by-value")
    tasks = builder.build().tasks({"in": 4})
    assert [f"{sub}_{partition}" for sub in range(2) for partition in range(4)] == [task.id for task in tasks]
    for task in tasks:
        topic, store = ("in", "by-key") if task.subtopology == 0 else ("by-value-repartition", "by-value")
        assert (((topic, task.partition),), (store,)) == (task.inputs, task.stores)


CALLS: Counter[tuple[str, str]] = Counter()


class Observed(ks.Processor[Any, Any, Any, Any]):
    """Counts how often each of its tasks calls it."""

    def init(self, context: ks.ProcessorContext[Any, Any]) -> None:
        """Create the processor of a task."""
        super().init(context)
        CALLS["init", context.task_id] += 1

    def process(self, record: ks.Record[Any, Any]) -> None:
        """Count a record."""
        CALLS["process", self.context.task_id] += 1


def test_only_tasks_with_data_work() -> None:
    """S0-49: eight tasks, data for two of them: all are ready, two are called, as the metrics show."""
    CALLS.clear()
    builder = ks.StreamsBuilder("few")
    builder.stream("in").process(Observed)
    driver = ks.simulation.ClusterDriver(builder.build(), partitions={"in": 8})
    sample = [ks.TopicRecord("in", 2 + at % 2 * 4, -1, at, "k", at) for at in range(9)]
    driver.create_input_topic("in").pipe_record_list(sample)
    assert 9 == driver.run_ready()
    assert {("init", f"0_{n}"): 1 for n in range(8)} | {("process", "0_2"): 5, ("process", "0_6"): 4} == CALLS
    assert {"0_2": 5, "0_6": 4} == {task: n for task, n in driver.application.metrics()["process-total"].items() if n}
    assert ["0_2", "0_6"] == sorted({event.task for event in driver.events("polled")})


# --- S0-57: metrics -------------------------------------------------------------------------------------------------
KAFKAS = {
    "stream-metrics": {"failed-stream-threads"},
    "stream-thread-metrics": {
        *(f"process-{figure}" for figure in ("total", "rate", "ratio", "latency-avg", "latency-max")),
        *("process-records-avg", "process-records-max"),
        *(f"commit-{figure}" for figure in ("total", "rate", "ratio", "latency-avg", "latency-max")),
    },
    "stream-task-metrics": {
        *("process-total", "process-latency-avg", "process-latency-max", "record-lateness-avg", "record-lateness-max"),
        *("dropped-records-total", "enforced-processing-total"),
    },
    "stream-processor-node-metrics": {f"record-e2e-latency-{figure}" for figure in ("min", "avg", "max")},
    "stream-topic-metrics": {"records-produced-total"},
    "stream-state-metrics": {"num-keys", "total-sst-files-size"},
    "producer-metrics": {"record-send-total", "record-send-rate"},
    "consumer-fetch-manager-metrics": {
        *("records-lag", "records-lag-max", "records-consumed-total", "records-consumed-rate")
    },
}
"""Names of Kafka 4.3.1, by group."""
OURS = {
    "stream-metrics": {"running", "topic-replicas-min", "broker-reachable", "restarts-total"},
    "stream-thread-metrics": {"records-published-total", "batches-suppressed-total", "batches-differing-total"},
    "stream-task-metrics": {"stream-time", "restores-total"},
    "stream-state-metrics": {
        *("state-bytes", "store-bytes", "changelog-updates-total", "changelog-tombstones-total"),
        *("compaction-time", "compaction-bytes-read", "compaction-bytes-written"),
    },
    "stream-processor-node-metrics": {"dropped-records-total"},
    "consumer-fetch-manager-metrics": {"offsets-skipped-total"},
}
"""Metrics that Kafka does not name: replicas of written topics, outages, restarts, batches, state sizes, how Spark
compacts state, at which node and why a record was dropped, and offsets that were removed before they were read."""


def measured(folder: Path) -> MetricsBook:
    """The metrics of a query after one batch that dropped a record."""
    deployment = placed(counting("measured"), 2)
    rows: list[Row] = [("in", f"KEY-{n}" if n else None, 1, n) for n in range(8)]
    feed = FileOffsetSource.write(folder / "feed", batched(deployment, rows, 1))
    (output,) = Cluster.of(deployment, folder.name).batches(feed)
    book = MetricsBook("measured")
    book.add(QueryBatch(0, "", {}, 0, output), OutputBatch(0, 7), 0.01)
    return book


def test_metrics_have_the_groups_and_names_of_kafka_streams(tmp_path: Path) -> None:
    """S0-57: metrics of a query and of the drivers; the kit's own metrics are beside Kafka's, in the matching group."""
    found: dict[str, set[str]] = {}
    metrics = measured(tmp_path).all({("in", 0): 3})
    for metric in metrics:
        found.setdefault(metric.group, set()).add(metric.name)
    known = {group: KAFKAS.get(group, set()) | OURS.get(group, set()) for group in {**KAFKAS, **OURS}}
    known["stream-task-metrics"] -= {"enforced-processing-total"}  # a batch never waits for a partition
    assert known == found
    values = {(metric.group, metric.name): metric.value for metric in metrics if len(metric.tags) == 1}
    assert 8 == values["stream-thread-metrics", "process-total"]
    assert 3 == values["consumer-fetch-manager-metrics", "records-lag-max"]
    for driver in (ks.TopologyTestDriver(counting("measured")), ks.simulation.ClusterDriver(counting("measured"))):
        numbers = (driver.application if isinstance(driver, ks.simulation.ClusterDriver) else driver).metrics()
        assert {"process-total", "dropped-records-total"} <= numbers.keys() <= KAFKAS["stream-task-metrics"]


def test_every_metric_of_kafka_streams_is_given_or_has_its_reason(tmp_path: Path) -> None:
    """S0-57: the names that Kafka Streams 4.3.1 registers for an application; those that a query has are marked."""
    listed = ks.monitoring.kafka_metrics()
    assert 184 == len({(each.group, each.name) for each in listed}) == len(listed)
    found = {(metric.group, metric.name) for metric in measured(tmp_path).all({("in", 0): 3})}
    streams = {each for each in found if each[0].startswith("stream-") and each[1] not in OURS.get(each[0], ())}
    assert streams == {(each.group, each.name) for each in listed if each.is_given}
    assert all(each.note for each in listed if not each.is_given)


def test_rows_and_tombstones_are_counted_by_store(tmp_path: Path) -> None:
    """S4-50: sessions that merge, one a batch: half of the updates of the changelog are tombstones."""
    builder = ks.StreamsBuilder("visits")
    windows = builder.stream("in").group_by_key().windowed_by(ks.SessionWindows.of(gap="1m"))
    windows.count(store="sessions").to_stream().to("out")
    deployment = placed(builder.build(), 1)
    feed = FileOffsetSource.write(
        tmp_path / "feed", batched(deployment, [("in", "k", 1, 1_000 * n) for n in range(50)], 50)
    )
    book = MetricsBook("visits")
    for number, output in enumerate(Cluster.of(deployment, "visits").batches(feed)):
        book.add(QueryBatch(number, "", {}, 0, output), OutputBatch(number, 0), 0.01)
    stores = [metric for metric in book.all() if ("in-memory-state-id", "sessions") in metric.tags]
    numbers = {metric.name: metric.value for metric in stores}
    assert 0 < numbers.pop("store-bytes") < 1_000
    assert {"num-keys": 1, "changelog-updates-total": 99, "changelog-tombstones-total": 49} == numbers


def test_the_bytes_of_each_store_and_task_are_measured_and_a_small_limit_raises_the_alert(tmp_path: Path) -> None:
    """S4-36: two stores, of which one has long values: its bytes follow them, in each task."""
    builder = ks.StreamsBuilder("sized")
    builder.table("long", store="long")
    builder.table("short", store="short")
    deployment = placed(builder.build(), 2)
    rows: list[Row] = [("long", f"k{n}", "x" * 1_000 + str(n), n) for n in range(200)]
    rows += [("short", f"k{n}", n, n) for n in range(200)]
    book = MetricsBook("sized")
    for number, output in enumerate(
        Cluster.of(deployment, "sized").batches(FileOffsetSource.write(tmp_path / "feed", batched(deployment, rows, 4)))
    ):
        book.add(QueryBatch(number, "", {}, 0, output), OutputBatch(number, 0), 0.01)
    metrics = book.all()
    sizes = {
        store: [each.value for each in metrics if each.name == "store-bytes" and each.tags[-1][1] == store]
        for store in ("long", "short")
    }
    assert [2, 2] == [len(each) for each in sizes.values()]
    assert 200 * 1_000 < sum(sizes["long"]) < 200 * 1_500
    assert 0 < sum(sizes["short"]) < 200 * 250
    assert sum(each.value for each in metrics if each.name == "state-bytes") > 200 * 1_000
    fired = {
        limit: [each.name for each in ks.monitoring.alerts(
            metrics, metrics, ks.monitoring.alert_rules(state_bytes=limit), elapsed="1m")]
        for limit in (1_000, 2 << 30)
    }  # fmt: skip
    assert fired == {1_000: ["state too large"], 2 << 30: []}


def test_a_lone_batch_is_no_rate_of_thousands(tmp_path: Path) -> None:
    """Rates divide by their window of 30 s, as Kafka's do; older batches no longer count."""
    book = measured(tmp_path)
    rates = {metric.name: metric.value for metric in book.all() if metric.name.endswith("-rate")}
    assert {
        "process-rate": 8 / 30,
        "records-consumed-rate": 8 / 30,
        "commit-rate": 1 / 30,
        "record-send-rate": 7 / 30,
    } == pytest.approx(rates)
    ended, figures = book._window[0]
    book._window[0] = (ended - 31, figures)
    assert {0.0} == {metric.value for metric in book.all() if metric.name.endswith("-rate")}


def test_reads_of_a_repartition_topic_are_processed_and_are_no_input(tmp_path: Path) -> None:
    """Eight input records that all pass a repartition topic: 8 consumed, 16 processed."""
    builder = ks.StreamsBuilder("again")
    builder.stream("in").group_by(lambda key, value: f"g{value}").count(store="counts")
    deployment = placed(builder.build(), 2)
    rows: list[Row] = [("in", f"k{n}", n, n) for n in range(8)]
    (output,) = Cluster.of(deployment, "again").batches(
        FileOffsetSource.write(tmp_path / "source", batched(deployment, rows, 1))
    )
    book = MetricsBook("again")
    figures = book.add(QueryBatch(0, "", {}, 0, output), OutputBatch(0, 0), 0.01)
    totals = {metric.name: metric.value for metric in book.all() if len(metric.tags) == 1}
    assert (8, 16) == (totals["records-consumed-total"], totals["process-total"])
    assert (8, 16) == (figures.consumed, figures.processed)
    query = query_without_spark(tmp_path)
    launch(query, None)
    query.book.add(QueryBatch(0, "", {}, 0, output), OutputBatch(0, 0), 0.01)
    lines = ks.widgets.panel(query).forms()["text/plain"].splitlines()
    assert [f"  in: 8 records, {8 / 30:.1f}/s"] == [line for line in lines if line.startswith("  in:")]
    charts = [each for each in query.charts.each if isinstance(each, Lines)]
    drawn = {each.title: [value for _, value in each.points] for each in charts}
    assert [8] == drawn["in"]


def test_metrics_are_shown_as_a_table(tmp_path: Path) -> None:
    """S0-57: one line per metric under its group, aligned numbers, without common prefixes."""
    metrics = measured(tmp_path).all({("in", 0): 12_345})
    lines = str(metrics).splitlines()
    groups = [line for line in lines if not line.startswith(" ")]
    assert sorted({metric.group for metric in metrics}) == groups
    assert len(metrics) + len(groups) == len(lines)
    (lag,) = (line.split() for line in lines if "records-lag " in line)
    assert ["records-lag", "12,345", "topic", "in,", "partition", "0"] == lag
    assert "measured" not in str(metrics)
    shown = metrics._repr_mimebundle_()
    assert str(metrics) == shown["text/plain"]
    assert len(metrics) + 1 == shown["text/html"].count("<tr>")


def test_every_query_of_the_dashboard_asks_for_a_metric_that_is_served(tmp_path: Path) -> None:
    """S0-57, S4-39: the dashboard of the kit, with commits and replicas, and the text that Prometheus scrapes."""
    metrics = measured(tmp_path).all({("in", 0): 3})
    registry = CollectorRegistry(auto_describe=False)
    registry.register(MetricsCollector(lambda: metrics))
    text = generate_latest(registry).decode()
    served = {line.split("{")[0] for line in text.splitlines() if not line.startswith("#")}
    assert {exposed_name(metric) for metric in metrics} == served
    assert 'kafka_streams_stream_thread_process_total{application_id="measured"} 8.0' in text.splitlines()
    board = json.loads((Path(ks.__file__).parent / "spark" / "operations" / "dashboard.json").read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert {
        "kafka_streams_stream_thread_commit_rate",
        "min(kafka_streams_stream_topic_replicas_min) by (application_id)",
    } <= {*asked}
    for expression in asked:
        names = re.findall(r"kafka_streams_\w+", expression)
        assert names, expression
        assert set(names) <= served


# --- S2-47, S2-48: failover, clean-up ---------------------------------------------------------------------------------
def doubled() -> ks.Topology:
    """A count by key, and a copy of each record."""
    builder = ks.StreamsBuilder("app")
    records = builder.stream("in")
    records.group_by_key().count(store="counts").to_stream().to("out")
    records.to("copies")
    return builder.build()


def rows(driver: ks.simulation.ClusterDriver) -> dict[Any, Any]:
    """Return the store's rows."""
    return dict(driver.application.store("counts").all())


def taken_over(
    config: dict[str, str], committed: int, crash: int
) -> tuple[ks.simulation.ClusterDriver, dict[Any, Any]]:
    """Twenty records, with commits after some and crashes of the owner after others; returns its last rows.

    The owner's disk is lost with it: its successor has topics alone.
    """
    driver = ks.simulation.ClusterDriver(doubled(), config)
    fill(driver, range(20))
    driver.run_ready(committed)
    driver.application.commit()
    at_commit = rows(driver)
    driver.run_ready(crash - committed)
    driver.application.crash()
    driver.application.lose_store()
    driver.application.restart()
    return driver, at_commit


def values(driver: ks.simulation.ClusterDriver, topic: str) -> list[Any]:
    """Return what a reader of committed records sees; a second reader sees the same."""
    found = driver.create_output_topic(topic).read_values_to_list()
    assert found == driver.create_output_topic(topic).read_values_to_list()
    return found


@pytest.mark.parametrize(("committed", "crash"), [(1, 2), (7, 7), (7, 13), (12, 20), (19, 20)])
def test_a_successor_goes_on_exactly_where_the_last_commit_was(committed: int, crash: int) -> None:
    """S2-47: its store equals the victim's at the last commit; output and rows are as if nothing happened."""
    driver, at_commit = taken_over(EXACTLY, committed, crash)
    assert at_commit == rows(driver)
    assert {"in-0": committed} == driver.application.committed
    assert 20 - committed == driver.run_ready()
    driver.application.commit()
    undisturbed, _ = taken_over(EXACTLY, 20, 20)
    for topic in ("out", "copies"):
        assert values(undisturbed, topic) == values(driver, topic)
    assert rows(undisturbed) == rows(driver)


@pytest.mark.parametrize(("committed", "crash"), [(1, 2), (7, 7), (7, 13), (12, 20), (19, 20)])
def test_only_what_was_not_committed_comes_twice_at_least_once(committed: int, crash: int) -> None:
    """S2-47: nothing is lost; duplicates are the records between the last commit and the crash, in outputs and
    counts.
    """
    driver, _ = taken_over(AT_LEAST, committed, crash)
    assert Counter(f"KEY-{n % 5}" for n in range(crash)) == rows(driver), (
        "a changelog without transactions has the tail"
    )
    assert 20 - committed == driver.run_ready()
    driver.application.commit()
    assert [*range(crash), *range(committed, 20)] == values(driver, "copies")
    assert Counter(f"KEY-{n % 5}" for n in [*range(crash), *range(committed, 20)]) == rows(driver)


def test_a_member_that_takes_over_reads_from_the_committed_offset() -> None:
    """S2-47: by the rules of a group: the partition is unread until the dead owner is detected, then it moves."""
    log = ks.simulation.Log()
    log.create_topic("in", partitions=2)
    for number in range(20):
        log.append("in", "k", number, partition=number % 2)
    group = ks.simulation.ConsumerGroup("app", log.offsets, auto_offset_reset="earliest", session_timeout="45s")
    group.join("victim")
    group.join("successor")
    (place,) = group.assignment["victim"]
    group.poll("victim", max_records=4, timeout="0ms")
    group.commit("victim")
    group.poll("victim", max_records=3, timeout="0ms")
    group.crash("victim")
    assert place not in dict(group.poll("successor", timeout="0ms"))
    group.advance_wall_clock_time("50s")
    assert (place, 4) == next((at, offset) for at, offset in group.poll("successor", timeout="0ms") if at == place)


@GUARANTEES
def test_cleaning_up_costs_nothing_but_the_restore(config: dict[str, str]) -> None:
    """S2-48: refused while the application runs; afterwards the next start restores the store from its changelog."""
    driver = ks.simulation.ClusterDriver(counting("app"), config)
    app = driver.application
    fill(driver, range(20))
    driver.run_ready()
    with pytest.raises(EngineError, match='application "app" is running') as raised:
        app.clean_up()
    assert ("close it first", "Cannot clean up while running.") == (raised.value.hint, raised.value.java)
    counts = rows(driver)
    app.close()
    assert [0] == [event.numbers["records"] for event in app.restart()], "the disk had all"
    app.close()
    app.clean_up()
    assert [20] == [event.numbers["records"] for event in app.restart()], "the changelog has all"
    assert counts == rows(driver)
    fill(driver, range(20, 25))
    driver.run_ready()
    assert {key: count + 1 for key, count in counts.items()} == rows(driver)


# --- S2-50: where changelogs are ------------------------------------------------------------------------------------
def test_a_changelog_has_a_partition_for_each_of_its_source() -> None:
    """S2-50, C-08: by name, and by the partition that holds the records of each key."""
    topology = counting("streams-example", "Counts")
    (owned,) = topology.owned_topics("streams-example", {"in": 4})
    name = "streams-example-Counts-changelog"
    assert (name, "changelog", 4, "Counts") == (owned.name, owned.kind, owned.partitions, owned.store)
    assert [name] == [topic.name for topic in topology.owned_topics("streams-example")]
    driver = ks.TopologyTestDriver(topology, partitions={"in": 4, "out": 4}, changelogs=True)
    topic = driver.create_input_topic("in")
    for number in range(40):
        topic.pipe_input(f"KEY-{number}", number, at=number)
    of_key = {record.key: record.partition for record in driver.create_output_topic("out").read_records()}
    changes = driver.create_output_topic(name, "string", "long").read_records()
    assert {0, 1, 2, 3} == {record.partition for record in changes}
    assert of_key == {record.key: record.partition for record in changes}


# --- S2-51: tasks and threads ---------------------------------------------------------------------------------------
def test_an_application_prints_what_runs_where_now() -> None:
    """S2-51: state, tasks, partitions, positions and stores; before the start and after the end there are no tasks."""
    driver = ks.simulation.ClusterDriver(counting("first"), EXACTLY, partitions={"in": 2})
    app = driver.add_application(counting("second"), EXACTLY, start=False)
    assert 'application "second": created\n  tasks: not assigned yet' == str(app)
    fill(driver, range(10))
    driver.run_ready()
    app.restart()
    assert [
        'application "second": running',
        "  task 0_0: reads in-0 at offset 0; keeps counts",
        "  task 0_1: reads in-1 at offset 0; keeps counts",
    ] == str(app).splitlines()
    driver.run_ready()
    numbers = [int(at) for at in re.findall(r"at offset (\d+)", str(app))]
    assert (10, 2) == (sum(numbers), len(numbers))
    assert str(driver.application).replace("first", "second") == str(app)
    app.crash()
    assert 'application "second": crashed\n  tasks: not assigned' == str(app)
    with pytest.raises(EngineError, match='"second" is crashed'):
        app.store("counts")
