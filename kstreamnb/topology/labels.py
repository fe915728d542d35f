"""Labels of nodes, stores and topics: the user's name first, a word of the DSL for generated names."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kstreamnb.data_files import rows_of
from kstreamnb.topology.description import DescribedNode

_GENERATED = re.compile(r"(KSTREAM|KTABLE|COGROUPKSTREAM)-([A-Z][A-Z-]*?)-\d{10}(.+)?")
_WORDS = dict(rows_of(__package__, "labels.tsv"))
# One DSL word may cover several nodes or methods: there the name says more.
_SAYS_MORE = {"WINDOWED", "JOINTHIS", "JOINOTHER", "OUTERTHIS", "OUTEROTHER", "MERGE", "REDUCE"} | {
    word for word in _WORDS if word.startswith("FK-JOIN")
}
_CHANGES_KEY = {"select_key", "map", "flat_map", "group_by", "process", "transform", "flat_transform"}


def word_of(node: DescribedNode) -> str | None:
    """Return a node's effect as a DSL word; None for a user's processor."""
    match = _GENERATED.fullmatch(node.name)
    if node.kind != "processor":
        return node.kind
    if match is None or (node.dsl and match[2] not in _SAYS_MORE):
        return node.dsl
    word = "table" if match[2] == "SOURCE" else _WORDS.get(match[2], match[2].lower().replace("-", " "))
    return f"{word} {match[3].strip('-').replace('-', ' ')}" if match[3] else word


def changes_key(node: DescribedNode) -> bool:
    """Return whether records may leave the node under another key."""
    return word_of(node) in _CHANGES_KEY


def node_label(node: DescribedNode) -> tuple[str, str | None]:
    """Return the main label of a node and the small one below it.

    The label is ``variable · word`` if the user's code binds the result, and the small one the text of a short lambda.
    """
    word = word_of(node)
    if _GENERATED.fullmatch(node.name) is None:
        return node.name, word
    named = f"{node.variable} · {word}" if node.variable and word else word
    return named or node.name, node.code


def node_title(nodes: Mapping[str, DescribedNode], name: str) -> str:
    """Return the main label of a node, followed by its name if another node has the same label.

    A name that is not a node's is a store's: stores drop records that are older than their retention.
    """
    if name not in nodes:
        return f'store "{name}"'
    label = node_label(nodes[name])[0]
    alone = [node_label(node)[0] for node in nodes.values()].count(label) == 1
    return label if alone else f'{label} "{name}"'


def store_label(name: str) -> str:
    """Return a store's name, or ``aggregate store`` for one that has only a generated name."""
    generated = r"(?:KSTREAM|KTABLE|COGROUPKSTREAM)-([A-Z-]+?)(?:-STATE-STORE)?-\d{10}(?:-rows|-store)?"
    if match := re.fullmatch(generated, name):
        return f"{_WORDS.get(match[1], match[1].lower().replace('-', ' '))} store"
    match = re.fullmatch(r"(.+)-STATE-STORE-\d{10}", name)
    return f"{match[1]} store" if match else name


def topic_label(name: str) -> str:
    """Return a topic's name, or what it is for when its name is made of a generated one."""
    match = re.fullmatch(r"(?:KSTREAM|KTABLE|COGROUPKSTREAM)-(.+?)-\d{10}-(repartition|topic)", name)
    if match is None:
        return name
    stem = re.sub(r"-?STATE-STORE", "", match[1])
    purpose = _WORDS.get(stem, stem.lower().replace("-", " "))
    return f"{purpose} {match[2]}" if match[2] == "repartition" != purpose else purpose
