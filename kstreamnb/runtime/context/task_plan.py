"""`TaskPlan`: the value from which a task is created; it can be pickled and sent to the process that runs the task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from kstreamnb.core.serde import Serde, complete
from kstreamnb.runtime.context.config import Config
from kstreamnb.topology.nodes import Sink, Source
from kstreamnb.topology.partitions import repartition_topic
from kstreamnb.topology.topology import Topology


@dataclass(frozen=True, eq=False)
class TaskPlan:
    """One task: a partition of one sub-topology (or of all of them, in the layout of Kafka's test driver).

    ``subtopologies`` are ids; ``partitions`` is the number of partitions of every topic, under the names that the
    topics have in Kafka (internal ones with the application's id); topics it does not name have
    ``default_partitions``. ``single``: the layout of Kafka's own test driver, with its order among equal timestamps.
    """

    topology: Topology
    subtopologies: tuple[int, ...]
    partition: int = 0
    partitions: Mapping[str, int] = field(default_factory=dict)
    config: Config = field(default_factory=Config)
    single: bool = False
    is_global: bool = False
    default_partitions: int = 1

    @property
    def task_id(self) -> str:
        """``<sub-topology>_<partition>``; the one task over all sub-topologies is ``0_0``, as in Kafka."""
        number = 0 if self.single else self.subtopologies[0]
        return "global" if self.is_global else f"{number}_{self.partition}"

    @property
    def application_id(self) -> str:
        """The application's id: the config's, else the topology's name, else "app"."""
        return self.config.application_id or self.topology.name or "app"

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """Names of the task's nodes, parents before children, in the order in which they were added."""
        groups = [group for group in self.topology.subtopologies() if group.id in self.subtopologies]
        own = {name for group in groups for name in group.nodes}
        return tuple(name for name in self.topology.nodes if name in own)

    def topic(self, name: str) -> str:
        """Return a topic's name in Kafka: internal ones carry the application's id."""
        return repartition_topic(self.application_id, name) if name in self.topology.internal_topics else name

    def count(self, topic: str) -> int:
        """Return the number of partitions of a topic (under its name in Kafka)."""
        return self.partitions.get(topic, self.default_partitions)

    def source_of(self, topic: str) -> Source | None:
        """Return the task's source node that reads a topic (under its name in Kafka)."""
        own = [source for source in self.topology.sources() if source.name in self.nodes]
        named = [source for source in own if source.pattern is None and topic in map(self.topic, source.topics)]
        fitting = [source for source in own if source.pattern is not None and source.reads(topic)]
        return next(iter(named + fitting), None)

    def key_serde(self, serde: object = None) -> Serde:
        """Return a node's key serde with the application's default filled in."""
        return self._complete(serde, self.config.default_key_serde)

    def value_serde(self, serde: object = None) -> Serde:
        """Return a node's value serde with the application's default filled in."""
        return self._complete(serde, self.config.default_value_serde)

    def serdes(self, node: Source | Sink) -> tuple[Serde, Serde]:
        """Return key and value serde of a source or sink."""
        return self.key_serde(node.key_serde), self.value_serde(node.value_serde)

    def _complete(self, serde: object, default: Serde) -> Serde:
        chosen = default if serde is None else serde
        return complete(chosen, self.config.default_key_serde, self.config.default_value_serde)  # type: ignore[no-any-return]


def plan_single_task(topology: Topology, config: Config) -> tuple[TaskPlan, ...]:
    """Plan one task over all sub-topologies, as in Kafka's own test driver; none if all are global."""
    ids = tuple(group.id for group in topology.subtopologies() if not group.is_global)
    return (TaskPlan(topology, ids, config=config, single=True),) if ids else ()


def plan_global_task(topology: Topology, config: Config, partitions: Mapping[str, int]) -> TaskPlan | None:
    """Plan the task that keeps all global stores; None if there are none."""
    ids = tuple(group.id for group in topology.subtopologies() if group.is_global)
    if not ids:
        return None
    handler = config.processing_handler if config.processing_handler_global else "fail"
    config = replace(config, processing_handler=handler, deserialization_handler="continue", dead_letter_topic=None)
    return TaskPlan(topology, ids, partitions=partitions, config=config, is_global=True)


def plan_tasks(
    topology: Topology, config: Config, topics: Mapping[str, int], *, default_partitions: int = 1
) -> tuple[TaskPlan, ...]:
    """Plan one task for each partition of each sub-topology, by id; ``topics`` are the counts of the user's topics.

    Raises: TopologyError when a topic is missing, or counts of co-partitioned topics differ.
    """
    plan = TaskPlan(topology, (), config=config, default_partitions=default_partitions)
    counts = {**topics, **topology.partition_counts(topics)}
    plan = replace(plan, partitions={plan.topic(topic): count for topic, count in counts.items()})
    tasks = topology.tasks(topics)
    return tuple(replace(plan, subtopologies=(task.subtopology,), partition=task.partition) for task in tasks)
