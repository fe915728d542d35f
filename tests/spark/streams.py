"""Runs a topology over the same records in the driver and as a streaming query, for comparison."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import kstreamnb as ks
from kstreamnb.core.codec import encoder, key_partitioner
from kstreamnb.core.record import TopicRecord
from kstreamnb.kafka.storage.checkpoint_files import LocalFiles
from kstreamnb.runtime.context.config import Config
from kstreamnb.runtime.context.task_plan import TaskPlan
from kstreamnb.spark.contracts import StreamSettings
from kstreamnb.spark.deploy import query_of
from kstreamnb.spark.planning.deployment import ApplicationPlan, Deployment
from kstreamnb.spark.planning.placement import plan_application, plan_deployment
from kstreamnb.spark.query.query import Query
from kstreamnb.testdriver.topology_test_driver import TopologyTestDriver
from kstreamnb.topology.topology import Topology
from tests.spark.file_source import FileOffsetSource
from tests.spark.memory_sink import MemorySink
from tests.spark.steps import Step, packed

Row = tuple[str, Any, Any, int]
"""Topic, key, value, timestamp (ms)."""
Output = dict[int, list[tuple[Any, Any, int]]]
"""By partition: key, value, timestamp."""


def driven(
    topology: Topology, rows: Sequence[Row], partitions: int, topics: Sequence[str], **config: Any
) -> dict[str, Output]:
    """Return what the driver writes to some topics."""
    driver = TopologyTestDriver(topology, config, partitions=partitions)
    driver.pipe(TopicRecord(topic, -1, at, time, key, value) for at, (topic, key, value, time) in enumerate(rows))
    return {topic: by_partition(driver.create_output_topic(topic).read_records()) for topic in topics}


def by_partition(records: Sequence[TopicRecord]) -> Output:
    """Records by partition as (key, value, timestamp)."""
    found: Output = {}
    for record in records:
        found.setdefault(record.partition, []).append((record.key, record.value, record.timestamp))
    return dict(sorted(found.items()))


class KeepHeaders(ks.Processor[Any, Any, Any, Any]):
    """Keeps each value with a header in a store of rows, and counts visits with the last header."""

    def init(self, context: ks.ProcessorContext) -> None:
        """Get the stores."""
        super().init(context)
        self.last, self.visits = context.get_state_store("last"), context.get_state_store("visits")

    def process(self, record: ks.Record[Any, Any]) -> None:
        """Keep the record in both stores."""
        headers = (("value", str(record.value).encode()), ("none", None))
        self.last.put(record.key, ks.ValueTimestampHeaders(record.value, record.timestamp, headers))
        visit = ks.Windowed(record.key, record.timestamp, record.timestamp)
        self.visits.put(visit, ks.AggregationWithHeaders(1, headers))


def with_headers() -> ks.Topology:
    """Stores with headers."""
    builder = ks.StreamsBuilder("headers")
    builder.add_state_store(ks.Stores.persistent_timestamped_key_value_store_with_headers("last"))
    builder.add_state_store(ks.Stores.persistent_session_store_with_headers("visits", retention="1h"))
    builder.stream("in").process(KeepHeaders, "last", "visits")
    return builder.build()


def placed(
    topology: Topology,
    partitions: int,
    *,
    spark_partitions: int = 2,
    split: Collection[str] | None = None,
    **config: Any,
) -> Deployment:
    """Return the deployment of a topology, on two Spark partitions and with split joins by default."""
    settings = Config.of(config)
    application = plan_application(topology, settings, {}, direct=True, default_partitions=partitions, split=split)
    return plan_deployment("streams", [application], spark_partitions)


def in_order(application: ApplicationPlan, rows: Sequence[Row]) -> list[Step]:
    """Return rows in wire form and in canonical order, each with its partition."""
    ids = tuple(group.id for group in application.topology.subtopologies())
    plan = TaskPlan(application.topology, ids, config=application.config, partitions=application.partitions)
    latest: dict[tuple[str, int], int] = {}
    ordered = []
    for at, (topic, key, value, time) in enumerate(rows):
        source = plan.source_of(topic)
        assert source is not None
        key_serde, value_serde = plan.key_serde(source.key_serde), plan.value_serde(source.value_serde)
        wire = encoder(key_serde)(key)
        partition = key_partitioner(key_serde, application.partitions.get(topic, 1))(wire)
        latest[topic, partition] = max(latest.get((topic, partition), time), time)
        record = (time, wire, encoder(value_serde)(value), ())
        ordered.append((latest[topic, partition], topic, partition, at, record))
    ordered.sort(key=lambda row: row[:4])
    return [(topic, partition, record) for _, topic, partition, _, record in ordered]


def batched(
    deployment: Deployment, rows: Sequence[Row], batches: int
) -> list[dict[tuple[str, int], list[tuple[Any, ...]]]]:
    """Return rows in wire form, split into batches along the canonical order of all partitions."""
    ordered = in_order(deployment.applications[0], rows)
    found: list[dict[tuple[str, int], list[tuple[Any, ...]]]] = []
    for number in range(batches):
        batch: dict[tuple[str, int], list[tuple[Any, ...]]] = {}
        for topic, partition, record in ordered[
            len(ordered) * number // batches : len(ordered) * (number + 1) // batches
        ]:
            batch.setdefault((topic, partition), []).append(record)
        found.append(batch)
    return found


def query_over(
    spark: Any,
    folder: Path,
    deployment: Deployment,
    batches: list[Any],
    sink: Any = None,
    name: str = "",
    readers: int = 2,
) -> tuple[Query, MemorySink]:
    """Run a query over batches kept in a file, one micro-batch each; it ends automatically."""
    feed = FileOffsetSource.write(folder / "feed.pickle", batches)
    kept = sink or MemorySink()
    settings = StreamSettings(LocalFiles(folder / "checkpoint"), None, max_records=1, readers=readers)
    query = query_of(spark, replace(deployment, name=name or folder.name), feed, kept, settings)
    return query.restart(), kept


def streamed(
    spark: Any,
    folder: Path,
    topology: Topology,
    rows: Sequence[Row],
    partitions: int,
    topics: Sequence[str],
    *,
    batches: Sequence[int],
    **config: Any,
) -> list[dict[str, Output]]:
    """Return what one streaming query writes to some topics, for several numbers of micro-batches at once."""
    settings = Config.of(config)
    application = plan_application(topology, settings, {}, direct=True, default_partitions=partitions, split=None)
    deployment = plan_deployment("streams", [application] * len(batches), 2)
    steps = in_order(application, rows)
    query, sink = query_over(spark, folder, deployment, packed([steps] * len(batches), batches))
    assert query.await_termination(300)
    return [outputs(deployment, sink, topics, number) for number in range(len(batches))]


def outputs(deployment: Deployment, sink: MemorySink, topics: Sequence[str], number: int = 0) -> dict[str, Output]:
    """Return a sink's content for one application, in the driver's form."""
    found = {}
    for topic in topics:
        records = sink.records(deployment.applications[number], topic, number)
        found[topic] = by_partition([record for rows in records.values() for record in rows])
    return found
