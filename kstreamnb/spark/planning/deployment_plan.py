"""`plan`: what a deployment will look like, before anything starts and without Spark or a broker."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

from kstreamnb.core.arguments import check_arguments
from kstreamnb.core.displayed import Displayed
from kstreamnb.core.formatting import pluralize
from kstreamnb.runtime.context.config import Config
from kstreamnb.runtime.context.partition_counts import resolve_partitions
from kstreamnb.spark.planning.deployment import ApplicationPlan, Deployment
from kstreamnb.spark.planning.key_routing import spark_hash
from kstreamnb.spark.planning.output_topics import output_topics
from kstreamnb.spark.planning.placement import plan_application, plan_deployment, useful_partitions
from kstreamnb.spark.planning.preflight import refuse_what_cannot_run
from kstreamnb.topology.nodes import ProcessorNode, Sink
from kstreamnb.topology.partitions import topic_writers, uneven_fact, uneven_remedy, uneven_stores
from kstreamnb.topology.topology import Topology

_AGAIN = "when a batch is repeated after a failure"
_SIDE_EFFECTS = {
    "foreach": f"its function runs again {_AGAIN}",
    "peek": f"its function runs again {_AGAIN}",
    "print": f"it prints again {_AGAIN}, and into the log of Spark's workers",
}
_OWN_PROCESSOR = f"its effects outside of its stores are repeated {_AGAIN}"
_IN_PARTS = (
    "each record once, slot by slot; readers may see a part of a batch before the rest, and after a failure until the "
    "next start"
)
ONE_AT_A_TIME = "at most one task of each level could run at a time"
"""Why a foreign-key join stays one task that can be split."""
_RESENT = f"its records are published again {_AGAIN}"


@runtime_checkable
class RepeatingSink(Protocol):
    """The part of a sink that a plan reads: what it repeats when a batch comes again, empty for nothing."""

    repeats: ClassVar[str]


@dataclass(frozen=True)
class PlannedLevel:
    """One operator of the query: its sub-topologies, tasks, stores and topics; ``operator`` is Spark's word for it.

    ``reads`` are the topics that come from the level before through a shuffle, with their partitions. ``shuffled``:
    rows move between Spark's partitions before the level; those of the inputs, too, if the first level has state.
    """

    number: int
    operator: str
    subtopologies: tuple[int, ...]
    tasks: int
    stores: tuple[str, ...]
    reads: tuple[tuple[str, int], ...] = ()
    shuffled: bool = False


@dataclass(frozen=True, repr=False)
class DeploymentPlan(Displayed):
    """A plan of what `deploy` starts; printing it shows everything.

    Attributes:
        levels: the operators in order.
        shuffles: how often records are moved between Spark's partitions in a batch.
        parallelism: the maximum number of tasks that can run at once, however many cores there are.
        through_kafka: topics that are written here and read back with the next batch.
        cycles: sub-topologies that feed each other and run in one place, as groups of ids.
        shared: output topics that several sub-topologies write; the writers keep the one order of all engines, but
        consumers may rely only on the order of each writer.
        at_least_once: what may happen again when a batch is repeated, by node, with the reason.
        inputs: input topics with their partitions.
        outputs: output topics that the topology names.
        replicas: replication factor of topics that `deploy` creates, -1 for the broker's default; None if the output
            does not go to Kafka.
        publish: "driver" or "executors", as for `deploy`.
        deployment: everything else.

    Example:
        >>> from kstreamnb import StreamsBuilder
        >>> builder = StreamsBuilder("copy")
        >>> builder.stream("orders").to("copies")
        >>> planned = plan(builder.build(), {"orders": 12})
        >>> planned.parallelism, planned.shuffles, planned.outputs
        (12, 0, ('copies',))
    """

    levels: tuple[PlannedLevel, ...]
    shuffles: int
    parallelism: int
    through_kafka: tuple[str, ...]
    cycles: tuple[tuple[int, ...], ...]
    shared: tuple[str, ...]
    at_least_once: tuple[tuple[str, str], ...]
    inputs: tuple[tuple[str, int], ...]
    outputs: tuple[str, ...]
    replicas: int | None
    publish: Literal["driver", "executors"]
    deployment: Deployment

    @property
    def tasks_by_partition(self) -> tuple[tuple[str, ...], ...]:
        """The tasks of each of Spark's state partitions; an empty one is idle."""
        task_ids: list[list[str]] = [[] for _ in range(self.deployment.spark_partitions)]
        for task in self.deployment.tasks:
            task_ids[spark_hash(task.routing_key) % len(task_ids)].append(task.plan.task_id)
        return tuple(map(tuple, task_ids))

    @property
    def max_parallelism(self) -> dict[int, int]:
        """The most tasks of each sub-topology that can run at the same time: one for each partition that it reads."""
        ids = ({id_ for plan in task.plans for id_ in plan.subtopologies} for task in self.deployment.tasks)
        return dict(sorted(Counter(chain.from_iterable(ids)).items()))

    def __str__(self) -> str:
        application = self.deployment.application
        stale = application.topology.stale
        lines = [*([f"stale: {stale}"] if stale else []), "inputs: " + _topics(self.inputs)]
        for level in self.levels:
            if level.shuffled:
                lines.append(f"shuffle: {_topics(level.reads) or 'the inputs, to their tasks'}")
            ids, tasks = ", ".join(map(str, level.subtopologies)), pluralize(level.tasks, "task")
            lines.append(f"level {level.number}: sub-topologies {ids}; {tasks}; {level.operator}")
            lines += [f"  store {store}" for store in level.stores]
        lines.append("outputs: " + (", ".join(self.outputs) or "none that can be known in advance"))
        if self.replicas is not None:
            factor = "the broker's default" if self.replicas < 0 else str(self.replicas)
            lines.append(f"new topics: replication factor {factor}")
        if self.publish == "executors":
            slots = self.deployment.spark_partitions
            lines += [f"shuffle: the output, to {pluralize(slots, 'slot')}", f"published by executors: {_IN_PARTS}"]
        lines.append(f"shuffles: {self.shuffles}; tasks at once: {self.parallelism}")
        each = ", ".join(f"{count} of sub-topology {id_}" for id_, count in self.max_parallelism.items())
        lines.append(f"max parallelism: {each}")
        join = "the foreign-key join at"
        lines += [f"split: the sides of {join} {node} run in separate tasks" for node in application.split]
        lines += [f"whole: {join} {node} is one task, because {ONE_AT_A_TIME}" for node in application.whole]
        circles = (", ".join(map(str, circle)) for circle in self.cycles)
        fact = "feed each other, so all their tasks run as one"
        lines += [f"in one place: sub-topologies {ids} {fact}" for ids in circles]
        lines += [f"warning: {each}" for each in _uneven(application)]
        lines += [f"through Kafka: {topic} is read back with the next batch" for topic in self.through_kafka]
        lines += [f"several writers: {topic}; only the order of each writer is defined" for topic in self.shared]
        lines += [f"at least once: {node}, for {why}" for node, why in self.at_least_once]
        return "\n".join(lines)


