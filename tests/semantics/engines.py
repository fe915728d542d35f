"""Spark as an engine of scenarios: its levels without Spark, a streaming query, and static frames.

Streams run every scenario with several numbers of micro-batches, and return an outcome only if all are equal: 8, 2 and
1 without Spark, where a batch costs little, and 3 and 1 on Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from kstreamnb.core.codec import encoder, key_partitioner
from kstreamnb.core.record import TopicRecord
from kstreamnb.kafka.storage.checkpoint_files import LocalFiles
from kstreamnb.runtime.context.config import Config
from kstreamnb.runtime.context.task_plan import TaskPlan
from kstreamnb.spark.planning.deployment import ApplicationPlan, Deployment
from kstreamnb.spark.planning.placement import plan_application, plan_deployment
from kstreamnb.testdriver.topology_test_driver import TopologyTestDriver
from tests.semantics.scenario import Outcome, Output, Row, Scenario, WallClock, compare
from tests.spark.file_source import FileOffsetSource
from tests.spark.memory_sink import MemorySink
from tests.spark.steps import Step, packed, tick

__all__ = ["ON_LEVELS", "ON_SPARK", "FramesEngine", "StreamEngine", "on_disk", "on_levels", "on_spark"]

ON_LEVELS, ON_SPARK = (8, 2, 1), (3, 1)
Runner = Callable[[Deployment, FileOffsetSource, Path], tuple[MemorySink, Callable[[str], Any]]]
"""Runs a deployment over a feed; gives what came out, and a look at a store of its first application."""


@dataclass
class StreamOutcome:
    """The result of a run."""

    topics: dict[str, list[Output]]
    look: Callable[[str], Any]

    def topic(self, name: str) -> list[Output]:
        """Records of an output topic, partition by partition."""
        return self.topics[name]

    def store(self, name: str) -> dict[Any, Any]:
        """Rows of a key-value store."""
        return dict(self.look(name).all())


@dataclass
class StreamEngine:
    """Runs a scenario with several numbers of micro-batches at once, each as an application of one query."""

    name: str
    runner: Runner
    folder: Path
    batches: tuple[int, ...]

    @property
    def copies(self) -> int:
        """How many copies of a scenario run."""
        return len(self.batches)

    def run(self, scenario: Scenario) -> Outcome:
        """Run all, and assert that they agree."""
        applications = [_application(scenario) for _ in self.batches]
        deployment = plan_deployment("semantics", applications, 2)
        steps = [_steps(application, scenario) for application in applications]
        counts = _batches_of(applications[0], len(steps[0]), self.batches)
        path = self.folder / f"feed-{len(list(self.folder.iterdir()))}"
        sink, look = self.runner(
            deployment, FileOffsetSource.write(path, packed(steps, counts)), path.with_suffix(".state")
        )
        found = [
            {topic: outputs(sink, application, topic, number) for topic in scenario.output}
            for number, application in enumerate(applications)
        ]
        assert found == [found[0]] * self.copies
        return StreamOutcome(found[0], look)

    def check(self, scenario: Scenario) -> Outcome:
        """Run and compare."""
        outcome = self.run(scenario)
        compare(scenario, outcome)
        return outcome


@dataclass
class FramesEngine:
    """Runs a scenario over static frames and in the driver: all records are present and taken by time."""

    spark: Any
    name: str = "frames"
    copies = 2

    def run(self, scenario: Scenario) -> Outcome:
        """Run over records in their order of arrival, and compare with the driver's results for all of them at once."""
        import kstreamnb as ks

        topology, partitions = scenario.build(), dict(scenario.partitions)
        if any(isinstance(row, WallClock) for row in scenario.input):
            pytest.skip("static frames have no wall clock that moves")
        if topology.global_stores:
            pytest.skip("over static frames a global table is complete before the first record (D-021)")
        records = _records(scenario)
        result = ks.run(topology, spark=self.spark, inputs=records, partitions=partitions or 1)
        with TopologyTestDriver(topology, partitions=partitions) as driver:
            driver.pipe(records)
            expected = {topic: driver.create_output_topic(topic).read_records() for topic in scenario.output}
        found = {topic: [r for rows in result.records(topic).values() for r in rows] for topic in scenario.output}
        assert _plain(expected) == _plain(found)
        return StreamOutcome(_plain(found), result.store)

    def check(self, scenario: Scenario) -> Outcome:
        """Return the same outcome: a scenario's expectations hold for records one after another."""
        return self.run(scenario)


