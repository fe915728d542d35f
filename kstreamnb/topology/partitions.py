"""Derives the partition count of every topic, the tasks of a topology, and the topics that an application owns.

The counts of the user's topics are given. A repartition topic with a fixed count keeps it; another gets the highest
count among the sources of the sub-topologies that write it, and then that of its co-partitioned peers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from kstreamnb.core.arguments import expect, expect_number
from kstreamnb.core.formatting import join_list
from kstreamnb.core.record import TopicPartition
from kstreamnb.core.stores import StoreSpec
from kstreamnb.core.time import MAX_TIME_MS
from kstreamnb.errors import TopologyError
from kstreamnb.java_texts import NOT_COMPUTED
from kstreamnb.topology.nodes import NodeGraph, Sink, Source, Subtopology, walk
from kstreamnb.topology.validation import refuse

_MOST = 1_000_000
"""Partitions of a topic; a cluster has at most about as many of all its topics."""


class PlannedTask(NamedTuple):
    """One task: a sub-topology and a partition, with the partitions that it reads and the stores that it keeps."""

    subtopology: int
    partition: int
    inputs: tuple[TopicPartition, ...]
    stores: tuple[str, ...]

    @property
    def id(self) -> str:
        """The task's id as Kafka writes it, such as ``0_3``."""
        return f"{self.subtopology}_{self.partition}"


def source_topics(topology: NodeGraph, nodes: Iterable[str], topics: Iterable[str] = ()) -> tuple[str, ...]:
    """Return topics that some nodes read; patterns take those of ``topics`` that they match, sorted by name.

    Names of repartition topics are without the application's id.
    """
    by_pattern = sorted(topic for topic in topics if topic not in topology.internal_topics)
    sources = (node for node in map(topology.nodes.__getitem__, nodes) if isinstance(node, Source))
    return tuple(dict.fromkeys(topic for node in sources for topic in node.topics or filter(node.reads, by_pattern)))


def topic_writers(topology: NodeGraph) -> dict[str, dict[int, list[Sink]]]:
    """Return the sinks of each topic by the id of their sub-topology; without those that choose topics by record."""
    writers: dict[str, dict[int, list[Sink]]] = {}
    for sub in topology.subtopologies():
        for node in map(topology.nodes.__getitem__, sub.nodes):
            if isinstance(node, Sink) and isinstance(node.topic, str):
                writers.setdefault(node.topic, {}).setdefault(sub.id, []).append(node)
    return writers


def check_fixed_partitions(topology: NodeGraph) -> None:
    """Require that co-partitioned repartition topics with fixed counts have the same one.

    Raises: TopologyError when they differ; this is known before any topic exists.
    """
    for sources in topology.copartitioned:
        read = source_topics(topology, sources)
        fixed = _fixed(topology, read)
        if len(fixed) == len(read):
            _same(fixed, *_REPARTITIONED)


def partition_counts(topology: NodeGraph, topics: Mapping[str, int]) -> dict[str, int]:
    """Derive the number of partitions of every topic that tasks read from those of the user's topics.

    Raises: TopologyError when a topic is missing, counts of co-partitioned topics differ, or a count is not positive.
    """
    expect(topics, Mapping, "topics", hint='write for example {"orders": 4}')
    for topic, count in topics.items():
        expect(topic, str, "name of a topic")
        expect_number(count, f'number of partitions of "{topic}"')
        if not 1 <= count <= _MOST:
            java = "Number of partitions must be at least 1." if count < 1 else None
            raise TopologyError(f'topic "{topic}" cannot have {count} partitions', java=java)
    subs = [sub for sub in topology.subtopologies() if not sub.is_global]
    reads = {sub.id: source_topics(topology, sub.nodes, topics) for sub in subs}
    for sub in subs:
        _check_present(topology, sub, reads[sub.id], topics)
    known = {topic: topics[topic] for read in reads.values() for topic in read if topic in topics}
    known |= _repartition_counts(topology, reads, known)
    for group in _copartition_groups(topology, topics):
        known |= _enforced(topology, group, known)
    return known


