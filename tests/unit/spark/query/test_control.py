"""The end of a stream, and its consequences."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError, Py4JNetworkError

import kstreamnb as ks
from kstreamnb.background import background, wait_until
from kstreamnb.kafka.output_batch import OutputBatch
from kstreamnb.kafka.storage.checkpoint_lock import in_use
from kstreamnb.spark.contracts import QueryBatch
from kstreamnb.spark.execution.batch_output import BatchOutput
from kstreamnb.spark.execution.failures import TOO_SLOW, TWO_WRITERS
from kstreamnb.spark.query.lifecycle import Actor, State
from kstreamnb.spark.query.pipeline import Pipeline
from kstreamnb.spark.query.query_handle import QueryHandle
from kstreamnb.spark.query.query_status import QueryStatus
from kstreamnb.spark.telemetry.metrics import BatchFigures, Metric
from kstreamnb.spark.telemetry.query_log import QueryLog
from kstreamnb.tools.parity import verify_state
from tests.unit.spark.query.streams import EndedStream, RunningSession, UnreachableSink, launch, query_without_spark


@pytest.mark.parametrize("reason", [TOO_SLOW, TWO_WRITERS])
def test_a_recovery_that_fails_is_the_error_of_the_query(tmp_path: Path, reason: str) -> None:
    """The reason has passed, so the query restarts without a caller: the query shows the error of that start."""
    query = query_without_spark(tmp_path)
    query.control.on_end(launch(query, reason))
    assert not query.is_active()
    assert "no broker answers" == str(query.exception())
    assert ("failed", "no broker answers") == (query.status(lag=False).state, query.status(lag=False).error)


def test_a_start_that_ends_with_a_foreign_error_logs_none_of_its_words(tmp_path: Path) -> None:
    """The words of a user's own sink may contain a password; the caller of the start gets them."""

    def refuse() -> None:
        raise ValueError("bad address: db://shop:s3cret@host")

    query = query_without_spark(tmp_path, UnreachableSink(refuse))
    with pytest.raises(ValueError, match="s3cret"):
        query.restart()
    assert "the start was interrupted: ValueError" == str(query.exception())


def test_automatic_restarts_are_counted_and_those_of_the_user_are_not(tmp_path: Path) -> None:
    """By the metric that an alert can watch."""
    query = query_without_spark(tmp_path)
    query.control.on_end(launch(query, TOO_SLOW))
    with pytest.raises(ks.errors.BrokerError):
        query.restart()
    assert [1.0] == [metric.value for metric in query.metrics() if metric.name == "restarts-total"]


def test_a_stream_that_spark_ended_with_an_error_fails_the_query(tmp_path: Path) -> None:
    """In Spark's words; the checkpoint is free again."""
    query = query_without_spark(tmp_path)
    handle = launch(query, "Job aborted")
    assert in_use(query.checkpoint)
    query.control.on_end(handle)
    assert "failed" == query.status(lag=False).state
    assert 'the query of "again" failed: Job aborted' == str(query.exception())
    assert not in_use(query.checkpoint)


@pytest.mark.parametrize("seen", ["the transaction has expired", None], ids=["by Spark", "by the pipeline"])
def test_a_batch_that_fails_before_its_start_has_returned_fails_the_query_in_its_own_words(
    tmp_path: Path, seen: str | None
) -> None:
    """In Spark's words the kind of the error is lost, and Spark learns of no failure of the pipeline."""

    def refuse() -> None:
        raise ks.errors.BrokerError("the transaction has expired")

    query = query_without_spark(tmp_path, PublishingSink(refuse))
    handle = launch(query, seen)
    query.control.lifecycle.state = State.STARTING
    with pytest.raises(ks.errors.BrokerError):
        query.control.action.publish(QueryBatch(0, "{}", {}, 0, BatchOutput()))
    query.control.lifecycle.state = State.LAUNCHED
    query.control.on_end(handle)
    assert isinstance(query.exception(), ks.errors.BrokerError)


def test_a_batch_of_an_earlier_start_is_refused(tmp_path: Path) -> None:
    """Spark calls its stream ended while the batch still waits for the watchers of the one before."""
    query = query_without_spark(tmp_path, PublishingSink())
    launch(query, None)
    action, batch = query.control.action, QueryBatch(0, "{}", {}, 0, BatchOutput())
    before = action.start
    action.resume(query.control.files)
    with pytest.raises(ks.errors.ApplicationStateError, match="the stream has ended"):
        action.publish(batch, before)
    action.publish(batch, action.start)
    assert ("running", None) == (query.status(lag=False).state, query.exception())


