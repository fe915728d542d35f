"""The levels of a query without Spark: state logs, lineage, compaction, memory, and moves between workers."""

from __future__ import annotations

import gc
import pickle
import re
import socket
import sqlite3
import threading
import tracemalloc
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.core.codec import SerializedValue
from kstreamnb.spark.contracts import QueryBatch
from kstreamnb.spark.execution import state_log, task_files, worker_cache
from kstreamnb.spark.execution.record_batch import WALL
from kstreamnb.spark.execution.state_codec import unpack_delta, unpack_entry, unpack_head
from kstreamnb.spark.execution.worker_cache import CachedTask, empty_task
from kstreamnb.spark.execution.worker_progress import TaskPosition
from kstreamnb.spark.io import stream_source
from kstreamnb.spark.io.offset_source import FileOffsetSource
from kstreamnb.spark.io.sinks import MemorySink
from kstreamnb.spark.io.stream_source import QuerySourceReader, SourceSettings
from tests.spark.inprocess import Cluster, DictLog
from tests.spark.streams import Output, Row, batched, by_partition, driven, in_order, outputs, placed
from tests.spark.test_streaming import disordered, joined, three_levels, two_levels
from tests.spark.test_time_and_tables import punctuated, with_global_table

FEED = "feed.pickle"


def run_in(
    cluster: Cluster, folder: Path, batches: Sequence[Any], topics: Sequence[str], between: Callable[[int], None]
) -> dict[str, Output]:
    """Return what a cluster writes in some batches."""
    from kstreamnb.spark.io.offset_source import FileOffsetSource

    sink = MemorySink()
    feed = FileOffsetSource.write(folder / FEED, batches)
    for number, output in enumerate(cluster.batches(feed, between)):
        sink.publish(QueryBatch(number, "", {}, 0, output))
    return outputs(cluster.deployment, sink, topics)


def ran(
    folder: Path,
    topology: ks.Topology,
    rows: list[Row],
    topics: Sequence[str],
    *,
    batches: int,
    partitions: int = 3,
    between: Callable[[int], None] = lambda number: None,
    memory_limit: int = 1 << 30,
    spark_partitions: int = 2,
    **config: Any,
) -> tuple[dict[str, Output], Cluster]:
    """Return the output of a run in some batches, and its cluster."""
    deployment = placed(topology, partitions, spark_partitions=spark_partitions, **config)
    cluster = Cluster.of(deployment, folder.name, memory_limit=memory_limit, verify=True)
    cluster.forget()
    return run_in(cluster, folder, batched(deployment, rows, batches), topics, between), cluster


def forget(number: int) -> None:
    """Clear the workers' memory in one of several ways."""
    Cluster.forget()


@pytest.fixture
def small_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compaction starts after a few entries and proceeds a few rows at a time."""
    monkeypatch.setattr(state_log, "_MOST_ENTRIES", 5)
    monkeypatch.setattr(state_log, "_PART_BYTES", 400)


@pytest.fixture
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores on disk keep six rows in memory."""
    monkeypatch.setattr(task_files, "_MOST_ROWS", 6)
    monkeypatch.setattr(task_files, "_LEAST_ROWS", 6)


SHAPES = [
    (two_levels, ["in"], ["totals", "windows"]),
    (three_levels, ["in"], ["out"]),
    (joined, ["left", "right"], ["pairs", "sums"]),
]


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
    assert driven(topology, rows, 3, written) == found
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
    assert driven(topology, rows, 8, written) == found
    assert places == cluster.deployment.spark_partitions


def kept_tasks() -> list[CachedTask]:
    """The tasks in the memory of this process."""
    return [task for state in worker_cache._states.values() for task in state.tasks.values()]


def test_a_worker_that_missed_some_batches_catches_up(tmp_path: Path) -> None:
    """S1-10: only the missing entries are applied to an older copy; its lineage token identifies them."""
    topology, rows = two_levels(), disordered(["in"], 300)
    memories: list[dict[Any, Any]] = [{}, {}]

    def swap(number: int) -> None:
        """The next batch runs in the other of two workers."""
        (state,) = worker_cache._states.values()
        memories[number % 2] = state.tasks
        state.tasks = memories[(number + 1) % 2]

    found, cluster = ran(tmp_path, topology, rows, ["totals"], batches=8, between=swap)
    assert driven(topology, rows, 3, ["totals"]) == found
    assert Counter(cluster.found)["catch-up"] > 10


