"""A batch that runs longer than expected, while no task is at work."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kstreamnb.kafka.storage.checkpoint_files import LocalFiles
from kstreamnb.spark.operations import slow_batches
from kstreamnb.spark.operations.slow_batches import SlowBatches
from kstreamnb.spark.telemetry.query_log import QueryLog


@pytest.mark.parametrize(
    ("publishes", "kafka", "phase"),
    [(True, True, "publishing to Kafka"), (True, False, "publishing to the sink"), (False, True, "starting")],
)
def test_a_batch_without_tasks_publishes_or_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, publishes: bool, kafka: bool, phase: str
) -> None:
    """It is not stuck at a record: health must not fail because a broker is slow."""
    monkeypatch.setattr(slow_batches, "last_begun", lambda files: 4)
    busy = threading.Lock()
    if publishes:
        busy.acquire()
    sink, last = SimpleNamespace(kafka=kafka), SimpleNamespace(number=3)
    action = SimpleNamespace(busy=busy, sink=sink, last=last, log=QueryLog("shop", "q"))
    query: Any = SimpleNamespace(control=SimpleNamespace(action=action, files=LocalFiles(tmp_path)))
    watch = SlowBatches(query, "1m")
    assert watch._look(0.0) is None
    slow = watch._look(100.0)
    assert slow is not None
    assert not slow.stuck
    assert str(slow).endswith(f"batch 4 runs for 1m40s: {phase}"), str(slow)
