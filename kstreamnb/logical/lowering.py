"""Lowering: a logical graph becomes a topology, node by node, one function for each type of node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import singledispatchmethod
from typing import TypeAlias

from kstreamnb.core.extractors import FailOnInvalidTimestamp
from kstreamnb.core.operator import Operator
from kstreamnb.errors import KStreamError, TopologyError
from kstreamnb.logical import nodes
from kstreamnb.logical.graph import LogicalGraph
from kstreamnb.operators.stateless import PassThrough, RepartitionFilter
from kstreamnb.topology.partitions import check_fixed_partitions
from kstreamnb.topology.topology import Topology

Wrap: TypeAlias = Callable[[str, Operator], Operator]
"""Gets a node's name and operator and gives the operator to use instead."""


def lower(graph: LogicalGraph, *, name: str | None = None, wrap: Wrap | None = None) -> Topology:
    """Lower a graph to a topology.

    Raises: TopologyError when nodes, stores or topics do not fit together, with the user's line.
    """
    into = _Lowering(graph, Topology(name), wrap)
    for node in graph.ordered():
        try:
            into.lower(node)
        except KStreamError as error:
            error.at(node.origin)
            raise
    known = {source.name for source in into.topology.sources()}
    for group in graph.copartitioned:
        into.topology.co_partition(name for name in group if name in known)
    check_fixed_partitions(into.topology)
    return into.topology


@dataclass(frozen=True)
class _Lowering:
    """A graph while it is lowered to a topology."""

    graph: LogicalGraph
    topology: Topology
    wrap: Wrap | None = None

    def names(self, ids: tuple[int, ...]) -> tuple[str, ...]:
        return tuple(self.graph.by_id[id_].name for id_ in ids)

    def processor(
        self, node: nodes.LogicalNode, name: str, operator: Operator, *parents: str, stores: tuple[str, ...] = ()
    ) -> None:
        wrapped = self.wrap(name, operator) if self.wrap else operator
        self.topology.add_processor(name, wrapped, *parents, stores=stores, dsl=node.word, origin=node.origin)

    @singledispatchmethod
    def lower(self, node: nodes.LogicalNode) -> None:
        """Add the topology nodes that a node stands for."""
        raise TopologyError(f"no lowering is defined for nodes of type {type(node).__name__}")

    @lower.register
    def _source(self, node: nodes.StreamSource) -> None:
        fields = {"timestamp_extractor": node.timestamp_extractor, "offset_reset": node.offset_reset, **node.settings}
        self.topology.add_source(node.name, *node.topics, pattern=node.pattern, **fields)

    @lower.register
    def _global(self, node: nodes.GlobalTable) -> None:
        where = (node.store, node.source_name, node.topic, node.name, node.operator)
        fields = {"timestamp_extractor": node.timestamp_extractor, "dsl": node.word, **node.settings}
        self.topology.add_global_store(*where, **fields)

    @lower.register
    def _store(self, node: nodes.StateStore) -> None:
        self.topology.add_state_store(node.store)

    @lower.register
    def _sink(self, node: nodes.StreamSink) -> None:
        parents = self.names(node.parents)
        self.topology.add_sink(node.name, node.topic, *parents, partitioner=node.partitioner, **node.settings)

    @lower.register
    def _repartition(self, node: nodes.Repartition) -> None:
        self.topology.add_internal_topic(node.topic, node.partitions)
        parents = self.names(node.parents)
        if node.filter_name is not None:
            keep: Operator = PassThrough() if node.keep_null_keys else RepartitionFilter()
            self.processor(node, node.filter_name, keep, *parents)
            parents = (node.filter_name,)
        settings = node.settings
        self.topology.add_sink(node.sink_name, node.topic, *parents, partitioner=node.partitioner, **settings)
        self.topology.add_source(node.name, node.topic, timestamp_extractor=FailOnInvalidTimestamp(), **settings)

    @lower.register
    def _step(self, node: nodes.Operation) -> None:
        self.processor(node, node.name, node.operator, *self.names(node.parents))
        for store in node.own:
            self.topology.add_state_store(store, node.name)
        if node.stores:
            self.topology.connect_processor_and_state_stores(node.name, *dict.fromkeys(node.stores))

    @lower.register
    def _table(self, node: nodes.Table) -> None:
        operator, store = node.operator, node.store
        if node.send_old and operator.traits.sends_old:
            operator = operator.changed(send_old=True)
        if node.lazy and not node.materialized:
            operator, store = operator.changed(store=None), None
        elif store is not None and node.reuse_topic:
            store = replace(store, logged=False, changelog_topic=node.topic)
        own = (*node.own, *((store,) if store is not None else ()))
        self._step(replace(node, operator=operator, own=own))

    @lower.register
    def _table_join(self, node: nodes.TableJoin) -> None:
        for name, table, operator, stores in node.sides:
            self.processor(node, name, operator.changed(send_old=node.send_old), *self.names((table,)), stores=stores)
        merge = node.operator.changed(send_old=node.send_old)
        self.processor(node, node.name, merge, *(name for name, *_ in node.sides))
        if node.store is not None:
            self.topology.add_state_store(node.store, node.name)

    @lower.register
    def _stream_join(self, node: nodes.StreamJoin) -> None:
        windows = [side for id_ in node.uses if isinstance(side := self.graph.by_id[id_], nodes.WindowedStream)]
        if len(windows) == 1:
            self.processor(node, node.name, node.alone, windows[0].name)
            self.topology.add_state_store(windows[0].store, windows[0].name, node.name)
            return
        names = (node.this[0], node.other[0])
        for (name, operator), window in zip((node.this, node.other), windows, strict=True):
            self.processor(node, name, operator, window.name)
        self.processor(node, node.name, node.operator, *names)
        for window, opposite in zip(windows, reversed(names), strict=True):
            self.topology.add_state_store(window.store, window.name, opposite)
        for store in node.own:
            self.topology.add_state_store(store, *names)
