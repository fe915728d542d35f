"""Split foreign-key joins, so that both of their sides run partition by partition.

Such a join sends subscriptions from the left table's task to the right one's, and answers back: a cycle of
sub-topologies. It is cut before the node that joins the answers: that node and all below it become a sub-topology of
their own, with a copy of the left table's rows, which come through one more internal topic. A row arrives before the
answers that it causes, so results are the same.
"""

from __future__ import annotations

from collections.abc import Collection
from copy import copy
from dataclasses import replace
from typing import Any

from kstreamnb.core.operator import Apart
from kstreamnb.core.stores import StoreSpec
from kstreamnb.topology.nodes import InternalTopic, ProcessorNode, Sink, Source, Subtopology, walk
from kstreamnb.topology.topology import Topology

_CLOCK = ""
_TIMELESS = ("key_value", "timestamped_key_value")


def split_joins(topology: Topology, joins: Collection[str] | None = None) -> Topology:
    """Return a topology in which foreign-key joins are split; a join whose results would change stays whole.

    Args:
        topology: the application's topology.
        joins: the joins to split, by the nodes that join answers; None for all that then run apart.
    """
    split = topology
    for node in topology.processors():
        if joins is None or node.name in joins:
            apart = node.operator.apart(f"{node.name}-rows")
            if apart is not None:
                send, tell = _sides(topology, node)
                if _are_ordered(topology, send, tell) and not _is_computed(topology, send):
                    candidate = _split(split, node, apart, send)
                    split = split if joins is None and _feeds(candidate, node.name, tell) else candidate
    return split


def _feeds(topology: Topology, lower: str, upper: str) -> bool:
    """Return whether the sub-topology of one node sends records to that of another, maybe through others."""
    groups = {name: group.nodes for group in topology.subtopologies() for name in group.nodes}
    return lower in walk([upper], lambda name: (*topology.feeders(name), *groups[name]))


def _split(topology: Topology, resolve: ProcessorNode, apart: Apart, send: str) -> Topology:
    """Return the topology with one join split, or as it is if that would change results."""
    rows = f"{resolve.name}-rows"  # the node that sends them, and the store of the copy
    source, topic = f"{rows}-source", f"{rows}-topic"
    answers = next(node for node in topology.sources() if node.name in resolve.parents)
    serdes: dict[str, Any] = {"key_serde": answers.key_serde, "value_serde": apart.serde}
    call: dict[str, Any] = {"dsl": resolve.dsl, "origin": resolve.origin}  # pictures show the nodes inside the join
    above = (
        ProcessorNode(rows, topology.nodes[send].parents, apart.send, **call),
        Sink(f"{rows}-sink", (rows,), topic, **serdes, partitioner=apart.partitioner, origin=resolve.origin),
    )
    below = (
        Source(source, (topic,), **serdes, origin=resolve.origin),
        ProcessorNode(f"{rows}-keep", (source,), apart.keep, (rows,), **call),
        replace(resolve, parents=(answers.name, f"{rows}-keep"), operator=apart.resolve, stores=(rows,)),
    )
    split = copy(topology)
    split.nodes = topology.nodes | {node.name: node for node in (*above, *below)}
    split.stores = topology.stores | {rows: StoreSpec(rows, "key_value", **serdes, logged=False)}
    split.internal_topics = topology.internal_topics | {topic: InternalTopic(topic)}
    split.copartitioned = [*topology.copartitioned, (answers.name, source)]
    group = next(group for group in split.subtopologies() if resolve.name in group.nodes)
    if send in group.nodes or not _is_timeless(split, group):
        return topology
    others = [name for each in topology.subtopologies() for name in each.nodes if name not in group.nodes]
    # Sub-topologies keep their ids, and the new one gets the last.
    split.nodes = {name: split.nodes[name] for name in (*others, rows, f"{rows}-sink", *group.nodes)}
    return split


def _sides(topology: Topology, resolve: ProcessorNode) -> tuple[str, str]:
    """Return the node that sends the subscriptions of a join, and the one that tells subscribers of changes."""
    nodes = topology.nodes
    (sink,) = topology.feeders(resolve.parents[0])
    by_kind = {join.kind: name for name in nodes[sink].parents if (join := nodes[name].traits.join)}
    (receive,) = nodes[by_kind["answer"]].parents
    (registration,) = topology.feeders(nodes[receive].parents[0])
    return nodes[registration].parents[0], by_kind["notify"]


def _are_ordered(topology: Topology, left: str, right: str) -> bool:
    """Return whether a row of the left table and an answer to another one are never due at one moment.

    Records that one input record causes are ordered by the topics in between. So no input may reach both tables, nor
    the left one on paths of different lengths.
    """
    inputs = _inputs(topology, left)
    topics = {topic for topic, _ in inputs}
    return len(inputs) == len(topics) and topics.isdisjoint(topic for topic, _ in _inputs(topology, right))


def _is_computed(topology: Topology, left: str) -> bool:
    """Return whether users' code computes the left table's rows at each look-up: it may give others than it sent."""
    nodes = topology.nodes
    above = walk(nodes[left].parents, lambda name: () if nodes[name].traits.store else nodes[name].parents)
    return any(node.traits.user_code and not node.traits.store for node in map(nodes.__getitem__, above))


def _inputs(topology: Topology, name: str) -> set[tuple[str, int]]:
    """Return the inputs above a node with the number of topics in between; in a loop, with several numbers.

    Users' code may forward at any record of its sub-topology, and at a tick of the wall clock, which is an input, too.
    """
    nodes = topology.nodes
    groups = {node: group.nodes for group in topology.subtopologies() for node in group.nodes}

    def onward(place: tuple[str, int]) -> list[tuple[str, int]]:
        name, distance = place
        above = topology.feeders(name) if distance < len(nodes) else ()
        beside = groups[name] if nodes[name].traits.user_code else ()
        sources = [(each, distance) for each in beside if isinstance(nodes[each], Source)]
        return sources + [(each, distance + isinstance(nodes[name], Source)) for each in above]

    places = list(walk([(name, 0)], onward))
    return {(_CLOCK, distance) for name, distance in places if nodes[name].traits.user_code} | {
        (topic, distance)
        for source, distance in places
        if isinstance(node := nodes[source], Source)
        for topic in node.topics or (node.pattern or "",)
        if topic not in topology.internal_topics
    }


def _is_timeless(topology: Topology, group: Subtopology) -> bool:
    """Return whether no result of a sub-topology depends on its stream time, which the left table's records advance."""
    user_code = any(topology.nodes[name].traits.user_code for name in group.nodes)
    return not user_code and all(topology.stores[store].kind in _TIMELESS for store in group.stores)
