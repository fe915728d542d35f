"""How the rows of a table node can be looked up, and whether a table has versions."""

from __future__ import annotations

from kstreamnb.core.operator import TableView
from kstreamnb.core.windows import SessionWindows
from kstreamnb.errors import TopologyError
from kstreamnb.graph.graph import LogicalGraph
from kstreamnb.graph.join_nodes import TableJoin
from kstreamnb.graph.nodes import Node
from kstreamnb.graph.table_nodes import (
    CogroupMerge,
    StreamAggregate,
    Suppress,
    TableFilter,
    TableMapValues,
    TableNode,
    TableTransformValues,
)
from kstreamnb.processors.join_view import JoinView
from kstreamnb.processors.table_transform_values import TransformValuesView
from kstreamnb.processors.table_view import (
    FilterView,
    MapValuesView,
    SessionStoreView,
    StoreView,
    SuppressView,
    WindowStoreView,
)

__all__ = ["is_versioned", "view_of"]


def view_of(graph: LogicalGraph, id_: int) -> TableView:
    """The view of a table: of its own store, or computed from the views above it."""
    node = graph.by_id[id_]
    if isinstance(node, StreamAggregate) and node.windows is not None:
        session = isinstance(node.windows, SessionWindows)
        return SessionStoreView(node.store.name) if session else WindowStoreView(node.store.name)
    if isinstance(node, Suppress):
        return SuppressView(view_of(graph, node.parents[0]), node.store.name)
    if isinstance(node, TableNode) and node.store is not None:
        return StoreView(node.store.name, node.store.kind == "versioned")
    if isinstance(node, CogroupMerge):
        return view_of(graph, node.parents[0])
    if isinstance(node, TableJoin):
        return JoinView(node.how, view_of(graph, node.left), view_of(graph, node.right), node.joiner)
    if isinstance(node, TableFilter | TableMapValues | TableTransformValues):
        above = view_of(graph, node.parents[0])
        if isinstance(node, TableFilter):
            return FilterView(above, node.predicate, node.negate)
        if isinstance(node, TableMapValues):
            return MapValuesView(above, node.mapper, node.with_key)
        return TransformValuesView(above, node.supplier)
    raise TopologyError(f'node "{node.name}" is no table')


def is_versioned(graph: LogicalGraph, node: Node) -> bool:
    """Whether a node's output has versions: as its own store says, else if all of its parents' outputs have."""
    if isinstance(node, TableNode) and node.versioned is not None:
        return node.versioned
    return bool(node.parents) and all(is_versioned(graph, parent) for parent in graph.parents(node))
