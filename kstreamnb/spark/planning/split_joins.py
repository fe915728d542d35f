"""Split foreign-key joins, whose sides feed each other, into sub-topologies that run partition by partition.

A foreign-key join sends subscriptions from the left table's task to the right one's, and answers back: a cycle of
sub-topologies, which would run as one task. Here the left side is cut in two: the left table with its subscriptions, and
the resolver of answers with everything below it. The resolver gets the left table's rows through one more internal topic
and keeps a copy. A row reaches it before the answers that it causes, as in one task, so results are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from copy import copy
from dataclasses import dataclass, replace

from kstreamnb.core.operator import NO_TRAITS, BindContext, Forward, Operator, OperatorTraits, Process
from kstreamnb.core.record import Change, Headers
from kstreamnb.core.serde import Serde
from kstreamnb.core.stores import StoreSpec
from kstreamnb.operators.foreign_key import (
    ForeignTableJoin,
    Response,
    ResponsePartitioner,
    ResponseSerde,
    SubscriptionResolve,
    SubscriptionSend,
    value_hash,
)
from kstreamnb.topology.nodes import InternalTopic, Node, ProcessorNode, Sink, Source, Subtopology, walk
from kstreamnb.topology.topology import Topology

_TIMELESS = ("key_value", "timestamped_key_value")


@dataclass(frozen=True)
class RowSend(Operator):
    """Send the left table's rows, with their hashes, to the resolver's task of the same partition."""

    value_serde: Serde | None
    versioned: bool
    traits = NO_TRAITS

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        value_bytes, partition = context.value_serde(self.value_serde).serialize, context.partition
        versioned = self.versioned

        def send(key: object, change: Change, timestamp: int, headers: Headers) -> None:
            new, _, is_latest = change
            if is_latest or not versioned:
                digest = None if new is None else value_hash(value_bytes(new) or b"")
                forward(key, Response(digest, new, partition), timestamp, ())

        return send


@dataclass(frozen=True)
class RowKeep(Operator):
    """Keep the latest row of each key of the left table; forward nothing."""

    store: str

    @property
    def traits(self) -> OperatorTraits:
        """Replaces rows."""
        return OperatorTraits("replace", self.store)

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        put = context.store(self.store).put

        def keep(key: object, row: Response, timestamp: int, headers: Headers) -> None:
            put(key, None if row.value_hash is None else row)

        return keep


@dataclass(frozen=True)
class CopyView:
    """The left table's rows, with their hashes, in the copy."""

    store: str

    @property
    def stores(self) -> tuple[str, ...]:
        """The copy."""
        return (self.store,)

    def bind(self, context: BindContext) -> Callable[[object], Response | None]:
        """Return a function that looks up a row by its key."""
        get: Callable[[object], Response | None] = context.store(self.store).get
        return get


@dataclass(frozen=True)
class CopyResolve(SubscriptionResolve):
    """Join each answer with the row in the copy, whose hash is known."""

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        get, drop, left, joiner = self.view.bind(context), context.drop, self.left, self.joiner

        def resolve(key: object, response: Response, timestamp: int, headers: Headers) -> None:
            row = get(key)
            digest, value = (None, None) if row is None else (row.value_hash, row.foreign_value)
            if digest != response.value_hash:
                details = {
                    "answers": "deleted row" if response.value_hash is None else response.value_hash.hex(),
                    "current": "deleted row" if digest is None else digest.hex(),
                }
                drop("expired", key, response.foreign_value, timestamp, details)
                return
            foreign = response.foreign_value
            joined = joiner(value, foreign) if foreign is not None or (left and value is not None) else None
            forward(key, joined, timestamp, headers)

        return resolve


def split_joins(topology: Topology, joins: Collection[str] | None = None) -> Topology:
    """Return a topology without the cycles of foreign-key joins; a join whose results would change stays whole.

    Args:
        topology: the application's topology.
        joins: the names of the nodes that resolve answers of the joins to split; None for all.
    """
    for node in topology.nodes.values():
        if isinstance(node, ProcessorNode) and isinstance(node.operator, SubscriptionResolve):
            if joins is None or node.name in joins:
                topology = _split(topology, node, node.operator) or topology
    return topology


