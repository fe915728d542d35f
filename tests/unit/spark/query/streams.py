"""Queries without Spark: a real `Query` whose stream has ended as Spark's streams end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import kstreamnb as ks
from kstreamnb.errors import BrokerError
from kstreamnb.kafka.storage.checkpoint_files import LocalFiles
from kstreamnb.kafka.storage.checkpoint_lock import SharedLock
from kstreamnb.runtime.context.config import Config
from kstreamnb.spark.contracts import QuerySink, StreamSettings
from kstreamnb.spark.planning.placement import plan_application, plan_deployment
from kstreamnb.spark.query.control import QueryControl
from kstreamnb.spark.query.lifecycle import Actor, LifecycleEvent
from kstreamnb.spark.query.query import Query
from kstreamnb.spark.query.query_handle import QueryHandle
from tests.spark.file_source import FileOffsetSource


class EndedStream:
    """Spark's object for a stream that has ended."""

    isActive = False
    lastProgress = None
    status: ClassVar = {"message": "Processing new data"}

    def __init__(self, error: str | None) -> None:
        self.error = error

    def exception(self) -> Exception | None:
        """Raise the error, in Spark's words."""
        return None if self.error is None else RuntimeError(self.error)

    def stop(self) -> None:
        """It has ended."""


class RunningSession:
    """Spark's session, of which only this is asked."""

    master = "local[2]"

    @property
    def sparkContext(self) -> RunningSession:
        """Itself."""
        return self

    _jsc = sparkContext

    def sc(self) -> RunningSession:
        """Return itself."""
        return self

    def isStopped(self) -> bool:
        """It runs."""
        return False


class UnreachableSink(QuerySink):
    """A sink that cannot be opened."""

    def __init__(self, on_open: Callable[[], None] = lambda: None) -> None:
        self.on_open = on_open

    def open(self) -> None:
        """Refuse."""
        self.on_open()
        raise BrokerError("no broker answers")


def query_without_spark(folder: Path, sink: QuerySink | None = None, *, trigger_ms: int | None = 0) -> Query:
    """A query that was never started."""
    builder = ks.StreamsBuilder("again")
    builder.stream("in").to("out")
    deployment = plan_deployment("again", [plan_application(builder.build(), Config(), {"in": 1}, direct=True)], 1)
    source = FileOffsetSource.write(folder / "source.pickle", [])
    session: Any = RunningSession()
    settings = StreamSettings(LocalFiles(folder / "checkpoint"), trigger_ms)
    return Query(QueryControl(session, deployment, source, sink or UnreachableSink(), settings))


def launch(query: Query, error: str | None) -> QueryHandle:
    """Put a query into the state after the launch of a stream that has already ended."""
    control = query.control
    (query.checkpoint / "metadata").parent.mkdir(exist_ok=True)
    (query.checkpoint / "metadata").touch()
    stream: Any = EndedStream(error)
    control.lifecycle.apply(LifecycleEvent.START, Actor.USER)
    control.handle = QueryHandle(stream, SharedLock(query.checkpoint), lambda: None)
    control.lifecycle.apply(LifecycleEvent.LAUNCH, Actor.QUERY)
    return control.handle
