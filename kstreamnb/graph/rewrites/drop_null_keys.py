"""Always: records without a key stay out of a repartition topic, unless a join downstream has a use for them."""

from __future__ import annotations

from dataclasses import replace

from kstreamnb.graph.explain import Explanation
from kstreamnb.graph.graph import LogicalGraph
from kstreamnb.graph.join_nodes import StreamJoin, StreamTableJoin
from kstreamnb.graph.nodes import Node, Repartition

__all__ = ["drop_null_keys"]


def drop_null_keys(graph: LogicalGraph) -> tuple[LogicalGraph, tuple[Explanation, ...]]:
    """Keep null keys only above left and outer joins."""
    needed: set[int] = set()
    for node in graph.nodes:
        if isinstance(node, StreamJoin | StreamTableJoin) and node.keeps_null_keys:
            needed |= _above(graph, node)
    changed: dict[int, Node] = {
        node.id: replace(node, keep_null_keys=node.id in needed)
        for node in graph.nodes
        if isinstance(node, Repartition)
    }
    return graph.with_nodes(changed), ()


def _above(graph: LogicalGraph, node: Node) -> set[int]:
    found: set[int] = set()
    waiting = list(node.parents)
    while waiting:
        id_ = waiting.pop()
        if id_ not in found:
            found.add(id_)
            waiting.extend(graph.by_id[id_].parents)
    return found
