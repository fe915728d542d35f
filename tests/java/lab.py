"""Runs a topology with Java, with the kit, and with one after the other, over the same input."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import kstreamnb as ks
from kstreamnb.core.codec import SerializedValue, to_bytes
from kstreamnb.core.time import Clock
from kstreamnb.kafka.admin import Admin
from kstreamnb.runtime.context.config import Config
from kstreamnb.runtime.context.task_plan import plan_tasks
from kstreamnb.runtime.task.task import Task
from tests.java.feeds import (
    PARTITIONS,
    Records,
    committed_topics,
    feed,
    input_records,
    new_topics,
    raw_records,
    records_of,
    topics_of,
)
from tests.java.runner import JavaStreams
from tests.java.topologies import ALL, build

__all__ = ["IN_MEMORY", "REPARTITION", "SETTINGS", "Lab", "driven", "run_in_driver"]

Regrouped: TypeAlias = tuple[int, int, Any, Any, tuple[Any, ...]]
"""Partition, timestamp, key, value and headers of a record of a repartition topic."""

REPARTITION = {
    "word-count": "counts-store-repartition",
    "page-view": "by-region-repartition",
    "temperature": "KSTREAM-REDUCE-STATE-STORE-0000000002-repartition",
    **dict.fromkeys(("table-group", "regroup", "regroup-windows"), "by-letter-repartition"),
}
"""The only repartition topic of a topology, without the application's id."""

SETTINGS = {"statestore.cache.max.bytes": 0, "default_key_serde": "string", "default_value_serde": "string"}
_PATIENCE_S = 300.0

IN_MEMORY = (
    "dsl.store.suppliers.class=org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers",
)
"""Settings of Java under which the DSL holds its stores in memory instead of in RocksDB."""


class Lab:
    """A broker with Java and Spark; each way to run is a method that returns the output topic's records."""

    def __init__(self, servers: str, java: JavaStreams, spark: Any, folder: Path) -> None:
        self.servers, self.java, self.spark, self.folder = servers, java, spark, folder
        self.admin = Admin(servers)
        self._runs = {"alone": cache(self._alone), "twice": cache(self._twice)}
        self._in_memory = cache(lambda: self._twice("twice-memory", IN_MEMORY))

    def prepare(self, name: str, way: str, halves: Iterable[int] = (0,)) -> str:
        """Create the topics of a run, produce the first part of its input, and return the prefix of its topics."""
        prefix = f"{name}-{way}"
        new_topics(self.admin, name, prefix)
        for half in halves:
            feed(self.servers, name, prefix, half)
        return prefix

    def java_runs(self, name: str, prefix: str, *stores: str, settings: Iterable[str] = ()) -> list[dict[str, str]]:
        """Let Java process the available input; return the rows of stores before it stops."""
        return self.java.run(prefix, name, prefix, committed_topics(name, prefix), stores, settings)

    def deploy(self, name: str, prefix: str, checkpoint: str = "checkpoint", **options: Any) -> Any:
        """Deploy the topology with the prefix as its application id."""
        folder = self.folder / prefix / checkpoint
        options = {
            "config": SETTINGS,
            "spark": self.spark,
            "bootstrap_servers": self.servers,
            "parity": False,
            **options,
        }
        return ks.deploy(build(name, prefix), checkpoint=folder, spark_partitions=2, **options)

    def adopt(self, name: str, prefix: str) -> None:
        """Adopt what Java left under the prefix as its application id."""
        options = {"bootstrap_servers": self.servers, "config": SETTINGS, "spark_partitions": 2}
        print(ks.adopt(build(name, prefix), checkpoint=self.folder / prefix / "adopted", **options))

    def kit_runs(self, name: str, prefix: str, checkpoint: str = "checkpoint", **options: Any) -> None:
        """Let the kit process the available input."""
        query = self.deploy(name, prefix, checkpoint, available_now=True, **options)
        assert query.await_termination(_PATIENCE_S)
        query.stop()

    def output(self, prefix: str) -> Records:
        """Records of the output topic."""
        return records_of(self.servers, f"{prefix}-out")

    def alone(self, name: str) -> Records:
        """Run Java over the whole input."""
        return self._runs["alone"]()[name]

    def twice(self, name: str) -> Records:
        """Run Java over one half, and after a restart over the other."""
        return self._runs["twice"]()[name]

    def twice_in_memory(self, name: str) -> Records:
        """The same as `twice`, with stores in memory."""
        return self._in_memory()[name]

    def _alone(self) -> dict[str, Records]:
        prefixes = {name: self.prepare(name, "alone", (0, 1)) for name in ALL}
        self.all_run(prefixes)
        return {name: self.output(prefix) for name, prefix in prefixes.items()}

    def _twice(self, way: str = "twice", settings: Iterable[str] = ()) -> dict[str, Records]:
        prefixes = {name: self.prepare(name, way) for name in ALL}
        self.all_run(prefixes, settings)
        for name, prefix in prefixes.items():
            feed(self.servers, name, prefix, 1)
        self.all_run(prefixes, settings)
        return {name: self.output(prefix) for name, prefix in prefixes.items()}

    def all_run(self, prefixes: dict[str, str], settings: Iterable[str] = ()) -> None:
        """Let Java run all topologies at once."""
        for name, prefix in prefixes.items():
            self.java.start(prefix, name, prefix, *settings)
        for name, prefix in prefixes.items():
            self.java.await_input(prefix, committed_topics(name, prefix))
        for prefix in prefixes.values():
            self.java.stop(prefix)

    def on_spark(self, name: str) -> Records:
        """Run the kit over the whole input."""
        prefix = self.prepare(name, "spark", (0, 1))
        self.kit_runs(name, prefix)
        return self.output(prefix)

    def kit_then_java(
        self, name: str, way: str = "kit-java", *, logged_later: bool = False, settings: Iterable[str] = ()
    ) -> Records:
        """Run the kit over one half, then Java over the other; changelogs may be turned on after the first half."""
        prefix = self.prepare(name, way)
        if logged_later:
            self.kit_runs(name, prefix)
        query = self.deploy(name, prefix, changelogs=True)
        print(query.hand_over(_PATIENCE_S))
        feed(self.servers, name, prefix, 1)
        self.java_runs(name, prefix, settings=settings)
        return self.output(prefix)

    def java_then_kit(self, name: str, way: str = "java-kit", settings: Iterable[str] = ()) -> Records:
        """Run Java over one half, then the kit over the other."""
        prefix = self.prepare(name, way)
        self.java_runs(name, prefix, settings=settings)
        self.adopt(name, prefix)
        feed(self.servers, name, prefix, 1)
        self.kit_runs(name, prefix, "adopted")
        return self.output(prefix)

    def in_javas_order(self, name: str, way: str) -> Records:
        """The output of the kit's tasks over the repartition topic in the order in which this run wrote it.

        Java's half of it is read from the broker; the kit's half is the driver's, for on Spark it is a shuffle.
        """
        java = [row[1:2] + row[3:] for row in raw_records(self.servers, f"{name}-{way}-{REPARTITION[name]}")]
        java = [(*row[:-1], tuple(row[-1] or ())) for row in java]
        first, second = regrouped(name)
        halves = [*java, *second] if way.startswith("java") else [*first, *java]
        return over_repartition(name, java if way == "alone" else halves)