def plan(
    topology: Topology,
    partitions: Mapping[str, int] | int = 1,
    *,
    config: Config | Mapping[str, Any] | None = None,
    spark_partitions: int = 2,
    guarantee: Literal["exactly_once", "at_least_once"] | None = None,
    sink: RepeatingSink | None = None,
    publish: Literal["driver", "executors"] = "driver",
) -> DeploymentPlan:
    """Compute levels, tasks, shuffles, stores and guarantees of a deployment; prints as text.

    Args:
        topology: the topology, from ``builder.build()``.
        partitions: partitions of the input topics by name, or one number for all. Default: 1.
        config: the application's settings. Default: `Config()`.
        spark_partitions: state partitions of the query. Default: 2.
        guarantee: that of the deployment; default: the config's ``processing.guarantee``.
        sink: where the output goes instead of Kafka. Default: None.
        publish: "driver" or "executors", as for `deploy`. Default: "driver".

    Raises:
        TopologyError: joined topics have different numbers of partitions.
        SparkError: a function or setting cannot run on Spark; names the node, the reason and what to do instead.
        TopologyError: the topology reads no topic.

    Example:
        >>> from kstreamnb import StreamsBuilder
        >>> builder = StreamsBuilder("shop")
        >>> words = builder.stream("reviews").flat_map_values(str.split)
        >>> words.group_by(lambda key, word: word).count(store="words").to_stream().to("counts")
        >>> print(plan(builder.build(), 4))
        inputs: reviews (4 partitions)
        level 0: sub-topologies 0; 4 tasks; mapInArrow
        shuffle: shop-words-repartition (4 partitions)
        level 1: sub-topologies 1; 4 tasks; transformWithState
          store words (timestamped key value)
        outputs: counts
        new topics: replication factor the broker's default
        shuffles: 1; tasks at once: 4
        max parallelism: 4 of sub-topology 0, 4 of sub-topology 1
    """
    check_arguments(plan, locals())
    settings = Config.of(config)
    given, count = resolve_partitions(topology, settings, partitions)
    default = None if isinstance(partitions, Mapping) else count
    over = partial(plan_application, topology, settings, given, direct=False, default_partitions=default)
    application = over(split=None)
    if useful_partitions(application, spark_partitions) == 1:
        application = over(split=())
    refuse_what_cannot_run(application, planned=True)
    deployment = plan_deployment(application.id, [application], spark_partitions)
    levels = tuple(_level(application, deployment, level.number) for level in deployment.levels)
    resent = not settings.exactly_once if guarantee is None else guarantee == "at_least_once"
    repeated = (_RESENT if resent else "") if sink is None else sink.repeats and f"{sink.repeats} {_AGAIN}"
    return DeploymentPlan(
        levels,
        sum(level.shuffled for level in levels) + (publish == "executors"),
        max((level.tasks for level in levels), default=0),
        application.looped,
        tuple(tuple(sorted(circle)) for circle in application.cycles),
        _shared(topology),
        tuple(_at_least_once(topology, repeated)),
        tuple((topic, application.partitions[topic]) for topic in application.inputs),
        output_topics(topology),
        settings.replication_factor if sink is None else None,
        publish,
        deployment,
    )


