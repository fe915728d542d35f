"""A batch that runs longer than expected."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kstreamnb.kafka.storage.checkpoint_files import LocalFiles
from kstreamnb.spark.execution.worker_progress import TaskPosition
from kstreamnb.spark.operations import slow_batches
from kstreamnb.spark.operations.slow_batches import SlowBatches
from kstreamnb.spark.telemetry.query_log import QueryLog


def session(executors: int) -> Any:
    """A session of a cluster that knows its driver and some executors."""
    known = SimpleNamespace(size=lambda: 1 + executors)
    context = SimpleNamespace(sc=lambda: SimpleNamespace(getExecutorMemoryStatus=lambda: known))
    return SimpleNamespace(sparkContext=SimpleNamespace(master="spark://master:7077", _jsc=context))


@pytest.mark.parametrize(
    ("publishes", "kafka", "reachable", "phase"),
    [
        (True, True, True, "publishing to Kafka"),
        (True, False, True, "publishing to the sink"),
        (False, True, True, "starting"),
        (False, True, False, "waiting for Kafka, which cannot be reached"),
    ],
)
def test_a_batch_without_tasks_publishes_or_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, publishes: bool, kafka: bool, reachable: bool, phase: str
) -> None:
    """It is not stuck at a record: health must not fail because a broker is slow."""
    monkeypatch.setattr(slow_batches, "last_begun", lambda files: 4)
    busy = threading.Lock()
    if publishes:
        busy.acquire()
    sink, last = SimpleNamespace(kafka=kafka), SimpleNamespace(number=3)
    action = SimpleNamespace(busy=busy, sink=sink, last=last, log=QueryLog("shop", "q"))
    query: Any = SimpleNamespace(
        book=SimpleNamespace(away=None if reachable else "Connection refused"),
        control=SimpleNamespace(action=action, files=LocalFiles(tmp_path)),
        spark=session(executors=2),
    )
    watch = SlowBatches(query, "1m")
    assert watch._look(0.0) is None
    slow = watch._look(100.0)
    assert slow is not None
    assert not slow.stuck
    assert str(slow).endswith(f"batch 4 runs for 1m40s: {phase}"), str(slow)


def test_a_batch_without_executors_is_stuck_so_that_the_process_is_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A standalone master that has lost its state ends them, and gives this application no others."""
    monkeypatch.setattr(slow_batches, "last_begun", lambda files: 4)
    last, log = SimpleNamespace(number=3), QueryLog("shop", "q")
    action = SimpleNamespace(busy=threading.Lock(), sink=SimpleNamespace(kafka=True), last=last, log=log)
    control = SimpleNamespace(action=action, files=LocalFiles(tmp_path))
    query: Any = SimpleNamespace(book=SimpleNamespace(away=None), control=control, spark=session(executors=0))
    watch = SlowBatches(query, "1m")
    assert watch._look(0.0) is None
    slow = watch._look(100.0)
    assert "batch 4 is stuck for 1m40s: waiting because Spark has no executors" == str(slow)
    query.book.away = "Connection refused"
    slow = watch._look(101.0)
    assert slow is not None
    assert not slow.stuck


def test_tasks_of_the_next_batch_are_not_those_of_the_batch_that_is_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark computes a batch while the one before is published: only the phase is known of the latter."""
    begun = {"batch": 4}
    monkeypatch.setattr(slow_batches, "last_begun", lambda files: begun["batch"])
    monkeypatch.setattr(slow_batches, "task_positions", lambda folder: [TaskPosition("0/0_1", "map", "in-1@7")])
    busy = threading.Lock()
    action = SimpleNamespace(
        busy=busy, sink=SimpleNamespace(kafka=True), last=SimpleNamespace(number=3), log=QueryLog("shop", "q")
    )
    query: Any = SimpleNamespace(
        book=SimpleNamespace(away=None),
        control=SimpleNamespace(action=action, files=LocalFiles(tmp_path)),
        spark=session(executors=2),
    )
    watch = SlowBatches(query, "1m")
    assert watch._look(0.0) is None
    assert 'batch 4 is stuck for 1m40s: task 0_1, node "map", record in-1@7' == str(watch._look(100.0))
    busy.acquire()
    begun["batch"] = 5
    assert "batch 4 runs for 1m45s: publishing to Kafka" == str(watch._look(105.0))
