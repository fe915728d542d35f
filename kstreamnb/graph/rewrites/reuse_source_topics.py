"""``reuse.ktable.source.topics``: a table's topic is its change log."""

from __future__ import annotations

from dataclasses import replace

from kstreamnb.graph.explain import Explanation
from kstreamnb.graph.graph import LogicalGraph
from kstreamnb.graph.nodes import Node, Table


def reuse_source_topics(graph: LogicalGraph) -> tuple[LogicalGraph, tuple[Explanation, ...]]:
    """Let every kept table that is read from a topic use that topic instead of a change log of its own."""
    changed: dict[int, Node] = {}
    explained = []
    for node in graph.nodes:
        if isinstance(node, Table) and node.store and node.topic and node.materialized:
            changed[node.id] = replace(node, reuse_topic=True)
            why = f'topic "{node.topic}" holds every row already'
            explained.append(
                Explanation("reuse.ktable.source.topics", (f"{node.store.name}-changelog",), (node.topic,), why)
            )
    return graph.with_nodes(changed), tuple(explained)
