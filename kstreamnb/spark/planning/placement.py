"""What runs where: levels of sub-topologies, tasks, group values, input lanes and routes. Pure: knows no Spark.

A level holds the sub-topologies whose longest path from an input topic has the same length. Each level is one operator
of the query; its tasks are the groups. What is addressed to a later level passes through.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kstreamnb.runtime.context.config import Config
from kstreamnb.runtime.context.task_plan import TaskPlan, plan_global_task, plan_tasks
from kstreamnb.spark.planning.key_routing import GroupValues
from kstreamnb.topology.nodes import Sink, Source, Subtopology
from kstreamnb.topology.partitions import partition_counts, source_topics
from kstreamnb.topology.topology import Topology

__all__ = ["COPY", "Application", "Deployment", "Level", "PlacedTask", "Replica", "deployment_of", "place"]

COPY = "/global at level "
"""What tells the name of a copy of global tables from that of a task."""


@dataclass(frozen=True, eq=False)
class Application:
    """A topology with its settings and the partitions of every topic, under the names they have in Kafka.

    ``inner`` are topics that are handed from task to task inside the query: repartition topics, and with ``direct``
    also the user's topics that are written and read here. ``looped`` are the user's topics that are written here and
    read back through Kafka. ``external`` are the input topics, ``global_topics`` those of global stores; ``levels``
    and ``reads`` give the level and the topics of each sub-topology; ``circles`` are ids of sub-topologies that feed
    each other.
    """

    topology: Topology
    config: Config
    partitions: Mapping[str, int]
    inner: frozenset[str]
    looped: tuple[str, ...]
    external: tuple[str, ...]
    global_topics: tuple[str, ...]
    levels: Mapping[int, int]
    circles: tuple[frozenset[int], ...]
    reads: Mapping[int, tuple[str, ...]]

    @property
    def id(self) -> str:
        """The application's id."""
        return TaskPlan(self.topology, (), config=self.config).application_id


@dataclass(frozen=True, eq=False)
class PlacedTask:
    """One task with its place: ``group`` is the value that brings its rows to its Spark partition.

    Where sub-topologies feed each other in a circle, all their tasks are ``members`` of one.
    """

    number: int
    application: int
    plan: TaskPlan
    level: int
    group: int
    stateful: bool
    uses_global: bool
    punctuates: bool
    members: tuple[TaskPlan, ...] = ()

    @property
    def name(self) -> str:
        """The task's id, unique among all applications of the query; a circle is called by its sub-topologies."""
        if not self.members:
            return f"{self.application}/{self.plan.task_id}"
        ids = sorted({plan.subtopologies[0] for plan in self.members})
        return f"{self.application}/circle {'+'.join(map(str, ids))}"

    @property
    def plans(self) -> tuple[TaskPlan, ...]:
        """The task's plan, or those of all members of a circle."""
        return self.members or (self.plan,)


@dataclass(frozen=True)
class Replica:
    """A copy of an application's global tables: one for each level that reads them and each Spark partition."""

    number: int
    application: int
    level: int
    group: int
    partition: int

    @property
    def name(self) -> str:
        """Unique among all replicas and tasks of the query."""
        return f"{self.application}{COPY}{self.level}, {self.partition}"


@dataclass(frozen=True)
class Level:
    """One operator of the query."""

    number: int
    stateful: bool
    uses_global: bool


@dataclass(frozen=True, eq=False)
class Deployment:
    """Everything that workers and the driver have to agree on.

    ``lanes`` ranks the input partitions as (application, topic, partition); ``readers`` gives the task that reads a
    partition. Rows are addressed to tasks by number; replicas of global tables are numbered behind them. ``passing``
    are group values, one a Spark partition, of rows that only pass a level. The groups of replicas are the least of
    their partition, so that Spark runs them first.
    """

    applications: tuple[Application, ...]
    tasks: tuple[PlacedTask, ...]
    levels: tuple[Level, ...]
    spark_partitions: int
    replicas: tuple[Replica, ...]
    passing: tuple[int, ...]
    lanes: Mapping[tuple[int, str, int], int] = field(repr=False)
    readers: Mapping[tuple[int, str, int], int] = field(repr=False)

    def group_at(self, level: int, target: int, source: int = 0) -> int:
        """The group value that a row has at a level: that of the task it is for, or a passing one by its producer."""
        if target >= 0:
            count = len(self.tasks)
            addressed = self.tasks[target] if target < count else self.replicas[target - count]
            if addressed.level == level:
                return addressed.group
        return self.passing[(target if target >= 0 else source) % self.spark_partitions]

    def at_group(self, level: int) -> dict[int, PlacedTask | Replica]:
        """Tasks and replicas of one level by group value."""
        here: tuple[PlacedTask | Replica, ...] = (*self.tasks, *self.replicas)
        return {placed.group: placed for placed in here if placed.level == level}

    def replica_targets(self, application: int) -> tuple[int, ...]:
        """Addresses of an application's replicas of its global tables."""
        return tuple(replica.number for replica in self.replicas if replica.application == application)

    def group_names(self) -> dict[str, int]:
        """Group values by the names of tasks and replicas: what a checkpoint has to remember."""
        here: tuple[PlacedTask | Replica, ...] = (*self.tasks, *self.replicas)
        return {placed.name: placed.group for placed in here}

    def global_plan(self, application: int) -> TaskPlan | None:
        """The task that keeps the global stores of an application.

        A record that cannot be read is the configured handler's matter, as in Kafka; its test driver goes on always.
        """
        chosen = self.applications[application]
        plan = plan_global_task(chosen.topology, chosen.config, chosen.partitions)
        if plan is None:
            return None
        return replace(plan, config=replace(plan.config, deserialization_handler=chosen.config.deserialization_handler))


