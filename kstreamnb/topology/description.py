"""A description of a topology as a value: what Kafka Streams prints, and further properties known only to kstreamnb.

`describe_topology` computes it in Java's orders; `display.parser` reads it from the text of any application. Its text
is the text of Kafka's ``TopologyDescription``.

Nodes are ordered by the size of the tree below them (every path counts), then by name. The lists of neighbors are tree
sets filled while those sizes still grow, in the order of a hash map over the names; both are reproduced.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from kstreamnb.core.displayed import Displayed
from kstreamnb.core.formatting import pluralize
from kstreamnb.topology.java_order import TreeSet, copied_hash_order, hash_order, utf16
from kstreamnb.topology.nodes import InternalTopic, Node, NodeGraph, Sink, Source, Subtopology
from kstreamnb.topology.user_names import bound_variable, short_code

if TYPE_CHECKING:  # reasons are found in descriptions
    from kstreamnb.topology.cuts import Cut

NodeKind = Literal["source", "processor", "sink"]


@dataclass(frozen=True)
class DescribedNode:
    """One node. ``extractor`` is the text of a function that chooses a sink's topic.

    ``variable`` is the user's variable that holds the result, ``code`` the text of the user's function if it is short.

    The last fields are known only for a topology built with kstreamnb; equality ignores them, so that a description
    equals the one parsed from its text.
    """

    kind: NodeKind
    name: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    topic: str | None = None
    extractor: str | None = None
    stores: tuple[str, ...] = ()
    successors: tuple[str, ...] = ()
    predecessors: tuple[str, ...] = ()
    dsl: str | None = field(default=None, compare=False)
    origin: str | None = field(default=None, compare=False)
    variable: str | None = field(default=None, compare=False)
    code: str | None = field(default=None, compare=False)
    settings: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    @property
    def every_topic(self) -> tuple[str, ...]:
        """Names of the topics that a source reads, or of the one that a sink writes."""
        return self.topics if self.topic is None else (self.topic,)

    def __str__(self) -> str:
        """Return the node's lines, without indentation and without a line end after the last."""
        topics = self.pattern if self.pattern is not None else f"[{', '.join(self.topics)}]"
        to = f"topic: {self.topic}" if self.extractor is None else f"extractor class: {self.extractor}"
        details = {"source": f"topics: {topics}", "processor": f"stores: [{', '.join(self.stores)}]", "sink": to}
        lines = [f"{self.kind.capitalize()}: {self.name} ({details[self.kind]})"]
        if self.kind != "sink":
            lines.append(f"      --> {', '.join(self.successors or ('none',))}")
        if self.kind != "source":
            lines.append(f"      <-- {', '.join(self.predecessors or ('none',))}")
        return "\n".join(lines)


@dataclass(frozen=True)
class DescribedSubtopology:
    """One sub-topology with its nodes in the order in which Java prints them."""

    id: int
    nodes: tuple[DescribedNode, ...]
    is_global: bool = False

    def __str__(self) -> str:
        note = " for global store (will not generate tasks)" if self.is_global else ""
        body = "".join(f"    {node}\n" for node in self.nodes)
        return f"Sub-topology: {self.id}{note}\n{body}" + ("" if self.is_global else "\n")


