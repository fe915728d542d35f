"""A streaming query produces the driver's output, however its input is split into batches."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.kafka.output_batch import OutputBatch
from kstreamnb.kafka.storage.checkpoint_files import LocalFiles
from kstreamnb.spark.contracts import QueryBatch, StreamSettings
from kstreamnb.spark.deploy import query_of
from kstreamnb.spark.planning.deployment import WorkerOptions
from kstreamnb.spark.query.lifecycle import Actor
from kstreamnb.tools.benchmark import python_workers
from tests.spark.file_source import FileOffsetSource
from tests.spark.memory_sink import MemorySink
from tests.spark.streams import Row, batched, driven, outputs, placed, query_over, streamed

pytestmark = pytest.mark.spark


def disordered(topics: list[str], count: int, keys: int = 12, *, seed: int = 5) -> list[Row]:
    """Records of some topics in order of arrival, slightly out of order."""
    chance = random.Random(seed)
    return [
        (
            chance.choice(topics),
            f"k{chance.randrange(keys)}",
            chance.randrange(100),
            1000 + 10 * at + chance.randrange(-60, 60),
        )
        for at in range(count)
    ]


def two_levels() -> ks.Topology:
    """Re-keyed counts in windows, and totals by group."""
    builder = ks.StreamsBuilder("two-levels")
    rows = builder.stream("in").filter(lambda key, value: value != 13)
    grouped = rows.group_by(lambda key, value: f"g{value % 5}")
    grouped.count(store="totals").to_stream().to("totals", value_serde="long")
    windows = ks.TimeWindows.of_size_and_grace("200ms", "50ms")
    grouped.windowed_by(windows).count(store="windows").to_stream(lambda key, value: str(key)).to(
        "windows", value_serde="long"
    )
    return builder.build()


def three_levels() -> ks.Topology:
    """A count, re-keyed by its value and summed, then re-keyed again."""
    builder = ks.StreamsBuilder("three-levels")
    counts = builder.stream("in").group_by_key().count(store="first")
    sums = (
        counts.to_stream()
        .group_by(lambda key, count: f"n{count % 4}", value_serde="long")
        .reduce(lambda a, b: a + b, store="second")
    )
    sums.to_stream().select_key(lambda key, value: f"s{value % 3}").repartition(value_serde="long").to(
        "out", value_serde="long"
    )
    return builder.build()


def joined() -> ks.Topology:
    """A stream joined with another in windows, and with a table that is re-keyed in between."""
    builder = ks.StreamsBuilder("joined")
    left, right = builder.stream("left"), builder.stream("right")
    windows = ks.JoinWindows.of_time_difference_and_grace("100ms", "100ms")
    left.left_join(right, lambda a, b: {"left": a, "right": b}, windows).to("pairs")
    table = right.group_by(lambda key, value: f"k{value % 12}").aggregate(
        lambda: 0, lambda key, value, total: total + value, store="totals", value_serde="long"
    )
    left.join(table, lambda a, b: a + b).to("sums")
    return builder.build()


@pytest.mark.parametrize(
    ("build", "topics", "written"),
    [
        (two_levels, ["in"], ["totals", "windows"]),
        (three_levels, ["in"], ["out"]),
        (joined, ["left", "right"], ["pairs", "sums"]),
    ],
    ids=["two levels", "three levels", "joins"],
)
def test_any_number_of_batches_gives_the_drivers_output(
    spark: Any, tmp_path: Path, build: Any, topics: list[str], written: list[str]
) -> None:
    """S0-02, S0-29, S1-02: with 1, 2 and 8 batches every output partition holds the same records in the same order."""
    topology, rows = build(), disordered(topics, 400)
    expected = driven(topology, rows, 3, written)
    assert [expected] * 3 == streamed(spark, tmp_path, topology, rows, 3, written, batches=[1, 2, 8])


def test_a_query_goes_on_from_its_checkpoint(spark: Any, tmp_path: Path) -> None:
    """Stopped between two batches and restarted, whatever the workers' memory holds."""
    topology, rows = two_levels(), disordered(["in"], 300)
    deployment = placed(topology, 3)
    batches = batched(deployment, rows, 6)
    query, sink = query_over(spark, tmp_path, deployment, batches[:3])
    assert query.await_termination(300)
    other = replace(deployment, options=WorkerOptions(memory_limit=1 << 29))  # workers treat it as another query
    query, _ = query_over(spark, tmp_path, other, batches, sink)
    assert query.await_termination(300)
    assert list(range(6)) == sorted(sink.batches)
    assert driven(topology, rows, 3, ["totals"]) == outputs(deployment, sink, ["totals"])


