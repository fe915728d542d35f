"""Finds what changed in a displayed part of a graph since its cell ran last.

Nodes of two runs are matched by what the user wrote, not by Kafka's numbers, which shift when a call is inserted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from kstreamnb.display.diff import GENERATED
from kstreamnb.notebook.functions import same_functions
from kstreamnb.topology.description import DescribedNode, TopologyDescription
from kstreamnb.topology.labels import node_label

T = TypeVar("T")


@dataclass(frozen=True)
class Shown:
    """A displayed part of the graph, and the functions of its nodes."""

    description: TopologyDescription
    functions: Mapping[str, tuple[object, ...]]


def changes(before: Shown, now: Shown) -> dict[str, str]:
    """Return marks for nodes that are new, and for nodes with another function, settings or parents."""
    matches = _matches(before, now)
    marks = {}
    for name, node in now.description.nodes().items():
        if name not in matches:
            marks[name] = "new"
        elif not _is_same(before, now, node, matches):
            marks[name] = "changed"
    return marks


def gone(before: Shown, now: Shown) -> list[str]:
    """Return the labels of operators that are no longer there."""
    kept = set(_matches(before, now).values())
    nodes = before.description.nodes()
    lost = (node for name, node in nodes.items() if name not in kept and node.kind == "processor")
    return list(dict.fromkeys(node_label(node)[0] for node in lost))


def _matches(before: Shown, now: Shown) -> dict[str, str]:
    """Return the earlier name of each node: of the same text if there is one, otherwise the next of its kind."""
    old, free = before.description.nodes(), dict.fromkeys(before.description.nodes())
    matches: dict[str, str] = {}
    for exact in (True, False):
        for name, node in now.description.nodes().items():
            candidates = (each for each in free if _kind(old[each]) == _kind(node))
            match = next((each for each in candidates if not exact or _text(old[each]) == _text(node)), None)
            if name not in matches and match is not None:
                matches[name] = match
                del free[match]
    return matches


def _kind(node: DescribedNode) -> tuple[str | None, ...]:
    return (GENERATED.sub("", node.name), node.dsl, node.topic if node.kind == "sink" else None, *node.topics)


def _text(node: DescribedNode) -> tuple[str | None, ...]:
    return (node.variable, node.code, node.origin)


def _is_same(before: Shown, now: Shown, node: DescribedNode, matches: Mapping[str, str]) -> bool:
    """Return True if a node has the same functions, settings and, apart from new and removed ones, parents."""
    old = before.description.nodes()[matches[node.name]]
    functions = before.functions.get(old.name, ()), now.functions.get(node.name, ())
    parents = [matches.get(name) for name in node.predecessors]
    kept = None not in parents and set(old.predecessors) <= set(matches.values())
    moved = kept and set(parents) != set(old.predecessors)
    return same_functions(*functions) and node.settings == old.settings and not moved


class Earlier:
    """Keeps what each cell showed in its previous run, by kind and position."""

    def __init__(self) -> None:
        self._counts, self._shown = Counter[str](), dict[tuple[Hashable, str, int], object]()
        self._cell: Hashable = None

    def begin(self, cell: Hashable) -> None:
        """Begin a run of a cell."""
        self._cell = cell
        self._counts.clear()

    def __call__(self, kind: str, thing: T) -> T | None:
        """Return what the previous run of this cell showed in the same position, and record the present."""
        self._counts[kind] += 1
        position = (self._cell, kind, self._counts[kind])
        before = cast("T | None", self._shown.get(position))
        self._shown[position] = thing
        return before

    def left(self, kind: str) -> list[Any]:
        """Remove and return what the previous run of this cell showed and this one has not."""
        mine = [each for each in self._shown if each[:2] == (self._cell, kind) and each[2] > self._counts[kind]]
        return [self._shown.pop(each) for each in mine]
