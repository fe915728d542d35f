"""Spark's handle of a streaming query, usable after its JVM has ended."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kstreamnb.background import wait_until
from kstreamnb.kafka.storage.checkpoint_files import Presence
from kstreamnb.spark.jvm.session import close_stores
from kstreamnb.spark.jvm.versions import PLANS_BOUNDED_RUNS

T = TypeVar("T")
_NO_ANSWER = Py4JError, OSError
_TASKS_S = 30.0
_LOOK_S = 0.1


class QueryHandle:
    """The stream of one start of a query; without its JVM it is not active. No method raises Py4J's errors.

    ``ended`` is called at its end, maybe twice, before the query's state changes. A ``bounded`` stream ends when
    it has no more input; Spark 4.1 has to be asked for that.

    Attributes:
        streaming: Spark's own handle.
        lock: marks the checkpoint as in use.
        gone: the JVM did not answer.
    """

    def __init__(
        self, streaming: StreamingQuery, lock: Presence, ended: Callable[[], object], *, bounded: bool = False
    ) -> None:
        self.streaming, self.lock, self._ended = streaming, lock, ended
        self._ends_itself = not bounded or PLANS_BOUNDED_RUNS
        self.gone = self._has_waited = False

    def active(self) -> bool:
        """Return whether the stream runs."""
        return bool(self._answer(lambda: self.streaming.isActive))

    def exception(self) -> StreamingQueryException | None:
        """Return the error that ended the stream, in Spark's words."""
        return self._answer(self.streaming.exception)

    def _answer(self, question: Callable[[], T]) -> T | None:
        """Return the JVM's answer, None if it is gone."""
        try:
            return question()
        except _NO_ANSWER:
            self.gone = True
            return None

    def idle(self) -> bool:
        """Return whether the stream waits for records or for its next trigger."""
        with suppress(*_NO_ANSWER):
            status = self.streaming.status
            waits, asks = (str(status["message"]).startswith(word) for word in ("Waiting", "Getting offsets"))
            self._has_waited |= waits  # after a start Spark asks for offsets, too, but then records may exist
            return waits or (asks and self._has_waited and not status["isDataAvailable"])
        return False

    def durations_ms(self) -> dict[str, int]:
        """Return the durations of the parts of the last batch."""
        return dict(self._progress().get("durationMs", {}))

    def state_store_figures(self) -> dict[str, int]:
        """Return what Spark's state stores report of the last batch, all levels together."""
        operators = self._progress().get("stateOperators", ())
        return dict(sum((Counter(each["customMetrics"]) for each in operators), Counter()))

    def _progress(self) -> Mapping[str, Any]:
        with suppress(*_NO_ANSWER):
            return self.streaming.lastProgress or {}
        return {}

    def await_end(self) -> None:
        """Wait until the stream has ended, for whatever reason."""
        while self.active():
            with suppress(PySparkException, *_NO_ANSWER):
                self.streaming.awaitTermination(None if self._ends_itself else _LOOK_S)
                if not self._ends_itself and self._is_exhausted():
                    self.streaming.stop()
            time.sleep(0.01)  # no busy loop if Spark does not wait
        with suppress(PySparkException, *_NO_ANSWER):
            self._ended()

    def _is_exhausted(self) -> bool:
        """Return whether the source had nothing when it was last asked; Spark says that it waits after a batch, too."""
        status = self.streaming.status
        return str(status["message"]).startswith("Waiting") and not status["isDataAvailable"]

    def stop(self) -> str | None:
        """Stop the stream; returns the reason in Spark's words if that takes longer than Spark waits."""
        try:
            try:
                self.streaming.stop()
                self._ended()
            except (PySparkException, Py4JJavaError) as error:
                # Py4J asks the JVM, which may have ended by now, for the text. Its first line is about the call.
                return str(error).rpartition("\n: ")[2].partition("\n")[0]
        except _NO_ANSWER:
            self.gone = True
        return None


def release_stores(spark: SparkSession, stream: StreamingQuery) -> None:
    """Wait for the tasks of a stream that has ended, which may still write its state, and close its stores.

    Spark does not wait for them, and lets a Python worker continue for 2 s. Stores in use are left to Spark.
    """
    if wait_until(lambda: not _has_tasks(spark, stream.runId), _TASKS_S, pause_s=0.01):
        close_stores(spark, stream)


def _has_tasks(spark: SparkSession, run: str) -> bool:
    try:
        tracker = spark.sparkContext.statusTracker()
    except AttributeError:  # the session was stopped in this process, and its tasks with it
        return False
    # Hundreds of jobs, which pyspark would fetch one by one.
    last = spark._jvm.java.util.Arrays.stream(tracker._jtracker.getJobIdsForGroup(run)).max()  # noqa: SLF001
    job = tracker.getJobInfo(last.getAsInt()) if last.isPresent() else None
    stages = map(tracker.getStageInfo, () if job is None else job.stageIds)
    return any(stage is not None and stage.numActiveTasks for stage in stages)
