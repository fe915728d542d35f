"""What a node is called where people look at it: the user's words, not the generated names."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from kstreamnb.core.durations import format_duration
from kstreamnb.graph import nodes
from kstreamnb.graph.join_nodes import StreamGlobalJoin, StreamJoin, StreamTableJoin, TableJoin
from kstreamnb.graph.table_nodes import StreamAggregate, Suppress, TableSource

__all__ = ["label"]


@singledispatch
def label(node: nodes.Node) -> str:
    """A short text: the DSL's word, and what tells this node from others of the same word.

    Example:
        >>> label(nodes.Filter(name="KSTREAM-FILTER-0000000001", predicate=bool))
        'filter'
    """
    return node.word


@label.register
def _stream(node: nodes.StreamSource) -> str:
    return f"stream {node.pattern or ', '.join(node.topics)}"


@label.register
def _table(node: TableSource) -> str:
    return f"table {node.topic}"


@label.register
def _global_table(node: nodes.GlobalTable) -> str:
    return f"global_table {node.topic}"


@label.register
def _sink(node: nodes.Sink) -> str:
    return f"to {node.topic if isinstance(node.topic, str) else _function(node.topic)}"


@label.register(nodes.Repartition)
@label.register(nodes.TableRepartition)
def _repartition(node: Any) -> str:
    return f"repartition through {node.topic}"


@label.register
def _aggregate(node: StreamAggregate) -> str:
    return f"{node.word} into {node.store.name}"


@label.register
def _suppress(node: Suppress) -> str:
    return "suppress until windows close" if node.until_close else f"suppress for {format_duration(node.wait_ms)}"


@label.register(StreamJoin)
@label.register(StreamTableJoin)
@label.register(StreamGlobalJoin)
@label.register(TableJoin)
def _join(node: Any) -> str:
    return f"{node.how} join"


def _function(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))
