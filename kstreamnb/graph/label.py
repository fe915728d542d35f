"""What a node is called where people look at it: the user's words, not the generated names."""

from __future__ import annotations

from typing import Any

from kstreamnb.graph import nodes

__all__ = ["label"]


def label(node: nodes.Node) -> str:
    """A short text: the DSL's word, and what tells this node from others of the same word.

    Example:
        >>> label(nodes.StreamSource(name="KSTREAM-SOURCE-0000000000", topics=("a", "b"), word="stream"))
        'stream a, b'
    """
    if isinstance(node, nodes.StreamSource):
        return f"{node.word} {node.pattern or ', '.join(node.topics)}"
    if isinstance(node, nodes.GlobalTable | nodes.Repartition | nodes.TableRepartition | nodes.Sink):
        return f"{node.word} {_function(node.topic)}"
    if isinstance(node, nodes.Table) and node.store is not None:
        return f"{node.word} into {node.store.name}"
    return node.word


def _function(topic: Any) -> str:
    return topic if isinstance(topic, str) else str(getattr(topic, "__name__", type(topic).__name__))
