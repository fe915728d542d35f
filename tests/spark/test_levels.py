"""The levels of a query without Spark: batches, workers, time and global tables."""

from __future__ import annotations

import functools
import re
import socket
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.core.codec import SerializedValue
from kstreamnb.runtime.context.config import Config
from kstreamnb.spark.execution import state_log, worker_cache
from kstreamnb.spark.execution.record_batch import WALL
from kstreamnb.spark.execution.worker_cache import empty_task
from kstreamnb.spark.io import stream_source
from kstreamnb.spark.io.stream_source import QuerySourceReader, SourceSettings
from kstreamnb.spark.planning.placement import plan_application, plan_deployment
from tests.spark.file_source import FileOffsetSource
from tests.spark.inprocess import Cluster, DictLog
from tests.spark.level_runs import FEED, SHAPES, forget, ran, run_in
from tests.spark.streams import Output, Row, batched, by_partition, driven, placed
from tests.spark.test_streaming import disordered, two_levels
from tests.spark.test_time_and_tables import punctuated, with_global_table


@functools.cache
def expected(build: Callable[[], ks.Topology], partitions: int) -> dict[str, Output]:
    """Return what the driver writes for 300 records of a shape, with which every run of it is compared."""
    (read, written) = next((read, written) for shape, read, written in SHAPES if shape is build)
    return driven(build(), disordered(read, 300), partitions, written)


@pytest.mark.usefixtures("few_rows")
@pytest.mark.parametrize("batches", [1, 2, 8, 40])
@pytest.mark.parametrize(("build", "read", "written"), SHAPES, ids=["two levels", "three levels", "joins"])
@pytest.mark.parametrize("lost", [False, True], ids=["warm", "lost"])
@pytest.mark.parametrize("limit", [1 << 30, 0], ids=["memory", "disk"])
def test_batches_and_lost_workers_change_nothing(
    tmp_path: Path, build: Any, read: list[str], written: list[str], batches: int, limit: int, *, lost: bool
) -> None:
    """S0-29, S1-10: any number of batches produces the driver's output, with and without the workers' memory.

    A task on disk is rebuilt once: its file survives the worker.
    """
    topology, rows = build(), disordered(read, 300)
    between = forget if lost else lambda number: None
    found, cluster = ran(tmp_path, topology, rows, written, batches=batches, between=between, memory_limit=limit)
    assert expected(build, 3) == found
    kinds = Counter(cluster.found)
    if limit:
        assert kinds["rebuild" if lost else "hit"] > 0 or batches == 1
        assert kinds["hit" if lost else "rebuild"] == 0
    else:
        assert kinds["rebuild"] <= kinds["new"]
        assert kinds["catch-up"] > 0 or batches < 3


@pytest.mark.parametrize("places", [1, 5])
@pytest.mark.parametrize(("build", "read", "written"), SHAPES, ids=["two levels", "three levels", "joins"])
def test_how_many_places_share_the_tasks_changes_nothing(
    tmp_path: Path, build: Any, read: list[str], written: list[str], places: int
) -> None:
    """S0-08: with eight partitions on one or five of Spark's, each output partition is the same, record by record."""
    topology, rows = build(), disordered(read, 300)
    found, cluster = ran(tmp_path, topology, rows, written, batches=3, partitions=8, spark_partitions=places)
    assert expected(build, 8) == found
    assert places == cluster.deployment.spark_partitions


def test_only_tasks_with_data_run(tmp_path: Path) -> None:
    """S0-49: eight tasks, records for two of them: two tasks report."""
    builder = ks.StreamsBuilder("few")
    builder.stream("in").group_by_key().count(store="counts").to_stream().to("out", value_serde="long")
    deployment = placed(builder.build(), 8)
    cluster = Cluster.of(deployment, tmp_path.name)
    from tests.spark.file_source import FileOffsetSource

    rows: list[Row] = [("in", key, 1, at) for at, key in enumerate(("a", "a", "k1"))]
    feed = FileOffsetSource.write(tmp_path / FEED, batched(deployment, rows, 1))
    (output,) = cluster.batches(feed)
    assert {report["consumed"] for report in output.reports} == {2, 1}
    assert len(output.reports) == 2