def place(
    topology: Topology,
    config: Config,
    topics: Mapping[str, int],
    *,
    direct: bool,
    default_partitions: int | None = None,
) -> Application:
    """An application with everything that follows from its topics' partition counts.

    ``direct``: the user's topics that are written and read are handed on inside the query, too.
    """
    name = TaskPlan(topology, (), config=config).topic
    sinks = [node for node in topology.nodes.values() if isinstance(node, Sink)]
    written = {sink.topic for sink in sinks if isinstance(sink.topic, str)} - topology.internal_topics.keys()
    groups = [group for group in topology.subtopologies() if not group.is_global]
    given = dict(topics)
    if default_partitions is not None:
        asked = {topic for node in topology.sources() for topic in node.topics} - topology.internal_topics.keys()
        given = {**dict.fromkeys(sorted(asked), default_partitions), **topics}
    counts = partition_counts(topology, given)
    reads = {group.id: source_topics(topology, group, counts) for group in groups}
    read = {topic for topics in reads.values() for topic in topics}
    both = {topic for topic in read & written if topic not in topology.internal_topics}
    inner = {topic for topic in read if topic in topology.internal_topics} | (both if direct else set())
    global_topics = [topic for node in topology.sources() if node.is_global for topic in node.topics]
    above = _above(topology, groups, reads, inner)
    circles = _circles(above)
    return Application(
        topology,
        config,
        {name(topic): count for topic, count in {**given, **counts}.items()},
        frozenset(map(name, inner)),
        tuple(sorted((set() if direct else both) | (set(global_topics) & written))),
        tuple(sorted(read - inner)),
        tuple(sorted(global_topics)),
        _levels(above, circles),
        circles,
        {group: tuple(map(name, topics)) for group, topics in reads.items()},
    )


def deployment_of(
    applications: Iterable[Application],
    spark_partitions: int,
    *,
    default_partitions: int = 1,
    known_groups: Mapping[str, int] | None = None,
) -> Deployment:
    """Place all tasks of some applications; ``known_groups`` are group values that tasks have had before."""
    applications = tuple(applications)
    needs = [_needs(application) for application in applications]
    values = _Values(spark_partitions, known_groups or {})
    copies: list[tuple[int, int, int, int]] = []
    for number, (application, need) in enumerate(zip(applications, needs, strict=True)):
        for level in sorted({application.levels[group] for group in need.uses_global}):
            for partition in range(spark_partitions):
                name = Replica(0, number, level, 0, partition).name
                copies.append((number, level, values.of(name, partition), partition))
    passing = tuple(values.of(f"passing {partition}", partition) for partition in range(spark_partitions))
    tasks: list[PlacedTask] = []
    turns: dict[int, int] = {}
    for number, (application, need) in enumerate(zip(applications, needs, strict=True)):
        for plans in _groups(application, default_partitions):
            ids = {plan.subtopologies[0] for plan in plans}
            level = application.levels[min(ids)]
            turn = turns[level] = turns.get(level, -1) + 1
            task = PlacedTask(
                len(tasks),
                number,
                plans[0],
                level,
                0,
                bool(ids & need.stateful),
                bool(ids & need.uses_global),
                bool(ids & need.punctuates),
                plans if _circle_of(application, plans[0]) else (),
            )
            tasks.append(replace(task, group=values.of(task.name, turn % spark_partitions)))
    return Deployment(
        applications,
        tuple(tasks),
        _levels_of(tasks),
        spark_partitions,
        tuple(Replica(len(tasks) + at, *copy) for at, copy in enumerate(copies)),
        passing,
        _lanes(applications),
        _readers(applications, tasks),
    )