def lasting(spark: Any, folder: Path, sink: MemorySink) -> ks.Query:
    """Return a query over two batches that was not started and that ends only when it is stopped."""
    deployment = placed(two_levels(), 2)
    source = FileOffsetSource.write(folder / "feed.pickle", batched(deployment, disordered(["in"], 100), 2))
    settings = StreamSettings(LocalFiles(folder / "checkpoint"), 0, max_records=1)
    return query_of(spark, replace(deployment, name=folder.name), source, sink, settings)


def test_a_stop_at_the_end_of_a_start_stops_the_query(spark: Any, tmp_path: Path) -> None:
    """The stream runs and the start has not returned: neither of them may leave the end to the other."""
    launched, stopped = threading.Event(), threading.Event()

    class LateCompanions(list[Any]):
        def __iter__(self) -> Iterator[Any]:
            launched.set()
            assert stopped.wait(60)
            return super().__iter__()

    query = lasting(spark, tmp_path, MemorySink())
    query.control.companions = LateCompanions()
    start = threading.Thread(target=query.restart)
    start.start()
    assert launched.wait(60)
    query.stop()
    stopped.set()
    start.join()
    assert query.await_termination(60)
    assert "stopped" == query.status(lag=False).state


def test_a_view_shows_the_tasks_of_later_starts(spark: Any, tmp_path: Path) -> None:
    """A query that found new topics starts again with other tasks; programs keep their views."""
    query = lasting(spark, tmp_path, MemorySink()).restart()
    assert query.await_input(200)
    view = query.store("totals")
    before = dict(view.all())
    rows = [*disordered(["in"], 100), ("in", "late", 5, 5000)]
    more = FileOffsetSource.write(tmp_path / "more.pickle", batched(query.deployment, rows, 3))
    assert query.control.start(Actor.USER, deployment=replace(query.deployment), source=more)
    assert query.await_input(200)
    assert before["g0"] + 1 == view["g0"] == query.store("totals")["g0"]
    query.stop()


class SlowlyClosed(MemorySink):
    """A sink whose first close waits until it is opened again or two seconds are over."""

    def open(self) -> None:
        """Open it."""
        self.opened.set()

    def close(self) -> None:
        """Close it."""
        if not self.closing.is_set():
            self.closing.set()
            self.opened.clear()
            self.opened.wait(2)
        self.opened.clear()

    opened: threading.Event
    closing: threading.Event


def test_a_stop_does_not_close_the_sink_of_the_next_start(spark: Any, tmp_path: Path) -> None:
    """A restart while another thread stops the query waits for the end of the stop."""
    sink = SlowlyClosed()
    sink.opened, sink.closing = threading.Event(), threading.Event()
    query = lasting(spark, tmp_path, sink).restart()
    assert query.await_input(200)
    stop = threading.Thread(target=query.stop)
    stop.start()
    assert sink.closing.wait(60)
    query.restart()
    stop.join()
    assert sink.opened.is_set()
    assert query.is_active()
    query.stop()


def kill_workers() -> int:
    """Kill the Python workers of Spark in this process; return how many there were."""
    workers = python_workers()
    for pid in workers:
        with suppress(ProcessLookupError):  # Spark ends those that nothing needs
            os.kill(pid, signal.SIGKILL)
    return len(workers)


class KillingSink(MemorySink):
    """Kills all Python workers after some batches, and keeps how tasks were loaded."""

    def publish(self, batch: QueryBatch) -> OutputBatch:
        """Keep the batch."""
        self.loads.append([report["state"] for report in batch.output.reports])
        if batch.number in (4, 7):
            self.killed += kill_workers()
        return super().publish(batch)

    loads: list[list[str]]
    killed = 0


