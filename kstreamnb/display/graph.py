"""The view model of a topology (boxes, items, edges and labels), from which every format is drawn."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from kstreamnb.core.formatting import pluralize
from kstreamnb.display.names import identifier
from kstreamnb.topology.cuts import Cut, cuts_of, internal_topics, separation
from kstreamnb.topology.description import DescribedNode, DescribedSubtopology, TopologyDescription
from kstreamnb.topology.labels import node_label, store_label, topic_label

ItemKind = Literal["source", "processor", "sink", "topic", "internal topic", "store"]
_NODES = ("source", "processor", "sink")


@dataclass(frozen=True)
class Overlay:
    """Figures and marks of a run that are drawn onto a topology.

    Attributes:
        counts: records per edge, keyed by (parent, child) node names; (topic, source) and (sink, topic) at the ends.
        notes: a short text for a node, such as "3 late"; a store is named "store " and its name.
        marks: highlighted nodes: "failed", "new", "changed" or "stale".
        heat: the cost of a node or store from 0 to 5, as the depth of its color.
    """

    counts: Mapping[tuple[str, str], int] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    marks: Mapping[str, str] = field(default_factory=dict)
    heat: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Item:
    """A shape; ``name`` is Kafka's, ``label`` and ``word`` are drawn, ``about`` is the tooltip."""

    id: str
    kind: ItemKind
    name: str
    label: str
    word: str | None = None
    note: str | None = None
    mark: str | None = None
    about: tuple[str, ...] = ()
    heat: int = 0


@dataclass(frozen=True)
class Edge:
    """Records from ``tail`` to ``head``, or (kind "store") a processor and its store; ids of items."""

    tail: str
    head: str
    kind: Literal["flow", "store"] = "flow"
    count: int | None = None


@dataclass(frozen=True)
class Box:
    """A sub-topology, or a DSL operator of several nodes; a folded box is drawn as a single shape."""

    id: str
    title: str
    items: tuple[Item, ...]
    is_global: bool = False
    reason: str | None = None
    folded: bool = False
    kind: Literal["sub-topology", "operator"] = "sub-topology"
    note: str | None = None
    mark: str | None = None

    @property
    def heat(self) -> int:
        """The highest cost of its items, from 0 to 5."""
        return max((item.heat for item in self.items), default=0)


@dataclass(frozen=True)
class GraphView:
    """A complete picture; topics are drawn outside the boxes, because sub-topologies share them.

    ``notice`` is drawn above it, such as the sentence that the topology is older than its declarations or writes
    nothing. ``shown`` has the visible shape of each hidden one, by id.
    """

    title: str
    boxes: tuple[Box, ...]
    topics: tuple[Item, ...]
    edges: tuple[Edge, ...]
    cuts: tuple[Cut, ...]
    notice: str = ""
    by_operators: bool = False
    shown: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def edge_ids(self) -> dict[tuple[str, str], str]:
        """The id of each edge in the picture, by the ids of its ends."""
        return {(edge.tail, edge.head): f"edge-{at}-{edge.tail}-{edge.head}" for at, edge in enumerate(self.edges)}

    def items(self) -> Iterator[Item]:
        """Yield every shape, topics last."""
        for box in self.boxes:
            yield from box.items
        yield from self.topics

    def summary(self) -> str:
        """Return the number of operators, or of sub-topologies and nodes, and of stores and topics."""
        kinds = [item.kind for item in self.items()]
        stores, topics = kinds.count("store"), kinds.count("topic") + kinds.count("internal topic")
        parts = [(stores, "store"), (topics, "topic")]
        if self.by_operators:
            singles = sum(item.kind == "processor" for item in self.topics)
            parts = [(len(self.boxes) + singles, "operator"), *parts]
        else:
            parts = [(len(self.boxes), "sub-topology"), (sum(kind in _NODES for kind in kinds), "node"), *parts]
        return ", ".join(pluralize(count, noun) for count, noun in parts if count or noun in ("operator", "node"))

    def sentences(self) -> tuple[str, ...]:
        """Return one sentence for each cut, with its reason."""
        apart = (f"{box.title}: {box.reason}" for box in self.boxes if box.reason)
        return (*(f"Sub-topology {cut.before} to {cut.after}: {cut.why}" for cut in self.cuts), *apart)


def graph_view(
    description: TopologyDescription, overlay: Overlay | None = None, *, fold: Collection[int] = ()
) -> GraphView:
    """Return the picture of a topology; sub-topologies with ids in ``fold`` are drawn as one shape each."""
    overlay = overlay or Overlay()
    cuts = cuts_of(description)
    boxes = tuple(_box(description, sub, cuts, overlay, sub.id in fold) for sub in description.subtopologies)
    topics = _topics(description, cuts)
    edges = merged(edge for sub in description.subtopologies for edge in _edges(sub, topics, overlay, sub.id in fold))
    title = f'Topology "{description.name}"' if description.name else "Topology"
    return GraphView(title, boxes, tuple(topics.values()), edges, cuts)


