"""The view-model of a topology: what is drawn, in which box, under which words. Every format is made from it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from kstreamnb.core.formatting import pluralize
from kstreamnb.display.names import identifier
from kstreamnb.topology.cuts import Cut, cuts_of, internal_topics, separation
from kstreamnb.topology.description import DescribedNode, DescribedSubtopology, TopologyDescription
from kstreamnb.topology.labels import node_label, store_label, topic_label

__all__ = ["Box", "Edge", "GraphView", "Item", "Overlay", "graph_view", "overlay_of_changes", "upstream_of"]

Kind = Literal["source", "processor", "sink", "topic", "internal topic", "store"]
_NODES = ("source", "processor", "sink")


@dataclass(frozen=True)
class Overlay:
    """What a run adds to the picture.

    Attributes:
        counts: records over an edge: (parent, child) by node name; (topic, source) and (sink, topic) at the ends.
        notes: a few words for a node, such as "3 late".
        marks: nodes that stand out: "failed", "new", "changed" or "stale".
    """

    counts: Mapping[tuple[str, str], int] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    marks: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Item:
    """One thing that is drawn; ``name`` is Kafka's, ``label`` and ``word`` are read first, ``about`` is the tooltip."""

    id: str
    kind: Kind
    name: str
    label: str
    word: str | None = None
    note: str | None = None
    mark: str | None = None
    about: tuple[str, ...] = ()


@dataclass(frozen=True)
class Edge:
    """Records from ``tail`` to ``head``, or (kind "store") a processor and its store; ids of items."""

    tail: str
    head: str
    kind: Literal["flow", "store"] = "flow"
    count: int | None = None


@dataclass(frozen=True)
class Box:
    """A sub-topology, or an operator of the DSL that is several nodes; a folded one is drawn as a single shape."""

    id: str
    title: str
    items: tuple[Item, ...]
    is_global: bool = False
    reason: str | None = None
    folded: bool = False
    kind: Literal["sub-topology", "operator"] = "sub-topology"
    note: str | None = None
    mark: str | None = None


@dataclass(frozen=True)
class GraphView:
    """A whole picture. Topics stand outside the boxes, for records meet there."""

    title: str
    boxes: tuple[Box, ...]
    topics: tuple[Item, ...]
    edges: tuple[Edge, ...]
    cuts: tuple[Cut, ...]

    def items(self) -> Iterator[Item]:
        """Everything that is drawn, topics last."""
        for box in self.boxes:
            yield from box.items
        yield from self.topics

    def summary(self) -> str:
        """The counts, in words."""
        kinds = [item.kind for item in self.items()]
        nodes = sum(kind in _NODES for kind in kinds)
        stores, topics = kinds.count("store"), kinds.count("topic") + kinds.count("internal topic")
        operators = [box for box in self.boxes if box.kind == "operator"]
        singles = nodes - sum(item.kind in _NODES for box in operators for item in box.items)
        boxes = (len(operators) + singles, "operator") if operators else (len(self.boxes), "sub-topology")
        counts = (boxes, (nodes, "node"), (stores, "store"), (topics, "topic"))
        return ", ".join(pluralize(count, noun) for count, noun in counts if count or noun == "node")

    def sentences(self) -> tuple[str, ...]:
        """Why it is cut, one sentence a cut."""
        apart = (f"{box.title}: {box.reason}" for box in self.boxes if box.reason)
        return (*(f"Sub-topology {cut.before} to {cut.after}: {cut.why}" for cut in self.cuts), *apart)


def graph_view(
    description: TopologyDescription, overlay: Overlay | None = None, *, fold: Collection[int] = ()
) -> GraphView:
    """The picture of a topology; sub-topologies with ids in ``fold`` are drawn as one shape each."""
    overlay = overlay or Overlay()
    cuts = cuts_of(description)
    boxes = tuple(_box(description, sub, cuts, overlay, sub.id in fold) for sub in description.subtopologies)
    topics = _topics(description, cuts)
    edges = tuple(_edges(description, topics, overlay, fold))
    title = f'Topology "{description.name}"' if description.name else "Topology"
    return GraphView(title, boxes, tuple(topics.values()), edges, cuts)


def upstream_of(description: TopologyDescription, *names: str) -> TopologyDescription:
    """The part of a topology that the named nodes need: all that is above them, through topics too."""
    nodes = description.nodes()
    needed, open_nodes = set(names), list(names)
    while open_nodes:
        node = nodes[open_nodes.pop()]
        writers = [other.name for other in nodes.values() if other.topic is not None and other.topic in node.topics]
        sharing = [other.name for other in nodes.values() if set(other.stores) & set(node.stores)]
        for name in (*node.predecessors, *writers, *sharing):
            if name not in needed:
                needed.add(name)
                open_nodes.append(name)
    subs = []
    for sub in description.subtopologies:
        kept = tuple(_trimmed(node, needed) for node in sub.nodes if node.name in needed)
        if kept:
            subs.append(DescribedSubtopology(sub.id, kept, sub.is_global))
    return TopologyDescription(tuple(subs), description.stores, description.internal_topics, (), description.name)