def test_state_on_disk_survives_a_killed_worker(spark: Any, tmp_path: Path) -> None:
    """S1-10: with no memory for state, the next worker continues from the files of a killed one; nothing is rebuilt."""
    topology, rows = two_levels(), disordered(["in"], 400)
    deployment = placed(topology, 3)
    deployment = replace(deployment, options=WorkerOptions(memory_limit=0, verify=True))
    sink = KillingSink()
    sink.loads = []
    query, _ = query_over(spark, tmp_path, deployment, batched(deployment, rows, 10), sink)
    assert query.await_termination(300)
    assert driven(topology, rows, 3, ["totals", "windows"]) == outputs(deployment, sink, ["totals", "windows"])
    assert sink.killed > 1
    assert "rebuild" not in {load for loads in sink.loads[4:] for load in loads}


def test_one_stage_and_several_take_over_from_each_other(spark: Any, tmp_path: Path) -> None:
    """With one Spark partition and one reader no row is shuffled; the checkpoint is the same either way."""
    topology, rows = three_levels(), disordered(["in"], 160)
    deployment = placed(topology, 3, spark_partitions=1)
    batches, sink = batched(deployment, rows, 4), None
    for number, readers in ((2, 2), (4, 1)):
        query, sink = query_over(spark, tmp_path, deployment, batches[:number], sink, readers=readers)
        assert query.await_termination(300)
        shuffles = query.control.handle.streaming._jsq.explainInternal(False).count("Exchange")
        assert (readers > 1) == (shuffles > 0)
    assert sink is not None
    assert driven(topology, rows, 3, ["out"]) == outputs(deployment, sink, ["out"])


def test_stores_are_read_from_the_checkpoint(spark: Any, tmp_path: Path) -> None:
    """The store of a finished query equals the driver's store."""
    topology, rows = three_levels(), disordered(["in"], 200)
    deployment = placed(topology, 3)
    query, _ = query_over(spark, tmp_path, deployment, batched(deployment, rows, 3))
    assert query.await_termination(300)
    driver = ks.TopologyTestDriver(topology, partitions=3)
    driver.pipe(ks.TopicRecord(topic, -1, at, time, key, value) for at, (topic, key, value, time) in enumerate(rows))
    for name in ("first", "second"):
        view, expected = query.store(name), driver.get_key_value_store(name)
        assert dict(expected.all()) == dict(view.all())
        assert view.to_pandas().equals(expected.to_pandas())
        assert f'store "{name}": {len(view)} rows at batch 2' == str(view).splitlines()[0]
        assert "<table>" in view._repr_mimebundle_()["text/html"]
    with pytest.raises(ks.errors.StateError, match='store "frist" does not exist'):
        query.store("frist")


SESSION_STOPPED = """
import sys
from pathlib import Path
import kstreamnb as ks
from kstreamnb.kafka.storage.checkpoint_files import LocalFiles
from kstreamnb.spark.contracts import StreamSettings
from kstreamnb.spark.deploy import query_of
from kstreamnb.spark.operations.restart_policy import RestartPolicy
from tests.spark.file_source import FileOffsetSource
from tests.spark.memory_sink import MemorySink
from tests.spark.streams import batched, placed
from tests.spark.test_streaming import disordered, two_levels
spark, folder = ks.spark.spark_session(), Path(sys.argv[1])
deployment = placed(two_levels(), 2)
feed = FileOffsetSource.write(folder / "feed.pickle", batched(deployment, disordered(["in"], 20), 2))
query = query_of(spark, deployment, feed, MemorySink(), StreamSettings(LocalFiles(folder / "checkpoint"), 0))
query.control.companions.append(RestartPolicy(query, None))
assert query.restart().await_input(120)
spark.stop()
if sys.argv[2] == "stopped":
    query.stop()
else:
    try:
        query.await_termination(60)
    except ks.errors.SparkError:
        print(query.status().state)
print(query.exception())
"""