def test_a_copy_of_a_failed_attempt_is_not_trusted(tmp_path: Path) -> None:
    """S0-23: a copy that is ahead of the committed state, or diverged from it, is rebuilt."""
    topology, rows = two_levels(), disordered(["in"], 200)

    def spoil(number: int) -> None:
        """Simulate that each task had written an entry that was never committed."""
        for held in kept_tasks():
            held.token = "of another attempt"

    found, cluster = ran(tmp_path, topology, rows, ["totals"], batches=6, between=spoil)
    assert driven(topology, rows, 3, ["totals"]) == found
    assert set(cluster.found) == {"new", "rebuild"}


@pytest.mark.parametrize("lost", [False, True], ids=["warm", "lost"])
def test_logs_are_compacted_as_they_grow(tmp_path: Path, small_logs: None, *, lost: bool) -> None:
    """S0-22: old entries are removed in parts and without a pause, and nothing is lost with them."""
    topology, rows = two_levels(), disordered(["in"], 600)
    found, cluster = ran(
        tmp_path, topology, rows, ["totals"], batches=60, between=forget if lost else lambda number: None
    )
    assert driven(topology, rows, 3, ["totals"]) == found
    written = [log for log in cluster.states.values() if log.rows]
    assert len(written) > 2
    for log in written:
        seq, base, _ = unpack_head(log.rows[(state_log.HEAD,)][1])
        assert sorted(key[0] for key in log.rows) == [state_log.HEAD, *range(base, seq + 1)]
        assert base > 1
        assert seq - base < 30


def counted() -> ks.Topology:
    """Count records by key."""
    builder = ks.StreamsBuilder("many")
    builder.stream("in").group_by_key().count(store="counts").to_stream().to("out")
    return builder.build()