def test_a_watcher_that_never_returns_does_not_hide_the_failure_of_the_next_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its error is noted after a limited time, so that a restart policy can act."""
    monkeypatch.setattr("kstreamnb.spark.query.control._LATE_S", 0.2)
    query, returns = query_without_spark(tmp_path, PublishingSink()), threading.Event()
    query.watch(lambda _: returns.wait(60))
    launch(query, "executor lost")
    action = query.control.action
    background(lambda: action.publish(QueryBatch(0, "{}", {}, 0, BatchOutput())), "batch")
    assert wait_until(lambda: action.last.number == 0, 60)
    action.pipeline = Pipeline(Commits(), action.busy, action.publish_now, lambda: None)
    query.control._attend()
    try:
        with pytest.raises(ks.errors.SparkError, match="executor lost"):
            query.await_termination(60)
    finally:
        returns.set()


class Commits:
    """A log of batches that keeps none back."""

    def hold(self, batch: int) -> None:
        """Keep nothing back."""

    def release(self) -> None:
        """Note nothing."""


def test_a_failure_is_in_the_log_before_a_caller_gets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It may end the process, and with it the thread that writes the log."""
    failure, begun = QueryLog.failure, threading.Event()

    def slowly(log: QueryLog, error: ks.errors.KStreamError) -> None:
        begun.set()
        time.sleep(0.3)
        failure(log, error)

    monkeypatch.setattr(QueryLog, "failure", slowly)
    query = query_without_spark(tmp_path)
    handle = launch(query, "Job aborted")
    background(lambda: query.control.on_end(handle), "end")
    assert begun.wait(60)
    with pytest.raises(ks.errors.SparkError, match="Job aborted"):
        query.await_termination(60)
    assert [each.startswith("again: failed (error SparkError") for each in caplog.messages] == [True]


def test_the_end_of_all_input_is_no_failure(tmp_path: Path) -> None:
    """With available_now the stream ends without an error."""
    query = query_without_spark(tmp_path, trigger_ms=None)
    query.control.on_end(launch(query, None))
    assert ("stopped", None) == (query.status(lag=False).state, query.exception())


def test_a_stop_during_a_recovery_wins(tmp_path: Path) -> None:
    """The user stops the query during a restart: it stays stopped, and the failed start is not a failure."""
    query = query_without_spark(tmp_path)
    query.control.action.sink = UnreachableSink(on_open=query.stop)
    query.control.on_end(launch(query, TOO_SLOW))
    assert State.STOPPED is query.control.lifecycle.state
    assert query.exception() is None
    assert not query.control.start(Actor.COMPANION)


def test_a_stop_during_a_start_in_another_thread_waits_for_its_end(tmp_path: Path) -> None:
    """A deployment over the same checkpoint may follow at once."""
    query, begun = query_without_spark(tmp_path), threading.Event()

    def open_slowly() -> None:
        begun.set()
        assert wait_until(lambda: query.control.lifecycle.state is State.STOPPING, 60)
        time.sleep(0.5)

    query.control.action.sink = UnreachableSink(open_slowly)
    handle = launch(query, TOO_SLOW)
    background(lambda: query.control.on_end(handle), "end")
    assert begun.wait(60)
    query.stop()
    assert State.STOPPED is query.control.lifecycle.state
    assert query.exception() is None


def test_the_end_of_an_older_stream_changes_nothing(tmp_path: Path) -> None:
    """A restart has already launched another stream."""
    query = query_without_spark(tmp_path)
    older = launch(query, "Job aborted")
    query.control.action.note_failure(ks.errors.EngineError("first"), Actor.STREAM)
    newer = launch(query, None)
    query.control.on_end(older)
    assert ("starting", newer) == (query.status(lag=False).state, query.control.handle)


def test_before_its_first_batch_a_query_starts_and_has_no_lag_to_tell(tmp_path: Path) -> None:
    """The lag is unknown: neither 0 nor "running"; metrics have no lag."""
    query = query_without_spark(tmp_path)
    launch(query, None)
    status = query.status()
    assert ("starting", -1, -1) == (status.state, status.batch, status.lag)
    assert [] == [metric for metric in query.metrics() if "lag" in metric.name]
    assert {0.0} == {metric.value for metric in query.metrics() if metric.name == "running"}