def _split(topology: Topology, resolve: ProcessorNode, operator: SubscriptionResolve) -> Topology | None:
    """Return the topology with one join split; None if that would change results."""
    send = _nearest(topology, resolve.name, SubscriptionSend)
    if not _is_ordered(topology, send, _nearest(topology, resolve.name, ForeignTableJoin)):
        return None
    (answers,) = (node for node in map(topology.nodes.get, resolve.parents) if isinstance(node, Source))
    rows, settings = f"{send.name}-rows", {"key_serde": answers.key_serde}
    settings["value_serde"] = ResponseSerde(operator.value_serde)
    topic, source, store = f"{rows}-topic", f"{rows}-source", f"{rows}-store"
    sender = ProcessorNode(rows, send.parents, RowSend(operator.value_serde, send.operator.versioned))
    above = (sender, Sink(f"{rows}-sink", (rows,), topic, **settings, partitioner=ResponsePartitioner()))
    keeper = ProcessorNode(f"{rows}-keep", (source,), RowKeep(store), (store,))
    resolver = replace(resolve, operator=CopyResolve(CopyView(store), operator.joiner, operator.left), stores=(store,))
    changed = {each.name: each for each in (*above, Source(source, (topic,), **settings), keeper, resolver)}
    split = copy(topology)
    split.nodes = topology.nodes | changed
    split.stores = topology.stores | {store: StoreSpec(store, "key_value", **settings, logged=False)}
    split.internal_topics = topology.internal_topics | {topic: InternalTopic(topic)}
    split.copartitioned = [*topology.copartitioned, (answers.name, source)]
    below = next(group for group in split.subtopologies() if resolve.name in group.nodes)
    if send.name in below.nodes or not _is_timeless(split, below):
        return None
    kept = [name for group in topology.subtopologies() for name in group.nodes if name not in below.nodes]
    order = (*kept, *(each.name for each in above), *below.nodes)  # sub-topologies keep their ids
    split.nodes = {name: split.nodes[name] for name in order}
    return split


def _nearest(topology: Topology, start: str, kind: type[Operator]) -> ProcessorNode:
    """Return the nearest node above another that runs a kind of operator, through topics, too."""
    nodes = topology.nodes
    above = walk([start], lambda name: _above(topology, nodes[name]))
    return next(n for n in map(nodes.__getitem__, above) if isinstance(n, ProcessorNode) and isinstance(n.operator, kind))


def _above(topology: Topology, node: Node) -> tuple[str, ...]:
    """Return the names of a node's parents; those of a source are the sinks that write its topics."""
    if not isinstance(node, Source):
        return node.parents
    return tuple(each.name for each in topology.nodes.values() if isinstance(each, Sink) and each.topic in node.topics)


def _is_ordered(topology: Topology, left: ProcessorNode, right: ProcessorNode) -> bool:
    """Return whether the rows of the left table and the answers to them, or to others, are never due at one moment.

    Records that one input record causes are ordered by the topics in between. So no input may reach both tables, nor
    the left one on paths of different lengths.
    """
    sources = _distances(topology, left)
    topics = {topic for topic, _ in sources}
    return len(sources) == len(topics) and topics.isdisjoint(topic for topic, _ in _distances(topology, right))


def _distances(topology: Topology, node: ProcessorNode) -> set[tuple[str, int]]:
    """Return the inputs above a node, each with the topics in between; in a loop, with several numbers."""
    nodes = topology.nodes

    def onward(place: tuple[str, int]) -> list[tuple[str, int]]:
        name, distance = place
        above = _above(topology, nodes[name]) if distance < len(nodes) else ()
        return [(each, distance + isinstance(nodes[name], Source)) for each in above]

    reached = ((nodes[name], distance) for name, distance in walk([(node.name, 0)], onward))
    return {
        (topic, distance)
        for source, distance in reached
        if isinstance(source, Source)
        for topic in source.topics or (source.pattern or "",)
        if topic not in topology.internal_topics
    }


def _is_timeless(topology: Topology, group: Subtopology) -> bool:
    """Return whether no result of a sub-topology depends on its stream time, which the left table's records advance."""
    return all(topology.stores[store].kind in _TIMELESS for store in group.stores) and not any(
        topology.nodes[name].traits.user_code for name in group.nodes
    )