def most_allocated(folder: Path, keys: int, *, moves: bool = False) -> int:
    """Return the most bytes that one batch of ten records allocates against a store of some keys."""
    cluster = Cluster.of(placed(counted(), 1), folder.name)
    full: list[Row] = [("in", f"key-{number:06d}", 1, number) for number in range(keys)]
    few: list[Row] = [("in", f"key-{number % keys:06d}", 1, keys + number) for number in range(0, 1_500 * 7, 7)]
    run_in(cluster, folder, batched(cluster.deployment, full, keys // 100), ["out"], lambda number: None)
    for held in kept_tasks():
        held.moves = moves
    peaks: list[int] = []
    began = [0]

    def note(number: int) -> None:
        now, peak = tracemalloc.get_traced_memory()
        peaks.append(peak - began[0])
        began[0] = now
        tracemalloc.reset_peak()

    tracemalloc.start()
    try:
        run_in(cluster, folder, batched(cluster.deployment, few, 150), ["out"], note)
    finally:
        tracemalloc.stop()
    (log,) = (log for log in cluster.states.values() if log.rows)
    parts = [unpack_entry(row[1]).part for key, row in log.rows.items() if key != (state_log.HEAD,)]
    assert sum(part is not None for part in parts) > 5
    return max(peaks[1:])


@pytest.mark.usefixtures("small_logs")
def test_a_batch_that_compacts_takes_little_memory_for_each_key_of_its_store(tmp_path: Path) -> None:
    """S0-22: compaction takes a pointer for each key in memory, and nothing for those in files."""
    assert most_allocated(tmp_path, 6_000) < most_allocated(tmp_path, 600) + 16 * 5_400
    assert most_allocated(tmp_path, 6_000, moves=True) < 2 * most_allocated(tmp_path, 600, moves=True)


@pytest.mark.usefixtures("small_logs")
@pytest.mark.parametrize("moves", [False, True], ids=["memory", "disk"])
def test_the_log_of_a_state_that_does_not_grow_does_not_grow(tmp_path: Path, *, moves: bool) -> None:
    """S0-22: after thousands of updates a log has a few times the bytes of the rows that are left."""
    cluster = Cluster.of(placed(counted(), 1), tmp_path.name, verify=True)
    rows: list[Row] = [("in", f"key-{number * 7919 % 500:06d}", 1, number) for number in range(20_000)]
    sizes: list[int] = []

    def look(number: int) -> None:
        for held in kept_tasks():
            held.moves = moves and held.file is None
        sizes.extend(unpack_head(log.rows[(state_log.HEAD,)][1]).size for log in cluster.states.values() if log.rows)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(state_log, "_LEAST_BYTES", 1)
        found = run_in(cluster, tmp_path, batched(cluster.deployment, rows, 400), ["out"], look)
    assert driven(counted(), rows, 1, ["out"]) == found
    assert len(cluster.store("counts")) == 500
    assert max(sizes[200:]) < 1.5 * max(sizes[50:200])
    assert max(sizes) < 6 * 500 * 30


def test_old_entries_of_a_log_go_a_few_with_each_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S0-22: entries superseded by a compaction are removed gradually, and until then a rebuilt task is the same."""
    monkeypatch.setattr(state_log, "_MOST_ENTRIES", 20)
    monkeypatch.setattr(state_log, "_MOST_GOING", 3)
    topology, rows = two_levels(), disordered(["in"], 600)
    deployment = placed(topology, 3, spark_partitions=2)
    cluster = Cluster.of(deployment, tmp_path.name, verify=True)
    cluster.forget()
    bases: dict[Any, list[int]] = {}

    def look(number: int) -> None:
        for group, log in cluster.states.items():
            if log.rows:
                bases.setdefault(group, []).append(unpack_head(log.rows[(state_log.HEAD,)][1])[1])

    found = run_in(cluster, tmp_path, batched(deployment, rows, 60), ["totals"], look)
    assert driven(topology, rows, 3, ["totals"]) == found
    steps = {later - sooner for seen in bases.values() for sooner, later in pairwise(seen)}
    assert steps == {0, 2, 3}  # two of about twenty remain
    assert min(seen[-1] for seen in bases.values()) > 20


@pytest.mark.usefixtures("few_rows")
def test_state_that_exceeds_memory_moves_to_files(tmp_path: Path) -> None:
    """S1-10: beyond the limit tasks that are in memory stay there, and others are read from files, never rebuilt."""
    topology, rows = three_levels(), disordered(["in"], 400)
    kept: list[int] = []

    def look(number: int) -> None:
        kept.append(sum(task.file is None and task.memory > 0 for task in kept_tasks()))

    found, cluster = ran(tmp_path, topology, rows, ["out"], batches=8, partitions=6, memory_limit=2_000, between=look)
    assert driven(topology, rows, 6, ["out"]) == found
    assert Counter(cluster.found)["rebuild"] == 0
    assert Counter(cluster.found)["catch-up"] > 20
    assert 0 < kept[-1] < kept[0]
    assert sum(task.memory for task in kept_tasks()) <= 2_000


def on_disk(folder: Path) -> tuple[ks.Topology, list[Row], Cluster]:
    """Return a topology with records, and a cluster that holds all state in files."""
    deployment = placed(two_levels(), 3)
    cluster = Cluster.of(deployment, folder.name, memory_limit=0, verify=True)
    cluster.forget()
    return two_levels(), disordered(["in"], 300), cluster


@pytest.mark.usefixtures("few_rows")
def test_a_batch_that_failed_leaves_nothing_in_a_file(tmp_path: Path) -> None:
    """S0-23: a file has what was committed; an attempt whose log was lost is repeated from there, without a rebuild."""
    topology, rows, cluster = on_disk(tmp_path)
    committed: list[dict[Any, dict[Any, Any]]] = []

    def fail_after(number: int) -> None:
        """Every second batch loses its log, and runs again."""
        committed.append({group: dict(log.rows) for group, log in cluster.states.items()})

    batches = batched(cluster.deployment, rows, 8)
    feed = FileOffsetSource.write(tmp_path / FEED, batches)
    sink = MemorySink()
    run = cluster.run

    def run_twice(level_rows: list[Any]) -> Any:
        if len(committed) > 2:
            before = {group: dict(log.rows) for group, log in cluster.states.items()}
            run(level_rows)
            for group, log in cluster.states.items():
                log.rows = before.get(group, {})
        return run(level_rows)

    cluster.run = run_twice  # type: ignore[method-assign]
    for number, output in enumerate(cluster.batches(feed, fail_after)):
        sink.publish(QueryBatch(number, "", {}, 0, output))
    assert driven(topology, rows, 3, ["totals"]) == outputs(cluster.deployment, sink, ["totals"])
    assert Counter(cluster.found)["rebuild"] == 0


@pytest.mark.parametrize("damage", ["cut", "old", "of another query", "unfinished"])
def test_a_file_that_is_not_what_was_committed_is_not_used(tmp_path: Path, damage: str) -> None:
    """S0-23: a damaged file, one of another lineage and one without a head are removed, and the task is rebuilt."""
    topology, rows, cluster = on_disk(tmp_path)

    def spoil(number: int) -> None:
        if number != 4:
            return
        cluster.forget()
        gc.collect()
        files = sorted((worker_cache.local_folder() / cluster.deployment.key).glob("*.sqlite"))
        assert files
        for path in files:
            if damage == "cut":
                path.write_bytes(path.read_bytes()[:5000])
                continue
            with sqlite3.connect(path) as file:
                ((content,),) = file.execute("SELECT content FROM head").fetchall()
                seq, _, *rest = pickle.loads(content)
                file.execute("DELETE FROM head")
                if damage != "unfinished":
                    head = (seq if damage == "old" else seq + 100, "of another lineage", *rest)
                    file.execute("INSERT INTO head VALUES (?)", (pickle.dumps(head),))
            file.close()

    found = run_in(cluster, tmp_path, batched(cluster.deployment, rows, 8), ["totals"], spoil)
    assert driven(topology, rows, 3, ["totals"]) == found
    assert Counter(cluster.found)["rebuild"] > 1


@pytest.mark.usefixtures("few_rows")
def test_workers_of_an_executor_share_files(tmp_path: Path) -> None:
    """S1-10: a task that changes between workers continues from its file, whoever of them wrote it last."""
    topology, rows, cluster = on_disk(tmp_path)
    memories: list[dict[Any, Any]] = [{}, {}, {}]
    turns = (0, 1, 1, 0, 2, 2, 2, 0, 1, 0, 0, 2)

    def swap(number: int) -> None:
        (state,) = worker_cache._states.values()
        for held in state.tasks.values():
            held.moves = held.file is None
        memories[turns[number % 12]] = state.tasks
        state.tasks = memories[turns[(number + 1) % 12]]

    cluster = Cluster.of(cluster.deployment, tmp_path.name, verify=True)
    found = run_in(cluster, tmp_path, batched(cluster.deployment, rows, 24), ["totals"], swap)
    assert driven(topology, rows, 3, ["totals"]) == found
    assert Counter(cluster.found)["rebuild"] <= Counter(cluster.found)["new"]
    assert sum(held.file is not None for memory in memories for held in memory.values()) > 6


def test_a_rebuild_says_how_far_it_is(tmp_path: Path) -> None:
    """S1-10: the percentage of the log that was read is in the position of the task, and the state log knows it."""
    deployment = placed(counted(), 1)
    cluster = Cluster.of(deployment, tmp_path.name)
    rows: list[Row] = [("in", f"key-{number:04d}", 1, number) for number in range(1_000)]
    run_in(cluster, tmp_path, batched(deployment, rows, 4), ["out"], lambda number: None)
    (log,) = (log for log in cluster.states.values() if log.rows)
    state = state_log.StateLog(log)
    seen: list[str] = []

    class Watched(DictLog):
        def iterator(self) -> Any:
            return iter(list(log.rows.items()))

        def getValue(self, key: Any) -> Any:
            seen.append(str(state.restoring))
            return log.rows.get(key)

    state._log = Watched()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(state_log, "_SORTED_BYTES", 0)  # entry by entry
        state.load(None, lambda: worker_cache.new_task(cluster.deployment, cluster.deployment.tasks[0]))
    assert seen[:2] == ["", "0 %"]
    assert seen[2:] == sorted(seen[2:], key=lambda text: int(text.split()[0]))
    assert len(set(seen)) == 5
    assert str(state.restoring) == "100 %"
    position = TaskPosition("0/0_0", restored=str(state.restoring))
    assert str(position) == "task 0_0, rebuilding its state: 100 %"


def test_only_tasks_with_data_run(tmp_path: Path) -> None:
    """S0-49: eight tasks, records for two of them: two tasks report."""
    builder = ks.StreamsBuilder("few")
    builder.stream("in").group_by_key().count(store="counts").to_stream().to("out", value_serde="long")
    deployment = placed(builder.build(), 8)
    cluster = Cluster.of(deployment, tmp_path.name)
    from kstreamnb.spark.io.offset_source import FileOffsetSource

    rows: list[Row] = [("in", key, 1, at) for at, key in enumerate(("a", "a", "k1"))]
    feed = FileOffsetSource.write(tmp_path / FEED, batched(deployment, rows, 1))
    (output,) = cluster.batches(feed)
    assert {report["consumed"] for report in output.reports} == {2, 1}
    assert len(output.reports) == 2


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


@pytest.mark.parametrize(("build", "read", "written"), SHAPES, ids=["two levels", "three levels", "joins"])
def test_after_every_commit_workers_have_what_their_logs_and_the_input_make(
    tmp_path: Path, build: Any, read: list[str], written: list[str]
) -> None:
    """S0-09: the stores in a worker's memory equal those of its log, and those of a driver with the same input."""
    deployment, count = placed(build(), 3), 8
    rows = disordered(read, 300)
    steps = in_order(deployment.applications[0], rows)
    driver = ks.TopologyTestDriver(build(), partitions=3)
    cluster = Cluster.of(deployment, tmp_path.name)
    cluster.forget()
    compared: list[int] = []

    def compare(number: int) -> None:
        batch = steps[len(steps) * number // count : len(steps) * (number + 1) // count]
        driver.pipe(ks.TopicRecord(topic, part, at, *record[:3]) for at, (topic, part, record) in enumerate(batch))
        for task in deployment.tasks:
            held = worker_cache.worker_state(cluster.deployment).tasks.get(task.number)
            made = empty_task(cluster.deployment, task)
            for delta in cluster.deltas().get(task.name, []):
                made.apply_delta(unpack_delta(delta, trust=True))
            for name, store in held.task.stores.items() if held else ():
                member, _, own = name.rpartition("/")
                by_input = driver.tasks.by_id[member or task.plan.task_id].stores[own]
                assert dict(made.stores[name].raw) == dict(store.raw) == dict(by_input.raw)
                compared.append(len(store.raw))

    found = run_in(cluster, tmp_path, batched(deployment, rows, count), written, compare)
    assert driven(build(), rows, 3, written) == found
    assert sum(rows_there > 0 for rows_there in compared) > 3 * count


def test_a_small_batch_is_sent_along_with_its_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker's input is sent with the plan; the first batch, large ones and failures are left to workers."""
    topology, rows = two_levels(), disordered(["in"], 60)
    deployment = placed(topology, 3)
    feed = FileOffsetSource.write(tmp_path / "feed.pickle", batched(deployment, rows, 2))
    reader = QuerySourceReader(SourceSettings(feed, deployment, max_records=1))
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
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
        assert driven(topology, rows, 4, written) == found
        assert moved == ks.plan(topology, 4).shuffles
    assert [] == calls


def test_a_worker_that_remembers_something_else_than_its_log_ends_the_query(tmp_path: Path) -> None:
    """S0-09: with ``verify`` a store that differs from its log is detected before the next batch uses it."""

    def lose_a_row(number: int) -> None:
        """Delete a row without logging it."""
        for held in kept_tasks() if number == 3 else ():
            store = held.task.stores.get("first")
            if store is not None and store.raw:
                store.apply(next(iter(store.raw)), None)

    rows = disordered(["in"], 200)
    with pytest.raises(ks.errors.StateError, match='the copy of store "first" in a worker differs') as caught:
        ran(tmp_path, three_levels(), rows, ["out"], batches=6, between=lose_a_row)
    assert (caught.value.detail or "").startswith("rows that differ: 1, ")


def test_a_file_that_differs_from_its_log_ends_the_query(tmp_path: Path) -> None:
    """S0-09: with ``verify`` every row that was changed in a file of the executor is found."""

    def add_rows(number: int) -> None:
        """Copy a row of the store to two keys that its log does not have."""
        for path in worker_cache.local_folder().glob("*/*.sqlite") if number == 3 else ():
            with sqlite3.connect(path) as database:
                if database.execute("SELECT 1 FROM sqlite_master WHERE name = 'rows first'").fetchone():
                    (value,) = database.execute('SELECT value FROM "rows first"').fetchone()
                    database.executemany('INSERT INTO "rows first" VALUES (?, ?)', [(b"y", value), (b"z", value)])

    rows = disordered(["in"], 200)
    with pytest.raises(ks.errors.StateError, match='the copy of store "first" in a worker differs') as caught:
        ran(tmp_path, three_levels(), rows, ["out"], batches=6, between=add_rows, memory_limit=0)
    assert (caught.value.detail or "").startswith("rows that differ: 2, the first under key 'y'")


def test_a_file_is_compared_with_its_log_without_reading_the_state_into_memory(tmp_path: Path) -> None:
    """S0-09, S1-10: with ``verify`` a task with a file takes a page of rows, and leaves no other file behind."""
    builder = ks.StreamsBuilder("many")
    builder.stream("in").group_by_key().count(store="counts").to_stream().to("out")
    deployment = placed(builder.build(), 1)
    cluster = Cluster.of(deployment, tmp_path.name, memory_limit=0, verify=True)
    cluster.forget()
    taken: list[int] = []

    def look(number: int) -> None:
        now, peak = tracemalloc.get_traced_memory()
        taken.append(peak - now)
        tracemalloc.reset_peak()

    rows = [("in", f"key-{at:09d}", 1, at) for at in range(40_000)]
    tracemalloc.start()
    try:
        run_in(cluster, tmp_path, batched(deployment, rows, 40), ["out"], look)
    finally:
        tracemalloc.stop()
    assert sorted(taken[-10:])[4] < 1_000_000
    assert cluster.found.count("catch-up") == 38
    assert [] == list(worker_cache.local_folder().glob("compared-*"))


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


def as_format_2(packed: bytes) -> bytes:
    """A packed delta as the previous version wrote it."""
    rows, cells = unpack_delta(packed)
    members: dict[str, tuple[int, dict[str, Any], dict[Any, Any]]] = {}
    if not any("/" in name for name in rows):
        return pickle.dumps((1, rows, cells), 5)
    for full, changed in rows.items():
        member, _, name = full.partition("/")
        members.setdefault(member, (1, {}, {}))[1][name] = changed
    for (full, name), cell in cells.items():
        member, _, node = full.partition("/")
        members.setdefault(member, (1, {}, {}))[2][node, name] = cell
    return pickle.dumps(({member: pickle.dumps(each, 5) for member, each in members.items()}, None), 5)


@pytest.mark.parametrize(("build", "read", "written"), SHAPES, ids=["two levels", "three levels", "joins"])
def test_a_query_continues_from_state_of_format_2(
    tmp_path: Path, build: Any, read: list[str], written: list[str]
) -> None:
    """Logs of the previous version are read by workers without memory, and new entries follow them."""
    topology, rows = build(), disordered(read, 300)
    deployment = placed(topology, 3)
    cluster = Cluster.of(deployment, tmp_path.name)
    cluster.forget()

    def age(number: int) -> None:
        """Rewrite the existing entries in the old format."""
        cluster.forget()
        for log in cluster.states.values() if number == 2 else ():
            for key, (token, data) in log.rows.items():
                if key == (state_log.HEAD,):
                    log.rows[key] = token, pickle.dumps(tuple(unpack_head(data)), 5)
                else:
                    entry = unpack_entry(data)
                    parts = [None if each is None else as_format_2(each) for each in (entry.delta, entry.part)]
                    old = (parts[0], entry.positions, (entry.clock_ms, entry.attributes), parts[1])
                    log.rows[key] = token, pickle.dumps(old, 5)

    found = run_in(cluster, tmp_path, batched(deployment, rows, 6), written, age)
    assert driven(topology, rows, 3, written) == found
    assert "rebuild" in cluster.found
