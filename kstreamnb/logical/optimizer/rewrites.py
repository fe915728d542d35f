"""Rewrites: each takes a graph and returns an equivalent one, with an explanation of the change.

Three can be switched on, each alone, by Kafka's names; the others always run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from kstreamnb.core.arguments import expect
from kstreamnb.errors import ConfigError, TopologyError
from kstreamnb.java_texts import ACCEPTABLE_OPTIMISATIONS
from kstreamnb.logical.graph import LogicalGraph, Optimization
from kstreamnb.logical.nodes import LogicalNode, Repartition, StreamJoin, StreamSource, Table
from kstreamnb.logical.optimizer.merge_repartitions import merge_repartitions
from kstreamnb.topology.nodes import walk


def merge_sources(graph: LogicalGraph) -> tuple[LogicalGraph, tuple[Optimization, ...]]:
    """Let the first source of a set of topics, or of a pattern, feed the children of later ones.

    Raises: TopologyError when sets overlap without being equal, their offset resets differ, or a table reads one, too.
    """
    readers: dict[str, StreamSource] = {}
    patterns: dict[str, StreamSource] = {}
    merged: dict[int, StreamSource] = {}
    for node in graph.nodes:
        if not isinstance(node, StreamSource) or not node.mergeable:
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
    changed: dict[int, LogicalNode] = {}
    for node in graph.nodes:
        if any(parent in merged for parent in node.parents):
            parents = [parent for parent in node.parents if parent not in merged]
            parents += [merged[parent].id for parent in node.parents if parent in merged]
            changed[node.id] = replace(node, parents=tuple(dict.fromkeys(parents)))
    names = {graph.by_id[id_].name: first.name for id_, first in merged.items()}
    explained = tuple(
        Optimization("merge.duplicate.sources", (first.name, graph.by_id[id_].name), (first.name,), "same topics")
        for id_, first in merged.items()
    )
    return graph.with_nodes(changed, merged, names), explained


def _refuse_both(topic: str, first: LogicalNode, second: LogicalNode) -> None:
    fact = f'topic "{topic}" is read both as a stream and as a table'
    hint = "read it once, then derive the other with to_table() or to_stream()"
    java = f"Invalid topology: Topic {topic} has already been registered by another source."
    raise TopologyError(fact, detail=f"{first} and {second}", hint=hint, origin=second.origin, java=java)


def _check_mergeable(first: StreamSource, later: StreamSource, topic: str) -> None:
    if set(first.topics) != set(later.topics):
        fact = f'topic "{topic}" is read by two streams with different lists of topics'
        detail = f"{first.name} reads {', '.join(first.topics)}; {later.name} reads {', '.join(later.topics)}"
        hint = "read the topic alone and merge streams where they belong together"
        java = "Invalid topology: Two source nodes are subscribed to overlapping but not equal input topics"
        raise TopologyError(fact, detail=detail, hint=hint, origin=later.origin, java=java)
    if first.offset_reset != later.offset_reset:
        fact = f'topic "{topic}" is read with two different offset resets'
        detail = f"{first.name}: {first.offset_reset}; {later.name}: {later.offset_reset}"
        java = "Invalid topology: Can't configure different offset reset policies on the same input topic(s)"
        raise TopologyError(fact, detail=detail, origin=later.origin, java=java)


def reuse_source_topics(graph: LogicalGraph) -> tuple[LogicalGraph, tuple[Optimization, ...]]:
    """Let every materialized table that is read from a topic use that topic instead of a changelog."""
    changed: dict[int, LogicalNode] = {}
    explained = []
    for node in graph.nodes:
        if isinstance(node, Table) and node.store and node.topic and node.materialized:
            changed[node.id] = replace(node, reuse_topic=True)
            why = f'topic "{node.topic}" holds every row already'
            before = (f"{node.store.name}-changelog",)
            explained.append(Optimization("reuse.ktable.source.topics", before, (node.topic,), why))
    return graph.with_nodes(changed), tuple(explained)


def single_store_self_join(graph: LogicalGraph) -> tuple[LogicalGraph, tuple[Optimization, ...]]:
    """Keep one window store of every join whose two sides are the same node.

    As in Kafka, a left or outer join is treated as an inner one.
    """
    changed: dict[int, LogicalNode] = {}
    gone: list[int] = []
    explained = []
    for node in graph.nodes:
        if isinstance(node, StreamJoin) and len(node.parents) == 1 and len(node.uses) == 2:
            this, other = node.uses
            gone.append(other)
            changed[node.id] = replace(node, uses=(this,))
            names = tuple(graph.by_id[id_].name for id_ in node.uses)
            before = (*names, node.this[0], node.other[0], node.name)
            why = "both sides are the same records; as in Kafka, the join is inner, and each record also joins itself"
            explained.append(Optimization("single.store.self.join", before, (names[0], node.name), why))
    return graph.with_nodes(changed, gone), tuple(explained)


def drop_null_keys(graph: LogicalGraph) -> tuple[LogicalGraph, tuple[Optimization, ...]]:
    """Keep null keys only above left and outer joins."""
    joins = [node for node in graph.nodes if _keeps_null_keys(node)]
    needed = set(walk((parent for node in joins for parent in node.parents), lambda id_: graph.by_id[id_].parents))
    repartitions = (node for node in graph.nodes if isinstance(node, Repartition))
    return graph.with_nodes({each.id: replace(each, keep_null_keys=each.id in needed) for each in repartitions}), ()


def _keeps_null_keys(node: LogicalNode) -> bool:
    """Return whether a record without a key may still have a result, as in a left or outer join of a stream.

    For a join of streams one of its sides decides; the rewrite of a self-join does not change that.
    """
    traits = [node.this[1].traits, node.other[1].traits] if isinstance(node, StreamJoin) else [node.traits]
    joins = [each.join for each in traits if each.join is not None]
    return any(join.kind in ("streams", "lookup") and join.keeps_unmatched for join in joins)


Rewrite: TypeAlias = Callable[[LogicalGraph], tuple[LogicalGraph, tuple[Optimization, ...]]]

RULES: dict[str, Rewrite] = {
    "reuse.ktable.source.topics": reuse_source_topics,
    "merge.repartition.topics": merge_repartitions,
    "single.store.self.join": single_store_self_join,
}
"""Rules that can be switched on, in the order in which they run."""


def rules_of(optimize: bool | str) -> tuple[str, ...]:
    """Return the rules that ``optimize`` switches on: True, False, "all", "none" or comma-separated names.

    Raises: ConfigError for other words.

    Example:
        >>> rules_of("merge.repartition.topics")
        ('merge.repartition.topics',)
    """
    if isinstance(optimize, bool):
        return tuple(RULES) if optimize else ()
    expect(optimize, str, "optimize", hint="write True, False or the names of optimizations")
    words = [word.strip() for word in optimize.split(",")]
    unknown = [word for word in words if word not in ("all", "none", *RULES)]
    if unknown:
        fact = f'unknown optimization "{unknown[0]}"'
        detail = f"known optimizations: {', '.join(RULES)}"
        hint = 'optimize=True stands for all of them, "none" for none'
        raise ConfigError(fact, detail=detail, hint=hint, java=f"Unrecognized config. {ACCEPTABLE_OPTIMISATIONS}")
    if len(words) > 1 and ("all" in words or "none" in words):
        fact = f'"{optimize}" says both which optimizations and all or none of them'
        raise ConfigError(fact, java=f'"{optimize}" is not a valid optimization config. {ACCEPTABLE_OPTIMISATIONS}')
    return tuple(rule for rule in RULES if rule in words or words == ["all"])


def optimise(graph: LogicalGraph, rules: tuple[str, ...]) -> tuple[LogicalGraph, tuple[Optimization, ...]]:
    """Apply the unconditional rules and the named ones; return the graph and the rewrites."""
    done: list[Optimization] = []
    for rewrite in (merge_sources, *(RULES[rule] for rule in RULES if rule in rules), drop_null_keys):
        graph, explained = rewrite(graph)
        done.extend(explained)
    return graph, tuple(done)
