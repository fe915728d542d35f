"""Progress of workers: readable while a task runs, and after its process died."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import cast

import pytest

import kstreamnb as ks
from kstreamnb.spark.contracts import QueryBatch
from kstreamnb.spark.execution import worker_progress
from kstreamnb.spark.execution.batch_output import BatchOutput
from kstreamnb.spark.execution.failures import worker_died
from kstreamnb.spark.execution.worker_cache import AnyTask
from kstreamnb.spark.execution.worker_progress import (
    Restoring,
    TaskPosition,
    forget_positions,
    noted,
    task_positions,
)
from kstreamnb.spark.operations.slow_batches import SlowBatches
from kstreamnb.spark.query.batch_handler import SlowBatch
from kstreamnb.spark.query.lifecycle import Actor, LifecycleEvent
from tests.spark.memory_sink import MemorySink
from tests.unit.spark.query.streams import launch, query_without_spark
from tests.unit.test_serving import ask

_WORKER = """
import os, sys, time
import kstreamnb as ks
from tests.spark.file_source import FileOffsetSource
from pathlib import Path
from tests.spark.inprocess import Cluster
from tests.spark.streams import batched, placed

def reach(key, value):
    if value == 7:
        {what}

folder = Path(sys.argv[1])
builder = ks.StreamsBuilder("dying")
stream = builder.stream("in", value_serde="long").map_values(lambda value: value).peek(reach)
stream.group_by_key().count(store="counts").to_stream().to("out")
deployment = placed(builder.build(), 1)
rows = [("in", "a", number, 5 + number) for number in range(20)]
feed = FileOffsetSource.write(folder / "feed", batched(deployment, rows, 1))
list(Cluster.of(deployment, "dying", positions=str(folder / "workers")).batches(feed))
print("done", flush=True)
os.read(0, 1)
"""
_WAITS = "print('at seven', flush=True); os.read(0, 1)"
_AT_SEVEN = TaskPosition("0/0_0", "KSTREAM-PEEK-0000000002", "in-0@7", alive=False)


@contextmanager
def worker(folder: Path, what: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process with a task that does this at its eighth record."""
    command = [sys.executable, "-c", _WORKER.format(what=what), str(folder)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    with closing(process.stdin), closing(process.stdout):
        try:
            yield process
        finally:
            process.kill()
            process.wait(60)


def wait_for_the_record(process: subprocess.Popen[bytes]) -> None:
    """Wait for a process that waits there; on a busy machine, Python alone may take half a minute to start."""
    assert process.stdout is not None
    assert b"at seven\n" == process.stdout.readline()


def ended(process: subprocess.Popen[bytes]) -> int:
    """Wait for the end of a process, which closes its output."""
    assert process.stdout is not None
    process.stdout.read()
    return process.wait(60)


def wait_until(reached: Callable[[], bool]) -> None:
    """Wait for at most half a minute."""
    end = time.monotonic() + 30
    while not reached() and time.monotonic() < end:
        time.sleep(0.02)
    assert reached()


def test_a_worker_that_ends_itself_leaves_its_task_node_and_record(tmp_path: Path) -> None:
    """``os._exit`` runs no further code, so progress is written before."""
    with worker(tmp_path, "os._exit(3)") as process:
        assert 3 == ended(process)
    assert [_AT_SEVEN] == task_positions(tmp_path / "workers")
    assert 'task 0_0, node "KSTREAM-PEEK-0000000002", record in-0@7' == str(_AT_SEVEN)
    forget_positions(tmp_path / "workers")
    assert [] == task_positions(tmp_path / "workers")


def test_a_worker_that_is_killed_leaves_where_it_was(tmp_path: Path) -> None:
    """The kernel kills without notice, but exhausting the memory takes time."""
    folder = tmp_path / "workers"
    with worker(tmp_path, _WAITS) as process:
        wait_for_the_record(process)
        wait_until(lambda: any(each.record == "in-0@7" for each in task_positions(folder)))
        (alive,) = task_positions(folder)
        assert (True, "in-0@7", _AT_SEVEN.node) == (alive.alive, alive.record, alive.node)
        process.send_signal(signal.SIGKILL)
        process.wait(60)
        assert [_AT_SEVEN] == task_positions(folder)


def test_a_worker_between_two_batches_is_nowhere(tmp_path: Path) -> None:
    """Its file is empty, and remains as long as its process."""
    with worker(tmp_path, "time.sleep(0.5)") as process:
        assert process.stdout is not None
        assert b"done\n" == process.stdout.readline()
        assert [] == task_positions(tmp_path / "workers")
        forget_positions(tmp_path / "workers")
        assert 1 == len(os.listdir(tmp_path / "workers"))


def test_a_worker_that_runs_the_tasks_of_two_queries_has_one_file_and_one_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queries of one session share workers: after some thousand batches, no more files could have been opened."""
    monkeypatch.setattr(os, "_exit", os._exit)
    monkeypatch.setattr(worker_progress, "_notes", {})
    folders, task = (tmp_path / "one", tmp_path / "other"), Restoring()
    before = len(os.listdir("/proc/self/fd")), threading.active_count()
    for number in range(20):
        with noted(str(folders[number % 2]), "0/0_0", task):
            assert [["0/0_0"], []] == [
                [each.task for each in task_positions(folders[(number + at) % 2])] for at in (0, 1)
            ]
    assert (before[0] + 1, before[1] + 1) == (len(os.listdir("/proc/self/fd")), threading.active_count())


def test_a_new_worker_removes_the_files_of_idle_ones_that_ended(tmp_path: Path) -> None:
    """Spark ends workers after an idle minute. What says where a worker died remains."""
    folder = tmp_path / "workers"
    with worker(tmp_path, "os._exit(3)") as process:
        assert 3 == ended(process)
    for _ in range(2):
        with worker(tmp_path, "pass") as process:
            assert process.stdout is not None
            assert b"done\n" == process.stdout.readline()
    assert [_AT_SEVEN] == task_positions(folder)
    assert 2 == len(os.listdir(folder))


def test_a_slow_batch_is_told_with_the_record_it_is_at(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Status and log name it; a batch that stays at one record for that long is stuck."""
    query = query_without_spark(tmp_path, MemorySink())
    launch(query, None)
    (query.checkpoint / "offsets").mkdir()
    (query.checkpoint / "offsets" / "0").touch()
    slow = SlowBatches(query, "10s")
    action = query.control.action
    with worker(query.checkpoint, _WAITS) as process, caplog.at_level("WARNING", "kstreamnb.query"):
        wait_for_the_record(process)
        wait_until(lambda: any(each.record for each in task_positions(query.checkpoint / "workers")))
        assert slow._look(100.0) is None
        assert slow._look(109.0) is None
        action.slow = slow._look(110.0)
        status = query.status(lag=False)
        at = 'task 0_0, node "KSTREAM-PEEK-0000000002", record in-0@7'
        assert (f"batch 0 is stuck for 10s: {at}", True) == (status.slow, status.stuck)
        for now_s in (111.0, 119.0, 121.0):
            slow._look(now_s)
    told = [record.getMessage() for record in caplog.records]
    assert 2 == len(told)  # at 10 s, and when that has doubled
    assert at in told[0]
    action.publish(QueryBatch(0, "", {}, 0, BatchOutput()))
    assert slow._look(122.0) is None


def test_the_error_of_a_dead_worker_names_its_task() -> None:
    """Spark only knows that a connection was closed."""
    crashed = RuntimeError("SparkException: Python worker exited unexpectedly (crashed)")
    error = worker_died("the query", crashed, [str(_AT_SEVEN)])
    assert error is not None
    assert "the query failed: a worker process died" == error.message
    assert 'it was at task 0_0, node "KSTREAM-PEEK-0000000002", record in-0@7' == error.detail
    assert worker_died("the query", RuntimeError("EOFException"), []) is None
    assert worker_died("the query", RuntimeError("kstreamnb.errors.ProcessingError: x\nEOFException"), ["t"]) is None


def test_a_slow_batch_is_healthy_until_it_is_stuck(tmp_path: Path) -> None:
    """A large batch that advances must not be restarted; the answer names its position."""
    query = query_without_spark(tmp_path, MemorySink())
    launch(query, None)
    query.control.lifecycle.apply(LifecycleEvent.READY, Actor.STREAM)
    at = replace(_AT_SEVEN, alive=True)
    with ks.monitoring.serve(query) as server:
        assert (200, {"state": "running"}) == ask(server, "/health")
        query.control.action.slow = SlowBatch(3, 61.5, (at,))
        assert (200, {"state": "running", "slow": f"batch 3 runs for 1m1s: {at}"}) == ask(server, "/health")
        query.control.action.slow = SlowBatch(3, 61.5, (at,), stuck=True)
        error = f"the application is stuck; batch 3 is stuck for 1m1s: {at}"
        assert (503, {"error": error}) == ask(server, "/health")
    shown = ks.widgets.panel(query).forms()["text/plain"]
    assert f"slow batch: batch 3 is stuck for 1m1s: {at}" in shown


class Unreadable:
    """A task whose position cannot be determined."""

    def position(self, frame: FrameType | None) -> tuple[str, str]:
        """Fail, as a defect would."""
        raise LookupError("no such frame")


def test_a_position_thread_that_dies_says_so_instead_of_leaving_an_old_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A position that no longer changes would make a healthy batch look stuck, and fail its health check."""
    monkeypatch.setattr(os, "_exit", os._exit)
    query = query_without_spark(tmp_path, MemorySink())
    launch(query, None)
    (query.checkpoint / "offsets").mkdir()
    (query.checkpoint / "offsets" / "0").touch()
    folder, slow, task = query.checkpoint / "workers", SlowBatches(query, "10s"), cast("AnyTask", Unreadable())
    unknown = TaskPosition("0/0_0", unknown="no such frame")
    with noted(str(folder), "0/0_0", task):
        wait_until(lambda: [unknown] == task_positions(folder))
    wait_until(lambda: 'the thread "kstreamnb-position" ended with an error' in caplog.text)
    with noted(str(folder), "0/0_0", task):
        assert [unknown] == task_positions(folder)
        for now_s in (100.0, 111.0, 190.0):
            found = slow._look(now_s)
        assert found is not None
        assert (False, "batch 0 runs for 1m30s: task 0_0, position unknown: no such frame") == (found.stuck, str(found))
