"""The logical picture of a topology: one shape per DSL call, however many nodes Kafka makes of it.

A join is five Kafka nodes, a foreign-key join ten and two topics; here each is one operator, folded until it is opened.
Sources and sinks are folded into their topics. Operators are the boxes of this picture, as sub-topologies are those of
the physical one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from kstreamnb.display.graph import Box, GraphView, Item, Overlay, graph_view, merged
from kstreamnb.display.names import identifier
from kstreamnb.topology.cuts import internal_topics
from kstreamnb.topology.description import DescribedNode, TopologyDescription
from kstreamnb.topology.nodes import grouped

_JOINS = {"join", "left_join", "outer_join"}
_BEGINS = {"JoinWindow", "SubscriptionSend", "ForeignTableJoin", "TableTableJoin"}
"""First operators of a join: their parents belong to other calls."""


def logical_view(
    description: TopologyDescription, overlay: Overlay | None = None, *, unfold: Collection[str] = ()
) -> GraphView:
    """Return the picture by DSL operators; boxes with ids in ``unfold`` show their nodes."""
    physical = graph_view(description, overlay)
    groups = _groups(description)
    items = {item.id: item for item in physical.items()}
    inside = _inside(description, groups, items)
    boxes = tuple(_box(ids, items, description, unfold) for ids in inside.values())
    ends = _ends(description, items)
    shown = {item: box.id for box in boxes if box.folded for item in (each.id for each in box.items)} | ends
    hidden = {item for ids in inside.values() for item in ids} | ends.keys()
    outside = tuple(item for item in items.values() if item.id not in hidden)
    moved = ((each, shown.get(each.tail, each.tail), shown.get(each.head, each.head)) for each in physical.edges)
    edges = merged(replace(each, tail=tail, head=head) for each, tail, head in moved)
    return GraphView(physical.title, boxes, outside, edges, physical.cuts, by_operators=True, shown=shown)


def _ends(description: TopologyDescription, items: Mapping[str, Item]) -> dict[str, str]:
    """Return the topic of each source and sink that has only one and no note or mark."""
    internal, ends = internal_topics(description), {}
    for node in description.nodes().values():
        topics, item = node.every_topic, items[identifier("node", node.name)]
        if len(topics) == 1 and topics[0] not in internal and not (item.note or item.mark):
            ends[item.id] = items[identifier("topic", topics[0])].id
    return ends


def _groups(description: TopologyDescription) -> dict[str, list[str]]:
    """Return the nodes of each operator that has several, by the name of its first node."""
    nodes = description.nodes()
    leader = {name: name for name in nodes}

    def leader_of(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    for one, other in _belonging(nodes, internal_topics(description)):
        leader[leader_of(other)] = leader_of(one)
    return {first: names for first, names in grouped(nodes, leader_of).items() if len(names) > 1}


def _belonging(nodes: Mapping[str, DescribedNode], internal: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield pairs of nodes that the same DSL call made."""
    for node in nodes.values():
        if node.topic in internal:
            yield from ((node.name, other.name) for other in nodes.values() if node.topic in other.topics)
        for name in node.successors:
            child = nodes[name]
            if _same_call(node, child, internal):
                yield node.name, name


def _same_call(node: DescribedNode, child: DescribedNode, internal: frozenset[str]) -> bool:
    """Return True if a node was made by the same DSL call as its child."""
    if node.dsl == "repartition" and child.topic in internal:
        return True
    if node.origin is None or node.origin != child.origin or dict(child.settings).get("operator", "") in _BEGINS:
        return False
    if node.kind == "source":
        return child.dsl in _JOINS and bool(set(node.topics) & internal)
    return node.dsl in _JOINS and (node.dsl == child.dsl or child.topic in internal)


def _inside(
    description: TopologyDescription, groups: Mapping[str, list[str]], items: Mapping[str, Item]
) -> dict[str, list[str]]:
    """Return the ids of the shapes inside each operator: its nodes, and generated stores and topics only it uses."""
    owner = {name: first for first, names in groups.items() for name in names}
    inside = {first: [identifier("node", name) for name in names] for first, names in groups.items()}
    users: dict[str, dict[str, None]] = {}
    for node in description.nodes().values():
        ids = [identifier("store", store) for store in node.stores]
        ids += [identifier("topic", topic) for topic in node.every_topic]
        for id_ in ids:
            users.setdefault(id_, {})[owner.get(node.name, "")] = None
    for id_, owners in users.items():
        item, first = items[id_], next(iter(owners))
        if first and len(owners) == 1 and (item.kind == "internal topic" or item.label != item.name):
            inside[first].append(id_)
    return inside


def _box(ids: list[str], items: Mapping[str, Item], description: TopologyDescription, unfold: Collection[str]) -> Box:
    nodes = description.nodes()
    parts = tuple(items[each] for each in ids)
    made = [nodes[part.name] for part in parts if part.kind in ("source", "processor", "sink")]
    processors = [node for node in made if node.kind == "processor"]
    words = [node.dsl for node in processors if node.dsl is not None]
    word = next((word for word in words if word != "repartition"), "repartition")  # a join may begin with one
    variable = [node.variable for node in processors if node.variable is not None]
    title = " · ".join([*variable[:1], word])
    id_ = ids[0].replace("node-", "operator-", 1)
    mark = next((part.mark for part in parts if part.mark), None)
    reasons = [part.word for part in parts if part.kind == "internal topic"]
    notes = ", ".join(dict.fromkeys(text for text in (*reasons, *(part.note for part in parts)) if text))
    return Box(id_, title, parts, folded=id_ not in unfold, kind="operator", note=notes, mark=mark)
