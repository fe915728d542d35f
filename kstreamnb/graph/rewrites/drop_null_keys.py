"""Always: records without a key stay out of a repartition topic, unless a join downstream has a use for them."""

from __future__ import annotations

from dataclasses import replace

from kstreamnb.graph.explain import Explanation
from kstreamnb.graph.graph import LogicalGraph
from kstreamnb.graph.nodes import Node, Repartition, Step


def drop_null_keys(graph: LogicalGraph) -> tuple[LogicalGraph, tuple[Explanation, ...]]:
    """Keep null keys only above left and outer joins."""
    joins = [node for node in graph.nodes if isinstance(node, Step) and node.keeps_null_keys]
    needed = graph.upstream(*(parent for node in joins for parent in node.parents), through_uses=False)
    changed: dict[int, Node] = {
        node.id: replace(node, keep_null_keys=node.id in needed)
        for node in graph.nodes
        if isinstance(node, Repartition)
    }
    return graph.with_nodes(changed), ()