def test_a_removed_checkpoint_forbids_the_next_batch(tmp_path: Path) -> None:
    """The error of a query whose folder was moved away while it runs."""
    query = query_without_spark(tmp_path)
    launch(query, None)
    assert query.control.lost() is None
    query.checkpoint.rename(tmp_path / "elsewhere")
    assert isinstance(query.control.lost(), ks.errors.CheckpointError)
    query.stop()
    assert query.control.lost() is None


@pytest.mark.parametrize("submitted", [True, False])
def test_a_query_says_who_stopped_its_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, submitted: bool
) -> None:
    """In a container, spark-submit's JVM alone gets the signal: it stops Spark, and Python is not asked."""
    monkeypatch.setattr(os, "environ", {"PYSPARK_GATEWAY_PORT": "5"} if submitted else {})
    query = query_without_spark(tmp_path)
    launch(query, None)
    monkeypatch.setattr(RunningSession, "isStopped", lambda session: True)
    error = query.control.lost()
    assert error is not None
    detail = "spark-submit stops its session when it receives SIGTERM" if submitted else None
    assert ('the Spark session of "again" was stopped', detail) == (error.message, error.detail)


def test_a_batch_in_progress_is_not_published_after_the_query_has_failed_without_its_checkpoint(tmp_path: Path) -> None:
    """A companion may find out first, while a batch is computed: at its new place the folder lacks that batch."""
    published: list[int] = []

    class Publishing(UnreachableSink):
        def publish(self, batch: QueryBatch) -> OutputBatch:
            published.append(batch.number)
            return super().publish(batch)

    query = query_without_spark(tmp_path, Publishing())
    launch(query, None)
    query.checkpoint.rename(tmp_path / "elsewhere")
    error = query.control.lost()
    assert error is not None
    query.control.action.note_failure(error, Actor.QUERY)
    with pytest.raises(ks.errors.CheckpointError, match="no longer exists"):
        query.control.action.publish(QueryBatch(1, "{}", {}, 0, BatchOutput()))
    assert [] == published


@pytest.mark.parametrize("times", [1, 3])
def test_stopping_twice_is_stopping(tmp_path: Path, times: int) -> None:
    """Also for a query that never ran."""
    query = query_without_spark(tmp_path)
    for _ in range(times):
        query.stop()
    assert "stopped" == query.status(lag=False).state


class RunningStream(EndedStream):
    """Spark's object for a stream that runs until it is stopped."""

    isActive = True

    def awaitTermination(self, timeout: float | None = None) -> None:
        """Its caller asks again."""

    def stop(self) -> None:
        """It has ended."""
        self.isActive = False


def test_a_companion_that_fails_ends_the_query_with_its_error(tmp_path: Path) -> None:
    """It watches the query's topics or restarts it: without it the query would seem to be guarded."""

    class Watcher:
        def __call__(self, lasts: Callable[[], bool]) -> None:
            raise OSError("too many open files")

    query = query_without_spark(tmp_path)
    stream: Any = RunningStream(None)
    launch(query, None).streaming = stream
    query.control.companions.append(Watcher())
    query.control._attend()
    end = time.monotonic() + 20
    while stream.isActive and time.monotonic() < end:
        time.sleep(0.01)
    assert not query.is_active()
    assert 'Watcher of "again" failed: too many open files' == str(query.exception())


