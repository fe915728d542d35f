"""``single.store.self.join``: a stream joined with itself needs its records only once."""

from __future__ import annotations

from dataclasses import replace

from kstreamnb.graph.explain import Explanation
from kstreamnb.graph.graph import LogicalGraph
from kstreamnb.graph.nodes import Node, StreamJoin


def single_store_self_join(graph: LogicalGraph) -> tuple[LogicalGraph, tuple[Explanation, ...]]:
    """Keep one window store of every join whose two sides are the same node.

    As in Kafka, a left or outer join is treated as an inner one.
    """
    changed: dict[int, Node] = {}
    gone: list[int] = []
    explained = []
    for node in graph.nodes:
        if isinstance(node, StreamJoin) and len(node.parents) == 1 and len(node.uses) == 2:
            this, other = node.uses
            gone.append(other)
            changed[node.id] = replace(node, uses=(this,))
            names = tuple(graph.by_id[id_].name for id_ in node.uses)
            before = (*names, node.this[0], node.other[0], node.name)
            why = "both sides are the same records"
            explained.append(Explanation("single.store.self.join", before, (names[0], node.name), why))
    return graph.with_nodes(changed, tuple(gone)), tuple(explained)
