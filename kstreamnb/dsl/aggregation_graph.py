"""Writes groupings and aggregations into a logical graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kstreamnb.core.serdes import Serdes, SessionWindowedSerde, TimeWindowedSerde, serde_or_none
from kstreamnb.core.stores import StoreSpec
from kstreamnb.core.windows import SessionWindows, SlidingWindows
from kstreamnb.dsl.flows import CogroupFlow, FoldSpec, GroupFlow, StreamFlow, TableFlow, UserFunction, Windowing
from kstreamnb.dsl.materialization import Materialization, aggregate_store, row_store, table_fields
from kstreamnb.dsl.option_fields import SerdeFields
from kstreamnb.dsl.options import Grouped
from kstreamnb.dsl.stream_graph import transform
from kstreamnb.logical.builder import GraphBuilder, is_versioned, send_old
from kstreamnb.logical.nodes import Repartition, Table
from kstreamnb.operators.aggregates import SessionAggregate, StreamAggregate, WindowAggregate
from kstreamnb.operators.derived_tables import ChangeSerde, TableAggregate, TableGroupBy
from kstreamnb.operators.folding import add_counts, count_up, zero
from kstreamnb.operators.sliding_aggregate import SlidingAggregate
from kstreamnb.operators.stateless import PassThrough, SelectKey


def emit_group_by_key(graph: GraphBuilder, source: StreamFlow, options: Grouped) -> GroupFlow:
    """Write ``group_by_key`` into a graph."""
    serdes = options.serdes(source.key_serde, source.value_serde)
    return GroupFlow(
        source.node, source.name, **serdes, sources=source.sources, rekeyed=source.rekeyed, topic_name=options.name
    )


def emit_group_by(graph: GraphBuilder, source: StreamFlow, selector: UserFunction, options: Grouped) -> GroupFlow:
    """Write ``group_by`` into a graph."""
    return emit_group_by_key(graph, transform(graph, source, "KEY-SELECT", SelectKey(selector), options.name), options)


def emit_group_table_by(
    graph: GraphBuilder,
    source: TableFlow,
    selector: Callable[[object, object], tuple[object, object] | None],
    options: Grouped,
) -> GroupFlow:
    """Write ``group_table_by`` into a graph."""
    name = graph.name_or_new(options.name, "KTABLE-SELECT-")
    node = graph.step(name, TableGroupBy(selector, is_versioned(graph, source.node)), source.node)
    send_old(graph, source.node)
    serdes = options.serdes()
    return GroupFlow(node.id, name, **serdes, sources=source.sources, rekeyed=True, topic_name=options.name)


def emit_cogroup(graph: GraphBuilder, group: GroupFlow, aggregator: UserFunction) -> CogroupFlow:
    """Write ``cogroup`` into a graph."""
    return CogroupFlow(groups={group: aggregator})


def emit_cogroup_more(
    graph: GraphBuilder, cogroup: CogroupFlow, group: GroupFlow, aggregator: UserFunction
) -> CogroupFlow:
    """Write ``cogroup_more`` into a graph."""
    return replace(cogroup, groups={**cogroup.groups, group: aggregator})


def emit_windowing(graph: GraphBuilder, group: Windowing, **fields: Any) -> Windowing:
    """Write ``windowed_by`` or ``emit_strategy`` into a graph."""
    return replace(group, **fields)


def emit_count(graph: GraphBuilder, grouped: GroupFlow, table: Materialization) -> TableFlow:
    """Write ``count`` into a graph."""
    unnamed = table.explicit and table.store_name is None
    if unnamed and not isinstance(grouped.windows, SlidingWindows):
        graph.new_name("KSTREAM-AGGREGATE-STATE-STORE-")  # Kafka consumes a number here
    return emit_fold(graph, grouped, table, FoldSpec(zero, count_up, add_counts, value_serde=Serdes.long()))


def emit_fold(graph: GraphBuilder, grouped: GroupFlow, table: Materialization, fold: FoldSpec) -> TableFlow:
    """Write ``fold`` into a graph."""
    java, value_serde = fold.kind(grouped)
    store_name = table.new_store(graph, f"KSTREAM-{java}-")
    name = graph.name_or_new(table.name, f"KSTREAM-{java}-")
    store = aggregate_store(graph, table, store_name, grouped, key_serde=grouped.key_serde, value_serde=value_serde)
    parent, sources = grouped.node, grouped.sources
    if grouped.rekeyed:
        repartition = _repartition(graph, grouped, grouped, store_name)
        parent, sources = repartition.id, (repartition.name,)
    return _table(graph.add(_aggregation(name, grouped, store, fold), parent), store, sources, grouped, table)


def _aggregation(name: str, grouped: Windowing, store: StoreSpec, fold: FoldSpec) -> Table:
    """Return the node of an aggregation, by key or by key and window."""
    windows, emit_on_close, rows = grouped.windows, grouped.emit_on_close, table_fields(store)
    initializer, aggregator, merger, _ = fold
    if windows is None:
        return Table(name=name, operator=StreamAggregate(store.name, initializer, aggregator), **rows)
    if isinstance(windows, SessionWindows):
        session = SessionAggregate(store.name, windows, initializer, aggregator, emit_on_close, merger=merger)
        return Table(name=name, operator=session, grace_ms=windows.grace_ms + windows.gap_ms, **rows)
    kind = SlidingAggregate if isinstance(windows, SlidingWindows) else WindowAggregate
    operator = kind(store.name, windows, initializer, aggregator, emit_on_close)
    return Table(name=name, operator=operator, grace_ms=windows.grace_ms, **rows)


def _repartition(graph: GraphBuilder, shared: Windowing, group: GroupFlow, store: str) -> Repartition:
    """Return the repartition below a group, adding it if needed.

    A grouped stream has one for all its aggregations when its topic has a name, a cogrouped one in any case.
    """
    node = graph.repartition(group.topic_name or store, key_serde=group.key_serde, value_serde=group.value_serde)
    if group.topic_name is None and ("state store", store) in graph.unnamed:  # named after the store
        graph.note_unnamed("repartition topic", node.topic)
    return _add_repartition(graph, shared, group, node)


def _add_repartition(graph: GraphBuilder, shared: Windowing, group: GroupFlow, node: Repartition) -> Repartition:
    key = None if shared is group else group
    if key in shared.repartitioned and (key or group.topic_name):
        return shared.repartitioned[key] if key else graph.attach(shared.repartitioned[key], group.node)
    shared.repartitioned[key] = graph.add(node, group.node)
    return shared.repartitioned[key]


def _table(node: Table, store: StoreSpec, sources: tuple[str, ...], by: Windowing, table: Materialization) -> TableFlow:
    key_serde, value_serde = serde_or_none(store.key_serde), serde_or_none(store.value_serde)
    if isinstance(by.windows, SessionWindows):
        key_serde = SessionWindowedSerde(key_serde)
    elif by.windows is not None:
        key_serde = TimeWindowedSerde(key_serde, by.windows.size_ms or None)
    return TableFlow(node.id, node.name, key_serde, value_serde, sources, table.store_name)


def emit_aggregate_all(
    graph: GraphBuilder, by: CogroupFlow, table: Materialization, initializer: UserFunction, merger: UserFunction | None
) -> TableFlow:
    """Write ``aggregate_all`` into a graph."""
    store_name = table.new_store(graph, "COGROUPKSTREAM-AGGREGATE-")
    store = aggregate_store(graph, table, store_name, by)
    groups = by.groups
    parents = [_repartition(graph, by, group, store_name).id if group.rekeyed else group.node for group in groups]
    graph.co_partition(source for group in groups for source in group.sources)
    folded: list[Table] = []
    for index, aggregator in enumerate(groups.values()):
        name = graph.name_or_new(table.name, "COGROUPKSTREAM-AGGREGATE-", f"-cogroup-agg-{index}")
        node = _aggregation(name, by, store, FoldSpec(initializer, aggregator, merger))
        versioned = node.versioned if by.windows is None else None  # as in Java: windows inherit versions
        stored = {"stores": (store_name,)} if folded else {"own": (store,)}
        folded.append(graph.add(replace(node, store=None, versioned=versioned, **stored), parents[index]))
    ids = tuple(node.id for node in folded)
    merge_name = graph.name_or_new(table.name, "COGROUPKSTREAM-MERGE-", "-cogroup-merge")
    merge = graph.add(Table(name=merge_name, operator=PassThrough(), view=folded[0].view, computed_from=ids), *ids)
    return _table(merge, store, (merge.name,), by, table)


def emit_fold_table(graph: GraphBuilder, group: GroupFlow, table: Materialization, fold: FoldSpec) -> TableFlow:
    """Write ``fold_table`` into a graph."""
    java, value_serde = fold.kind(group)
    store_name = table.new_store(graph, "KTABLE-AGGREGATE-")
    store = row_store(graph, table, store_name, key_serde=group.key_serde, value_serde=value_serde)
    sink = graph.name_or_new(table.name, "KSTREAM-SINK-", "-sink")
    source = graph.name_or_new(table.name, "KSTREAM-SOURCE-", "-source")
    name = graph.name_or_new(table.name, f"KTABLE-{java}-")
    topic = f"{group.topic_name or store_name}-repartition"
    serdes: SerdeFields = {"key_serde": group.key_serde, "value_serde": ChangeSerde(group.value_serde)}
    repartition = Repartition(name=source, topic=topic, sink_name=sink, word="repartition", **serdes)
    repartition = _add_repartition(graph, group, group, repartition)
    assert fold.third is not None
    operator = TableAggregate(store_name, fold.initializer, fold.aggregator, fold.third)
    node = graph.add(Table(name=name, operator=operator, **table_fields(store)), repartition.id)
    return _table(node, store, (source,), group, table)
