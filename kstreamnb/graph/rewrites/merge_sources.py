"""Always: streams of the same topics become one source."""

from __future__ import annotations

from dataclasses import replace

from kstreamnb.errors import TopologyError
from kstreamnb.graph.explain import Explanation
from kstreamnb.graph.graph import LogicalGraph
from kstreamnb.graph.nodes import Node, StreamSource, Table


def merge_sources(graph: LogicalGraph) -> tuple[LogicalGraph, tuple[Explanation, ...]]:
    """Let the first source of a set of topics, or of a pattern, feed what hangs on later ones.

    Raises: TopologyError when sets overlap without being equal, their offset resets differ, or a table reads one, too.
    """
    readers: dict[str, StreamSource] = {}
    patterns: dict[str, StreamSource] = {}
    merged: dict[int, StreamSource] = {}
    for node in graph.nodes:
        if not isinstance(node, StreamSource) or node.parents or not node.mergeable:
            continue
        for reads, known in ((node.topics, readers), ((node.pattern,) if node.pattern else (), patterns)):
            for topic in reads:
                first = known.setdefault(topic, node)
                if first is not node:
                    _check_mergeable(first, node, topic)
                    merged[node.id] = first
    for node in graph.nodes:
        if isinstance(node, Table) and node.topic in readers:
            _refuse_both(node.topic, *sorted((node, readers[node.topic]), key=lambda either: either.id))
    if not merged:
        return graph, ()
    changed: dict[int, Node] = {}
    for node in graph.nodes:
        if any(parent in merged for parent in node.parents):
            parents = [parent for parent in node.parents if parent not in merged]
            parents += [merged[parent].id for parent in node.parents if parent in merged]
            changed[node.id] = replace(node, parents=tuple(dict.fromkeys(parents)))
    names = {graph.by_id[id_].name: first.name for id_, first in merged.items()}
    groups = tuple(tuple(dict.fromkeys(names.get(name, name) for name in group)) for group in graph.copartitioned)
    explained = tuple(
        Explanation("merge.duplicate.sources", (first.name, graph.by_id[id_].name), (first.name,), "same topics")
        for id_, first in merged.items()
    )
    return replace(graph.with_nodes(changed, tuple(merged)), copartitioned=groups), explained


def _refuse_both(topic: str, first: Node, second: Node) -> None:
    raise TopologyError(
        f'topic "{topic}" is read both as a stream and as a table',
        detail=f"{first} and {second}",
        hint="read it once, then derive the other with to_table() or to_stream()",
        origin=second.origin,
        java=f"Invalid topology: Topic {topic} has already been registered by another source.",
    )


def _check_mergeable(first: StreamSource, later: StreamSource, topic: str) -> None:
    if set(first.topics) != set(later.topics):
        raise TopologyError(
            f'topic "{topic}" is read by two streams whose topics are not the same',
            detail=f"{first.name} reads {', '.join(first.topics)}; {later.name} reads {', '.join(later.topics)}",
            hint="read the topic alone and merge streams where they belong together",
            origin=later.origin,
            java="Invalid topology: Two source nodes are subscribed to overlapping but not equal input topics",
        )
    if first.offset_reset != later.offset_reset:
        raise TopologyError(
            f'topic "{topic}" is read with two different offset resets',
            detail=f"{first.name}: {first.offset_reset}; {later.name}: {later.offset_reset}",
            origin=later.origin,
            java="Invalid topology: Can't configure different offset reset policies on the same input topic(s)",
        )
