"""A streaming query of Spark's as a handle that outlives its JVM."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["QueryHandle"]

_NO_ANSWER = Py4JError, OSError


class QueryHandle:
    """Answers what Spark says of a query; once its JVM is gone it is not active, and ``gone`` is true.

    Nothing here raises errors of Py4J. ``streaming`` is Spark's own handle.
    """

    def __init__(self, streaming: StreamingQuery) -> None:
        self.streaming = streaming
        self.gone = False

    def active(self) -> bool:
        """Whether the query runs."""
        try:
            return self.streaming.isActive
        except _NO_ANSWER:
            self.gone = True
            return False

    def exception(self) -> StreamingQueryException | None:
        """What ended it, in Spark's words."""
        try:
            return self.streaming.exception()
        except _NO_ANSWER:
            self.gone = True
            return None

    def begins(self) -> bool:
        """Whether it has not come to its first batch yet."""
        with suppress(*_NO_ANSWER):
            return str(self.streaming.status["message"]).startswith("Initializing")
        return False

    def durations_ms(self) -> dict[str, int]:
        """How long the parts of the last batch took."""
        with suppress(*_NO_ANSWER):
            progress: Any = self.streaming.lastProgress
            return dict(progress["durationMs"]) if progress is not None else {}
        return {}

    def await_end(self) -> None:
        """Come back when it has ended, whatever the reason."""
        with suppress(PySparkException, *_NO_ANSWER):
            self.streaming.awaitTermination()

    def stop(self) -> str | None:
        """Stop it; gives the reason where it takes longer than Spark waits, or the JVM is gone."""
        try:
            self.streaming.stop()
        except (PySparkException, *_NO_ANSWER) as error:
            return str(error).partition("\n")[0]
        return None