def test_a_cycle_reports_the_rows_of_all_its_partitions(tmp_path: Path) -> None:
    """Both tables of a join that is not split are in one task, with a store for each of their partitions."""
    builder = ks.StreamsBuilder("shop")
    customers = builder.table("customers", store="customers")
    orders = builder.table("orders", store="orders")
    orders.join(customers, lambda order: order, lambda order, name: name).to_stream().to("named")
    deployment = placed(builder.build(), 4, split=())
    cluster = Cluster.of(deployment, tmp_path.name)
    rows: list[Row] = [("customers", f"c{at}", "Ann", at) for at in range(6)]
    rows += [("orders", f"o{at}", f"c{at % 6}", 6 + at) for at in range(20)]
    (output,) = cluster.batches(FileOffsetSource.write(tmp_path / FEED, batched(deployment, rows, 1)))
    (report,) = output.reports
    assert {"customers": (6, 6), "orders": (20, 20)} == {
        name: (report["stores"][name][0], report["stores"][name][2]) for name in ("customers", "orders")
    }
    assert 25 == report["stream_time_ms"]


def test_a_cycle_reads_from_kafka_what_it_writes_to_a_topic_of_the_user(tmp_path: Path) -> None:
    """Its own record comes back in a later batch, so it is not processed twice."""
    builder = ks.StreamsBuilder("again")
    stream = builder.stream(["in", "again"])
    counts = stream.group_by(lambda key, value: value).count(store="counts")
    joined = stream.left_join(counts, lambda value, count: value)
    joined.filter(lambda key, value: value == "first").map_values(lambda value: "second").to("again")
    application = plan_application(builder.build(), Config(), {}, direct=False, default_partitions=2)
    deployment = plan_deployment("again", [application], 1)
    cluster = Cluster.of(deployment, tmp_path.name)
    rows: list[Row] = [("in", "a", "first", 0)]
    (output,) = cluster.batches(FileOffsetSource.write(tmp_path / FEED, batched(deployment, rows, 1)))
    assert ["second"] == [value for _, _, _, _, value, _ in output.records()]
    assert [2] == [report["consumed"] for report in output.reports]  # one of the topic, one to count


def suppressed() -> ks.Topology:
    """Final results of windows, and a table that is suppressed for a time."""
    builder = ks.StreamsBuilder("held")
    rows = builder.stream("in")
    windows = ks.TimeWindows.of(size="100ms", grace="50ms")
    counts = rows.group_by_key().windowed_by(windows).count().suppress(ks.Suppressed.until_window_closes())
    counts.to_stream(lambda window, count: f"{window.key}@{window.start}").to("final", value_serde="long")
    totals = rows.group_by_key().count(store="totals").suppress(ks.Suppressed.until_time_limit("60ms"))
    totals.to_stream().to("rare", value_serde="long")
    return builder.build()


@pytest.mark.parametrize("batches", [1, 2, 8, 40])
def test_suppression_holds_back_what_the_driver_holds_back(tmp_path: Path, small_logs: None, batches: int) -> None:
    """S0-34: buffers are state like any other; batch boundaries do not show."""
    topology, rows = suppressed(), disordered(["in"], 300)
    found, _ = ran(tmp_path, topology, rows, ["final", "rare"], batches=batches, between=forget)
    expected = driven(topology, rows, 3, ["final", "rare"])
    assert expected == found
    assert sum(map(len, expected["rare"].values())) < 300


def cached() -> ks.Topology:
    """Counts behind a record cache."""
    builder = ks.StreamsBuilder("cached")
    builder.stream("in").group_by_key().count(store="counts").to_stream().to("out", value_serde="long")
    return builder.build()


def test_a_cache_gives_one_update_a_key_and_batch(tmp_path: Path) -> None:
    """S0-34: ten updates of a key: 10 without a cache, one per commit with a cache, and the last is the same."""
    rows: list[Row] = [("in", f"k{at % 3}", at, 100 + at) for at in range(60)]
    options: dict[str, Any] = {"partitions": 1, "batches": 2}
    every, _ = ran(tmp_path, cached(), rows, ["out"], **options)
    some, _ = ran(tmp_path, cached(), rows, ["out"], **options, cache_max_bytes=1_000_000)
    tiny, _ = ran(tmp_path, cached(), rows, ["out"], **options, cache_max_bytes=1)
    assert (60, 6) == (len(every["out"][0]), len(some["out"][0]))
    assert len(tiny["out"][0]) == 60
    lasts = [{key: count for key, count, _ in found["out"][0]} for found in (every, some, tiny)]
    assert lasts == [{"k0": 20, "k1": 20, "k2": 20}] * 3


class Forgetful(ks.Processor[str, int, str, int]):
    """Counts in an attribute; other attributes refer to the task or cannot be pickled."""

    def init(self, context: ks.ProcessorContext) -> None:
        """Set attributes of all kinds."""
        super().init(context)
        self.seen = 0
        self.store = context.get_state_store("rows")
        self.put, self.tell, self.lock = self.store.put, context.forward, threading.Lock()
        self.job = context.schedule("50ms", ks.PunctuationType.STREAM_TIME, self.look)

    def process(self, record: ks.Record[str, int]) -> None:
        """Count, and forward the count."""
        with self.lock:
            self.seen += 1
        self.put(record.key, self.seen)
        self.tell(record.with_value(self.seen))

    def look(self, now_ms: int) -> None:
        """Stop after a hundred records."""
        if self.seen > 100:
            self.job.cancel()
        self.tell(ks.Record("look", self.seen, now_ms))