class PublishingSink(UnreachableSink):
    """A sink that publishes."""

    def __init__(self, on_publish: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self.on_publish = on_publish

    def publish(self, batch: QueryBatch) -> OutputBatch:
        """Call the function."""
        self.on_publish()
        return OutputBatch(batch.number, 0)


def test_a_stop_that_is_interrupted_is_a_stop(tmp_path: Path) -> None:
    """With Ctrl-C while the sink closes: nobody waits for the query afterwards, and the user may stop it again."""
    interrupts = [KeyboardInterrupt()]

    class Interrupted(UnreachableSink):
        def close(self) -> None:
            if interrupts:
                raise interrupts.pop()

    query = query_without_spark(tmp_path, Interrupted())
    launch(query, None)
    with pytest.raises(KeyboardInterrupt):
        query.stop()
    assert query.await_termination(20)
    assert "stopped" == query.status(lag=False).state
    query.stop()
    assert not in_use(query.checkpoint)


def test_a_stop_that_is_interrupted_while_a_batch_is_published_ends_the_stream(tmp_path: Path) -> None:
    """With Ctrl-C before the batch is done: a query that shows as stopped must not publish the next batches."""

    class Interrupted(UnreachableSink):
        def close(self) -> None:
            raise KeyboardInterrupt

    query = query_without_spark(tmp_path, Interrupted())
    stream: Any = RunningStream(None)
    launch(query, None).streaming = stream
    with query.control.action.busy, pytest.raises(KeyboardInterrupt):
        query.stop()
    assert "stopped" == query.status(lag=False).state
    assert wait_until(lambda: not stream.isActive, 20)


@pytest.mark.parametrize("calls", ["watcher", "sink"])
def test_a_watcher_and_a_sink_may_stop_their_query(tmp_path: Path, calls: str) -> None:
    """Spark waits for them before the stream ends, so the stop does not wait for the stream."""
    returned, states = threading.Event(), list[State]()

    class StreamOfBatch(RunningStream):
        def stop(self) -> None:
            assert returned.wait(60)
            super().stop()

    def stop(*_: object) -> None:
        query.stop()
        states.append(query.control.lifecycle.state)

    query = query_without_spark(tmp_path, PublishingSink(stop) if calls == "sink" else PublishingSink())
    stream: Any = StreamOfBatch(None)
    launch(query, None).streaming = stream
    if calls == "watcher":
        query.watch(stop)
    query.control.action.publish(QueryBatch(0, "{}", {}, 0, BatchOutput()))
    assert [State.STOPPING] == states
    returned.set()
    assert query.await_termination(60)
    assert State.STOPPED is query.control.lifecycle.state


@pytest.mark.parametrize("calls", ["watcher", "sink"])
def test_what_waits_for_a_query_is_refused_within_its_batches(tmp_path: Path, calls: str) -> None:
    """The query would wait for the thread that waits for it; another thread may wait."""
    errors = list[str]()

    def wait(*_: object) -> None:
        assert query.await_termination(0) is False  # the thread of the batch is another one

    def call(*_: object) -> None:
        other = threading.Thread(target=wait)
        other.start()
        other.join()
        for waits in (query.restart, query.await_input, query.await_termination, query.hand_over, verify):
            with pytest.raises(ks.errors.ApplicationStateError) as raised:
                waits()
            errors.append(raised.value.message)

    def verify() -> object:
        return verify_state(query)

    query = query_without_spark(tmp_path, PublishingSink(call) if calls == "sink" else PublishingSink())
    stream: Any = RunningStream(None)
    launch(query, None).streaming = stream
    if calls == "watcher":
        query.watch(call)
    query.control.action.publish(QueryBatch(0, "{}", {}, 0, BatchOutput()))
    assert errors == [
        "restart() waits for the batch whose watcher or sink calls it",
        "await_input() waits for the batch whose watcher or sink calls it",
        "await_termination() waits for the batch whose watcher or sink calls it",
        'the query of "again" writes no changelogs, from which Java would restore',
        "verify_state() waits for the batch whose watcher or sink calls it",
    ]
    assert "running" == query.status(lag=False).state


class StreamOfDeadJvm(EndedStream):
    """Spark's object for a stream whose JVM is gone: no attribute answers."""

    def __getattribute__(self, name: str) -> object:
        raise Py4JNetworkError(f"Answer from Java side is empty: {name}")


class LateStream(RunningStream):
    """Spark's object for a stream that takes longer to stop than Spark waits."""

    def stop(self) -> None:
        """Raise Java's error, in the words of Py4J."""
        super().stop()
        raise Py4JLate()


class Py4JLate(Py4JJavaError):
    """An error of Java, without a JVM that would be asked for its text."""

    def __init__(self) -> None:
        pass

    def __str__(self) -> str:
        return "An error occurred while calling o7.stop.\n: TimeoutException: Stream failed to stop\n\tat a.B(C)\n"


class SessionOfDeadJvm:
    """Spark's session if its JVM does not answer any more."""

    @property
    def sparkContext(self) -> object:
        """Raise what Py4J raises if the port is closed."""
        raise ConnectionRefusedError("Connection refused")


class StreamOfDyingJvm(RunningStream):
    """Spark's object for a stream whose JVM ends right after the answer to `stop`."""

    def stop(self) -> None:
        """Raise an error of Java whose text cannot be asked for."""
        super().stop()
        raise Py4JUnreadable()


class Py4JUnreadable(Py4JLate):
    """An error of Java whose JVM has ended."""

    def __str__(self) -> str:
        raise ConnectionRefusedError("Connection refused")


class SlowStream(RunningStream):
    """Spark's object for a stream whose JVM takes longer to end than a stop waits."""

    def stop(self) -> None:
        """Return late."""
        super().stop()
        time.sleep(0.5)


@pytest.mark.parametrize("kind", [LateStream, StreamOfDyingJvm, SlowStream])
def test_a_stop_while_the_jvm_ends_warns_of_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, kind: type[RunningStream]
) -> None:
    """A signal for the whole group of processes also ends the JVM, at any moment of the stop."""
    monkeypatch.setattr("kstreamnb.spark.query.control._STOP_S", 0.1)
    query = query_without_spark(tmp_path)
    stream: Any = kind(None)
    launch(query, None).streaming = stream
    session: Any = SessionOfDeadJvm()
    query.control.spark = session
    query.stop()
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]


