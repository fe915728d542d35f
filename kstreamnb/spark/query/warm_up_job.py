"""The job that warms a session up: a batch with a shuffle, and with state in Python.

Spark loads and runs its classes for such a batch once, and starts the Python processes. The first query gets these
processes; they have imported this module, and with it what the workers of every query import.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pyspark import SparkContext
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from kstreamnb.spark.execution.state_log import KEY_SCHEMA, LOG_SCHEMA
from kstreamnb.spark.execution.stateful_operator import StatefulOperator
from kstreamnb.spark.io.stream_source import QuerySourceReader

IMPORTED = (QuerySourceReader, StatefulOperator)
"""The workers of queries import these, and whatever they need."""


def run_warm_up(session: SparkSession, wanted: Callable[[], bool]) -> None:
    """Run the steps of the job while it is wanted.

    Args:
        session: a session that nothing else uses.
        wanted: asked before each step.
    """
    session.conf.set("spark.sql.shuffle.partitions", "2")
    session.streams.active  # noqa: B018 - before 4.3, Spark finds no state unless something has asked for streams
    frame = session.range(0, 2, 1, 2)
    with SparkContext._lock:  # noqa: SLF001 - without a context, because the session was stopped, this step would start one
        if SparkContext._active_spark_context is not session.sparkContext or not wanted():  # noqa: SLF001
            return
        frame = frame.groupBy("id").transformWithState(_Processor(), "id bigint", "append", "none")
    if wanted():
        frame.toArrow()


class _Processor(StatefulProcessor):
    """Writes state of the form that a query's has."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._log = handle.getMapState("log", KEY_SCHEMA, LOG_SCHEMA)

    def handleInputRows(self, key: tuple[int], rows: Iterator[Row], timerValues: object) -> Iterator[Row]:
        if not self._log.containsKey((0,)):
            self._log.updateValue((0,), ("", b""))
        yield from rows

    def close(self) -> None:
        """Do nothing."""
