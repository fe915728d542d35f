"""What every lowering function gets: the graph, the topology that grows, and short ways to add to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from kstreamnb.core.operator import Operator, TableView
from kstreamnb.core.stores import StoreSpec
from kstreamnb.graph.graph import LogicalGraph
from kstreamnb.graph.nodes import Node
from kstreamnb.graph.views import is_versioned, view_of
from kstreamnb.topology import Topology

__all__ = ["Lowering", "Wrap"]

Wrap: TypeAlias = Callable[[str, Operator], Operator]
"""Gets a node's name and operator and gives the operator to use instead."""


@dataclass(frozen=True)
class Lowering:
    """A graph on its way into a topology."""

    graph: LogicalGraph
    topology: Topology
    wrap: Wrap | None = None

    def names(self, ids: Iterable[int]) -> tuple[str, ...]:
        """Names of nodes as parents."""
        return tuple(self.graph.by_id[id_].name for id_ in ids)

    def processor(
        self,
        node: Node,
        operator: Any,
        *,
        name: str | None = None,
        parents: tuple[str, ...] | None = None,
        stores: Iterable[str] = (),
    ) -> None:
        """Add a processor: the node's own unless a name and parents are given."""
        name = node.name if name is None else name
        parents = self.names(node.parents) if parents is None else parents
        wrapped = operator if self.wrap is None else self.wrap(name, operator)
        self.topology.add_processor(name, wrapped, *parents, dsl=_word(node), origin=node.origin)
        self.connect(name, stores)

    def connect(self, name: str, stores: Iterable[str]) -> None:
        """Let a processor use stores that exist."""
        used = tuple(dict.fromkeys(stores))
        if used:
            self.topology.connect_processor_and_state_stores(name, *used)

    def store(self, spec: StoreSpec, *processors: str) -> None:
        """Add a store for processors."""
        self.topology.add_state_store(spec, *processors)

    def source(self, node: Node, name: str, *topics: str, pattern: str | None = None, **fields: Any) -> None:
        """Add a source."""
        self.topology.add_source(name, *topics, pattern=pattern, origin=node.origin, **fields)

    def sink(self, node: Node, name: str, topic: Any, *parents: str, **fields: Any) -> None:
        """Add a sink."""
        self.topology.add_sink(name, topic, *parents, origin=node.origin, **fields)

    def view(self, table: int) -> TableView:
        """How to look up the rows of a table."""
        return view_of(self.graph, table)

    def versioned(self, table: int) -> bool:
        """Whether a table's changes have versions."""
        return is_versioned(self.graph, self.graph.by_id[table])

    def versioned_above(self, node: Node) -> bool:
        """Whether changes that reach a node have versions."""
        return any(self.versioned(parent) for parent in node.parents)


def _word(node: Node) -> str:
    """The method of the DSL that made the node; joins are told apart by their kind."""
    how = getattr(node, "how", "inner")
    return node.word if how == "inner" else f"{how}_{node.word}"