def forgetful(*, named: bool = False) -> ks.Topology:
    """Return the processor on the only level."""
    builder = ks.StreamsBuilder("forgetful")
    builder.add_state_store(ks.Stores.in_memory_key_value_store("rows", key_serde="string", value_serde="long"))
    rows = builder.stream("in")
    if named:
        names = builder.global_table("names", store="names")
        rows = rows.left_join(names, lambda key, value: key, lambda value, name: value)
    rows.process(Forgetful, "rows").to("out", value_serde="long")
    return builder.build()


@pytest.mark.parametrize("named", [False, True], ids=["alone", "with global table"])
@pytest.mark.parametrize("lost", [False, True], ids=["warm", "lost"])
def test_attributes_of_processors_go_with_their_task(tmp_path: Path, *, lost: bool, named: bool) -> None:
    """S2-47: the next owner of a task gets its processor's attributes, although Kafka would lose them."""
    topology = forgetful(named=named)
    rows = [*([("names", "k1", "one", 0)] if named else []), *disordered(["in"], 400)]
    found, _ = ran(tmp_path, topology, rows, ["out"], batches=9, between=forget if lost else lambda number: None)
    assert driven(topology, rows, 3, ["out"]) == found


@pytest.mark.parametrize("lost", [False, True], ids=["warm", "lost"])
def test_punctuators_fire_when_nothing_comes(tmp_path: Path, *, lost: bool) -> None:
    """S0-35: ticks alone advance the wall clock; a punctuator's output is sent although no offset moved."""
    topology = punctuated()
    deployment = placed(topology, 2)
    batches = batched(deployment, disordered(["in"], 40), 1)
    batches[0][WALL, 0] = [(0, "set", None, ())]
    batches += [{(WALL, 0): [(1000 * number, None, None, ())]} for number in range(1, 4)]
    cluster = Cluster.of(deployment, tmp_path.name)
    cluster.forget()
    found = run_in(cluster, tmp_path, batches, ["ticks"], forget if lost else lambda number: None)
    driver = ks.TopologyTestDriver(topology, partitions=2)
    driver.pipe(ks.TopicRecord(topic, -1, 0, at, key, value) for topic, key, value, at in disordered(["in"], 40))
    for _ in range(3):
        driver.advance_wall_clock_time("1s")
    assert by_partition(driver.create_output_topic("ticks").read_records()) == found["ticks"]


def test_global_tables_follow_from_batch_to_batch(tmp_path: Path) -> None:
    """A table row of a later batch is present before the records of that batch."""
    topology = with_global_table()
    deployment = placed(topology, 3)
    rows = disordered(["in"], 60)
    batches = batched(deployment, rows, 3)
    for number, batch in enumerate(batches):
        batch["names", 0] = [(number, f"k{number}", "name", ())]
    cluster = Cluster.of(deployment, tmp_path.name)
    cluster.forget()
    found = run_in(cluster, tmp_path, batches, ["first"], forget)
    named = {key for rows_ in found["first"].values() for key, value, _ in rows_ if not str(value).startswith("None")}
    assert named <= {"k0", "k1", "k2"}
    assert len(cluster.deployment.replicas) == 2 * 2


def test_a_pattern_reads_every_topic_that_matches(tmp_path: Path) -> None:
    """Topics of a pattern are read side by side; each has its own offsets and partitions."""
    builder = ks.StreamsBuilder("pattern")
    builder.stream(re.compile("ev-.*")).group_by_key().count(store="counts").to_stream().to("out", value_serde="long")
    topology = builder.build()
    from kstreamnb.runtime.context.config import Config
    from kstreamnb.spark.planning.placement import plan_application, plan_deployment

    application = plan_application(topology, Config(), {"ev-a": 2, "ev-b": 2, "other": 2}, direct=True)
    assert application.external == ("ev-a", "ev-b")
    deployment = plan_deployment("pattern", [application], 2)
    rows: list[Row] = [(f"ev-{'ab'[at % 2]}", f"k{at % 4}", at, at) for at in range(40)]
    cluster = Cluster.of(deployment, tmp_path.name)
    cluster.forget()
    found = run_in(cluster, tmp_path, batched(deployment, rows, 4), ["out"], forget)
    driver = ks.TopologyTestDriver(topology, partitions={"ev-a": 2, "ev-b": 2})
    driver.pipe(ks.TopicRecord(topic, -1, at, time, key, value) for at, (topic, key, value, time) in enumerate(rows))
    assert by_partition(driver.create_output_topic("out").read_records()) == found["out"]


