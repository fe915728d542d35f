"""Batches on their way to the sink and to watchers."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

import kstreamnb as ks
from kstreamnb.kafka.output_batch import OutputBatch
from kstreamnb.spark.contracts import QueryBatch, QuerySink
from kstreamnb.spark.execution.batch_output import BatchOutput
from kstreamnb.spark.execution.record_batch import OrderKey, RecordBatch
from kstreamnb.spark.query.batch_handler import BatchAction
from kstreamnb.spark.query.pipeline import Pipeline
from kstreamnb.spark.telemetry.metrics import BatchFigures
from tests.unit.spark.query.streams import launch, query_without_spark


class Mute(BaseException):
    """Is neither an Exception nor has a message."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize("raised", [ValueError, SystemExit, KeyboardInterrupt, Mute])
def test_whatever_a_sink_raises_is_the_error_of_the_query(tmp_path: Path, raised: type[BaseException]) -> None:
    """Spark gets an Exception, which it can pass on; the user's own error is the cause."""

    class Raising(QuerySink):
        def publish(self, batch: QueryBatch) -> NoReturn:
            raise raised

    query = query_without_spark(tmp_path, Raising())
    launch(query, None)
    with pytest.raises(ks.errors.SinkError, match=f'the sink of "again" failed with {raised.__name__}'):
        query.control.action.publish(QueryBatch(0, "", {}, 0, BatchOutput()))
    error = query.exception()
    assert isinstance(error, ks.errors.SinkError)
    assert isinstance(error.__cause__, raised)
    assert "failed" == query.status(lag=False).state


class Fine(QuerySink):
    """Publishes every batch."""

    def publish(self, batch: QueryBatch) -> OutputBatch:
        """Publish nothing."""
        return OutputBatch(batch.number, 0)


def test_skipped_records_leave_one_warning_per_batch_and_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With count, node and reason, over all tasks."""
    query = query_without_spark(tmp_path, Fine())
    launch(query, None)
    counts = {"consumed": 5, "produced": 0, "topics": {}, "stream_time_ms": 0, "state": "memory", "state_bytes": 0}
    reports: list[Any] = [
        {**counts, "task": f"0/0_{task}", "level": 0, "seconds": 0.0, "dropped": {("counts", "late"): task + 1}}
        for task in range(2)
    ]
    query.control.action.publish(QueryBatch(4, "", {}, 0, BatchOutput(reports=reports)))
    assert ["again: records dropped (batch 4, count 3, node counts, reason late)"] == [
        each.getMessage() for each in caplog.records if each.levelname == "WARNING"
    ]


def test_the_log_says_when_tasks_read_their_state_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Their executor was lost, which is otherwise in Spark's log alone; tasks that kept their state are not counted."""
    caplog.set_level("INFO", logger="kstreamnb.query")
    query = query_without_spark(tmp_path, Fine())
    launch(query, None)
    counts = {"consumed": 5, "produced": 0, "topics": {}, "stream_time_ms": 0, "state_bytes": 0, "dropped": {}}
    for batch, states in enumerate((["hit", "hit", "hit"], ["rebuild", "hit", "rebuild"])):
        reports: list[Any] = [
            {**counts, "task": f"0/0_{task}", "level": 0, "seconds": 0.0, "state": state}
            for task, state in enumerate(states)
        ]
        query.control.action.publish(QueryBatch(batch, "", {}, 0, BatchOutput(reports=reports)))
    assert ["again: state restored (batch 1, tasks 2)"] == [text for text in caplog.messages if "restored" in text]


