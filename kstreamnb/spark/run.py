"""`run`: a topology over static DataFrames, through the same tasks as a deployment.

Spark brings the rows to their tasks, packed by the thousand; each task runs over its stream once, and sub-topologies
are chained through shuffles of batches. Nothing is written except the result.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from functools import reduce
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from kstreamnb.core.arguments import check_arguments
from kstreamnb.core.progress import under_way
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.time import instant_ms
from kstreamnb.errors import ConfigError, TopologyError, expect_known
from kstreamnb.frame_cells import warn_of_cut, warn_of_unit
from kstreamnb.kafka.java import refuse_windows
from kstreamnb.runtime.context.config import Config
from kstreamnb.runtime.context.partition_counts import resolve_partitions
from kstreamnb.spark.execution.batch_operator import (
    BATCH_SCHEMA,
    BatchPlan,
    first_level,
    next_level,
    packed_rows,
    record_batch,
)
from kstreamnb.spark.execution.event_times import extracted_topics
from kstreamnb.spark.execution.failures import raise_first, spark_failure
from kstreamnb.spark.execution.frame_rows import by_partition, in_order
from kstreamnb.spark.execution.record_batch import ORDER, pack
from kstreamnb.spark.execution.rows import FAILURE, REPORT
from kstreamnb.spark.io.dataframe_input import CUT, FIRST, LAST, frame_of_records, uniform
from kstreamnb.spark.jvm.session import is_connect, run_session, spark_session
from kstreamnb.spark.planning.deployment import ApplicationPlan, Deployment
from kstreamnb.spark.planning.deployment_plan import warn_of_uneven_stores
from kstreamnb.spark.planning.output_topics import at_source, reader_serdes
from kstreamnb.spark.planning.placement import plan_application, plan_deployment
from kstreamnb.spark.planning.preflight import refuse_what_cannot_run
from kstreamnb.spark.run_result import RunResult
from kstreamnb.topology.nodes import grouped
from kstreamnb.topology.topology import Topology

_runs = itertools.count()


def run(
    topology: Topology,
    *,
    spark: SparkSession | None = None,
    inputs: Mapping[str, Any] | Iterable[TopicRecord],
    config: Config | Mapping[str, Any] | None = None,
    partitions: Mapping[str, int] | int = 1,
    wall_clock: object = 0,
    spark_partitions: int | None = None,
    keep_stores: bool = True,
) -> RunResult:
    """Run a topology over all records of some topics, and return its output.

    While a task runs, it holds rows that overlap in time in memory: only a few if a frame is sorted by time.

    Args:
        topology: the topology, from ``builder.build()``.
        spark: the session, also one of Spark Connect; without one, `spark_session` starts one. Default: None.
        inputs: by topic, a Spark or pandas DataFrame with columns ``key, value, timestamp``, or a `FrameInput` that
            names the columns; or records, such as a `Sample`.
        config: as for the driver. Default: `Config()`.
        partitions: partitions of topics by name, or one number for all. They decide which records share a task, as in
            Kafka; one partition is one task on one core. Default: 1.
        wall_clock: the constant wall-clock time: ms, ISO text or an aware datetime. Default: 0, the epoch.
        spark_partitions: number of Spark tasks that share the work. Default: None, twice the number of cores.
        keep_stores: include the stores in the result. Default: True.

    Raises:
        ConfigError: an input is missing or unknown.
        TopologyError: the topology needs features that a run over static data lacks.
        ProcessingError: a function of the topology failed; its own exception is the cause.

    Example:
        >>> import pandas
        >>> from kstreamnb import StreamsBuilder
        >>> builder = StreamsBuilder("totals")
        >>> builder.stream("sales", value_serde="long").group_by_key().reduce(int.__add__).to_stream().to("totals")
        >>> sales = pandas.DataFrame({"key": ["a", "b", "a"], "value": [1, 5, 2], "timestamp": [0, 1, 2]})
        >>> result = run(builder.build(), inputs={"sales": sales})
        >>> [(record.key, record.value) for record in result.records("totals")[0]]
        [('a', 1), ('b', 5), ('a', 3)]
    """
    refuse_windows("Spark")
    check_arguments(run, locals() | {"spark": None if is_connect(spark) else spark})
    settings = Config.of(config)
    given, count = resolve_partitions(topology, settings, partitions)
    spark = spark or spark_session()
    session = run_session(spark)
    application = plan_application(topology, settings, given, direct=True, default_partitions=count, split=None)
    _check(application)
    slots = spark_partitions or 2 * _slots(spark)
    deployment = plan_deployment(f"run{next(_runs)}", [application], slots)
    cuts: list[tuple[str, Observation]] = []
    frames, arrival = _frames(session, application, inputs, cuts)
    # Only the workers can extract timestamps: they get each partition in its own order, and merge partitions then.
    arrival = arrival or bool(extracted_topics(application))
    missing = [topic for topic in application.inputs if topic not in frames]
    if missing:
        names = ", ".join(sorted(frames)) or "none"
        raise ConfigError(f'no input was given for topic "{missing[0]}"', detail=f"inputs were given for {names}")
    content = _global_batches(deployment, frames)
    tables = SimpleNamespace(value=content) if is_connect(spark) else spark.sparkContext.broadcast(content)
    plan = BatchPlan(deployment, tables, instant_ms(wall_clock), arrival, keep_stores)
    result = _execute(_levels(frames, plan), spark, deployment)
    for name, seen in cuts:
        if seen.get.get(CUT):
            warn_of_cut(name)
        if seen.get.get(FIRST) is not None:
            warn_of_unit(seen.get[FIRST], seen.get[LAST], name, example=isinstance(inputs, Mapping))
    return result


def _check(application: ApplicationPlan) -> None:
    refuse_what_cannot_run(application)
    warn_of_uneven_stores(application)
    written = {topic for topic in application.looped if topic in application.global_topics}
    if written:
        fact = f'topic "{min(written)}" feeds a global table and is written by the same topology'
        detail = "with static data, a global table is complete before the first record is processed"
        hint = "run it in the driver, or deploy it to Kafka, where the table follows with the next batch"
        raise TopologyError(fact, detail=detail, hint=hint)


def _frames(
    session: SparkSession, application: ApplicationPlan, inputs: Any, cuts: list[tuple[str, Observation]]
) -> tuple[dict[str, DataFrame], bool]:
    """Return uniform frames by topic, and whether any of them defines an order of arrival."""
    wanted = {*application.inputs}
    is_frames = isinstance(inputs, Mapping)
    if not is_frames:
        inputs = {**{topic: [] for topic in wanted}, **grouped(inputs, attrgetter("topic"))}
    expect_known("input topic", inputs, sorted(wanted), error=ConfigError)
    frames: dict[str, DataFrame] = {}
    for topic, given in inputs.items():
        serdes, count = reader_serdes(application.plan, topic), application.partitions.get(topic, 1)
        with at_source(application.plan, topic):
            if not is_frames:
                given = frame_of_records(session, given, serdes)
            frames[topic] = uniform(session, topic, given, serdes=serdes, partitions=count, cuts=cuts)
    return frames, any("o0" in frames[topic].columns for topic in application.external if topic in frames)


def _levels(frames: Mapping[str, DataFrame], plan: BatchPlan) -> DataFrame:
    deployment, application = plan.deployment, plan.deployment.application
    serdes = {topic: reader_serdes(application.plan, topic)[0] for topic in application.external}
    packed = (
        frames[topic].mapInArrow(packed_rows(plan, topic, serde, frames[topic].schema["k"].metadata), BATCH_SCHEMA)
        for topic, serde in serdes.items()
    )
    frame = reduce(DataFrame.union, packed)
    later = deployment.levels if plan.arrival else deployment.levels[1:]
    for work in (first_level(plan), *(next_level(plan, level.number) for level in later)):
        ordered = frame.repartition(deployment.spark_partitions, "g").sortWithinPartitions("g", *ORDER, "source", "seq")
        frame = ordered.mapInArrow(work, BATCH_SCHEMA)
    return frame


def _execute(rows: DataFrame, spark: SparkSession, deployment: Deployment) -> RunResult:
    """Run the plan once, and keep its result."""
    kept = rows.select("target", "source", "seq", *ORDER, "blob").persist(StorageLevel.MEMORY_AND_DISK)
    try:
        with under_way("tasks", look=None if is_connect(spark) else lambda: _tasks_done(spark)):
            notes = kept.where(F.col("target").isin(REPORT, FAILURE)).select("target", "blob").collect()
    except BaseException as error:
        kept.unpersist()
        if isinstance(error, Exception):
            raise spark_failure("the run", error) from error
        if not is_connect(spark):  # Connect has ended the job, and its session may have others
            rows.sparkSession.interruptAll()  # Spark would run the job to its end
        raise
    failures = [bytes(row["blob"]) for row in notes if row["target"] == FAILURE]
    if failures:
        kept.unpersist()
        raise_first(failures)
    return RunResult(kept, spark, deployment, [bytes(row["blob"]) for row in notes])


def _slots(spark: SparkSession) -> int:
    """Return the number of tasks that can run at once; Spark Connect tells it only by how it divides a range."""
    if is_connect(spark):
        return spark.range(1 << 20).select(F.spark_partition_id()).distinct().count()
    return spark.sparkContext.defaultParallelism


def _tasks_done(spark: SparkSession) -> tuple[int, int]:
    """Return how many tasks of the running stages are done, of how many."""
    tracker = spark.sparkContext.statusTracker()
    stages = [stage for number in tracker.getActiveStageIds() if (stage := tracker.getStageInfo(number)) is not None]
    return sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages)


def _global_batches(deployment: Deployment, frames: Mapping[str, DataFrame]) -> dict[int, list[bytes]]:
    """Pack the content of global topics for every worker."""
    batches: list[bytes] = []
    application = deployment.application
    for topic in application.global_topics:
        if topic not in frames:
            continue
        serde, _ = reader_serdes(application.plan, topic)
        ranks = [deployment.input_ranks[0, topic, n] for n in range(application.partitions.get(topic, 1))]
        table = frames[topic].toArrow()
        parts = [part for arrow in table.to_batches() for part in by_partition(arrow, ranks, serde, sort=False)]
        counts: dict[int, tuple[int, int]] = {}
        for chunk in in_order(parts, arrival=True):
            batches += [pack(record_batch(deployment, part, counts, {})) for part in chunk]
    return {0: batches}
