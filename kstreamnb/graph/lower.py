"""Lowering: a logical graph becomes a topology, node by node, one function for each type of node."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any

from kstreamnb.core.extractors import FailOnInvalidTimestamp
from kstreamnb.core.user_processor import UserFixedKeyProcessor, UserProcessor
from kstreamnb.errors import KStreamError, TopologyError
from kstreamnb.graph import nodes
from kstreamnb.graph.graph import LogicalGraph
from kstreamnb.graph.lower_joins import JOINS
from kstreamnb.graph.lower_tables import TABLES
from kstreamnb.graph.lowering import Lowering, Wrap
from kstreamnb.processors import branch, flat_map, flat_map_values, map_values, pass_through, peek, select_key
from kstreamnb.processors import filter as filter_
from kstreamnb.processors import map as map_
from kstreamnb.processors.table_source import GlobalTableSource
from kstreamnb.topology import Topology
from kstreamnb.topology.partitions import check_fixed_partitions
from kstreamnb.topology.suppliers import supplied_stores

__all__ = ["lower", "lower_node"]


def lower(graph: LogicalGraph, *, name: str | None = None, wrap: Wrap | None = None) -> Topology:
    """Make a topology of a graph.

    Raises: TopologyError when nodes, stores or topics do not fit together, with the user's line.
    """
    into = Lowering(graph, Topology(name), wrap)
    for node in graph.ordered():
        try:
            lower_node(node, into)
        except KStreamError as error:
            if error.origin is None and node.origin is not None:
                error.origin = node.origin
                error.add_note(f"At: {node.origin}")
            raise
    known = {source.name for source in into.topology.sources()}
    for group in graph.copartitioned:
        into.topology.co_partition(name for name in group if name in known)
    check_fixed_partitions(into.topology)
    return into.topology


@singledispatch
def lower_node(node: nodes.Node, into: Lowering) -> None:
    """Add what a node stands for to the topology."""
    raise TopologyError(f"nothing is known about nodes of type {type(node).__name__}")


@lower_node.register
def _stream(node: nodes.StreamSource, into: Lowering) -> None:
    into.source(
        node,
        node.name,
        *node.topics,
        pattern=node.pattern,
        key_serde=node.key_serde,
        value_serde=node.value_serde,
        timestamp_extractor=node.timestamp_extractor or (FailOnInvalidTimestamp() if node.parents else None),
        offset_reset=node.offset_reset,
    )


def _global(node: nodes.GlobalTable | nodes.GlobalStore, into: Lowering, operator: Any) -> None:
    into.topology.add_global_store(
        node.store,
        node.source_name,
        node.topic,
        node.name,
        operator if into.wrap is None else into.wrap(node.name, operator),
        key_serde=node.key_serde,
        value_serde=node.value_serde,
        timestamp_extractor=node.timestamp_extractor,
        dsl=node.word,
        origin=node.origin,
    )


@lower_node.register
def _global_table(node: nodes.GlobalTable, into: Lowering) -> None:
    _global(node, into, GlobalTableSource(node.store.name))


@lower_node.register
def _global_store(node: nodes.GlobalStore, into: Lowering) -> None:
    _global(node, into, UserProcessor(node.supplier))


@lower_node.register
def _state_store(node: nodes.StateStore, into: Lowering) -> None:
    into.store(node.store)


@lower_node.register
def _sink(node: nodes.Sink, into: Lowering) -> None:
    if node.internal:
        into.topology.add_internal_topic(node.topic)
    serdes = {"key_serde": node.key_serde, "value_serde": node.value_serde}
    into.sink(node, node.name, node.topic, *into.names(node.parents), partitioner=node.partitioner, **serdes)


@lower_node.register
def _repartition(node: nodes.Repartition, into: Lowering) -> None:
    into.topology.add_internal_topic(node.topic, node.partitions)
    keep: Any = pass_through.PassThrough() if node.keep_null_keys else pass_through.RepartitionFilter()
    into.processor(node, keep, name=node.filter_name)
    serdes = {"key_serde": node.key_serde, "value_serde": node.value_serde}
    into.sink(node, node.sink_name, node.topic, node.filter_name, partitioner=node.partitioner, **serdes)
    into.source(node, node.name, node.topic, timestamp_extractor=FailOnInvalidTimestamp(), **serdes)


@lower_node.register
def _process(node: nodes.Process, into: Lowering) -> None:
    operator = (UserFixedKeyProcessor if node.fixed_key else UserProcessor)(node.supplier)
    own = supplied_stores(node.name, node.supplier)
    into.processor(node, operator)
    for store in own:
        into.store(store, node.name)
    into.connect(node.name, node.stores)


# --- nodes that are one processor without stores ----------------------------------------------------------------------
_OPERATORS: dict[type[nodes.Node], Callable[[Any], Any]] = {
    nodes.Filter: lambda node: filter_.Filter(node.predicate, node.negate),
    nodes.Map: lambda node: map_.Map(node.mapper),
    nodes.MapValues: lambda node: map_values.MapValues(node.mapper, node.with_key),
    nodes.FlatMap: lambda node: flat_map.FlatMap(node.mapper),
    nodes.FlatMapValues: lambda node: flat_map_values.FlatMapValues(node.mapper, node.with_key),
    nodes.SelectKey: lambda node: select_key.SelectKey(node.mapper),
    nodes.Peek: lambda node: peek.Peek(node.action),
    nodes.Foreach: lambda node: peek.Foreach(node.action),
    nodes.Print: lambda node: peek.Print(node.label, node.write, node.mapper),
    nodes.Merge: lambda node: pass_through.PassThrough(),
    nodes.Branch: lambda node: pass_through.PassThrough(),
    nodes.Split: lambda node: branch.Branch(node.predicates, node.children),
}


def _one_processor(operator: Callable[[Any], Any]) -> Callable[[Any, Lowering], None]:
    return lambda node, into: into.processor(node, operator(node))


for _node_type, _operator in _OPERATORS.items():
    lower_node.register(_node_type, _one_processor(_operator))
for _node_type, _function in {**TABLES, **JOINS}.items():
    lower_node.register(_node_type, _function)