@pytest.mark.parametrize(
    ("kind", "logged"),
    [(LateStream, ["again: stops late (error TimeoutException: Stream failed to stop)"]), (None, [])],
)
def test_the_log_says_why_a_stream_stops_late(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: type[RunningStream] | None, logged: list[str]
) -> None:
    """In Java's words, and nothing of a JVM that is gone: then no stream writes any more."""
    query = query_without_spark(tmp_path)
    handle = launch(query, None)
    handle.streaming = (kind or StreamOfDeadJvm)(None)
    query.stop()
    assert logged == [message for message in caplog.messages if "stops late" in message]
    assert handle.gone == (kind is None)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ks.errors.JvmGoneError("Spark's JVM is gone"), nullcontext()),
        (ks.errors.ProcessingError("broken", node="map"), pytest.raises(ks.errors.ProcessingError)),
    ],
)
def test_spark_may_end_with_the_signal_that_ends_its_query(
    tmp_path: Path, error: ks.KStreamError, outcome: AbstractContextManager[object]
) -> None:
    """Service managers send it to all processes; an error of the application itself is raised nevertheless."""
    query = query_without_spark(tmp_path)
    launch(query, None).streaming = RunningStream(None)
    query.control.action.note_failure(error, Actor.STREAM)
    before = signal.getsignal(signal.SIGTERM)

    def end() -> None:
        while signal.getsignal(signal.SIGTERM) == before:  # until the query waits
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end, daemon=True).start()
    with outcome:
        assert query.await_termination(60)
    assert query.exception() is error


def test_a_query_is_displayed_after_its_jvm_has_ended(tmp_path: Path) -> None:
    """State, tasks, positions and the last error come from this process; text and HTML hold the same facts."""
    query = query_without_spark(tmp_path)
    query.control.handle = QueryHandle(StreamOfDeadJvm(None), launch(query, None).lock, lambda: None)  # type: ignore[arg-type]
    query.control.action.note_failure(ks.errors.JvmGoneError("Spark's JVM is gone"), Actor.STREAM)
    for shown in (query, query.status()):
        bundle = shown._repr_mimebundle_()
        for text in bundle.values():
            assert re.search("application .*again.*: failed, before its first batch", text)
            assert "in 0 records, 0.0/s; out 0 records, 0.0/s; lag unknown" in text
            assert re.search("last error: Spark.*s JVM is gone", text)
    assert re.search(r"\n0_0 +\| 0 +\| in-0 +\| +\| not run yet", str(query))


def test_a_status_shows_the_figures_of_each_task() -> None:
    """Times are UTC, sizes have units, and the rates are those of the whole query."""
    client = ("application-id", "shop")
    of_task = (client, ("task-id", "0_1"))
    metrics = (
        Metric("consumer-fetch-manager-metrics", "records-consumed-rate", (client,), 40.0),
        Metric("producer-metrics", "record-send-rate", (client,), 2000.04),
        Metric("consumer-fetch-manager-metrics", "records-consumed-total", (client,), 1200.0),
        Metric("stream-state-metrics", "state-bytes", of_task, 2500.0),
        Metric("stream-task-metrics", "dropped-records-total", of_task, 3.0),
        Metric("stream-task-metrics", "process-total", of_task, 1200.0),
        Metric("stream-task-metrics", "stream-time", of_task, 1_767_225_600_000.0),
    )
    last = BatchFigures(7, 0, 100, 2, 0, 0.25, 0.1, state_bytes=2500)
    status = QueryStatus("running", 7, 5, {}, application="shop", metrics=metrics, last=last)
    assert str(status).splitlines() == [
        'application "shop": running, after batch 7',
        "task | records | dropped | state  | stream time",
        "-----+---------+---------+--------+---------------------",
        "0_1  | 1,200   | 3       | 2.5 kB | 2026-01-01T00:00:00Z",
        "in 1,200 records, 40.0/s; out 0 records, 2,000/s; lag 5 records",
        "last batch: 100 records in, 2 out, 250 ms; state 2.5 kB",
    ]
