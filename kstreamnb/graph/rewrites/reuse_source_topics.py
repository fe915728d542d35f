"""``reuse.ktable.source.topics``: a table's topic is its change log."""

from __future__ import annotations

from dataclasses import replace

from kstreamnb.graph.explain import Explanation
from kstreamnb.graph.graph import LogicalGraph
from kstreamnb.graph.nodes import Node
from kstreamnb.graph.table_nodes import TableSource

__all__ = ["reuse_source_topics"]


def reuse_source_topics(graph: LogicalGraph) -> tuple[LogicalGraph, tuple[Explanation, ...]]:
    """Let every kept table that is read from a topic use that topic instead of a change log of its own."""
    kept = [node for node in graph.nodes if isinstance(node, TableSource) and node.materialized]
    changed: dict[int, Node] = {node.id: replace(node, reuse_topic=True) for node in kept}
    explained = tuple(
        Explanation(
            "reuse.ktable.source.topics",
            (f"{node.store.name}-changelog",),
            (node.topic,),
            f'topic "{node.topic}" holds every row already',
        )
        for node in kept
    )
    return graph.with_nodes(changed), explained