def test_a_query_whose_session_was_stopped_ends_with_sparks_error_or_none(tmp_path: Path) -> None:
    """In a separate process, because other tests need the session; its tasks need no waiting for."""
    done = _session_stopped(tmp_path, "stopped")
    assert "the thread" not in done.stderr, done.stderr
    assert "NoneType" not in done.stdout + done.stderr


def test_a_query_whose_session_was_stopped_fails_although_no_record_arrives(tmp_path: Path) -> None:
    """Spark's stream would wait for records that it cannot process, and the query show that it runs."""
    done = _session_stopped(tmp_path, "running")
    assert 'failed\nthe Spark session of "two-levels" was stopped\n' == done.stdout, done.stderr
    assert "stops late" not in done.stderr


def _session_stopped(folder: Path, then: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", SESSION_STOPPED, str(folder), then]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert 0 == done.returncode, done.stderr
    return done


def test_a_failing_function_ends_the_query_with_its_node(spark: Any, tmp_path: Path) -> None:
    """The error names node and record, and the user's own exception is its cause."""
    builder = ks.StreamsBuilder("failing")
    builder.stream("in").map_values(lambda value: 10 // value, name="divide").to("out")
    topology = builder.build()
    deployment = placed(topology, 1)
    query, sink = query_over(
        spark, tmp_path, deployment, batched(deployment, [("in", "a", 1, 0), ("in", "a", 0, 1)], 2)
    )
    with pytest.raises(ks.errors.ProcessingError, match="divide") as caught:
        query.await_termination(300)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert ("in", 0, 1, 1) == caught.value.coordinates
    assert "failed" == query.status().state
    assert {0: 1} == sink.batches


class Mute(SystemExit):
    """It would end a process, and has no message."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize("raised", [SystemExit, KeyboardInterrupt, Mute])
def test_a_function_that_would_end_the_worker_is_named_too(
    spark: Any, tmp_path: Path, raised: type[BaseException]
) -> None:
    """The error names node, record and cause like any other, instead of an exception of the Python proxy."""

    def check(value: int) -> int:
        if not value:
            raise raised
        return value

    builder = ks.StreamsBuilder("ending")
    builder.stream("in").map_values(check, name="check").to("out")
    deployment = placed(builder.build(), 1)
    batches = batched(deployment, [("in", "a", 1, 0), ("in", "a", 0, 1)], 1)
    query, _ = query_over(spark, tmp_path, deployment, batches)
    with pytest.raises(ks.errors.ProcessingError, match="check") as caught:
        query.await_termination(300)
    assert ("in", 0, 1, 1) == caught.value.coordinates
    assert raised is type(caught.value.__cause__)
    assert "failed" == query.status().state


def _exit(positions: Path) -> None:
    os._exit(3)


def _be_killed(positions: Path) -> None:
    """End without notice after the position was written: exhausting the memory takes longer."""
    (own,) = positions.glob(f"*-{os.getpid()}")
    while b"in-0@1" not in own.read_bytes():
        time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("end", [_exit, _be_killed])
def test_a_worker_that_dies_is_told_with_its_task_and_last_record(
    spark: Any, tmp_path: Path, end: Callable[[Path], None]
) -> None:
    """``os._exit``, or a kill for lack of memory: Spark itself only knows that a connection was closed."""
    folder = tmp_path / "checkpoint" / "workers"

    def check(value: int) -> int:
        if not value:
            end(folder)
        return value

    builder = ks.StreamsBuilder("dying")
    builder.stream("in").map_values(check, name="check").to("out")
    deployment = placed(builder.build(), 1)
    positions = WorkerOptions(positions=str(folder))
    batches = batched(deployment, [("in", "a", 1, 0), ("in", "a", 0, 1)], 1)
    query, sink = query_over(spark, tmp_path, replace(deployment, options=positions), batches)
    with pytest.raises(ks.errors.SparkError, match="a worker process died") as caught:
        query.await_termination(300)
    assert 'it was at task 0_0, node "check", record in-0@1' == caught.value.detail
    assert ("failed", {}) == (query.status().state, sink.batches)