def _groups(application: Application, default_partitions: int) -> Iterator[tuple[TaskPlan, ...]]:
    """Plans that run as one: each for itself, but those of a circle together."""
    together: dict[object, list[TaskPlan]] = {}  # in the order of their first members
    for plan in plan_tasks(
        application.topology, application.config, application.partitions, default_partitions=default_partitions
    ):
        together.setdefault(_circle_of(application, plan) or plan.task_id, []).append(plan)
    yield from map(tuple, together.values())


def _circle_of(application: Application, plan: TaskPlan) -> frozenset[int]:
    return next((circle for circle in application.circles if plan.subtopologies[0] in circle), frozenset())


class _Values:
    """Group values by name: those that are known from before, new ones for the rest."""

    def __init__(self, partitions: int, known: Mapping[str, int]) -> None:
        self._known = known
        self._values = GroupValues(partitions, frozenset(known.values()))

    def of(self, name: str, partition: int) -> int:
        return self._known[name] if name in self._known else self._values.take(partition)


def _levels_of(tasks: list[PlacedTask]) -> tuple[Level, ...]:
    count = max((task.level for task in tasks), default=-1) + 1
    mine = [[task for task in tasks if task.level == number] for number in range(count)]
    return tuple(
        Level(number, any(t.stateful for t in here), any(t.uses_global for t in here))
        for number, here in enumerate(mine)
    )


def _lanes(applications: tuple[Application, ...]) -> dict[tuple[int, str, int], int]:
    places = [
        (number, topic, partition)
        for number, application in enumerate(applications)
        for topic in sorted({*application.external, *application.global_topics})
        for partition in range(application.partitions.get(topic, 1))
    ]
    return {place: rank for rank, place in enumerate(places)}


def _readers(applications: tuple[Application, ...], tasks: list[PlacedTask]) -> dict[tuple[int, str, int], int]:
    by_place = {
        (task.application, plan.subtopologies[0], plan.partition): task.number for task in tasks for plan in task.plans
    }
    return {
        (number, topic, partition): by_place[number, group, partition]
        for number, application in enumerate(applications)
        for group, topics in application.reads.items()
        for topic in topics
        for partition in range(application.partitions.get(topic, 1))
    }


def _above(
    topology: Topology, groups: list[Subtopology], reads: Mapping[int, tuple[str, ...]], inner: set[str]
) -> dict[int, set[int]]:
    """Which sub-topologies write the inner topics that each one reads."""
    writers: dict[str, set[int]] = {}
    for group in groups:
        for name in group.nodes:
            node = topology.nodes[name]
            if isinstance(node, Sink) and isinstance(node.topic, str):
                writers.setdefault(node.topic, set()).add(group.id)
    return {
        group.id: {writer for topic in reads[group.id] if topic in inner for writer in writers.get(topic, ())}
        for group in groups
    }


def _circles(above: Mapping[int, set[int]]) -> tuple[frozenset[int], ...]:
    """Sub-topologies that reach themselves, those that reach each other together."""
    reach = {group: set(direct) for group, direct in above.items()}
    for middle in above:
        for group in above:
            if middle in reach[group]:
                reach[group] |= reach[middle]
    found = {frozenset(o for o in above if o in reach[g] and g in reach[o]) for g in above if g in reach[g]}
    return tuple(sorted(found, key=min))


def _levels(above: Mapping[int, set[int]], circles: tuple[frozenset[int], ...]) -> dict[int, int]:
    """The longest path to each sub-topology, circles taken as one."""
    whole = {group: next((circle for circle in circles if group in circle), frozenset({group})) for group in above}
    levels: dict[frozenset[int], int] = {}

    def level(these: frozenset[int]) -> int:
        if these not in levels:
            before = {whole[group] for mine in these for group in above[mine]} - {these}
            levels[these] = 1 + max((level(other) for other in before), default=-1)
        return levels[these]

    return {group: level(whole[group]) for group in above}


class _Needs(NamedTuple):
    """Ids of sub-topologies that keep something between records, that read global tables, that may punctuate."""

    stateful: set[int]
    uses_global: set[int]
    punctuates: set[int]


def _needs(application: Application) -> _Needs:
    topology = application.topology
    needs = _Needs(set(), set(), set())
    for group in topology.subtopologies():
        if group.is_global:
            continue
        nodes = [topology.nodes[name] for name in group.nodes]
        traits_of = [node.traits for node in nodes]
        if any(traits.user_code for traits in traits_of):
            needs.punctuates.add(group.id)
        if topology.global_stores and (
            group.id in needs.punctuates or any(traits.reads_global for traits in traits_of)
        ):
            needs.uses_global.add(group.id)
        extractors = [node.timestamp_extractor for node in nodes if isinstance(node, Source)]
        default = application.config.default_timestamp_extractor
        keeps = bool(group.stores) or default is not None or any(extractors)
        if keeps or group.id in needs.punctuates or group.id in needs.uses_global:
            needs.stateful.add(group.id)
    return needs