def test_a_task_at_the_end_has_the_drivers_store(tmp_path: Path, small_logs: None) -> None:
    """S3-13: rebuilt from the log alone, rows are equal."""
    topology, rows = two_levels(), disordered(["in"], 300)
    _, cluster = ran(tmp_path, topology, rows, ["totals"], batches=30, between=forget)
    driver = ks.TopologyTestDriver(topology, partitions=3)
    driver.pipe(ks.TopicRecord(topic, -1, at, time, key, value) for at, (topic, key, value, time) in enumerate(rows))
    found: dict[Any, Any] = {}
    for task in cluster.deployment.tasks:
        log = cluster.states.get((task.level, task.routing_key), DictLog())
        if log.rows:
            held = state_log.StateLog(log).load(None, lambda task=task: worker_cache.new_task(cluster.deployment, task))
            for name, store in held.task.stores.items():
                if name == "totals":
                    found |= dict(store.for_user.all())
    expected = dict(driver.get_key_value_store("totals").all())
    assert expected == {key: getattr(value, "value", value) for key, value in found.items()}
    assert empty_task(cluster.deployment, cluster.deployment.tasks[0]) is not None


def test_a_small_batch_is_sent_along_with_its_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker's input is sent with the plan; the first batch, large ones and failures are left to workers."""
    topology, rows = two_levels(), disordered(["in"], 60)
    deployment = placed(topology, 3)
    feed = FileOffsetSource.write(tmp_path / "feed.pickle", batched(deployment, rows, 2))
    reader = QuerySourceReader(SourceSettings(feed, deployment, max_records=1))
    start = reader.initialOffset()
    end = reader.latestOffset(start)
    (share,) = reader.partitions(start, end)
    assert reader.getCache(start, end) is None
    sent = reader.getCache(start, end)
    assert sent is not None
    assert list(reader.read(share)) == list(sent)
    for limit in ("FEW_RECORDS", "_SENT_ALONG_BYTES"):
        with monkeypatch.context() as patched:
            patched.setattr(stream_source, limit, 1)
            assert reader.getCache(start, end) is None
    feed.path.unlink()
    reader.settings.offset_source._content = None
    assert reader.getCache(start, end) is None


def test_a_changed_key_costs_a_shuffle_and_no_call_to_anybody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S0-31: the code that workers run opens no connection and sends nothing, neither per record nor per batch.

    Repartitions of one level share their shuffle; from Kafka to a stateful level there is one, too.
    """
    calls: list[str] = []
    for name in ("connect", "connect_ex", "send", "sendall", "sendto", "sendmsg", "recv", "recv_into", "recvfrom"):
        monkeypatch.setattr(socket.socket, name, lambda *arguments, name=name: calls.append(name))
    monkeypatch.setattr(socket, "create_connection", lambda *arguments, **options: calls.append("create_connection"))
    for (build, read, written), moved in zip(SHAPES, (1, 3, 1), strict=True):
        topology, rows = build(), disordered(read, 300)
        found, _ = ran(tmp_path, topology, rows, written, batches=4, partitions=4)
        assert expected(build, 4) == found
        assert moved == ks.plan(topology, 4).shuffles
    assert [] == calls


@pytest.mark.parametrize("handler", ["fail", "continue"])
def test_a_global_record_that_cannot_be_read_is_the_handlers_matter(tmp_path: Path, handler: str) -> None:
    """S2-57: with "fail" the query stops with topic and offset; with "continue" the record is dropped and counted."""
    builder = ks.StreamsBuilder("unreadable")
    names = builder.global_table("names", store="names", value_serde="long")
    rows = builder.stream("in").left_join(names, lambda key, value: key, lambda value, name: [value, name])
    rows.to("out")
    deployment = placed(builder.build(), 1, deserialization_handler=handler)
    batches = batched(deployment, [("in", "a", 1, 5)], 1)
    batches[0]["names", 0] = [(1, "a", SerializedValue(b"not a long"), ()), (2, "b", 7, ())]
    cluster = Cluster.of(deployment, tmp_path.name)
    cluster.forget()
    if handler == "fail":
        with pytest.raises(ks.KStreamError) as failed:
            run_in(cluster, tmp_path, batches, ["out"], forget)
        assert "names" in "\n".join([str(failed.value), *getattr(failed.value, "__notes__", [])])
        return
    assert run_in(cluster, tmp_path, batches, ["out"], forget)["out"] == {0: [("a", [1, None], 5)]}