def _plain(topics: dict[str, list[TopicRecord]]) -> dict[str, list[Output]]:
    return {
        topic: [(r.key, r.value, r.timestamp) for r in sorted(records, key=lambda record: record.partition)]
        for topic, records in topics.items()
    }


def on_levels(
    deployment: Deployment, feed: FileOffsetSource, folder: Path, **settings: Any
) -> tuple[MemorySink, Callable[[str], Any]]:
    """The levels without Spark, with workers that lose their memory after each batch."""
    from kstreamnb.spark.contracts import QueryBatch
    from tests.spark.inprocess import Cluster

    sink, cluster = MemorySink(), Cluster.of(deployment, str(folder), **settings)
    for number, output in enumerate(cluster.batches(feed, lambda number: cluster.forget_tasks())):
        sink.publish(QueryBatch(number, "", {}, 0, output))
    return sink, cluster.store


def on_disk(deployment: Deployment, feed: FileOffsetSource, folder: Path) -> tuple[MemorySink, Callable[[str], Any]]:
    """The same with all state in files, of which each store keeps two rows in memory, compared with their log."""
    from kstreamnb.spark.execution import task_files

    with pytest.MonkeyPatch.context() as patched:
        for limit in ("_MOST_ROWS", "_LEAST_ROWS"):
            patched.setattr(task_files, limit, 2)
        return on_levels(deployment, feed, folder, memory_limit=0, verify=True)


def on_spark(spark: Any) -> Runner:
    """One streaming query."""

    def run(deployment: Deployment, feed: FileOffsetSource, folder: Path) -> tuple[MemorySink, Callable[[str], Any]]:
        from kstreamnb.spark.contracts import StreamSettings
        from kstreamnb.spark.deploy import query_of

        sink = MemorySink()
        settings = StreamSettings(LocalFiles(folder), None, max_records=1)
        query = query_of(spark, replace(deployment, name=folder.name), feed, sink, settings).restart()
        assert query.await_termination(300)
        return sink, query.store

    return run


def _application(scenario: Scenario) -> ApplicationPlan:
    topics = {row.topic: 1 for row in scenario.input if isinstance(row, Row)} | dict(scenario.partitions)
    return plan_application(scenario.build(), Config(), topics, direct=True, default_partitions=1)


def _batches_of(application: ApplicationPlan, rows: int, batches: tuple[int, ...]) -> tuple[int, ...]:
    """One row per batch if there is a global table: within a batch it is complete before the first record (D-021)."""
    return (rows,) * len(batches) if application.global_topics else batches


def _steps(application: ApplicationPlan, scenario: Scenario) -> list[Step]:
    ids = tuple(group.id for group in application.topology.subtopologies())
    plan = TaskPlan(application.topology, ids, config=application.config, partitions=application.partitions)
    steps, clock = [], 0
    for row in scenario.input:
        if isinstance(row, WallClock):
            clock += row.by_ms
            steps.append(tick(clock))
            continue
        source = plan.source_of(row.topic)
        assert source is not None
        key_serde = plan.key_serde(source.key_serde)
        key, value = encoder(key_serde)(row.key), encoder(plan.value_serde(source.value_serde))(row.value)
        partition = key_partitioner(key_serde, application.partitions.get(row.topic, 1))(key)
        steps.append((row.topic, partition, (row.timestamp, key, value, row.headers)))
    return steps


def _records(scenario: Scenario) -> list[TopicRecord]:
    rows = [row for row in scenario.input if isinstance(row, Row)]
    return [
        TopicRecord(row.topic, -1, at, row.timestamp, row.key, row.value, row.headers) for at, row in enumerate(rows)
    ]


def outputs(sink: MemorySink, application: ApplicationPlan, topic: str, number: int) -> list[Output]:
    records = sink.records(application, topic, number).values()
    return [(record.key, record.value, record.timestamp) for rows in records for record in rows]
