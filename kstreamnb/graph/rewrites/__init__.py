"""Rewrites: each takes a graph and gives another that computes the same, with an explanation of what it did.

Three can be switched on, each alone, by Kafka's names; the others always run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from kstreamnb.errors import ConfigError
from kstreamnb.graph.explain import Explanation
from kstreamnb.graph.graph import LogicalGraph
from kstreamnb.graph.rewrites.drop_null_keys import drop_null_keys
from kstreamnb.graph.rewrites.merge_repartitions import merge_repartitions
from kstreamnb.graph.rewrites.merge_sources import merge_sources
from kstreamnb.graph.rewrites.reuse_source_topics import reuse_source_topics
from kstreamnb.graph.rewrites.self_join import single_store_self_join

__all__ = ["RULES", "Rewrite", "optimise", "rules_of"]

Rewrite: TypeAlias = Callable[[LogicalGraph], tuple[LogicalGraph, tuple[Explanation, ...]]]

RULES: dict[str, Rewrite] = {
    "reuse.ktable.source.topics": reuse_source_topics,
    "merge.repartition.topics": merge_repartitions,
    "single.store.self.join": single_store_self_join,
}
"""Rules that can be switched on, in the order in which they run."""

_ACCEPTABLE = (
    'Acceptable values are: "+NO_OPTIMIZATION+", "+OPTIMIZE+", or a comma separated list of specific optimizations: '
    '("+REUSE_KTABLE_SOURCE_TOPICS+", "+MERGE_REPARTITION_TOPICS+" + "SINGLE_STORE_SELF_JOIN+").'
)


def rules_of(optimize: bool | str) -> tuple[str, ...]:
    """Names of the rules that ``optimize`` switches on: True, False, "all", "none" or names with commas between.

    Raises: ConfigError for other words.

    Example:
        >>> rules_of("merge.repartition.topics")
        ('merge.repartition.topics',)
    """
    if isinstance(optimize, bool):
        return tuple(RULES) if optimize else ()
    words = [word.strip() for word in optimize.split(",")]
    unknown = [word for word in words if word not in ("all", "none", *RULES)]
    if unknown:
        raise ConfigError(
            f'there is no optimisation "{unknown[0]}"',
            detail=f"there are {', '.join(RULES)}",
            hint='optimize=True stands for all of them, "none" for none',
            java=f"Unrecognized config. {_ACCEPTABLE}",
        )
    if len(words) > 1 and ("all" in words or "none" in words):
        raise ConfigError(
            f'"{optimize}" says both which optimisations and all or none of them',
            java=f'"{optimize}" is not a valid optimization config. {_ACCEPTABLE}',
        )
    return tuple(rule for rule in RULES if rule in words or words == ["all"])


def optimise(graph: LogicalGraph, rules: tuple[str, ...]) -> tuple[LogicalGraph, tuple[Explanation, ...]]:
    """Apply what always runs and the rules named; gives the graph and what was done."""
    done: list[Explanation] = []
    for rewrite in (merge_sources, *(RULES[rule] for rule in RULES if rule in rules), drop_null_keys):
        graph, explained = rewrite(graph)
        done.extend(explained)
    return graph, tuple(done)
