"""`plan`: what a deployment will look like, before anything starts and without Spark or a broker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kstreamnb.runtime.config import Config
from kstreamnb.spark.deployment import Application, Deployment, deployment_of, place
from kstreamnb.topology import ProcessorNode, Topology

__all__ = ["DeploymentPlan", "PlannedLevel", "plan"]

_SIDE_EFFECTS = {
    "foreach": "its function runs again when a batch is repeated",
    "peek": "its function runs again when a batch is repeated",
    "print": "it prints again when a batch is repeated",
}


@dataclass(frozen=True)
class PlannedLevel:
    """One operator of the query: its sub-topologies, tasks and stores; ``operator`` is Spark's word for it."""

    number: int
    operator: str
    subtopologies: tuple[int, ...]
    tasks: int
    stores: tuple[str, ...]


@dataclass(frozen=True)
class DeploymentPlan:
    """What `deploy` would start; printing it shows everything.

    Attributes:
        levels: the operators in order.
        shuffles: how often records are moved between Spark's partitions in a batch.
        parallelism: how many tasks can run at once at most.
        through_kafka: topics that are written here and read back with the next batch.
        circles: sub-topologies that feed each other and run in one place, as groups of ids.
        at_least_once: what may happen again when a batch is repeated, by node, with the reason.
        deployment: everything else.
    """

    levels: tuple[PlannedLevel, ...]
    shuffles: int
    parallelism: int
    through_kafka: tuple[str, ...]
    circles: tuple[tuple[int, ...], ...]
    at_least_once: tuple[tuple[str, str], ...]
    inputs: tuple[tuple[str, int], ...]
    deployment: Deployment

    def __str__(self) -> str:
        lines = ["inputs: " + ", ".join(f"{topic} ({_count(n, 'partition')})" for topic, n in self.inputs)]
        for level in self.levels:
            ids = ", ".join(map(str, level.subtopologies))
            lines.append(f"level {level.number}: sub-topologies {ids}; {_count(level.tasks, 'task')}; {level.operator}")
            lines += [f"  store {store}" for store in level.stores]
        lines.append(f"shuffles: {self.shuffles}; tasks at once: {self.parallelism}")
        for circle in self.circles:
            ids = ", ".join(map(str, circle))
            lines.append(f"in one place: sub-topologies {ids} feed each other, so all their tasks run as one")
        lines += [f"through Kafka: {topic} is read back with the next batch" for topic in self.through_kafka]
        lines += [f"at least once: {node}, for {why}" for node, why in self.at_least_once]
        return "\n".join(lines)


def plan(
    topology: Topology,
    partitions: Mapping[str, int] | int = 1,
    *,
    config: Config | Mapping[str, Any] | None = None,
    spark_partitions: int = 2,
) -> DeploymentPlan:
    """Work out levels, tasks, stores and guarantees of a deployment; prints as text.

    Args:
        topology: what ``builder.build()`` gave.
        partitions: partitions of the input topics by name, or one number for all.
        config: the application's settings.
        spark_partitions: state partitions of the query.

    Example:
        >>> from kstreamnb.topology import Topology
        >>> print(plan(Topology("copy").add_source("in", "orders").add_sink("out", "copies", "in"), 4))
        inputs: orders (4 partitions)
        level 0: sub-topologies 0; 4 tasks; mapInArrow
        shuffles: 0; tasks at once: 4
    """
    given = partitions if isinstance(partitions, Mapping) else {}
    default = partitions if isinstance(partitions, int) else None
    application = place(topology, Config.of(config), given, direct=False, default_partitions=default)
    deployment = deployment_of([application], spark_partitions, default_partitions=default or 1)
    levels = tuple(_level(application, deployment, level.number) for level in deployment.levels)
    return DeploymentPlan(
        levels,
        sum(level.stateful or level.number > 0 for level in deployment.levels),
        max((level.tasks for level in levels), default=0),
        application.looped,
        tuple(tuple(sorted(circle)) for circle in application.circles),
        tuple(
            (node.name, _SIDE_EFFECTS[node.dsl])
            for node in topology.nodes.values()
            if isinstance(node, ProcessorNode) and node.dsl in _SIDE_EFFECTS
        ),
        tuple((topic, application.partitions[topic]) for topic in (*application.external, *application.global_topics)),
        deployment,
    )


def _level(application: Application, deployment: Deployment, number: int) -> PlannedLevel:
    here = [task for task in deployment.tasks if task.level == number]
    level = deployment.levels[number]
    operator = "transformWithState" if level.stateful else "mapInArrow"
    ids = sorted({plan.subtopologies[0] for task in here for plan in task.plans})
    owners = {group.id: group.stores for group in application.topology.subtopologies()}
    return PlannedLevel(
        number,
        f"{operator} with global tables" if level.uses_global else operator,
        tuple(ids),
        len(here),
        tuple(f"{store} ({_kind(application, store)})" for id_ in ids for store in owners[id_]),
    )


def _kind(application: Application, store: str) -> str:
    return application.topology.stores[store].kind.replace("_", " ")


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
