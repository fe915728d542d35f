"""Publishes a batch while Spark computes the next one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Protocol

from py4j.protocol import Py4JError

from kstreamnb.background import background
from kstreamnb.errors import ApplicationStateError
from kstreamnb.spark.contracts import QueryBatch
from kstreamnb.spark.execution.failures import spark_failure


class CommitLog(Protocol):
    """Spark's log of finished batches, in which a batch can be kept back."""

    def hold(self, batch: int) -> None:
        """Keep a batch back; called before Spark notes it."""

    def release(self) -> None:
        """Note the batch that was kept back."""


class Pipeline:
    """The thread that publishes the batches of one stream, one at a time.

    Spark notes a batch as finished once it is published, so a start after a crash runs it again otherwise. One thread
    publishes all of them, because a connection to the JVM belongs to a thread.

    Args:
        commits: the stream's log of finished batches.
        busy: held from `put` to the end of the publication.
        publish: publishes a batch, calls its second argument and releases ``busy``; returns whether it succeeded.
        stop: stops the stream after a failure.
        died: called with an unexpected error.
    """

    def __init__(
        self,
        commits: CommitLog,
        busy: threading.Lock,
        publish: Callable[[QueryBatch, Callable[[], None]], bool],
        stop: Callable[[], object],
        died: Callable[[BaseException], None] | None = None,
    ) -> None:
        self._commits, self._busy, self._publish, self._stop = commits, busy, publish, stop
        self._batches = SimpleQueue[QueryBatch | None]()
        self._ended = False
        background(self._run, "kstreamnb-publish", died=died)

    def put(self, batch: QueryBatch) -> None:
        """Hand a batch over; the caller holds ``busy``."""
        if self._ended:
            raise ApplicationStateError("the query has ended")
        self._commits.hold(batch.number)
        self._batches.put(batch)

    def end(self) -> None:
        """Wait for the publication in progress; no batch is accepted after it."""
        with self._busy:
            self._ended = True
            self._batches.put(None)

    def _run(self) -> None:
        while (batch := self._batches.get()) is not None:
            if not self._publish(batch, self._note):
                self._stop()
            del batch  # it has the whole output

    def _note(self) -> None:
        try:
            self._commits.release()
        except (Py4JError, OSError) as error:
            raise spark_failure("noting a published batch", error) from error