class DescribedStore(NamedTuple):
    """One store: its kind and its settings as texts."""

    name: str
    kind: str
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, repr=False)
class TopologyDescription(Displayed):
    """All sub-topologies by id; stores and internal topics are known only for a topology built with kstreamnb.

    Args:
        subtopologies: the sub-topologies, in the order of their ids.
        stores: every store with its kind, serdes and changelog. Default: none.
        internal_topics: repartition topics and changelogs. Default: none.
        copartitioned: groups of topics that must have the same number of partitions. Default: none.
        name: name for displays. Default: None.

    Example:
        >>> from kstreamnb import Topology
        >>> description = Topology().add_source("in", "a").add_sink("out", "b", "in").description()
        >>> print(description)
        Topologies:
           Sub-topology: 0
            Source: in (topics: [a])
              --> out
            Sink: out (topic: b)
              <-- in
        <BLANKLINE>
    """

    subtopologies: tuple[DescribedSubtopology, ...]
    stores: tuple[DescribedStore, ...] = field(default=(), compare=False)
    internal_topics: tuple[InternalTopic, ...] = field(default=(), compare=False)
    copartitioned: tuple[tuple[str, ...], ...] = field(default=(), compare=False)
    name: str | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        name = f' of "{self.name}"' if self.name else ""
        nodes, subs = pluralize(len(self.nodes()), "node"), pluralize(len(self.subtopologies), "sub-topology")
        return f"<description{name}: {nodes} in {subs}>"

    def __str__(self) -> str:
        return "Topologies:\n " + "".join(f"  {sub}" for sub in self.subtopologies)

    def nodes(self) -> dict[str, DescribedNode]:
        """Return every node by name, in the order of the text."""
        return {node.name: node for sub in self.subtopologies for node in sub.nodes}

    def cuts(self) -> tuple[Cut, ...]:
        """Return why there are several sub-topologies: one cut for every topic that connects two of them."""
        from kstreamnb.topology.cuts import cuts_of  # it reads descriptions

        return cuts_of(self)


def describe_topology(topology: NodeGraph) -> TopologyDescription:
    """Describe a topology: what Kafka Streams prints, and more."""
    stores = {**topology.stores, **topology.global_stores}
    described = (DescribedStore(spec.name, spec.kind, _settings(spec, *_STORE_SETTINGS)) for spec in stores.values())
    subtopologies = tuple(_subtopology(topology.nodes, sub) for sub in topology.subtopologies())
    internal, copartitioned = tuple(topology.internal_topics.values()), tuple(topology.copartitioned)
    return TopologyDescription(subtopologies, tuple(described), internal, copartitioned, topology.name)


class _Placed:
    """A node while its sub-topology is sorted."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.name = node.name
        self.size = 1
        self.key = utf16(node.name)
        self.predecessors: TreeSet[_Placed] = TreeSet(_compare)
        self.successors: TreeSet[_Placed] = TreeSet(_compare)
        self.known: list[_Placed] = []


def _compare(one: _Placed, two: _Placed) -> int:
    return _int(two.size - one.size) or (one.key > two.key) - (one.key < two.key)


def _int(number: int) -> int:
    """Return a 32-bit integer as Java keeps it: the sizes of a wide graph do overflow."""
    return (number + 0x80000000) % 0x100000000 - 0x80000000


def _subtopology(nodes: Mapping[str, Node], sub: Subtopology) -> DescribedSubtopology:
    placed = {name: _Placed(nodes[name]) for name in sub.nodes}
    position = {name: index for index, name in enumerate(sub.nodes)}
    order = hash_order(hash_order(sub.nodes))  # Java copies the set into a map
    for name in order:
        node = placed[name]
        for parent in node.node.parents:
            predecessor = placed[parent]
            node.predecessors.add(predecessor)
            predecessor.successors.add(node)
            if predecessor not in node.known:
                node.known.append(predecessor)
            _grow(predecessor, node.size, position)
    ordered = TreeSet(_compare, (placed[name] for name in order))
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
    shared |= {"variable": bound_variable(node.origin, node.dsl), "code": short_code(node.operator)}
    return DescribedNode("processor", node.name, stores=stores, dsl=node.dsl, settings=settings, **shared)


def _settings(node: object, *names: str) -> tuple[tuple[str, str], ...]:
    values = ((name, getattr(node, name)) for name in names)
    return tuple((name, function_text(value)) for name, value in values if value is not None)


_STORE_SETTINGS = (
    *("key_serde", "value_serde", "retention_ms", "window_size_ms", "history_ms", "max_entries"),
    *("logged", "cached", "persistent", "changelog_topic"),
)


def function_text(value: object) -> str:
    """Return a short, stable text of a serde, a function or a plain value: its name, never an address."""
    if isinstance(value, str | int):
        return str(value)
    if value.__class__.__str__ is not object.__str__ and not hasattr(value, "__dataclass_fields__"):
        return str(value) if not hasattr(value, "__qualname__") else value.__qualname__
    return str(getattr(value, "name", None) or getattr(value, "__qualname__", None) or type(value).__name__)