def uneven_stores(topology: NodeGraph, topics: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Return the stores that topics of different partition counts reach, with the counts of these topics.

    Kafka Streams makes as many tasks as the widest topic has partitions and compares counts only for joins: a key may
    reach such a store in two tasks, and each task keeps only its part of the rows.
    """
    counts = partition_counts(topology, topics)
    uneven: dict[str, dict[str, int]] = {}
    for sub in topology.subtopologies():
        for store in () if sub.is_global else sub.stores:
            users = [name for name in sub.nodes if store in topology.nodes[name].stores]
            above = walk(users, lambda name: topology.nodes[name].parents)
            reached = {topic: counts[topic] for topic in source_topics(topology, above, topics)}
            if len(set(reached.values())) > 1:
                uneven[store] = dict(sorted(reached.items()))
    return uneven


def uneven_fact(store: str, counts: Mapping[str, int]) -> str:
    """Return what is wrong with a store of `uneven_stores`.

    Example:
        >>> uneven_fact("stock", {"orders": 3, "returns": 4})
        '"orders" and "returns" meet at store "stock" with 3 and 4 partitions; the same key may be in two tasks'
    """
    topics = join_list(f'"{topic}"' for topic in counts)
    numbers = join_list(map(str, counts.values()))
    return f'{topics} meet at store "{store}" with {numbers} partitions; the same key may be in two tasks'


def uneven_remedy(counts: Mapping[str, int]) -> str:
    """Return the call that gives all topics of a store of `uneven_stores` one partition count."""
    return f"use .repartition(Repartitioned(partitions={max(counts.values())})) on each stream before they meet"


def plan_tasks(topology: NodeGraph, topics: Mapping[str, int]) -> tuple[PlannedTask, ...]:
    """Plan tasks by sub-topology and partition; ``topics`` are the partition counts of the user's topics.

    A sub-topology has as many tasks as its widest topic has partitions.
    """
    counts = partition_counts(topology, topics)
    tasks = []
    for sub in topology.subtopologies():
        read = () if sub.is_global else source_topics(topology, sub.nodes, topics)
        for partition in range(max((counts[topic] for topic in read), default=0)):
            inputs = (TopicPartition(topic, partition) for topic in sorted(read) if partition < counts[topic])
            tasks.append(PlannedTask(sub.id, partition, tuple(inputs), sub.stores))
    return tuple(tasks)


def _fixed(topology: NodeGraph, topics: Iterable[str]) -> dict[str, int]:
    internal = (topology.internal_topics[topic] for topic in topics if topic in topology.internal_topics)
    return {topic.name: topic.partitions for topic in internal if topic.partitions is not None}


def _check_present(topology: NodeGraph, sub: Subtopology, read: tuple[str, ...], topics: Mapping[str, int]) -> None:
    missing = [topic for topic in read if topic not in topics and topic not in topology.internal_topics]
    if missing:
        names = ", ".join(f'"{topic}"' for topic in missing)
        fact = f"unknown number of partitions of {'topic' if len(missing) == 1 else 'topics'} {names}"
        java = f"Missing source topics [{', '.join(missing)}] for subtopology {sub.id}"
        raise TopologyError(fact, hint="create the topic, or give its number of partitions", java=java)
    if not read:
        shown = ", ".join(f'"{node.pattern}"' for node in topology.sources() if node.name in sub.nodes and node.pattern)
        fact = f"no topic matches the pattern {shown} of sub-topology {sub.id}"
        raise TopologyError(fact, hint='create one; in a test, name one: partitions={"orders-1": 1}', java=NOT_COMPUTED)


def _repartition_counts(
    topology: NodeGraph, reads: Mapping[int, tuple[str, ...]], known: Mapping[str, int]
) -> dict[str, int]:
    """Return fixed counts and, for the others, the highest upstream count, in as many rounds as
    chains of topics need.
    """
    wanted = [topic for read in reads.values() for topic in read if topic in topology.internal_topics]
    counts = _fixed(topology, wanted)
    writers = topic_writers(topology)
    while open_topics := [topic for topic in wanted if topic not in counts]:
        progress = False
        for topic in open_topics:
            above = {**known, **counts}
            candidates = [above[read] for sub in writers.get(topic, ()) for read in reads[sub] if read in above]
            if candidates:
                counts[topic], progress = max(candidates), True
        if not progress:
            names = ", ".join(f'"{topic}"' for topic in open_topics)
            raise TopologyError(f"the number of partitions of {names} cannot be derived", java=NOT_COMPUTED)
    return counts


def _copartition_groups(topology: NodeGraph, topics: Iterable[str]) -> list[list[str]]:
    """Group topics of co-partitioned sources; groups that share a topic are one."""
    groups: list[dict[str, None]] = []
    for sources in topology.copartitioned:
        merged = dict.fromkeys(source_topics(topology, sources, topics))
        apart = [group for group in groups if not group.keys() & merged.keys()]
        for group in groups:
            if group not in apart:
                merged = {**group, **merged}
        groups = [*apart, merged]
    return [list(group) for group in groups]


def _enforced(topology: NodeGraph, group: list[str], known: Mapping[str, int]) -> dict[str, int]:
    """Return the counts of a group's repartition topics after agreement with their peers."""
    repartition = [topic for topic in group if topic in topology.internal_topics]
    external = {topic: known[topic] for topic in group if topic not in topology.internal_topics}
    fixed = _fixed(topology, repartition)
    if external:
        hint = "give both topics the same number of partitions, or put repartition() before the join"
        count = _same(external, "topics", "Topics not co-partitioned", hint)
    else:
        count = _same(fixed, *_REPARTITIONED) if fixed else max((known[topic] for topic in repartition), default=1)
    for topic, own in fixed.items():
        if own != count:
            fact = f'repartition topic "{topic}" has {own} partitions, but the topics it is joined with have {count}'
            java = f"Number of partitions [{own}] of repartition topic [{topic}] doesn't match number of partitions"
            hint = "leave the number of partitions of the repartition topic open"
            raise refuse(fact, f"{java} [{count}] of the source topic.", hint=hint)
    return dict.fromkeys(repartition, count)


_REPARTITIONED = ("repartition topics", "Following topics do not have the same number of partitions")


def _same(counts: Mapping[str, int], what: str, java: str, hint: str | None = None) -> int:
    """Return the one count that all topics have; raises TopologyError when they differ."""
    count = next(iter(counts.values()), 1)
    if any(other != count for other in counts.values()):
        numbers = ", ".join(f'"{topic}" has {each}' for topic, each in sorted(counts.items()))
        map_ = ", ".join(f"{topic}={each}" for topic, each in sorted(counts.items()))
        message = f"{what} must have the same number of partitions: {numbers}"
        raise refuse(message, f"{java}: [{{{map_}}}]", hint=hint)
    return count


_DAY_MS = 86_400_000


class OwnedTopic(NamedTuple):
    """One topic of an application, under its full name.

    ``partitions`` is None while the counts of the user's topics are unknown; ``store`` names a changelog's store.
    """

    name: str
    kind: Literal["repartition", "changelog"]
    partitions: int | None
    config: tuple[tuple[str, str], ...]
    store: str | None = None


def repartition_topic(application_id: str, name: str) -> str:
    """Return full name of a repartition topic."""
    return f"{application_id}-{name}"


def changelog_topic(application_id: str, store: StoreSpec) -> str:
    """Return full name of a store's changelog: its own, or the topic that serves as its log."""
    return store.changelog_topic or f"{application_id}-{store.name}-changelog"


def owned_topics(
    topology: NodeGraph, application_id: str, topics: Mapping[str, int] | None = None
) -> tuple[OwnedTopic, ...]:
    """Return repartition topics, then changelogs, by sub-topology; ``topics`` are partition counts of the user's
    topics.

    A changelog has a partition for every task of its sub-topology.
    """
    counts = partition_counts(topology, topics) if topics is not None else {}
    owned: dict[str, OwnedTopic] = {}
    for name in topology.internal_topics:
        full = repartition_topic(application_id, name)
        owned[full] = OwnedTopic(full, "repartition", counts.get(name), _REPARTITION)
    for sub in (each for each in topology.subtopologies() if not each.is_global):
        read = source_topics(topology, sub.nodes, counts)
        tasks = max((counts[topic] for topic in read if topic in counts), default=None)
        for store in (topology.stores[name] for name in sub.stores):
            if store.logged and store.changelog_topic is None:
                full = changelog_topic(application_id, store)
                owned[full] = OwnedTopic(full, "changelog", tasks, _changelog_config(store), store.name)
    return tuple(owned.values())


_CREATE_TIME = ("message.timestamp.type", "CreateTime")
_REPARTITION = (("cleanup.policy", "delete"), _CREATE_TIME, ("retention.ms", "-1"), ("segment.bytes", "52428800"))


def _changelog_config(store: StoreSpec) -> tuple[tuple[str, str], ...]:
    config = {"cleanup.policy": "compact", _CREATE_TIME[0]: _CREATE_TIME[1]}
    if store.kind in ("window", "timestamped_window", "session"):
        # Rows with duplicates have numbers in their keys, which start again in a new task: compaction would lose rows.
        policy = "delete" if store.kind == "window" and store.retain_duplicates else "compact,delete"
        config |= {"cleanup.policy": policy, "retention.ms": _and_a_day(store.retention_ms)}
    elif store.kind == "versioned":
        config |= {"min.compaction.lag.ms": _and_a_day(store.history_ms)}
    return tuple(sorted({**config, **dict(store.log_config)}.items()))


def _and_a_day(kept_ms: int | None) -> str:
    """Add what Kafka adds for clocks that disagree (windowstore.changelog.additional.retention.ms), at most to its
    largest time.
    """
    return str(min((kept_ms or 0) + _DAY_MS, MAX_TIME_MS))