def _driver(name: str) -> ks.TopologyTestDriver:
    return ks.TopologyTestDriver(build(name, "d"), {**SETTINGS, "application.id": "d"}, partitions=PARTITIONS)


def run_in_driver(name: str) -> ks.TopologyTestDriver:
    """Return a driver that has processed the whole input."""
    driver = _driver(name)
    driver.pipe(input_records(name, "d"))
    return driver


def driven(name: str) -> Records:
    """Return the driver's output, each partition in order."""
    found: Records = {}
    for record in run_in_driver(name).create_output_topic("d-out", "bytes", "bytes").read_records():
        found.setdefault(record.partition, []).append((record.key, record.value, record.timestamp))
    return dict(sorted(found.items()))


def regrouped(name: str) -> tuple[list[Regrouped], list[Regrouped]]:
    """The kit's records of the repartition topic, of the input's first half and of the second."""
    driver, records = _driver(name), input_records(name, "d")
    topic, middle = driver.create_output_topic(f"d-{REPARTITION[name]}", "bytes", "bytes"), len(records) // 2
    halves = []
    for half in (records[:middle], records[middle:]):
        driver.pipe(half)
        halves.append([(r.partition, r.timestamp, r.key, r.value, tuple(r.headers)) for r in topic.read_records()])
    return halves[0], halves[1]


def over_repartition(name: str, rows: Iterable[Regrouped]) -> Records:
    """The output of the kit's tasks over these records of the repartition topic, in this order."""
    topic = f"d-{REPARTITION[name]}"
    topics = dict.fromkeys([*topics_of(name, "d"), "d-out"], PARTITIONS)
    plans = plan_tasks(build(name, "d"), Config.of({**SETTINGS, "application.id": "d"}), topics)
    tasks = {plan.partition: Task(plan, Clock(0)) for plan in plans if plan.source_of(topic)}
    for offset, (partition, timestamp, key, value, headers) in enumerate(rows):
        tasks[partition].run(
            topic, partition, [(offset, timestamp, SerializedValue(key), SerializedValue(value), headers)]
        )
    found: Records = {}
    for task in tasks.values():
        for out, partition, timestamp, key, value, _ in task.drain():
            serdes = task.topic_serdes(out)
            assert serdes is not None
            found.setdefault(partition, []).append((to_bytes(serdes[0], key), to_bytes(serdes[1], value), timestamp))
    return dict(sorted(found.items()))
