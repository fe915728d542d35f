"""A deployment as a Spark query: one source, one operator a level, one action a batch."""

from __future__ import annotations

import logging
import time
import weakref
from collections.abc import Callable
from copy import copy
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kstreamnb.background import clean_up, wait_until
from kstreamnb.errors import ApplicationStateError, KStreamError
from kstreamnb.spark.contracts import PREPARED, OffsetSource, QueryBatch, StreamSettings
from kstreamnb.spark.execution.batch_output import BatchOutput
from kstreamnb.spark.execution.failures import name_input
from kstreamnb.spark.execution.rows import ROW_SCHEMA, RowFunction
from kstreamnb.spark.execution.state_log import STATE
from kstreamnb.spark.execution.stateful_operator import StatefulOperator, stateless_level
from kstreamnb.spark.io.stream_source import QuerySourceReader, SourceSettings, source_class
from kstreamnb.spark.jvm.session import load_source, streaming_session
from kstreamnb.spark.jvm.session_patches import KnownSource
from kstreamnb.spark.jvm.versions import PLANS_BOUNDED_RUNS
from kstreamnb.spark.planning.deployment import Deployment
from kstreamnb.spark.query.batch_handler import BatchAction
from kstreamnb.spark.query.query_handle import release_stores
from kstreamnb.spark.state.checkpoint_recovery import entries_again, forget_later_batches

_PY4J_LOG = logging.getLogger("py4j.clientserver")
_OF_BATCH = "_kstreamnb_batch"
_STOP_MS = 4500  # stopping takes 5 s at most
_WATCHERS_S = 60.0


def start_stream(
    spark: SparkSession, source: OffsetSource, action: BatchAction, settings: StreamSettings, last: RowFunction | None
) -> StreamingQuery:
    """Start the query of a deployment; ``last`` is a stage that publishes on executors."""
    deployment = action.stores.deployment
    session = streaming_session(spark, local_files=settings.files.local)
    session.conf.set("spark.sql.shuffle.partitions", str(deployment.spark_partitions))
    session.conf.set("spark.sql.streaming.stopTimeout", str(_STOP_MS))
    session.conf.set("spark.kstreamnb.state", STATE)
    _PY4J_LOG.addFilter(_is_news)  # has no effect the second time
    name = f"kstreamnb-{deployment.key}"
    read_settings = SourceSettings(
        source,
        deployment.as_packed(),  # the process that plans batches needs none of the user's modules
        settings.max_records,
        settings.tick_ms,
        settings.readers,
        again=entries_again(settings.files),
        bounded=settings.trigger_ms is None,
        follows=settings.trigger_ms == 0,
        growing=not deployment.stateful,
        topics=deployment.application.inputs,
    )
    known = KnownSource(session, source_class(name, read_settings), QuerySourceReader(read_settings).read_pickled)
    frame = levels_of(load_source(known), deployment, one_stage=settings.readers == 1)
    if last is not None:
        frame = frame.repartition(deployment.spark_partitions, "g").mapInArrow(last, ROW_SCHEMA)
    writer = frame.writeStream.outputMode("append").foreachBatch(_on_batch(action, settings))
    writer = writer.option("checkpointLocation", settings.files.address).queryName(name)
    forget_later_batches(settings.files)  # an older deployment, fenced a moment ago, has written its last one by now
    try:
        if settings.trigger_ms is None and PLANS_BOUNDED_RUNS:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{settings.trigger_ms or 0} milliseconds").start()
    except KeyboardInterrupt:  # Spark starts the stream nevertheless
        clean_up(partial(_stop_started, spark, session))
        raise


def _stop_started(spark: SparkSession, session: SparkSession) -> None:
    """Stop the stream of a session, which has no other, when Spark has started it."""
    wait_until(lambda: session.streams.active, 60.0)
    for stream in session.streams.active:
        stream.stop()
        release_stores(spark, stream)


def _is_news(record: logging.LogRecord) -> bool:
    """Return False for the traceback of a failed batch: the query logs its error, or that it starts again."""
    return not (record.exc_info and hasattr(record.exc_info[1], _OF_BATCH))


def levels_of(frame: DataFrame, deployment: Deployment, *, one_stage: bool = False) -> DataFrame:
    """Build the levels of a deployment over rows of its source.

    ``one_stage``: with one Spark partition all levels run in one task, and no row goes through a shuffle.
    """
    one_stage = one_stage and deployment.spark_partitions == 1
    for level in deployment.levels:
        frame = frame.coalesce(1) if one_stage else frame
        if level.stateful:
            processor = StatefulOperator(deployment, level.number)
            frame = frame.groupBy("g").transformWithState(processor, ROW_SCHEMA, "append", "none")
            continue
        if level.number and not one_stage:
            frame = frame.repartition(deployment.spark_partitions, "g")
        frame = frame.mapInArrow(stateless_level(deployment, level.number), ROW_SCHEMA)
    return frame


def owners_of(deployment: Deployment) -> list[int]:
    """Return the application of every producer of rows: input partitions, then tasks, then replicas."""
    inputs = [application for application, _, _ in deployment.input_partitions]
    return [*inputs, *(task.application for task in deployment.tasks), *(r.application for r in deployment.replicas)]


def _on_batch(action: BatchAction, settings: StreamSettings) -> Callable[[DataFrame, int], None]:
    """Return the function that Spark calls with each batch: one collect, then the query's action."""
    deployment, files = action.stores.deployment, settings.files
    owners, application, start = owners_of(deployment), deployment.application, action.start
    known = weakref.ref(action)  # Spark keeps the callback until its JVM collects garbage, long after the query's end

    def act(frame: DataFrame, number: int) -> None:
        try:
            process(frame, number)
        except Exception as error:
            # Py4J and Spark log an error with its causes, which may quote records; the query keeps them.
            failure = copy(error) if isinstance(error, KStreamError) else error
            setattr(failure, _OF_BATCH, True)
            raise failure from None

    def process(frame: DataFrame, number: int) -> None:
        began, action = time.perf_counter(), known()
        if action is None:
            raise ApplicationStateError("the query has ended")
        entry = files.last_line(f"offsets/{number}")
        frame.sparkSession.sparkContext.setLocalProperty(PREPARED, action.prepare(number, entry))
        try:
            output = BatchOutput.of(frame.toArrow(), owners)
        except KStreamError as error:
            name_input(error, application.inner, application.external)
            action.await_watchers(_WATCHERS_S)  # of the batch before, which may be published beside this one
            action.failed(error)
            raise
        action.publish(QueryBatch.of(number, entry, output, time.perf_counter() - began), start)

    return act