def merged(edges: Iterable[Edge]) -> tuple[Edge, ...]:
    """Return the edges between different shapes; parallel edges are merged and their counts added."""
    between: dict[tuple[str, str], Edge] = {}
    for edge in edges:
        before = between.setdefault((edge.tail, edge.head), edge)
        if before is not edge and edge.count is not None:
            between[edge.tail, edge.head] = replace(before, count=edge.count + (before.count or 0))
    return tuple(edge for edge in between.values() if edge.tail != edge.head)


def _box(
    description: TopologyDescription, sub: DescribedSubtopology, cuts: tuple[Cut, ...], overlay: Overlay, folded: bool
) -> Box:
    items = [_node_item(node, overlay) for node in sub.nodes]
    specs = {store.name: store for store in description.stores}
    for name in dict.fromkeys(store for node in sub.nodes for store in node.stores):
        about = [f"store {name}"]
        if name in specs:
            about += [f"kind: {specs[name].kind}", *(f"{key}: {value}" for key, value in specs[name].settings)]
        note, heat = overlay.notes.get(f"store {name}"), overlay.heat.get(f"store {name}", 0)
        id_, label = identifier("store", name), store_label(name)
        items.append(Item(id_, "store", name, label, note=note, about=tuple(about), heat=heat))
    title = f"Sub-topology {sub.id}" + (" (global store)" if sub.is_global else "")
    reason = separation(description, sub, cuts)
    mark = next((item.mark for item in items if item.mark == "failed"), None) if folded else None
    return Box(identifier("sub", str(sub.id)), title, tuple(items), sub.is_global, reason, folded, mark=mark)


def _node_item(node: DescribedNode, overlay: Overlay) -> Item:
    label, word = node_label(node)
    origin = (f"declared at {node.origin}",) if node.origin else ()
    about = (f"{node.kind} {node.name}", *(f"{key}: {value}" for key, value in node.settings), *origin)
    note, mark, heat = overlay.notes.get(node.name), overlay.marks.get(node.name), overlay.heat.get(node.name, 0)
    return Item(identifier("node", node.name), node.kind, node.name, label, word, note, mark, about, heat)


def _topics(description: TopologyDescription, cuts: tuple[Cut, ...]) -> dict[str, Item]:
    """Return topics by name; patterns and dynamic topics by their own text."""
    internal = internal_topics(description)
    partitions = {topic.name: topic.partitions for topic in description.internal_topics}
    items: dict[str, Item] = {}
    for node in description.nodes().values():
        if node.pattern is not None:
            about = f"every topic that matches {node.pattern}"
            items[_pattern(node)] = _topic(_pattern(node), node.pattern, "pattern", about)
        if node.extractor is not None:
            about = f"chosen for each record by {node.extractor}"
            items[_chosen(node)] = _topic(_chosen(node), "chosen per record", f"by {node.extractor}", about)
        for name in node.every_topic:
            topic_cuts = [cut for cut in cuts if cut.topic == name]
            is_internal = name in internal
            items[name] = _internal_topic(name, topic_cuts, partitions.get(name)) if is_internal else _topic(name, name)
    return items


def _internal_topic(name: str, cuts: list[Cut], partitions: int | None) -> Item:
    about = [f"topic {name}", "internal: its full name begins with the application's id"]
    about += [f"partitions: {partitions}"] if partitions else []
    about += [cut.why for cut in cuts]
    short = next((cut.short for cut in cuts if cut.short), None)
    return Item(identifier("topic", name), "internal topic", name, topic_label(name), short, about=tuple(about))


def _topic(name: str, label: str, word: str | None = None, *about: str) -> Item:
    return Item(identifier("topic", name), "topic", name, label, word, about=about or (f"topic {name}",))


def _pattern(node: DescribedNode) -> str:
    return f"pattern {node.pattern}"


def _chosen(node: DescribedNode) -> str:
    return f"chosen by {node.extractor} in {node.name}"


def _edges(sub: DescribedSubtopology, topics: Mapping[str, Item], overlay: Overlay, folded: bool) -> Iterator[Edge]:
    counts, whole = overlay.counts, identifier("sub", str(sub.id))
    for node in sub.nodes:
        own = whole if folded else identifier("node", node.name)
        for topic in _read(node, topics):
            yield Edge(topics[topic].id, own, count=counts.get((topic, node.name)))
        for child in node.successors:
            yield Edge(own, whole if folded else identifier("node", child), count=counts.get((node.name, child)))
        for store in () if folded else node.stores:
            yield Edge(own, identifier("store", store), "store")
        if node.topic is not None:
            yield Edge(own, topics[node.topic].id, count=counts.get((node.name, node.topic)))
        if node.extractor is not None:
            sink_counts = [count for (tail, _), count in counts.items() if tail == node.name]
            yield Edge(own, topics[_chosen(node)].id, count=sum(sink_counts) if sink_counts else None)


def _read(node: DescribedNode, topics: Mapping[str, Item]) -> list[str]:
    """Return the topics of a source; for a pattern, the pattern and the topics named elsewhere that match it."""
    if node.pattern is None:
        return list(node.topics)
    try:
        pattern = re.compile(node.pattern)
    except re.error:  # Java's syntax is larger than Python's: draw the pattern alone
        return [_pattern(node)]
    matching = (name for name, item in topics.items() if item.kind == "topic" and pattern.fullmatch(name))
    return [_pattern(node), *matching]
