"""The description of a topology in the order in which Kafka Streams prints it.

Nodes go by the size of the tree below them (every path counts), then by name. The lists of neighbours are tree
sets filled while those sizes still grow, in the order of a hash map over the names; both are reproduced.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kstreamnb.core.stores import StoreSpec
from kstreamnb.topology.description import (
    DescribedNode,
    DescribedStore,
    DescribedSubtopology,
    DescribedTopic,
    TopologyDescription,
)
from kstreamnb.topology.grouping import Subtopology
from kstreamnb.topology.java_order import TreeSet, copied_hash_order, hash_order, utf16
from kstreamnb.topology.nodes import Node, Sink, Source

if TYPE_CHECKING:  # the topology describes itself through this module
    from kstreamnb.topology.topology import Topology


def describe_topology(topology: Topology) -> TopologyDescription:
    """What Kafka Streams would print of ``topology``, and what it would not."""
    stores = {**topology.stores, **topology.global_stores}
    return TopologyDescription(
        tuple(_subtopology(topology.nodes, sub) for sub in topology.subtopologies()),
        tuple(_store(spec) for spec in stores.values()),
        tuple(DescribedTopic(topic.name, topic.partitions) for topic in topology.internal_topics.values()),
        tuple(topology.copartitioned),
        topology.name,
    )


class _Placed:
    """A node while its sub-topology is put in order."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.name = node.name
        self.size = 1
        self.key = utf16(node.name)
        self.predecessors: TreeSet[_Placed] = TreeSet(_compare)
        self.successors: TreeSet[_Placed] = TreeSet(_compare)
        self.known: list[_Placed] = []


def _compare(one: _Placed, two: _Placed) -> int:
    if one is two:
        return 0
    if one.size != two.size:
        return _int(two.size - one.size)
    return -1 if one.key < two.key else 1


def _int(number: int) -> int:
    """A 32-bit integer as Java keeps it: the sizes of a wide graph do overflow."""
    return (number + 0x80000000) % 0x100000000 - 0x80000000


def _subtopology(nodes: Mapping[str, Node], sub: Subtopology) -> DescribedSubtopology:
    placed = {name: _Placed(nodes[name]) for name in sub.nodes}
    position = {name: index for index, name in enumerate(sub.nodes)}
    for name in hash_order(hash_order(sub.nodes)):  # Java copies the set into a map
        node = placed[name]
        for parent in node.node.parents:
            predecessor = placed[parent]
            node.predecessors.add(predecessor)
            predecessor.successors.add(node)
            if predecessor not in node.known:
                node.known.append(predecessor)
            _grow(predecessor, node.size, position)
    ordered: TreeSet[_Placed] = TreeSet(_compare)
    for name in hash_order(hash_order(sub.nodes)):  # Java copies the set into a map
        ordered.add(placed[name])
    return DescribedSubtopology(sub.id, tuple(_described(node) for node in ordered), sub.is_global)


def _grow(node: _Placed, by: int, position: Mapping[str, int]) -> None:
    """Add ``by`` to the size of ``node`` and, along every path known so far, to those above it."""
    grown = {node.name: by}
    above = {node.name: node}
    while above:
        lowest = above.pop(max(above, key=position.__getitem__))
        lowest.size = _int(lowest.size + grown[lowest.name])
        for predecessor in lowest.known:
            grown[predecessor.name] = grown.get(predecessor.name, 0) + grown[lowest.name]
            above[predecessor.name] = predecessor


def _described(placed: _Placed) -> DescribedNode:
    node = placed.node
    shared: dict[str, Any] = {
        "successors": tuple(other.name for other in placed.successors),
        "predecessors": tuple(other.name for other in placed.predecessors),
        "origin": str(node.origin) if node.origin else None,
    }
    if isinstance(node, Source):
        settings = _settings(node, "key_serde", "value_serde", "timestamp_extractor", "offset_reset")
        topics = tuple(copied_hash_order(node.topics))
        return DescribedNode("source", node.name, topics, node.pattern, settings=settings, **shared)
    if isinstance(node, Sink):
        settings = _settings(node, "key_serde", "value_serde", "partitioner")
        shared["extractor" if callable(node.topic) else "topic"] = function_text(node.topic)
        return DescribedNode("sink", node.name, settings=settings, **shared)
    settings = (("operator", type(node.operator).__name__),)
    stores = tuple(copied_hash_order(node.stores))
    return DescribedNode("processor", node.name, stores=stores, dsl=node.dsl, settings=settings, **shared)


def _settings(node: Any, *names: str) -> tuple[tuple[str, str], ...]:
    values = ((name, getattr(node, name)) for name in names)
    return tuple((name, function_text(value)) for name, value in values if value is not None)


_STORE_SETTINGS = (
    *("key_serde", "value_serde", "retention_ms", "window_size_ms", "history_ms", "max_entries"),
    *("logged", "cached", "persistent", "changelog_topic"),
)


def _store(spec: StoreSpec) -> DescribedStore:
    return DescribedStore(spec.name, spec.kind, _settings(spec, *_STORE_SETTINGS))


def function_text(value: Any) -> str:
    """A short, stable text of a serde, a function or a plain value: its name, never an address."""
    if isinstance(value, str | int):
        return str(value)
    if value.__class__.__str__ is not object.__str__ and not hasattr(value, "__dataclass_fields__"):
        return str(value) if not hasattr(value, "__qualname__") else value.__qualname__
    return str(getattr(value, "name", None) or getattr(value, "__qualname__", None) or type(value).__name__)
