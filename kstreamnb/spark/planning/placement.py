"""Place tasks: sub-topologies in levels, tasks in Spark partitions, input partitions in order. Imports no pyspark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from kstreamnb.core.arguments import at_least
from kstreamnb.runtime.context.config import Config
from kstreamnb.runtime.context.task_plan import TaskPlan
from kstreamnb.spark.planning.deployment import (
    ApplicationPlan,
    Deployment,
    Replica,
    TaskPlacement,
    WorkerOptions,
)
from kstreamnb.spark.planning.key_routing import RoutingKeys
from kstreamnb.spark.planning.split_joins import split_joins
from kstreamnb.topology.nodes import Source, walk
from kstreamnb.topology.partitions import partition_counts, source_topics, topic_writers
from kstreamnb.topology.topology import Topology


def plan_application(
    topology: Topology,
    config: Config,
    topics: Mapping[str, int],
    *,
    direct: bool,
    default_partitions: int | None = None,
    split: Collection[str] | None = (),
) -> ApplicationPlan:
    """Derive an application from the partition counts of its topics.

    Args:
        topology: the topology.
        config: the application's settings.
        topics: partitions of the user's topics by name.
        direct: pass records of the user's topics that are written and read inside the query, too.
        default_partitions: partitions of input topics that ``topics`` does not name; without it they are an error.
        split: names of the foreign-key joins to split, as `ApplicationPlan.split` gives them; None for all that can be.

    Raises:
        TopologyError: a topic is missing, or joined topics differ in their partitions.
    """
    given, topology = topology, split_joins(topology, split)
    name = TaskPlan(topology, (), config=config).topic
    internal = topology.internal_topics.keys()
    groups = [group for group in topology.subtopologies() if not group.is_global]
    known = dict(topics)
    if default_partitions is not None:
        named = {topic for node in topology.sources() for topic in node.topics} - internal
        known = {**dict.fromkeys(sorted(named), default_partitions), **topics}
    counts = partition_counts(topology, known)
    reads = {group.id: source_topics(topology, group.nodes, counts) for group in groups}
    read = {topic for names in reads.values() for topic in names}
    writers = topic_writers(topology)
    both = (read & writers.keys()) - internal
    inner = (read & internal) | (both if direct else set())
    global_topics = [topic for node in topology.sources() if node.is_global for topic in node.topics]
    feeding = ((group, [topic for topic in names if topic in inner]) for group, names in reads.items())
    upstream = {group: {writer for topic in both for writer in writers.get(topic, ())} for group, both in feeding}
    cycles = _cycles(upstream)
    return ApplicationPlan(
        given,
        topology,
        config,
        {name(topic): count for topic, count in {**known, **counts}.items()},
        frozenset(map(name, inner)),
        tuple(sorted((set() if direct else both) | (set(global_topics) & (writers.keys() - internal)))),
        tuple(sorted(read - inner)),
        tuple(sorted(global_topics)),
        _levels(upstream, cycles),
        cycles,
        {group: tuple(map(name, names)) for group, names in reads.items()},
        default_partitions or 1,
    )


def plan_deployment(
    name: str,
    applications: Iterable[ApplicationPlan],
    spark_partitions: int,
    *,
    options: WorkerOptions | None = None,
    known_keys: Mapping[str, int] | None = None,
) -> Deployment:
    """Place all tasks of some applications.

    Args:
        name: the query's name; workers tell deployments apart by it.
        applications: usually one; several share a query only in tests.
        spark_partitions: state partitions of the query.
        options: settings of the workers.
        known_keys: routing keys that tasks had before, by name, which they keep.
    """
    at_least(1, spark_partitions, "spark_partitions")
    applications = tuple(applications)
    needs = [_needs(application) for application in applications]
    keys = RoutingKeys(spark_partitions, known_keys or {})
    copies: list[Replica] = []
    for number, (application, need) in enumerate(zip(applications, needs, strict=True)):
        for level in sorted({application.levels[id_] for id_, each in need.items() if each.uses_global}):
            for partition in range(spark_partitions):
                copy = Replica(0, number, level, 0, partition)
                copies.append(replace(copy, routing_key=keys.of(copy.name, partition)))
    pass_through = tuple(keys.of(f"passing {partition}", partition) for partition in range(spark_partitions))
    tasks: list[TaskPlacement] = []
    turns: dict[int, int] = {}
    for number, (application, need) in enumerate(zip(applications, needs, strict=True)):
        for plans in _plans(application):
            ids = {plan.subtopologies[0] for plan in plans}
            level = application.levels[min(ids)]
            turn = turns[level] = turns.get(level, -1) + 1
            members = plans if application.cycle_of(plans[0].subtopologies[0]) else ()
            needed = _Needs(*map(any, zip(*(need[id_] for id_ in ids), strict=True)))
            task = TaskPlacement(len(tasks), number, plans[0], level, 0, *needed, members)
            tasks.append(replace(task, routing_key=keys.of(task.name, turn % spark_partitions)))
    replicas = tuple(replace(copy, number=number) for number, copy in enumerate(copies, len(tasks)))
    chosen = options or WorkerOptions()
    return Deployment(name, applications, tuple(tasks), spark_partitions, replicas, pass_through, chosen)


def useful_partitions(application: ApplicationPlan, cores: int) -> int:
    """Return how many state partitions an application can use: one a core, but no more than a level has tasks.

    A state partition without a task costs a Python worker and a state store in every batch.
    """
    widths = Counter(application.levels[plans[0].subtopologies[0]] for plans in _plans(application))
    return max(1, min(cores, max(widths.values(), default=1)))


def _plans(application: ApplicationPlan) -> Iterator[tuple[TaskPlan, ...]]:
    """Return plans that run as one: each alone, but those of a cycle together."""
    together: dict[object, list[TaskPlan]] = {}  # in the order of their first members
    common = replace(application.plan, topology=application.running, default_partitions=application.default_partitions)
    for group, topics in application.reads.items():
        cycle = application.cycle_of(group)
        for partition in range(max((application.partitions[topic] for topic in topics), default=0)):
            plan = replace(common, subtopologies=(group,), partition=partition)
            together.setdefault(cycle or plan.task_id, []).append(plan)
    yield from map(tuple, together.values())


def _cycles(upstream: Mapping[int, set[int]]) -> tuple[frozenset[int], ...]:
    """Return the sub-topologies that reach themselves, those that reach each other together."""
    above = {group: {*walk(feeders, upstream.__getitem__)} for group, feeders in upstream.items()}
    cycles = {frozenset(o for o in above[group] if group in above[o]) for group in above if group in above[group]}
    return tuple(sorted(cycles, key=min))


def _levels(upstream: Mapping[int, set[int]], cycles: tuple[frozenset[int], ...]) -> dict[int, int]:
    """Return the length of the longest path to each sub-topology, with each cycle taken as one."""
    whole = {group: frozenset({group}) for group in upstream} | {group: cycle for cycle in cycles for group in cycle}

    @cache
    def level(members: frozenset[int]) -> int:
        before = {whole[group] for member in members for group in upstream[member]} - {members}
        return 1 + max(map(level, before), default=-1)

    return {group: level(members) for group, members in whole.items()}


class _Needs(NamedTuple):
    """The needs of a sub-topology, in the order of the fields of `TaskPlacement`."""

    stateful: bool
    uses_global: bool
    punctuates: bool


def _needs(application: ApplicationPlan) -> dict[int, _Needs]:
    """Return what the tasks of each sub-topology need."""
    topology, default = application.running, application.config.default_timestamp_extractor
    needs: dict[int, _Needs] = {}
    for group in topology.subtopologies():
        if not group.is_global:
            nodes = [topology.nodes[name] for name in group.nodes]
            punctuates = any(node.traits.user_code for node in nodes)
            uses_global = bool(topology.global_stores) and (punctuates or any(n.traits.reads_global for n in nodes))
            extracts = default is not None or any(n.timestamp_extractor for n in nodes if isinstance(n, Source))
            stateful = bool(group.stores) or extracts or punctuates or uses_global
            needs[group.id] = _Needs(stateful, uses_global, punctuates)
    return needs