def warn_of_uneven_stores(application: ApplicationPlan) -> None:
    """Warn about each store that topics of different partition counts reach."""
    for uneven in _uneven(application):
        warnings.warn(uneven, stacklevel=4)  # the line that calls deploy() or run()


def _uneven(application: ApplicationPlan) -> list[str]:
    topology = application.topology
    topics = {name: count for name, count in application.partitions.items() if name not in topology.internal_topics}
    return [f"{uneven_fact(*each)}; {uneven_remedy(each[1])}" for each in uneven_stores(topology, topics).items()]


def _level(application: ApplicationPlan, deployment: Deployment, number: int) -> PlannedLevel:
    here = [task for task in deployment.tasks if task.level == number]
    level = deployment.levels[number]
    operator = "transformWithState" if level.stateful else "mapInArrow"
    ids = sorted({plan.subtopologies[0] for task in here for plan in task.plans})
    owners = {group.id: group.stores for group in application.running.subtopologies()}
    inner = sorted({topic for id_ in ids for topic in application.reads[id_]} & application.inner)
    operator += " with global tables" if level.uses_global else ""
    stores = tuple(f"{store} ({_kind(application, store)})" for id_ in ids for store in owners[id_])
    reads = tuple((topic, application.partitions[topic]) for topic in inner)
    return PlannedLevel(number, operator, tuple(ids), len(here), stores, reads, level.stateful or number > 0)


def _kind(application: ApplicationPlan, store: str) -> str:
    spec = application.running.stores[store]
    if store not in application.topology.stores:
        return "a copy of the left table's rows"
    kind = str(spec.extra.get("type", "buffer") if spec.kind == "internal" else spec.kind).replace("_", " ")
    return kind if spec.logged or spec.changelog_topic else f"{kind}, not logged: restored from the checkpoint alone"


def _shared(topology: Topology) -> tuple[str, ...]:
    shared = {topic for topic, groups in topic_writers(topology).items() if len(groups) > 1}
    return tuple(sorted(shared - topology.internal_topics.keys()))


def _at_least_once(topology: Topology, repeated: str) -> Iterator[tuple[str, str]]:
    """Yield nodes whose side effects repeat, and which; ``repeated`` describes the output, empty if it is exact."""
    for node in topology.nodes.values():
        if isinstance(node, ProcessorNode) and not node.is_global:
            if node.dsl in _SIDE_EFFECTS:
                yield node.name, _SIDE_EFFECTS[node.dsl]
            elif node.traits.user_code:
                yield node.name, _OWN_PROCESSOR
        elif repeated and isinstance(node, Sink) and node.topic not in topology.internal_topics:
            yield node.name, repeated


def _topics(topics: tuple[tuple[str, int], ...]) -> str:
    return ", ".join(f"{topic} ({pluralize(n, 'partition')})" for topic, n in topics)
