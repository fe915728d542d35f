"""Where tasks run: instances and their tasks, the fate of state when an instance is lost, and external resources."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.core.time import format_ms
from kstreamnb.spark.jvm.session import QUERY_SETTINGS
from tests.semantics.test_windows import seconds

EXACTLY = {"processing_guarantee": "exactly_once_v2", "commit_interval": "100ms"}


# --- S2-30: no master ---------------------------------------------------------------------------------------------
def test_an_application_is_one_process_of_python_and_nothing_else() -> None:
    """S2-30: ten lines run, commit and end without another process, thread or socket."""
    program = """
import sys
from kstreamnb import StreamsBuilder
from kstreamnb.simulation import ClusterDriver
sys.addaudithook(lambda name, _: sys.exit(name) if name in ("subprocess.Popen", "socket.__new__") else None)
sys.addaudithook(lambda name, _: sys.exit(name) if name == "_thread.start_new_thread" else None)
builder = StreamsBuilder("alone")
builder.stream("in").group_by_key().count(store="n").to_stream().to("out")
driver = ClusterDriver(builder.build(), {"processing_guarantee": "exactly_once_v2"})
driver.create_input_topic("in").pipe_input("k", 1, at=0)
driver.run_ready()
driver.application.commit()
print(driver.create_output_topic("out").read_key_value(), "pyspark" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (0, "('k', 1) False\n") == (done.returncode, done.stdout), done.stderr


def counted() -> ks.Topology:
    """Records by key."""
    builder = ks.StreamsBuilder("count")
    builder.stream("in").group_by_key().count(store="n").to_stream().to("out")
    return builder.build()


def committed(crash_at: int | None) -> tuple[list[Any], dict[Any, Any]]:
    """Return commits and state of 30 records, with a crash and a restart before one of them."""
    driver = ks.simulation.ClusterDriver(counted(), EXACTLY, partitions=2)
    source = driver.create_input_topic("in")
    for number in range(30):
        if number == crash_at:
            driver.application.crash()
            driver.application.restart()
        source.pipe_input(f"k{number % 4}", number, at=number)
        driver.run_ready()
        if number % 7 == 6:
            driver.advance_wall_clock_time("100ms")
    driver.run_ready()
    driver.application.commit()
    output = sorted(driver.create_output_topic("out").read_key_values_to_list())
    return output, dict(driver.application.store("n").all())


@pytest.mark.parametrize("crash_at", [1, 10, 13, 29])
def test_a_new_start_is_all_that_a_failure_needs(crash_at: int) -> None:
    """S2-30, S4-08, S4-51: without a master to take over, results and rows equal those of a run without the failure."""
    assert committed(None) == committed(crash_at)


def test_what_was_on_disk_is_not_needed_because_the_changelog_is_compacted() -> None:
    """S3-11, S4-08: after a crash rows are restored from the changelog alone: one compacted topic per store."""
    driver = ks.simulation.ClusterDriver(counted(), EXACTLY, partitions=2)
    source = driver.create_input_topic("in")
    for number in range(20):
        source.pipe_input(f"k{number % 4}", number, at=number)
    driver.run_ready()
    driver.application.commit()
    before = dict(driver.application.store("n").all())
    driver.application.crash()
    driver.application.lose_store()
    restored = driver.application.restart()
    assert 20 == sum(event.numbers["records"] for event in restored)
    assert before == dict(driver.application.store("n").all())
    (changelog,) = counted().owned_topics("count")
    assert ("count-n-changelog", "compact") == (changelog.name, dict(changelog.config)["cleanup.policy"])


# --- S2-37, S2-60: which instance runs which task ---------------------------------------------------------------------
def test_of_three_places_for_two_partitions_one_stands_by() -> None:
    """S2-37: state is stored at the instances; there are no standby tasks, because every instance can reach the
    state.
    """
    places = ks.plan(counted(), {"in": 2}, spark_partitions=3).tasks_by_partition
    assert [1, 1, 0] == [len(tasks) for tasks in places]
    answer = ks.config_report({"num.standby.replicas": 1})["num.standby.replicas"]
    assert ("not needed", "the checkpoint holds the state, and every worker reads it") == (answer.answer, answer.words)


@pytest.mark.parametrize(("places", "loads"), [(1, [6]), (2, [3, 3]), (3, [2, 2, 2]), (8, [1] * 6 + [0] * 2)])
def test_tasks_are_divided_evenly_however_many_places_there_are(places: int, loads: list[int]) -> None:
    """S2-37: six partitions on one, two, three and eight instances."""
    assert loads == [len(tasks) for tasks in ks.plan(counted(), {"in": 6}, spark_partitions=places).tasks_by_partition]


def test_parts_of_a_topology_run_in_some_places_only() -> None:
    """S2-60: two tasks of the first part and eight of the second on ten instances: the plan lists the assignment."""
    builder = ks.StreamsBuilder("lookup")
    builder.stream("in").repartition(name="slow", partitions=8).map_values(str.upper).to("out")
    places = ks.plan(builder.build(), {"in": 2}, spark_partitions=10).tasks_by_partition
    assert [("0_0", "1_0"), ("0_1", "1_1"), *((f"1_{n}",) for n in range(2, 8)), (), ()] == list(places)


# --- S2-45: where state is stored ---------------------------------------------------------------------------------
def test_state_lies_in_rocksdb_below_a_folder_of_the_user_s() -> None:
    """S2-45: stores are persistent by default; the folder is that of the deployment."""
    assert counted().stores["n"].persistent
    answer = ks.config_report({"state.dir": "/data"})["state.dir"]
    assert ("translated", "deploy(checkpoint=)") == (answer.answer, answer.words)
    providers = [value for name, value in QUERY_SETTINGS.items() if name.endswith("providerClass")]
    assert ["RocksDBStateStoreProvider"] == [provider.rpartition(".")[2] for provider in providers]


# --- S2-54: two times ---------------------------------------------------------------------------------------------
class StatusLine(ks.Processor[Any, int, str, str]):
    """Formats window and count in one line, with event time and processing time."""

    def process(self, record: ks.Record[Any, int]) -> None:
        """One line."""
        window, now = record.key, format_ms(self.context.current_system_time_ms())
        span = f"[{format_ms(window.start)}-{format_ms(window.end)}]"
        line = f"Window {span} Browser:{window.key} count={record.value} of {format_ms(record.timestamp)}, seen {now}"
        self.context.forward(ks.Record(window.key, line, record.timestamp))


def lines(wall_clock: Any) -> list[Any]:
    """Return the lines of two actions, processed at that wall-clock time."""
    builder = ks.StreamsBuilder("lines")
    windows = ks.TimeWindows.of(size="5s")
    counts = builder.stream("log").group_by_key().windowed_by(windows).count(store="counts")
    counts.to_stream().process(StatusLine).to("lines")
    sample = [ks.TopicRecord("log", 0, n, seconds(55 + n), "Y3", "x") for n in range(2)]
    return [record.value for record in ks.replay(builder.build(), sample, wall_clock=wall_clock).output("lines")]


def test_a_line_shows_the_window_and_both_times() -> None:
    """S2-54: in UTC and by the given clock, so that every run prints the same; one is the event time."""
    span = "Window [1970-01-01T14:11:55Z-1970-01-01T14:12:00Z] Browser:Y3"
    assert [
        f"{span} count=1 of 1970-01-01T14:11:55Z, seen 2026-01-01T09:00:00Z",
        f"{span} count=2 of 1970-01-01T14:11:56Z, seen 2026-01-01T09:00:00Z",
    ] == lines("2026-01-01T09:00Z")
    assert [line.replace("2026", "2027") for line in lines("2026-01-01T09:00Z")] == lines("2027-01-01T09:00Z")


# --- S2-61: limits of keys ----------------------------------------------------------------------------------------
def test_tables_are_joined_in_sql_on_what_their_stores_hold() -> None:
    """S2-61: a join of two stores under keys that do not match is a query over their rows."""
    builder = ks.StreamsBuilder("shop")
    builder.stream("orders").group_by_key().count(store="counts")
    builder.table("people", store="people")
    driver = ks.TopologyTestDriver(builder.build(), partitions={"orders": 4, "people": 2})
    driver.pipe([ks.TopicRecord("people", -1, -1, 0, str(n), name) for n, name in enumerate(("ann", "bob"))])
    driver.pipe([ks.TopicRecord("orders", -1, -1, n, name, "x") for n, name in enumerate(("ann", "bob", "ann"))])
    with sqlite3.connect(":memory:") as database:
        for name in ("counts", "people"):
            database.execute(f"CREATE TABLE {name} (key, value)")
            database.executemany(f"INSERT INTO {name} VALUES (?, ?)", driver.get_key_value_store(name).all())
        query = "SELECT people.key, counts.value FROM people JOIN counts ON people.value = counts.key ORDER BY 1"
        assert [("0", 2), ("1", 1)] == database.execute(query).fetchall()
    database.close()


def test_a_joined_topic_that_is_not_partitioned_by_its_key_is_pointed_out() -> None:
    """S2-61: equal keys would not meet; the finding names keys, partitions and the remedy."""
    builder = ks.StreamsBuilder("rated")
    orders, rates = builder.stream("orders"), builder.table("rates")
    orders.join(rates, lambda order, rate: [order, rate]).to("out")
    rows = [ks.TopicRecord("orders", n, 0, n, "shoe", "x") for n in range(4)]
    rows += [ks.TopicRecord("rates", -1, -1, 0, "shoe", 2)]
    findings = ks.testing.check(builder.build(), partitions={"orders": 4, "rates": 4}, sample=rows)
    (finding,) = [each for each in findings if "partition of their key" in each.fact]
    assert ("error", 'topic "orders"') == (finding.severity, finding.subject)
    assert "repartition()" in finding.remedy
