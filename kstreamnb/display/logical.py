"""The logical picture of a topology: one shape for each call of the DSL, however many nodes Kafka made of it.

A join is five nodes of Kafka, a foreign-key join ten and two topics; here each is one operator, folded until somebody
wants to see its parts. Operators stand where sub-topologies stand in the physical picture: they are its boxes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from kstreamnb.display.graph import Box, Edge, GraphView, Item, Overlay, graph_view
from kstreamnb.display.names import identifier
from kstreamnb.topology.cuts import internal_topics
from kstreamnb.topology.description import DescribedNode, TopologyDescription
from kstreamnb.topology.labels import is_generated

__all__ = ["logical_view"]

_JOINS = {"join", "left_join", "outer_join"}
_TABLES = {"table", "global_table"}
_BEGINS = {"JoinWindow", "SubscriptionSend", "ForeignTableJoin", "TableTableJoin"}
"""Operators with which a join begins: what is above them belongs to somebody else."""


def logical_view(
    description: TopologyDescription, overlay: Overlay | None = None, *, unfold: Collection[str] = ()
) -> GraphView:
    """The picture by operators of the DSL; those whose box's id is in ``unfold`` show the nodes they are made of."""
    physical = graph_view(description, overlay)
    groups = _groups(description)
    items = {item.id: item for item in physical.items()}
    inside = _inside(description, groups, items)
    boxes = tuple(_box(found, items, description, unfold) for found in inside.values())
    shown = {item: box.id for box in boxes if box.folded for item in (each.id for each in box.items)}
    hidden = {item for found in inside.values() for item in found}
    outside = tuple(item for item in items.values() if item.id not in hidden)
    return GraphView(physical.title, boxes, outside, tuple(_edges(physical, shown)), physical.cuts)


def _groups(description: TopologyDescription) -> dict[str, list[str]]:
    """Names of the nodes and internal topics of each operator that has several, by the first of them."""
    nodes = description.nodes()
    leader = {name: name for name in nodes}

    def found(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    for one, other in _belonging(nodes, internal_topics(description)):
        leader[found(other)] = found(one)
    groups: dict[str, list[str]] = {}
    for name in nodes:
        groups.setdefault(found(name), []).append(name)
    return {first: names for first, names in groups.items() if len(names) > 1}


def _belonging(nodes: Mapping[str, DescribedNode], internal: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Pairs of nodes that one call of the DSL made."""
    for node in nodes.values():
        if node.topic in internal:
            yield from ((node.name, other.name) for other in nodes.values() if node.topic in other.topics)
        for name in node.successors:
            child = nodes[name]
            if _same_call(node, child, internal):
                yield node.name, name


def _same_call(node: DescribedNode, child: DescribedNode, internal: frozenset[str]) -> bool:
    """Whether what hands records to a child was made by the same call as the child."""
    if node.dsl == "repartition" and child.topic in internal:
        return True
    if node.origin is None or node.origin != child.origin or _operator(child) in _BEGINS:
        return False
    if node.kind == "source":
        return child.dsl in (_JOINS if set(node.topics) & internal else _TABLES)
    return node.dsl in _JOINS and (node.dsl == child.dsl or child.topic in internal)


def _operator(node: DescribedNode) -> str:
    return dict(node.settings).get("operator", "")


def _inside(
    description: TopologyDescription, groups: Mapping[str, list[str]], items: Mapping[str, Item]
) -> dict[str, list[str]]:
    """Ids of what is drawn inside each operator: its nodes, and what has no name of the user's and no other user."""
    owner = {name: first for first, names in groups.items() for name in names}
    inside = {first: [identifier("node", name) for name in names] for first, names in groups.items()}
    users: dict[str, dict[str, None]] = {}
    for node in description.nodes().values():
        touched = [identifier("store", store) for store in node.stores]
        touched += [identifier("topic", topic) for topic in (*node.topics, *([node.topic] if node.topic else []))]
        for id_ in touched:
            users.setdefault(id_, {})[owner.get(node.name, "")] = None
    for id_, found in users.items():
        item, first = items[id_], next(iter(found))
        if first and len(found) == 1 and (item.kind == "internal topic" or item.label != item.name):
            inside[first].append(id_)
    return inside


def _box(ids: list[str], items: Mapping[str, Item], description: TopologyDescription, unfold: Collection[str]) -> Box:
    nodes = description.nodes()
    parts = tuple(items[each] for each in ids)
    made = [nodes[part.name] for part in parts if part.kind in ("source", "processor", "sink")]
    processors = [node for node in made if node.kind == "processor"]
    word = (processors[0].dsl if processors else None) or "repartition"
    named = [node.name for node in processors if word in _TABLES and not is_generated(node.name)]
    id_ = ids[0].replace("node-", "operator-", 1)
    mark = next((part.mark for part in parts if part.mark), None)
    notes = ", ".join(dict.fromkeys(part.note for part in parts if part.note))
    return Box(id_, " ".join([word, *named]), parts, folded=id_ not in unfold, kind="operator", note=notes, mark=mark)


def _edges(physical: GraphView, shown: Mapping[str, str]) -> Iterator[Edge]:
    """Edges between what is seen; several between the same two are one, with their counts added up."""
    merged: dict[tuple[str, str], Edge] = {}
    for edge in physical.edges:
        tail, head = shown.get(edge.tail, edge.tail), shown.get(edge.head, edge.head)
        if tail == head:
            continue
        before = merged.get((tail, head))
        count = edge.count if before is None or before.count is None else before.count + (edge.count or 0)
        merged[tail, head] = Edge(tail, head, edge.kind if before is None else before.kind, count)
    yield from merged.values()
