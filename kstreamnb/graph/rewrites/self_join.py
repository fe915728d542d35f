"""``single.store.self.join``: a stream joined with itself needs its records only once."""

from __future__ import annotations

from dataclasses import replace

from kstreamnb.graph.explain import Explanation
from kstreamnb.graph.graph import LogicalGraph
from kstreamnb.graph.join_nodes import StreamJoin
from kstreamnb.graph.nodes import Node

__all__ = ["single_store_self_join"]


def single_store_self_join(graph: LogicalGraph) -> tuple[LogicalGraph, tuple[Explanation, ...]]:
    """Keep one window store of every join whose two sides are the same node.

    As in Kafka, a left or outer join is treated as an inner one.
    """
    changed: dict[int, Node] = {}
    gone: list[int] = []
    explained = []
    for node in graph.nodes:
        if isinstance(node, StreamJoin) and len(node.parents) == 1 and not node.is_self_join:
            this, other = node.windows_of
            gone.append(other)
            changed[node.id] = replace(node, windows_of=(this,))
            names = tuple(graph.by_id[id_].name for id_ in node.windows_of)
            explained.append(
                Explanation(
                    "single.store.self.join",
                    (*names, node.this_name, node.other_name, node.name),
                    (names[0], node.name),
                    "both sides are the same records",
                )
            )
    return graph.with_nodes(changed, tuple(gone)), tuple(explained)