def test_a_batch_that_runs_again_counts_only_the_records_that_were_removed_since(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Spark had not noted that the batch was published; meanwhile the cluster has removed more of it."""
    query = query_without_spark(tmp_path, Fine())
    launch(query, None)
    source = json.dumps({"skipped": {"in": {"0": [10, 14]}}})
    for removed in ([], [], [("in", 0, 10, 16)]):
        query.control.action.publish(QueryBatch(4, source, {}, 0, BatchOutput(removed=removed)))
    assert 6 == query.book.skipped
    told = [each for each in caplog.messages if "offsets skipped" in each]
    assert ["after 14", "after 16"] == [each.partition("first 10, ")[2].rstrip(")") for each in told]


def test_removed_records_of_a_topic_that_was_created_again_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its offsets start again below those of earlier gaps."""
    query = query_without_spark(tmp_path, Fine())
    launch(query, None)
    for number, gap in enumerate(([100, 150], [3, 7])):
        source = json.dumps({"skipped": {"in": {"0": gap}}})
        query.control.action.publish(QueryBatch(number, source, {}, 0, BatchOutput()))
    assert 54 == query.book.skipped
    assert "again: offsets skipped (topic in, partition 0, first 3, after 7)" in caplog.messages


def test_ages_of_output_are_right_for_event_times_of_any_size(tmp_path: Path) -> None:
    """Milliseconds were expected, but the times are microseconds, or 1970: least, mean and greatest stay in order."""
    query = query_without_spark(tmp_path, Fine())
    for age_ms, time in ((-1_700_000_000_000_000, 1_795_000_000_000_000), (1_700_000_000_000, 7)):
        stamps = np.full(10_000, time, np.int64)
        texts = [b""] * 10_000
        batch = RecordBatch("out", 0, OrderKey.of_root(0, 10_000), stamps, texts, texts, kafka=True)
        output = BatchOutput({(0, "out"): [(0, 0, batch)]})
        least, mean, most = query.book.add(QueryBatch(0, "", {}, 0, output), OutputBatch(0, 1), 0).latency_ms or ()
        assert least == mean == most
        assert 0.9 < least / age_ms < 1.2


def test_the_log_names_a_batch_that_a_killed_process_has_begun(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its end is not in the checkpoint, so it runs again; a batch that is finished is not named."""
    caplog.set_level(logging.INFO, logger="kstreamnb.query")
    query = query_without_spark(tmp_path, Fine())
    for name in ("offsets/0", "commits/0", "offsets/1"):
        query.control.action.resume(query.control.files)
        query.control.files.write(name, b'v1\n{"offsets": {}, "clock": 5}')
    query.control.action.resume(query.control.files)
    effect = "effect it runs again with the same input"
    assert [f"again: unfinished batch (batch {number}, {effect})" for number in (0, 1)] == caplog.messages


class Slow(QuerySink):
    """Publishes a batch when a test permits it."""

    def __init__(self, log: list[str]) -> None:
        self.log, self.may, self.stopped = log, threading.Semaphore(0), threading.Event()
        self.error: Exception | None = None

    def publish(self, batch: QueryBatch) -> OutputBatch:
        """Wait for the permission."""
        self.may.acquire()
        if self.error is not None:
            raise self.error
        self.log.append(f"published {batch.number}")
        return OutputBatch(batch.number, 0)


class Commits:
    """Notes what the log of finished batches would."""

    def __init__(self, log: list[str]) -> None:
        self.log, self.held = log, -1

    def hold(self, batch: int) -> None:
        """Keep a batch back."""
        self.held = batch

    def release(self) -> None:
        """Note it."""
        self.log.append(f"finished {self.held}")


_made: list[tuple[Pipeline, Slow]] = []


@pytest.fixture(autouse=True)
def _pipelines_end() -> Iterator[None]:
    """Let the threads of all pipelines end, as those of a query do with its stream."""
    yield
    for pipeline, sink in _made:
        sink.may.release(10)
        pipeline._batches.put(None)
    _made.clear()


def _with_pipeline(action: BatchAction, sink: Slow) -> BatchAction:
    action.pipeline = Pipeline(Commits(sink.log), action.busy, action.publish_now, sink.stopped.set)
    _made.append((action.pipeline, sink))
    return action


def _pipelined(folder: Path, log: list[str]) -> tuple[BatchAction, Slow]:
    """The handler of a query whose batches are published beside its stream."""
    sink = Slow(log)
    query = query_without_spark(folder, sink)
    launch(query, None)
    return _with_pipeline(query.control.action, sink), sink


def _batch(number: int) -> QueryBatch:
    return QueryBatch(number, "", {"in": {0: 10 * number + 10}}, 0, BatchOutput())


def _apart(call: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread


def test_a_batch_is_published_while_the_next_is_computed(tmp_path: Path) -> None:
    """Its commit is noted after it is published, and before anybody sees that; the next waits for that, too."""
    log: list[str] = []
    action, sink = _pipelined(tmp_path, log)
    action.watchers.append(lambda figures: log.append(f"told of {figures.number}"))
    action.publish(_batch(0))
    assert (-1, []) == (action.last.number, log)  # Spark continues
    second = _apart(lambda: action.publish(_batch(1)))
    second.join(0.1)
    assert second.is_alive()
    sink.may.release()
    second.join(10)
    assert not second.is_alive()
    sink.may.release()
    assert action.pipeline is not None
    action.pipeline.end()
    assert 1 == action.last.number
    done = [line for line in log if not line.startswith("told")]
    assert ["published 0", "finished 0", "published 1", "finished 1"] == done
    assert log.index("finished 0") < log.index("told of 0")


def test_after_a_failure_beside_the_stream_nothing_is_published(tmp_path: Path) -> None:
    """The stream is stopped, and a batch that was computed meanwhile is refused for the same reason."""
    log: list[str] = []
    action, sink = _pipelined(tmp_path, log)
    sink.error = ks.errors.BrokerError("no broker answers")
    action.publish(_batch(0))
    sink.may.release(2)
    with pytest.raises(ks.errors.BrokerError, match="no broker answers"):
        action.publish(_batch(1))
    assert sink.stopped.wait(10)
    assert (sink.error, -1, []) == (action.lifecycle.error, action.last.number, log)


class Cut(Slow):
    """Publishes until it is closed, and then fails."""

    def close(self) -> None:
        """End the publication."""
        self.may.release()


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        (ks.errors.ApplicationStateError, "stopped"),
        (ks.errors.BrokerError, "stopped"),
        (ks.errors.FencedError, "failed"),
        (ks.errors.SinkError, "failed"),
    ],
)
def test_a_stop_that_does_not_wait_for_a_batch_is_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[ks.errors.EngineError], state: str
) -> None:
    """The batch runs again at the next start; other errors of the batch are those of the query."""
    monkeypatch.setattr("kstreamnb.spark.query.control._PUBLISH_S", 0.05)
    sink = Cut([])
    sink.error = kind("the batch was not published")
    query = query_without_spark(tmp_path, sink)
    launch(query, None)
    action = _with_pipeline(query.control.action, sink)
    action.publish(_batch(0))
    query.stop()
    assert sink.stopped.wait(10)
    assert (state, -1, []) == (query.status(lag=False).state, action.last.number, sink.log)
    assert (sink.error if state == "failed" else None) is query.exception()
    with pytest.raises(kind, match="was not published"):
        action.publish(_batch(1))


def test_no_batch_is_accepted_after_the_end_of_its_stream(tmp_path: Path) -> None:
    """Spark may still wait to hand one over when the stream is stopped."""
    log: list[str] = []
    action, sink = _pipelined(tmp_path, log)
    action.publish(_batch(0))
    assert action.pipeline is not None
    ending = _apart(action.pipeline.end)
    ending.join(0.1)
    assert ending.is_alive()  # it waits for the publication
    sink.may.release(2)
    ending.join(10)
    with pytest.raises(ks.errors.ApplicationStateError, match="the query has ended"):
        action.publish(_batch(1))
    assert 0 == action.last.number
    assert not action.busy.locked()


def test_a_record_that_came_alone_is_published_by_the_stream_itself(tmp_path: Path) -> None:
    """Nothing waits behind it, so Spark waits for it and notes it."""
    log: list[str] = []
    action, sink = _pipelined(tmp_path, log)
    sink.may.release(2)
    action.publish(QueryBatch(0, "", {"in": {0: 1}}, 0, BatchOutput()))
    action.publish(QueryBatch(1, "", {"in": {0: 2}}, 0, BatchOutput()))
    assert ["published 0", "published 1"] == log


def test_a_watcher_may_wait_for_the_end_of_all_publishing(tmp_path: Path) -> None:
    """As a check of all stores does, while the next batch waits for its turn; that one comes after the watcher."""
    log: list[str] = []
    action, sink = _pipelined(tmp_path, log)
    sink.may.release(2)
    waiting = threading.Event()

    def check(figures: BatchFigures) -> None:
        assert waiting.wait(10)
        with action.busy:
            log.append(f"checked {figures.number}")

    action.watchers.append(check)
    action.publish(_batch(0))
    second = _apart(lambda: action.publish(_batch(1)))
    second.join(0.1)
    waiting.set()
    second.join(10)
    assert not second.is_alive()
    assert action.pipeline is not None
    action.pipeline.end()
    assert ["published 0", "finished 0", "checked 0", "published 1", "finished 1"] == log[:5]


def test_the_thread_that_publishes_does_not_die_unseen() -> None:
    """An error that nobody expects ends the query, too."""
    errors = list[BaseException]()
    died = threading.Event()

    def note(error: BaseException) -> None:
        errors.append(error)
        died.set()

    def publish(batch: QueryBatch, done: Callable[[], None]) -> bool:
        raise RuntimeError(f"batch {batch.number}")

    pipeline = Pipeline(Commits([]), threading.Lock(), publish, lambda: None, note)
    pipeline.put(_batch(3))
    assert died.wait(10)
    assert ["batch 3"] == list(map(str, errors))
