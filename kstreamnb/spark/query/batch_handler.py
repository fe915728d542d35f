"""What a query does with each batch: publish it, take note of it, tell whoever watches."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

from kstreamnb.errors import ApplicationStateError, KStreamError, SinkError
from kstreamnb.spark.contracts import Action, QueryBatch, QuerySink, from_json
from kstreamnb.spark.execution.batch_output import BatchOutput
from kstreamnb.spark.state.checkpoint_reader import last_batch
from kstreamnb.spark.state.live_stores import LiveStores
from kstreamnb.spark.telemetry.metrics import BatchFigures, MetricsBook
from kstreamnb.spark.telemetry.query_log import QueryLog

__all__ = ["BatchAction", "Relay", "Watcher"]

Watcher = Callable[[BatchFigures], object]


class Relay:
    """What Spark is given of a query's action: it keeps that until its JVM collects garbage, the query ends before."""

    def __init__(self, action: Action) -> None:
        self._action: Action | None = action

    def publish(self, batch: QueryBatch) -> None:
        """Pass one batch on."""
        self._there().publish(batch)

    def failed(self, error: KStreamError) -> None:
        """Pass a failure on."""
        self._there().failed(error)

    def let_go(self) -> None:
        """The query has ended: its clients and stores are not kept for what Spark keeps."""
        self._action = None

    def _there(self) -> Action:
        if self._action is None:
            raise ApplicationStateError("the query has ended")
        return self._action


class BatchAction:
    """Hands batches to the sink, one at a time, and keeps the figures.

    Attributes:
        last: the last finished batch, without its output; number -1 before the first.
        error: what ended the query, None while all is well.
        before: called before a batch is published; what it raises forbids that.
    """

    def __init__(self, sink: QuerySink, stores: LiveStores, journal: QueryLog) -> None:
        self.sink, self.stores, self.journal = sink, stores, journal
        self.book = MetricsBook(journal.application)
        self.last = QueryBatch(-1, "", {}, 0, BatchOutput())
        self.error: KStreamError | None = None
        self.watchers: list[Watcher] = []
        self.busy = threading.Lock()
        self.before: Callable[[], None] = lambda: None

    def resume(self, checkpoint: Path) -> None:
        """Called before a start: the last batch is the one that the checkpoint has committed last."""
        number = last_batch(checkpoint)
        if number < 0:
            return
        try:
            entry = (checkpoint / "offsets" / str(number)).read_text().splitlines()[-1]
            end = json.loads(entry)
            self.last = QueryBatch(number, entry, from_json(end["offsets"]), int(end["clock"]), BatchOutput())
        except (OSError, ValueError, LookupError) as error:  # it is damaged: Spark says so, or repairs it
            self.journal.warn("checkpoint unread", batch=number, error=str(error))

    def publish(self, batch: QueryBatch) -> None:
        """Called with each batch, in Spark's thread."""
        with self.busy:
            began = time.perf_counter()
            try:
                self.before()
                done = self.sink.publish(batch)
            except KStreamError as error:
                self.failed(error)
                raise
            except Exception as error:  # a user's function, or a database: its own error is the cause
                self.failed(self._of_sink(error, batch.number))
                raise
            figures = self.book.add(batch, done, time.perf_counter() - began)
            self.stores.take(batch.number, batch.output.deltas)
            self.last = QueryBatch(batch.number, batch.source, batch.positions, batch.clock_ms, BatchOutput())
        self.journal.batch(figures)
        if done.differs:
            self.journal.warn("replay differs", batch=batch.number, hint="the topology is not deterministic")
        for watcher in list(self.watchers):
            try:
                watcher(figures)
            except Exception as error:  # who watches must not end the query; the log has it
                self.journal.warn("watcher failed", error=f"{type(error).__name__}: {error}")

    def _of_sink(self, cause: Exception, batch: int) -> SinkError:
        error = SinkError(
            f'the sink of "{self.journal.application}" failed with {type(cause).__name__}: {cause}',
            detail=f"it was given batch {batch}",
            hint="mend it; after query.restart(), or another deployment, it is given that batch again",
        )
        error.__cause__ = cause
        return error

    def failed(self, error: KStreamError) -> None:
        """Called with what ends the query; the first failure is the one that counts."""
        if self.error is None:
            self.error = error
            self.journal.failure(error)
