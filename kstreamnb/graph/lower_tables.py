"""Lowering of tables, aggregations and suppression."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kstreamnb.core.extractors import FailOnInvalidTimestamp
from kstreamnb.core.windows import SessionWindows, SlidingWindows
from kstreamnb.errors import TopologyError
from kstreamnb.graph import table_nodes as tables
from kstreamnb.graph.lowering import Lowering
from kstreamnb.graph.nodes import Node, TableRepartition
from kstreamnb.graph.views import is_versioned
from kstreamnb.processors.change_serde import ChangeSerde
from kstreamnb.processors.pass_through import PassThrough
from kstreamnb.processors.session_aggregate import SessionAggregate
from kstreamnb.processors.sliding_aggregate import SlidingAggregate
from kstreamnb.processors.stream_aggregate import StreamAggregate, StreamReduce
from kstreamnb.processors.suppress import Suppress
from kstreamnb.processors.table_aggregate import TableAggregate, TableReduce
from kstreamnb.processors.table_filter import TableFilter
from kstreamnb.processors.table_group_by import TableGroupBy
from kstreamnb.processors.table_map_values import TableMapValues
from kstreamnb.processors.table_source import TableSource
from kstreamnb.processors.table_to_stream import TableToStream
from kstreamnb.processors.table_transform_values import TableTransformValues
from kstreamnb.processors.window_aggregate import WindowAggregate
from kstreamnb.topology.suppliers import supplied_stores

__all__ = ["TABLES"]


def _source(node: tables.TableSource, into: Lowering) -> None:
    serdes = {"key_serde": node.key_serde, "value_serde": node.value_serde}
    reading = {"timestamp_extractor": node.timestamp_extractor, "offset_reset": node.offset_reset}
    into.source(node, node.source_name, node.topic, **serdes, **reading)
    _lazy(node, into, parents=(node.source_name,))


def _lazy(node: tables.LazyTable, into: Lowering, parents: tuple[str, ...] | None = None) -> None:
    """A table made of records: with its store if anything needs it."""
    store = node.store
    if isinstance(node, tables.TableSource) and node.reuse_topic:
        store = replace(store, logged=False, changelog_topic=node.topic)
    into.processor(node, TableSource(store.name if node.materialized else None, node.send_old), parents=parents)
    if node.materialized:
        into.store(store, node.name)


def _kept(node: tables.TableNode, into: Lowering, operator: Any) -> None:
    """A processor with the store of its rows, if it has one."""
    into.processor(node, operator)
    if node.store is not None:
        into.store(node.store, node.name)


def _store_name(node: tables.TableNode) -> str | None:
    return None if node.store is None else node.store.name


def _filter(node: tables.TableFilter, into: Lowering) -> None:
    versioned = into.versioned_above(node)
    _kept(node, into, TableFilter(node.predicate, node.negate, _store_name(node), node.send_old, versioned))


def _map_values(node: tables.TableMapValues, into: Lowering) -> None:
    _kept(node, into, TableMapValues(node.mapper, node.with_key, _store_name(node), node.send_old))


def _transform_values(node: tables.TableTransformValues, into: Lowering) -> None:
    own = supplied_stores(node.name, node.supplier)
    _kept(node, into, TableTransformValues(node.supplier, _store_name(node), node.send_old))
    for store in own:
        into.store(store, node.name)
    into.connect(node.name, node.stores)


def _aggregate(node: tables.StreamAggregate, into: Lowering) -> None:
    into.processor(node, _folding(node))
    if node.owns_store:
        into.store(node.store, node.name)
    else:
        into.connect(node.name, (node.store.name,))


def _folding(node: tables.StreamAggregate) -> Any:
    """The operator that folds as the node's windows say."""
    name, windows = node.store.name, node.windows
    if windows is None:
        if node.initializer is None:
            return StreamReduce(name, node.aggregator, node.send_old)
        return StreamAggregate(name, node.initializer, node.aggregator, node.send_old)
    functions = (node.initializer, node.aggregator)
    if isinstance(windows, SessionWindows):
        return SessionAggregate(name, windows, *functions, node.merger, node.emit_on_close, node.send_old)
    folding = SlidingAggregate if isinstance(windows, SlidingWindows) else WindowAggregate
    return folding(name, windows, *functions, node.emit_on_close, node.send_old)


def _cogroup_merge(node: tables.CogroupMerge, into: Lowering) -> None:
    into.processor(node, PassThrough())


def _repartition(node: TableRepartition, into: Lowering) -> None:
    into.topology.add_internal_topic(node.topic)
    serdes = {"key_serde": node.key_serde, "value_serde": ChangeSerde(node.value_serde)}
    into.sink(node, node.sink_name, node.topic, *into.names(node.parents), **serdes)
    into.source(node, node.name, node.topic, timestamp_extractor=FailOnInvalidTimestamp(), **serdes)


def _table_aggregate(node: tables.TableAggregate, into: Lowering) -> None:
    functions = (node.adder, node.subtractor, node.send_old)
    if node.initializer is None:
        _kept(node, into, TableReduce(node.store.name, *functions))
    else:
        _kept(node, into, TableAggregate(node.store.name, node.initializer, *functions))


def _suppress(node: tables.Suppress, into: Lowering) -> None:
    if all(is_versioned(into.graph, parent) for parent in into.graph.parents(node)):
        raise TopologyError(
            f'what "{node.name}" holds back is versioned, as the table above it',
            hint="suppress before the versioned store, or use a store without versions",
            java="Invalid topology: suppress() is only supported for non-versioned KTables (note that version "
            "semantics might be inherited from upstream)",
        )
    limits = (node.max_records, node.max_bytes, node.emit_early)
    _kept(node, into, Suppress(node.store.name, node.wait_ms, node.until_close, node.until_close, *limits))


def _to_stream(node: tables.TableToStream, into: Lowering) -> None:
    into.processor(node, TableToStream())


def _select(node: tables.TableSelect, into: Lowering) -> None:
    into.processor(node, TableGroupBy(node.selector, into.versioned_above(node)))


TABLES: dict[type[Node], Callable[[Any, Lowering], None]] = {
    tables.TableSource: _source,
    tables.ToTable: _lazy,
    tables.ForeignResult: _lazy,
    tables.TableFilter: _filter,
    tables.TableMapValues: _map_values,
    tables.TableTransformValues: _transform_values,
    tables.StreamAggregate: _aggregate,
    tables.CogroupMerge: _cogroup_merge,
    TableRepartition: _repartition,
    tables.TableAggregate: _table_aggregate,
    tables.Suppress: _suppress,
    tables.TableToStream: _to_stream,
    tables.TableSelect: _select,
}
"""What each type of node becomes."""
