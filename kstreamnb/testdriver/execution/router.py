"""`Router`: the destination of each topic's records, computed from the plans of an application's tasks.

The processing order is the same in every engine: input records are taken one at a time in the order of a merge of all
partitions by (timestamp, topic, partition, offset); records that they cause on internal topics are processed breadth
first. The layout ``single`` follows Kafka's own test driver instead, including its order among internal topics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from itertools import chain
from operator import itemgetter
from typing import Any, Literal

from kstreamnb.core.record import TopicRecord
from kstreamnb.core.serde import Serde
from kstreamnb.errors import EngineError
from kstreamnb.hints import did_you_mean
from kstreamnb.runtime.codegen.sinks import sink_serdes, topic_serdes
from kstreamnb.runtime.context.config import Config
from kstreamnb.runtime.context.event_time import has_own_extractor
from kstreamnb.runtime.context.task_plan import TaskPlan, plan_global_task, plan_single_task, plan_tasks
from kstreamnb.testdriver.execution.serializer import InputRecord, TopicRoute, serializer
from kstreamnb.topology.nodes import Sink, Source, grouped
from kstreamnb.topology.topology import Topology

Layout = Literal["split", "single"]


class Router:
    """Routes of all topics of an application.

    Args:
        topology: the topology that runs.
        config: the application's settings.
        partitions: numbers of partitions by topic; other topics have ``default_partitions``.
        default_partitions: number of partitions of topics that ``partitions`` does not name.
        layout: "split" for a task per sub-topology and partition, "single" for the one task of Kafka's test driver.

    Attributes:
        plans: the plans of the tasks; an index in a route is one into this tuple.
        global_plan: the plan of the task that fills the global stores, if there are any.
        route: returns where records of a topic go; None for a topic that the application does not read.
        counts: numbers of partitions by topic, internal ones by their names in Kafka.
        written: topics that each task writes; None stands for a topic that each record chooses.
        levels: the level of each task, greater than those of the tasks that write what it reads; None if tasks feed
            each other in a circle, or the readers of a topic are not known.
    """

    def __init__(
        self,
        topology: Topology,
        config: Config,
        *,
        partitions: Mapping[str, int],
        default_partitions: int = 1,
        layout: Layout = "split",
    ) -> None:
        self.topology, self.config, self.layout = topology, config, layout
        read = [topic for source in topology.sources() for topic in source.topics]
        known = {topic: default_partitions for topic in read if topic not in topology.internal_topics} | {**partitions}
        self.global_plan = plan_global_task(topology, config, known)
        if layout == "single":
            self.plans = plan_single_task(topology, config)
        else:
            self.plans = plan_tasks(topology, config, known, default_partitions=default_partitions)
        self._default = default_partitions
        self.counts = self.plans[0].partitions if self.plans else known
        self._serdes = [topic_serdes(plan, plan.nodes) for plan in self.plans]
        self.route = cache(self._find_route)
        self._serializer = cache(lambda topic, *serdes: serializer(self.reader(topic), self.count(topic), *serdes))
        self.written = [_written(plan) for plan in self.plans]
        self.levels = None if layout == "single" else self._find_levels()

    def count(self, topic: str) -> int:
        """Return the number of partitions of a topic."""
        return 1 if self.layout == "single" else self.counts.get(topic, self._default)

    def reader(self, topic: str) -> TopicRoute:
        """Return the route of a topic; raise EngineError if no source reads it."""
        route = self.route(topic)
        if route is None:
            sources = (source.topics or (str(source.pattern),) for source in self.topology.sources())
            read = sorted(set(chain.from_iterable(sources)))
            reads = f"it reads {', '.join(read)}; use sample.of_topic(…)" if read else "its builder declared no source"
            hint = did_you_mean(topic, read) or reads
            fact = f'no source of the topology reads topic "{topic}"'
            raise EngineError(fact, hint=hint, java=f"Unknown topic: {topic}")
        return route

    def task_serdes(self, index: int, topic: str) -> tuple[Serde, Serde] | None:
        """Return the serdes of rows that a task writes to a topic; None if they are bytes."""
        return self._serdes[index].get(topic)

    def writer_serdes(self, topic: str) -> tuple[Serde, Serde] | None:
        """Return the serdes with which the application writes a topic; None if there is not exactly one pair."""
        pairs = [serdes[topic] for serdes in self._serdes if topic in serdes]
        return pairs[0] if pairs and all(pair == pairs[0] for pair in pairs) else None

    def output_serdes(self, topic: str) -> tuple[Serde, Serde] | None:
        """Return the serdes to read an output topic with, even if its rows are bytes; None if they are not known."""
        return sink_serdes(self.plans[0], topic) if self.plans else None

    def serialize(
        self, records: Sequence[TopicRecord], key_serde: Serde | None = None, value_serde: Serde | None = None
    ) -> list[InputRecord]:
        """Serialize records and assign their partitions; see `serializer`."""
        serialized: dict[str, list[InputRecord]] = {}
        for topic, of_topic in grouped(records, itemgetter(0)).items():
            serialized[topic] = self._serializer(topic, key_serde, value_serde)(of_topic)
        if len(serialized) == 1:
            return serialized.popitem()[1]
        remaining = {topic: iter(of_topic) for topic, of_topic in serialized.items()}
        return [next(remaining[record[0]]) for record in records]

    @cached_property
    def merges_written(self) -> bool:
        """Return whether a task merges topics that tasks write by the times of a source's own extractor."""
        written = set(chain.from_iterable(self.written))
        for plan in self.plans:
            sources = [node for name in plan.nodes if isinstance(node := self.topology.nodes[name], Source)]
            own = [each for each in sources if has_own_extractor(each, self.config)]
            several = len(sources) > 1 or any(len(each.topics) != 1 for each in own)
            if several and any(topic is None or each.reads(topic) for topic in written for each in own):
                return True
        return False

    def _find_levels(self) -> list[int] | None:
        groups = [plan.subtopologies for plan in self.plans]
        fed: dict[Any, set[Any]] = {}
        for group, topics in dict(zip(groups, self.written, strict=True)).items():
            routes = [None if topic is None else self.route(topic) for topic in topics]
            if None in topics or any(route is not None and route.is_global for route in routes):
                return None
            fed[group] = {groups[index] for route in routes if route is not None for index in route.tasks.values()}
        levels = dict.fromkeys(fed, 0)
        for _ in fed:  # the longest path to a group has fewer steps than there are groups
            before = dict(levels)
            for group, readers in fed.items():
                levels |= {reader: max(levels[reader], levels[group] + 1) for reader in readers}
            if levels == before:
                return [levels[group] for group in groups]
        return None if fed else []

    def _find_route(self, topic: str) -> TopicRoute | None:
        tasks: dict[int, int] = {}
        reader: tuple[TaskPlan, Source] | None = None
        offsets = topic
        for index, plan in enumerate(self.plans):
            source = plan.source_of(topic)
            if source is not None:
                tasks[plan.partition], reader = index, (plan, source)
                if source.pattern is not None and self.layout == "single":
                    offsets = source.pattern
        global_source = None if self.global_plan is None else self.global_plan.source_of(topic)
        if self.global_plan is not None and global_source is not None:
            reader = self.global_plan, global_source
        if reader is None:
            return None
        plan, source = reader
        extracts = global_source is None and has_own_extractor(source, self.config)
        is_global = global_source is not None
        return TopicRoute(topic, offsets, tasks, is_global, plan.serdes(source), extracts, source.origin)


def _written(plan: TaskPlan) -> list[str | None]:
    sinks = [node for name in plan.nodes if isinstance(node := plan.topology.nodes[name], Sink)]
    return [plan.topic(sink.topic) if isinstance(sink.topic, str) else None for sink in sinks]
