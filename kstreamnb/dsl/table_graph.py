"""Writes the operators of tables into a logical graph."""

from __future__ import annotations

from typing import Any

from kstreamnb.core.serde import Serde
from kstreamnb.core.stores import StoreSpec
from kstreamnb.dsl.flows import StreamFlow, TableFlow, UserFunction
from kstreamnb.dsl.materialization import Materialization, row_store, table_fields
from kstreamnb.dsl.options import Suppressed
from kstreamnb.dsl.stream_graph import transform
from kstreamnb.errors import TopologyError
from kstreamnb.logical.builder import GraphBuilder, is_versioned, send_old, table_of
from kstreamnb.logical.nodes import Repartition, Table
from kstreamnb.operators import derived_tables
from kstreamnb.operators.stateless import SelectKey, TableToStream
from kstreamnb.operators.tables import Suppress, SuppressView
from kstreamnb.topology.validation import supplied_stores


def emit_filter(
    graph: GraphBuilder, source: TableFlow, predicate: UserFunction, negate: bool, table: Materialization
) -> TableFlow:
    """Write ``filter`` into a graph."""
    sends_old = send_old(graph, source.node, force=False)
    name = _name(graph, "FILTER", table)
    operator = derived_tables.TableFilter(predicate, negate, is_versioned(graph, source.node), store=table.store_name)
    return _derive(graph, source, table, name, operator, source.value_serde, send_old=sends_old)


def emit_map_values(
    graph: GraphBuilder, source: TableFlow, mapper: UserFunction, with_key: bool, table: Materialization
) -> TableFlow:
    """Write ``map_values`` into a graph."""
    name = _name(graph, "MAPVALUES", table)
    operator = derived_tables.TableMapValues(mapper, with_key, store=table.store_name)
    return _derive(graph, source, table, name, operator)


def _name(graph: GraphBuilder, java: str, table: Materialization) -> str:
    if table.explicit and table.store_name is None:
        graph.new_name(f"KTABLE-{java}-STATE-STORE-")  # Kafka uses up a number here
    return graph.name_or_new(table.name, f"KTABLE-{java}-")


def _derive(
    graph: GraphBuilder,
    source: TableFlow,
    table: Materialization,
    name: str,
    operator: derived_tables.DerivedTable,
    value_serde: Serde | None = None,
    **fields: Any,
) -> TableFlow:
    """Add a table computed row by row from another: on demand, or stored under the user's name."""
    store_name, key_serde = table.store_name, table.options.key_serde or source.key_serde
    value_serde = table.options.value_serde or value_serde
    if store_name is None:
        view = derived_tables.DerivedView(table_of(graph, source.node).view, operator)
        fields |= {"view": view, "computed_from": (source.node,), "versioned": False if table.explicit else None}
    else:
        fields |= table_fields(row_store(graph, table, store_name, key_serde=key_serde, value_serde=value_serde))
    node = graph.add(Table(name=name, operator=operator, **fields), source.node)
    return TableFlow(node.id, name, key_serde, value_serde, source.sources, store_name)


def emit_to_stream(graph: GraphBuilder, source: TableFlow, mapper: UserFunction | None, name: str | None) -> StreamFlow:
    """Write ``to_stream`` into a graph."""
    node = graph.step(graph.name_or_new(name, "KTABLE-TOSTREAM-"), TableToStream(), source.node)
    stream = StreamFlow(node.id, node.name, source.key_serde, source.value_serde, source.sources)
    if mapper is None:
        return stream
    graph.word = "select_key"
    return transform(graph, stream, "KEY-SELECT", SelectKey(mapper), None)


def emit_suppress(graph: GraphBuilder, source: TableFlow, suppressed: Suppressed) -> TableFlow:
    """Write ``suppress`` into a graph."""
    if is_versioned(graph, source.node):
        fact = f'table "{source.name}" is versioned, so its changes cannot be suppressed'
        java = "Invalid topology: suppress() is only supported for non-versioned KTables"
        java = f"{java} (note that version semantics might be inherited from upstream)"
        hint = "suppress before the versioned store, or use a store without versions"
        raise TopologyError(fact, hint=hint, java=java)
    name = suppressed.name or graph.new_name("KTABLE-SUPPRESS-")
    wait_ms = _grace(graph, source.node) if suppressed.until_close else suppressed.wait_ms
    store_name = f"{name}-store" if suppressed.name else graph.new_name("KTABLE-SUPPRESS-STATE-STORE-")
    buffer = suppressed.buffer
    if suppressed.name is None and buffer.logged:
        graph.note_unnamed("changelog topic", f"{store_name}-changelog")
    serdes, extra = (source.key_serde, source.value_serde), {"type": "suppress"}
    store = StoreSpec(store_name, "internal", *serdes, persistent=False, extra=extra, **buffer.log_fields)
    send_old(graph, source.node)
    close, limits = suppressed.until_close, (buffer.records_limit, buffer.bytes_limit, buffer.emit_early)
    operator = Suppress(store_name, wait_ms, close, close, *limits)
    view = SuppressView(table_of(graph, source.node).view, store_name)
    node = Table(name=name, operator=operator, view=view, store=store, versioned=False, computed_from=(source.node,))
    node = graph.add(node, source.node)
    return TableFlow(node.id, name, source.key_serde, source.value_serde, (source.name,))


def _grace(graph: GraphBuilder, node: int, below: str = "") -> int:
    """Return the milliseconds of stream time from the end of a window upstream until it closes.

    Raises: TopologyError without a windowed aggregation upstream.
    """
    above = graph.nodes[node]
    if isinstance(above, Table) and above.grace_ms is not None:
        return above.grace_ms
    names = [above.name, *filter(None, (below,))]
    if isinstance(above, Repartition) and above.topic.endswith("-topic"):  # of a foreign-key join: two nodes in Java
        names.insert(0, above.sink_name)
    chain = "->".join(names)
    if not above.parents or (isinstance(above, Table) and above.topic):
        fact = "suppressing until windows close requires a windowed aggregation upstream"
        hint = "window the stream first, or suppress with Suppressed.until_time_limit"
        java = f"Invalid topology: Window close time is only defined for windowed computations. Got [root->{chain}]."
        raise TopologyError(fact, detail=f"upstream: {chain.replace('->', ', then ')}", hint=hint, java=java)
    return max(_grace(graph, parent, chain) for parent in above.parents)


def emit_transform_values(
    graph: GraphBuilder, source: TableFlow, supplier: UserFunction, stores: tuple[str, ...], table: Materialization
) -> TableFlow:
    """Write ``transform_values`` into a graph."""
    name = graph.name_or_new(table.name, "KTABLE-TRANSFORMVALUES-")
    operator = derived_tables.TableTransformValues(supplier, store=table.store_name)
    return _derive(graph, source, table, name, operator, stores=stores, own=supplied_stores(name, supplier))
