"""A deployed topology while it runs: what it is doing, what its stores hold, stop and start again."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from kstreamnb.errors import KStreamError
from kstreamnb.kafka.cut import Offsets, count_between
from kstreamnb.spark.failure import spark_failure
from kstreamnb.spark.feed import Feed
from kstreamnb.spark.metrics import Metric, MetricsBook, lag_between
from kstreamnb.spark.session import tuned
from kstreamnb.spark.store_view import StoreView, stores_at, stores_named
from kstreamnb.spark.stream import Batch, Sink, StreamSettings, start_stream
from kstreamnb.spark.worker import Bundle, empty_task, read

__all__ = ["Query", "QueryStatus", "read_states", "read_store"]

_STOP_S = 5.0


@dataclass(frozen=True)
class QueryStatus:
    """What a query is doing.

    ``state`` is "running", "stopped" or "failed"; ``batch`` the last finished batch, -1 before the first;
    ``lag`` the records that wait in the input topics; ``durations_ms`` are Spark's, of the last batch.
    """

    state: str
    batch: int
    lag: int
    positions: Offsets = field(repr=False)
    clock_ms: int = 0
    durations_ms: dict[str, int] = field(default_factory=dict)
    error: str | None = None


class Query:
    """A running topology; made by `deploy`.

    Attributes:
        application: the application's id.
        checkpoint: where state and positions are kept.
        last_error: what ended the query, in the kit's form, or None.
    """

    def __init__(
        self, spark: SparkSession, bundle: Bundle, feed: Feed, sink: Sink, settings: StreamSettings, application: str
    ) -> None:
        self.application, self.checkpoint = application, settings.checkpoint
        self.last_error: KStreamError | None = None
        self.book = MetricsBook(application)
        self.spark, self.bundle, self._feed, self._settings = spark, bundle, feed, settings
        self._sink, self._last = sink, Batch(-1, "", {}, 0, None)  # type: ignore[arg-type]
        self._busy = threading.Lock()
        self._views: dict[str, tuple[int, dict[int, tuple[int, Any]]]] = {}
        self._streaming: StreamingQuery | None = None

    def start(self) -> Query:
        """Start, or go on from the checkpoint."""
        self.last_error = None
        self._streaming = start_stream(self.spark, self.bundle, self._feed, self, self._settings)
        return self

    @property
    def kafka(self) -> bool:
        """Whether output leaves as Kafka's bytes."""
        return self._sink.kafka

    def publish(self, batch: Batch) -> None:
        """Called with each batch: hand it to the sink, and take note."""
        with self._busy:
            began = time.perf_counter()
            try:
                self._sink.publish(batch)
            except KStreamError as error:
                self.last_error = error
                raise
            self.book.add(batch, time.perf_counter() - began)
            if getattr(getattr(self._sink, "last", None), "suppressed", False):
                self.book.suppressed += 1
            else:
                self.book.published += batch.output.count()
            self._last = batch

    def failed(self, error: KStreamError) -> None:
        """Called with the failure of a task."""
        self.last_error = error

    def is_active(self) -> bool:
        """Whether the query is running."""
        return self._streaming is not None and self._streaming.isActive

    def exception(self) -> KStreamError | None:
        """What ended the query, None while it runs or when it was stopped."""
        if self._streaming is None or self._streaming.isActive:
            return None
        found = self._streaming.exception()
        if found is None:
            return None
        if self.last_error is None:
            self.last_error = spark_failure(f'the query of "{self.application}"', found)
        return self.last_error

    def await_termination(self, timeout_s: float | None = None) -> bool:
        """Wait for the end; says whether it has come. Raises what ended the query."""
        end = None if timeout_s is None else time.monotonic() + timeout_s
        while self.is_active() and (end is None or time.monotonic() < end):
            time.sleep(0.05)
        error = self.exception()
        if error is not None:
            raise error
        return not self.is_active()

    def await_input(self, timeout_s: float = 60.0) -> bool:
        """Wait until everything that is in the input topics now is processed. Raises what ended the query."""
        goal, end = self._feed.end(), time.monotonic() + timeout_s
        while time.monotonic() < end:
            if not count_between(self._last.positions, goal) and self._last.number >= 0:
                return True
            if not self.is_active():
                error = self.exception()
                if error is not None:
                    raise error
                return False
            time.sleep(0.02)
        return False

    def status(self) -> QueryStatus:
        """What the query is doing now."""
        error = self.exception()
        state = "running" if self.is_active() else "failed" if error is not None else "stopped"
        progress: Any = self._streaming.lastProgress if self._streaming is not None else None
        durations = dict(progress["durationMs"]) if progress is not None else {}
        lag = count_between(self._last.positions, self._feed.end()) if self._last.number >= 0 else 0
        text = None if error is None else str(error)
        return QueryStatus(state, self._last.number, lag, self._last.positions, self._last.clock_ms, durations, text)

    def metrics(self) -> list[Metric]:
        """Counts, rates, latencies and lag under the names of Kafka Streams."""
        return self.book.all(lag_between(self._last.positions, self._feed.end()) if self._last.number >= 0 else {})

    def store(self, name: str) -> StoreView:
        """A store as of the last finished batch, read from the checkpoint; works while the query is down, too."""
        end = time.monotonic() + _STOP_S
        while self.is_active() and last_batch(self.checkpoint) < self._last.number and time.monotonic() < end:
            time.sleep(0.02)
        return read_store(self.spark, self.bundle, self.checkpoint, name, self._views)

    def stop(self) -> None:
        """Stop after what is under way; the checkpoint stays."""
        if self._streaming is not None:
            self._streaming.stop()
        if self._busy.acquire(timeout=_STOP_S):  # a batch that is being published comes to its end
            self._busy.release()
        close: Callable[[], None] | None = getattr(getattr(self._sink, "publisher", None), "close", None)
        if close is not None:
            close()

    def restart(self) -> Query:
        """Stop, and go on from the checkpoint."""
        self.stop()
        publisher = getattr(self._sink, "publisher", None)
        if publisher is not None:
            publisher.open()
        return self.start()

    def __repr__(self) -> str:
        status = self.status()
        return f"<Query of {self.application}: {status.state}, batch {status.batch}, lag {status.lag:,}>"


