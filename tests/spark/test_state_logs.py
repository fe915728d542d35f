"""State logs without Spark: lineage, compaction, copies that are behind or wrong, the format before."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.runtime.task import task as task_module
from kstreamnb.spark.execution import state_log, worker_cache
from kstreamnb.spark.execution.state_codec import unpack_delta, unpack_entry, unpack_head
from kstreamnb.spark.execution.worker_cache import empty_task
from kstreamnb.spark.execution.worker_progress import TaskPosition
from tests.spark.inprocess import Cluster, DictLog
from tests.spark.level_runs import SHAPES, counted, forget, kept_tasks, ran, run_in
from tests.spark.streams import Row, batched, driven, in_order, placed
from tests.spark.test_streaming import disordered, three_levels, two_levels


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
    assert (caught.value.detail or "").startswith("rows that differ: 1; ")


def short_windows() -> ks.Topology:
    """Return a join of a second, counts of windows and of sessions: stores that lose most of their rows."""
    builder = ks.StreamsBuilder("short")
    left, right = builder.stream("left"), builder.stream("right")
    windows = ks.JoinWindows.of_time_difference_and_grace("300ms", "0ms")
    left.join(right, lambda a, b: f"{a}-{b}", windows, ks.StreamJoined(store_name="near")).to("pairs")
    grouped = left.group_by_key()
    grouped.windowed_by(ks.TimeWindows.of("5s")).count(store="windows").to_stream(lambda w, n: str(w)).to("counts")
    grouped.windowed_by(ks.SessionWindows.of("2s")).count(store="visits").to_stream(lambda w, n: str(w)).to("visits")
    return builder.build()


@pytest.mark.usefixtures("small_logs")
@pytest.mark.parametrize("place", ["memory", "lost", "disk", "written by an earlier version"])
def test_rows_that_expire_leave_every_copy_of_a_task_without_an_entry_of_its_log(tmp_path: Path, place: str) -> None:
    """S0-22: the store's clock tells which they are: in a worker, after a rebuild, in a file, and in a view."""
    topics, count = ["pairs", "counts", "visits"], 40
    rows: list[Row] = [
        (("left", "right")[n % 2], f"k{n // 2 % 7}", n, max(0, n * 157 - (n % 5 == 4) * (n * 613 % 70_000)))
        for n in range(1_600)
    ]
    deployment = placed(short_windows(), 2)
    cluster = Cluster.of(deployment, tmp_path.name, verify=True)
    cluster.forget()

    def between(number: int) -> None:
        for held in kept_tasks():
            held.moves = place == "disk" and held.file is None
        if place == "lost" or number == count // 2:
            earlier.undo()
            cluster.forget()

    with pytest.MonkeyPatch.context() as earlier:
        if place == "written by an earlier version":
            earlier.setattr(task_module, "_ChangesByClock", task_module._Changes)
        found = run_in(cluster, tmp_path, batched(deployment, rows, count), topics, between)
    assert driven(short_windows(), rows, 2, topics) == found
    driver = ks.TopologyTestDriver(short_windows(), partitions=2)
    driver.pipe(ks.TopicRecord(topic, -1, at, time, key, value) for at, (topic, key, value, time) in enumerate(rows))
    deleted = 0
    for task in deployment.tasks:
        made = empty_task(cluster.deployment, task)
        for delta in (unpack_delta(each, trust=True) for each in cluster.deltas().get(task.name, [])):
            made.apply_delta(delta)
            deleted += sum(
                row is None for name, each in delta.rows.items() if name != "visits" for row in each.values()
            )
        for name, store in made.stores.items():
            assert dict(store.raw) == dict(driver.tasks.by_id[task.plan.task_id].stores[name].raw)
    assert deleted == 0
    assert {"near-this-join-store", "windows", "visits"} <= set(made.stores)
    assert "rebuild" in cluster.found