def overlay_of_changes(before: TopologyDescription, after: TopologyDescription) -> Overlay:
    """Marks for the picture of ``after``: nodes that are new, and nodes that are made or connected differently."""
    old = before.nodes()
    marks = {}
    for name, node in after.nodes().items():
        if name not in old:
            marks[name] = "new"
        elif node != old[name] or node.settings != old[name].settings:
            marks[name] = "changed"
    return Overlay(marks=marks)


def _trimmed(node: DescribedNode, needed: Collection[str]) -> DescribedNode:
    successors = tuple(name for name in node.successors if name in needed)
    fields = {name: getattr(node, name) for name in DescribedNode.__dataclass_fields__}
    return DescribedNode(**{**fields, "successors": successors})


def _box(
    description: TopologyDescription, sub: DescribedSubtopology, cuts: tuple[Cut, ...], overlay: Overlay, folded: bool
) -> Box:
    items = [_node_item(node, overlay) for node in sub.nodes]
    specs = {store.name: store for store in description.stores}
    for name in dict.fromkeys(store for node in sub.nodes for store in node.stores):
        about = [f"store {name}"]
        if name in specs:
            about += [f"kind: {specs[name].kind}", *(f"{key}: {value}" for key, value in specs[name].settings)]
        items.append(Item(identifier("store", name), "store", name, store_label(name), about=tuple(about)))
    title = f"Sub-topology {sub.id}" + (" (global store)" if sub.is_global else "")
    reason = separation(description, sub, cuts)
    mark = next((item.mark for item in items if item.mark == "failed"), None) if folded else None
    return Box(identifier("sub", str(sub.id)), title, tuple(items), sub.is_global, reason, folded, mark=mark)


def _node_item(node: DescribedNode, overlay: Overlay) -> Item:
    label, word = node_label(node)
    origin = (f"declared at {node.origin}",) if node.origin else ()
    about = (f"{node.kind} {node.name}", *(f"{key}: {value}" for key, value in node.settings), *origin)
    return Item(
        identifier("node", node.name),
        node.kind,
        node.name,
        label,
        word,
        overlay.notes.get(node.name),
        overlay.marks.get(node.name),
        about,
    )


def _topics(description: TopologyDescription, cuts: tuple[Cut, ...]) -> dict[str, Item]:
    """Topics by name; patterns and chosen topics by their own text."""
    internal = internal_topics(description)
    partitions = {topic.name: topic.partitions for topic in description.internal_topics}
    found: dict[str, Item] = {}
    for node in description.nodes().values():
        if node.pattern is not None:
            about = f"every topic that matches {node.pattern}"
            found[_pattern(node)] = _topic(_pattern(node), node.pattern, "pattern", about)
        if node.extractor is not None:
            about = f"chosen for each record by {node.extractor}"
            found[_chosen(node)] = _topic(_chosen(node), "chosen per record", f"by {node.extractor}", about)
        for name in (*node.topics, *((node.topic,) if node.topic is not None else ())):
            joins = [cut for cut in cuts if cut.topic == name]
            made = name in internal
            found[name] = _internal_topic(name, joins, partitions.get(name)) if made else _topic(name, name)
    return found


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


def _edges(
    description: TopologyDescription, topics: Mapping[str, Item], overlay: Overlay, fold: Collection[int]
) -> Iterator[Edge]:
    merged: dict[tuple[str, str, str], int | None] = {}
    for sub in description.subtopologies:
        folded = identifier("sub", str(sub.id)) if sub.id in fold else None
        for tail, head, kind, count in _node_edges(sub, topics, overlay, folded):
            if tail != head:
                before = merged.get((tail, head, kind))
                total = before if count is None else count + (before or 0)
                merged[tail, head, kind] = total
    for (tail, head, kind), count in merged.items():
        yield Edge(tail, head, "store" if kind == "store" else "flow", count)


def _node_edges(
    sub: DescribedSubtopology, topics: Mapping[str, Item], overlay: Overlay, folded: str | None
) -> Iterator[tuple[str, str, str, int | None]]:
    counts = overlay.counts
    for node in sub.nodes:
        own = folded or identifier("node", node.name)
        for topic in _read(node, topics):
            yield topics[topic].id, own, "flow", counts.get((topic, node.name))
        for child in node.successors:
            yield own, folded or identifier("node", child), "flow", counts.get((node.name, child))
        for store in () if folded else node.stores:
            yield own, identifier("store", store), "store", None
        if node.topic is not None:
            yield own, topics[node.topic].id, "flow", counts.get((node.name, node.topic))
        if node.extractor is not None:
            written = [count for (tail, _), count in counts.items() if tail == node.name]
            yield own, topics[_chosen(node)].id, "flow", sum(written) if written else None


def _read(node: DescribedNode, topics: Mapping[str, Item]) -> list[str]:
    """Topics of a source; of a pattern, itself and what it matches among the topics that are named elsewhere."""
    if node.pattern is None:
        return list(node.topics)
    try:
        pattern = re.compile(node.pattern)
    except re.error:  # Java's regular expressions know more than Python's: then only the pattern is drawn
        return [_pattern(node)]
    return [
        _pattern(node),
        *(name for name, item in topics.items() if item.kind == "topic" and pattern.fullmatch(name)),
    ]
