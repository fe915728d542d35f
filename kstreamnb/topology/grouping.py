"""How a topology falls into sub-topologies: nodes that are joined by an edge or by a shared store stay together.

Ids follow the order in which the first node of each group was added; groups of global stores take ids too but get
no tasks. A cut therefore lies exactly where records leave through a topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kstreamnb.topology.nodes import Node, Source


@dataclass(frozen=True)
class Subtopology:
    """A group of nodes that one task runs for one partition.

    ``nodes`` are names in the order in which they were added; ``stores`` are those its processors are connected to.
    """

    id: int
    nodes: tuple[str, ...]
    stores: tuple[str, ...] = ()
    is_global: bool = False


def group_nodes(nodes: Mapping[str, Node]) -> tuple[Subtopology, ...]:
    """Sub-topologies of ``nodes`` by union-find over parents and shared stores."""
    root = {name: name for name in nodes}

    def find(name: str) -> str:
        while root[name] != name:
            root[name] = root[root[name]]
            name = root[name]
        return name

    user: dict[str, str] = {}
    for node in nodes.values():
        for parent in node.parents:
            root[find(node.name)] = find(parent)
        for store in node.stores:
            root[find(node.name)] = find(user.setdefault(store, node.name))
    groups: dict[str, list[Node]] = {}
    for node in nodes.values():
        groups.setdefault(find(node.name), []).append(node)
    return tuple(_subtopology(number, members) for number, members in enumerate(groups.values()))


def _subtopology(number: int, members: Iterable[Node]) -> Subtopology:
    members = tuple(members)
    stores = dict.fromkeys(store for node in members for store in node.stores)
    is_global = any(isinstance(node, Source) and node.is_global for node in members)
    return Subtopology(number, tuple(node.name for node in members), tuple(stores), is_global)
