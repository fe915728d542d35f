"""State in files without Spark: moves, damage, sharing, comparison with the log."""

from __future__ import annotations

import gc
import pickle
import sqlite3
import tracemalloc
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.spark.contracts import QueryBatch
from kstreamnb.spark.execution import worker_cache
from kstreamnb.spark.planning.deployment import WorkerOptions
from tests.spark.file_source import FileOffsetSource
from tests.spark.inprocess import Cluster
from tests.spark.level_runs import FEED, counted, kept_tasks, ran, run_in, timed
from tests.spark.memory_sink import MemorySink
from tests.spark.streams import Row, batched, driven, outputs, placed
from tests.spark.test_streaming import disordered, three_levels, two_levels


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


TIMED = ["hops", "slides", "closed", "sessions", "pairs", "priced"]


def over_hours(count: int) -> list[Row]:
    """Return records in slight disorder, from hours of which segments of stores expire."""
    return [(*row[:3], row[3] * 1000) for row in disordered(["left", "right", "prices"], count, keys=40)]


@pytest.mark.usefixtures("few_rows")
@pytest.mark.parametrize("batches", [1, 4, 25])
@pytest.mark.parametrize("lost", [False, True], ids=["warm", "lost"])
def test_rows_of_windows_sessions_and_versions_are_in_files(tmp_path: Path, batches: int, *, lost: bool) -> None:
    """S1-10: they are found by key and by time, and expire; only buffers are read as a whole."""
    topology, rows, cluster = on_disk(tmp_path, timed())
    tables: set[str] = set()
    whole: set[str] = set()

    def look(number: int) -> None:
        for path in (worker_cache.local_folder() / cluster.deployment.key).glob("*.sqlite"):
            with closing(sqlite3.connect(path)) as file:
                names = [name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE name LIKE 'rows %'")]
                tables.update(name for name in names if file.execute(f'SELECT 1 FROM "{name}" LIMIT 1').fetchone())
                whole.update(name for (name,) in file.execute("SELECT DISTINCT store FROM loaded"))
        if lost:
            Cluster.forget()

    found = run_in(cluster, tmp_path, batched(cluster.deployment, rows, batches), TIMED, look)
    assert driven(topology, rows, 3, TIMED) == found
    assert Counter(cluster.found)["rebuild"] <= Counter(cluster.found)["new"]
    joins = ("KSTREAM-OUTERTHIS-0000000020-store", "KSTREAM-OUTEROTHER-0000000021-store")
    named = ("hopping", "slides", "closed", "sessions", "versions", *joins)
    assert batches == 1 or tables == {f"rows {name}" for name in named}
    assert whole <= {"KSTREAM-OUTERSHARED-0000000020-store"}


def on_disk(folder: Path, topology: ks.Topology | None = None) -> tuple[ks.Topology, list[Row], Cluster]:
    """Return a topology with records, and a cluster that holds all state in files."""
    topology, rows = (two_levels(), disordered(["in"], 300)) if topology is None else (topology, over_hours(400))
    deployment = placed(topology, 3)
    cluster = Cluster.of(deployment, folder.name, memory_limit=0, verify=True)
    cluster.forget()
    return topology, rows, cluster


STORES = pytest.mark.parametrize(
    ("topology", "topics"), [(None, ["totals"]), (timed(), TIMED)], ids=["key-value", "timed"]
)


@STORES
@pytest.mark.usefixtures("few_rows")
def test_a_batch_that_failed_leaves_nothing_in_a_file(
    tmp_path: Path, topology: ks.Topology | None, topics: list[str]
) -> None:
    """S0-23: a file has what was committed; an attempt whose log was lost is repeated from there, without a rebuild."""
    topology, rows, cluster = on_disk(tmp_path, topology)
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
    assert driven(topology, rows, 3, topics) == outputs(cluster.deployment, sink, topics)
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


@STORES
@pytest.mark.usefixtures("few_rows")
def test_workers_of_an_executor_share_files(tmp_path: Path, topology: ks.Topology | None, topics: list[str]) -> None:
    """S1-10: a task that changes between workers continues from its file, no matter which of them wrote it last."""
    topology, rows, cluster = on_disk(tmp_path, topology)
    memories: list[dict[Any, Any]] = [{}, {}, {}]
    turns = (0, 1, 1, 0, 2, 2, 2, 0, 1, 0, 0, 2)

    def swap(number: int) -> None:
        (state,) = worker_cache._states.values()
        for held in state.tasks.values():
            held.moves = held.file is None
        memories[turns[number % 12]] = state.tasks
        state.tasks = memories[turns[(number + 1) % 12]]

    cluster = Cluster.of(cluster.deployment, tmp_path.name, verify=True)
    found = run_in(cluster, tmp_path, batched(cluster.deployment, rows, 24), topics, swap)
    assert driven(topology, rows, 3, topics) == found
    assert Counter(cluster.found)["rebuild"] <= Counter(cluster.found)["new"]
    assert sum(held.file is not None for memory in memories for held in memory.values()) > 6


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
    assert (caught.value.detail or "").startswith("rows that differ: 2; entry ")


def test_a_file_is_compared_with_its_log_without_reading_the_state_into_memory(tmp_path: Path) -> None:
    """S0-09, S1-10: with ``verify`` a task with a file takes a page of rows, and leaves no other file behind."""
    small, large = (compared_memory(tmp_path, rows) for rows in (5_000, 20_000))
    assert large < 1.2 * small


def compared_memory(folder: Path, keys: int) -> int:
    """Return the most bytes that a batch of 100 records allocates if it compares a file of some keys."""
    cluster = Cluster.of(placed(counted(), 1), f"{folder.name}-{keys}", memory_limit=0)
    cluster.forget()
    taken: list[int] = []

    def look(number: int) -> None:
        now, peak = tracemalloc.get_traced_memory()
        taken.append(peak - now)
        tracemalloc.reset_peak()

    full: list[Row] = [("in", f"key-{at:09d}", 1, at) for at in range(keys)]
    run_in(cluster, folder, batched(cluster.deployment, full, keys // 500), ["out"], lambda number: None)
    cluster.deployment = replace(cluster.deployment, options=WorkerOptions(memory_limit=0, verify=True))
    few: list[Row] = [("in", f"key-{at:09d}", 1, keys + at) for at in range(0, 1_000, 2)]
    tracemalloc.start()
    try:
        run_in(cluster, folder, batched(cluster.deployment, few, 5), ["out"], look)
    finally:
        tracemalloc.stop()
    assert ["catch-up"] * 4 == cluster.found[-4:]
    assert [] == list(worker_cache.local_folder().glob("compared-*"))
    return max(taken[1:])
