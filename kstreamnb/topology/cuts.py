"""Explains why a topology is split into sub-topologies: one sentence for every topic that connects two of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from kstreamnb.topology.description import DescribedNode, DescribedSubtopology, TopologyDescription
from kstreamnb.topology.labels import changes_key, node_label, node_title
from kstreamnb.topology.nodes import grouped, walk

_Nodes: TypeAlias = Mapping[str, DescribedNode]


class Cut(NamedTuple):
    """Sub-topology ``before`` writes ``topic``, ``after`` reads it; ``why`` is a sentence and ``short`` a phrase."""

    topic: str
    before: int
    after: int
    why: str
    short: str | None


def internal_topics(description: TopologyDescription) -> frozenset[str]:
    """Return topics that the application creates for itself: known ones, or recognized by Kafka's names in a foreign
    text.
    """
    known = {topic.name for topic in description.internal_topics}
    nodes = description.nodes().values()
    both = {node.topic for node in nodes if node.topic} & {topic for node in nodes for topic in node.topics}
    return frozenset(known | {topic for topic in both if topic.endswith("-repartition") or _foreign_key(topic)})


def cuts_of(description: TopologyDescription) -> tuple[Cut, ...]:
    """Return all cuts, in the order of the sub-topologies."""
    internal = internal_topics(description)
    written = ((sub, node) for sub in description.subtopologies for node in sub.nodes if node.topic is not None)
    writers = grouped(written, lambda writer: writer[1].topic)
    cuts, nodes = [], description.nodes()
    for after in description.subtopologies:
        for topic in (topic for node in after.nodes for topic in node.topics):
            for id_, of_group in grouped(writers.get(topic, ()), lambda writer: writer[0].id).items():
                sinks = [sink for _, sink in of_group]
                why, short = _reason(topic, id_, after.id, sinks, topic in internal, nodes)
                cuts.append(Cut(topic, id_, after.id, why, short))
    return tuple(sorted(cuts, key=lambda cut: (cut.before, cut.after)))


def separation(description: TopologyDescription, sub: DescribedSubtopology, cuts: tuple[Cut, ...]) -> str | None:
    """Explain why no topic connects a sub-topology to another; None if there is nothing to explain."""
    if sub.is_global:
        return "global store: every task sees all of its topic, so it is kept apart and has no tasks of its own"
    if len(description.subtopologies) == 1 or any(sub.id in (cut.before, cut.after) for cut in cuts):
        return None
    return "shares no node and no store with the others: it reads only topics from outside"


def _reason(
    topic: str, before: int, after: int, sinks: list[DescribedNode], is_internal: bool, nodes: _Nodes
) -> tuple[str, str | None]:
    if before == after:
        return f"sub-topology {after} reads topic {topic} back, which it writes itself", "read back"
    if direction := _foreign_key(topic):
        return f"foreign-key join: {direction} through topic {topic}", f"foreign-key join: {direction}"
    if not is_internal:
        return f"sub-topology {after} reads topic {topic}, which sub-topology {before} writes", None
    changers = dict.fromkeys(name for sink in sinks for name in _key_changers(nodes, sink))
    if not changers:
        return f"repartition asked for: through topic {topic}", "repartition asked for"
    labels = dict.fromkeys(node_label(nodes[name])[0] for name in changers)
    titles = ", ".join(node_title(nodes, name) for name in changers)
    return (f"key changed at {titles}: repartitioned through topic {topic}", f"key changed at {', '.join(labels)}")


def _key_changers(nodes: _Nodes, sink: DescribedNode) -> list[str]:
    """Return the nearest nodes above ``sink`` that change keys, on every path."""
    above = walk(sink.predecessors, lambda name: () if changes_key(nodes[name]) else nodes[name].predecessors)
    return [name for name in above if changes_key(nodes[name])]


def _foreign_key(topic: str) -> str | None:
    """Describe how a foreign-key join routes records through its own topics."""
    if topic.endswith("-rows-topic"):
        return "rows go to the copy beside the answers"
    if topic.endswith("-topic"):
        if "SUBSCRIPTION-REGISTRATION" in topic or topic.endswith("-subscription-registration-topic"):
            return "subscriptions go to the foreign key's partition"
        if "SUBSCRIPTION-RESPONSE" in topic or topic.endswith("-subscription-response-topic"):
            return "answers go back to the primary key's partition"
    return None