def last_batch(checkpoint: Path) -> int:
    """The last batch that a checkpoint has committed, -1 before the first."""
    return max([int(path.name) for path in (checkpoint / "commits").glob("*") if path.name.isdigit()], default=-1)


def read_states(query: Query) -> dict[str, list[bytes]]:
    """All deltas of every task, by the task's name, in their order: the whole state of a query, for checks."""
    deployment = read(query.bundle)
    stateful = [level.number for level in deployment.levels if level.stateful]
    found: dict[str, list[bytes]] = {}
    for at, level in enumerate(stateful):
        names = {group: placed.name for group, placed in deployment.at_group(level).items()}
        frame = _log_frame(query.spark, query.checkpoint, len(stateful) - 1 - at, last_batch(query.checkpoint))
        for row in sorted(frame.collect(), key=lambda row: (row["g"], row["seq"])):
            delta, _, _, part = pickle.loads(bytes(row["e"]))
            found.setdefault(names[row["g"]], []).extend(each for each in (part, delta) if each is not None)
    return found


def _log_frame(spark: SparkSession, checkpoint: Path, operator: int, batch: int) -> DataFrame:
    """The entries of all state logs of one operator: group, number, entry."""
    reader = tuned(spark).read.format("statestore")
    options = {"stateVarName": "log", "operatorId": str(operator), "batchId": str(batch)}
    return (
        reader.options(**options)
        .load(str(checkpoint))
        .select(
            F.col("key.g").alias("g"), F.col("user_map_key.seq").alias("seq"), F.col("user_map_value.entry").alias("e")
        )
    )


def read_store(
    spark: SparkSession,
    bundle: Bundle,
    checkpoint: Path,
    name: str,
    known: dict[str, tuple[int, dict[int, tuple[int, Any]]]] | None = None,
) -> StoreView:
    """A store from a checkpoint; ``known`` keeps what was read before, so that only later entries are read again."""
    deployment = read(bundle)
    placed = stores_at(deployment, name)
    operator = [level.number for level in deployment.levels if level.stateful].index(placed[0].level)
    stateful = sum(level.stateful for level in deployment.levels)
    batch, held = last_batch(checkpoint), (known or {}).get(name, (-1, {}))[1]
    if batch < 0:
        return StoreView(name, [s for task in placed for s in stores_named(empty_task(bundle, task), name)], batch=-1)
    groups = {task.group: task for task in placed}
    frame = _log_frame(spark, checkpoint, stateful - 1 - operator, batch).where(F.col("g").isin(list(groups)))
    for group, (seq, _) in held.items():
        frame = frame.where((F.col("g") != group) | (F.col("seq") > seq))
    tasks = {group: held.get(group) or (0, empty_task(bundle, task)) for group, task in groups.items()}
    for row in sorted(frame.collect(), key=lambda row: (row["g"], row["seq"])):
        _, task = tasks[row["g"]]
        delta, _, _, part = pickle.loads(bytes(row["e"]))
        if part is not None:
            task.apply_delta(part)
        task.apply_delta(delta)
        tasks[row["g"]] = (row["seq"], task)
    if known is not None:
        known[name] = (batch, tasks)
    parts = [store for task in placed for store in stores_named(tasks[task.group][1], name)]
    return StoreView(name, parts, batch=batch)
