"""Operators of a table: filter, map, hand on as a stream, hold back, transform."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, Unpack, overload

from kstreamnb.core.names import check_resource_name
from kstreamnb.core.serde import Serde
from kstreamnb.core.signatures import RECORD, taking
from kstreamnb.core.stores import StoreSpec
from kstreamnb.dsl.declarations import Handle
from kstreamnb.dsl.flows import StreamFlow, TableFlow, UserFunction
from kstreamnb.dsl.keywords import MaterializedKeywords, expect, spelled_out
from kstreamnb.dsl.materialization import Materialization, materialization, row_store, table_fields
from kstreamnb.dsl.option_fields import Named
from kstreamnb.dsl.options import Materialized, Suppressed
from kstreamnb.dsl.streams import transform
from kstreamnb.dsl.type_vars import K2, V2, K, Predicate, V, ValueTransformer
from kstreamnb.errors import TopologyError
from kstreamnb.logical.builder import GraphBuilder, is_versioned, send_old, view_of
from kstreamnb.logical.nodes import Table
from kstreamnb.operators.derived_tables import (
    DerivedTable,
    DerivedView,
    TableFilter,
    TableMapValues,
    TableTransformValues,
)
from kstreamnb.operators.stateless import SelectKey, TableToStream
from kstreamnb.operators.tables import StoreView, Suppress, SuppressView
from kstreamnb.topology.validation import check_supplier, supplied_stores

if TYPE_CHECKING:  # streams and tables are made of these classes
    from kstreamnb.dsl.kstream import KStream
    from kstreamnb.dsl.ktable import KTable

TableOption: TypeAlias = Named | Materialized
"""An option object that may follow the arguments, as in Java."""


class TableOperators(Handle, Generic[K, V]):
    """Operators of a table on its own rows."""

    @spelled_out(Materialized)
    def filter(
        self, predicate: Predicate[K, V], *options: TableOption, **keywords: Unpack[MaterializedKeywords]
    ) -> KTable[K, V]:
        """Keep the rows for which a predicate holds; a row for which it no longer holds is deleted.

        Shape: KTable[K, V] -> KTable[K, V]; 1 -> at most 1; key kept; store: when named; repartition: no.

        Args:
            predicate: function ``(key, value)``; a true result keeps the row.
            options: a `Named` and a `Materialized`, as in Java, instead of keywords. Default: none.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> prices = StreamsBuilder().table("prices", store="prices")
            >>> head(prices.filter(lambda sku, price: price > 9), {"prices": [("hat", 12), ("hat", 8), ("cap", 5)]})
            [('hat', 12, 0), ('hat', None, 1)]

        Source: Kafka Streams `KTable#filter`; differences: none (a miss is a tombstone, too, unless the table knows its
            old values).
        """
        return self._filter("filter", predicate, materialization(options, keywords))

    @spelled_out(Materialized)
    def filter_not(
        self, predicate: Predicate[K, V], *options: TableOption, **keywords: Unpack[MaterializedKeywords]
    ) -> KTable[K, V]:
        """Keep the rows for which a predicate does not hold; a row for which it begins to hold is deleted.

        Shape: KTable[K, V] -> KTable[K, V]; 1 -> at most 1; key kept; store: when named; repartition: no.

        Args:
            predicate: function ``(key, value)``; a true result deletes the row.
            options: a `Named` and a `Materialized`, as in Java, instead of keywords. Default: none.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> prices = StreamsBuilder().table("prices", store="prices")
            >>> head(prices.filter_not(lambda sku, price: price > 9), {"prices": [("hat", 12), ("cap", 5)]})
            [('cap', 5, 1)]

        Source: Kafka Streams `KTable#filterNot`; differences: none.
        """
        return self._filter("filter_not", predicate, materialization(options, keywords))

    def _filter(self, word: str, predicate: Predicate[K, V], table: Materialization) -> KTable[K, V]:
        predicate = taking(predicate, *RECORD)
        return self.declare("table", word, _filter, predicate=predicate, negate=word == "filter_not", table=table)

    @overload
    def map_values(
        self,
        mapper: Callable[[V], V2],
        *options: TableOption,
        with_key: Literal[False] = False,
        **keywords: Unpack[MaterializedKeywords],
    ) -> KTable[K, V2]: ...
    @overload
    def map_values(
        self,
        mapper: Callable[[K, V], V2],
        *options: TableOption,
        with_key: Literal[True],
        **keywords: Unpack[MaterializedKeywords],
    ) -> KTable[K, V2]: ...
    @spelled_out(Materialized)
    def map_values(
        self,
        mapper: Callable[..., V2],
        *options: TableOption,
        with_key: bool = False,
        **keywords: Unpack[MaterializedKeywords],
    ) -> KTable[K, V2]:
        """Replace the value of each row.

        Shape: KTable[K, V] -> KTable[K, V2]; 1 -> 1; key kept; store: when named; repartition: no.

        Args:
            mapper: function ``(value)`` that returns the new value; ``(key, value)`` if ``with_key``.
            options: a `Named` and a `Materialized`, as in Java, instead of keywords. Default: none.
            with_key: whether the mapper takes the key as well. Default: False.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> prices = StreamsBuilder().table("prices")
            >>> head(prices.map_values(lambda price: price * 2), {"prices": [("hat", 12), ("hat", None)]})
            [('hat', 24, 0), ('hat', None, 1)]

        Source: Kafka Streams `KTable#mapValues`; differences: ``with_key`` replaces `ValueMapperWithKey`.
        """
        mapper, table = taking(mapper, "value", key=with_key), materialization(options, keywords)
        return self.declare("table", "map_values", _map_values, mapper=mapper, with_key=with_key, table=table)

    @overload
    def to_stream(self, mapper: None = None, *, name: str | None = None) -> KStream[K, V]: ...
    @overload
    def to_stream(self, mapper: Callable[[K, V], K2], *, name: str | None = None) -> KStream[K2, V]: ...
    def to_stream(self, mapper: Callable[[K, V], K2] | None = None, *, name: str | None = None) -> KStream[Any, V]:
        """Return the changes of the table as a stream, with null values for deletions.

        Shape: KTable[K, V] -> KStream[K, V]; 1 -> 1; key kept, or changed by the mapper; store: no; repartition: before
            the next grouping or join when keys were changed.

        Args:
            mapper: function ``(key, value)`` that returns the new key. Default: the key is kept.
            name: name of the node in the topology. Default: a generated name.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> prices = StreamsBuilder().table("prices")
            >>> head(prices.to_stream(lambda sku, price: sku.upper()), {"prices": [("hat", 12)]})
            [('HAT', 12, 0)]

        Source: Kafka Streams `KTable#toStream`; differences: none.
        """
        checked = None if mapper is None else taking(mapper, *RECORD)
        return self.declare("stream", "to_stream", _to_stream, mapper=checked, name=name)

    def suppress(self, suppressed: Suppressed) -> KTable[K, V]:
        """Hold changes back: for a time, so that only the latest is emitted, or until their window has closed.

        Shape: KTable[K, V] -> KTable[K, V]; n -> at most n; key kept; store: a buffer; repartition: no.
        Units: stream time of the records that reach this operator.
        Late: nothing is dropped, except deletions while waiting for windows to close.

        Args:
            suppressed: how long to wait, and the limits of the buffer.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> from kstreamnb import Suppressed
            >>> prices = StreamsBuilder().table("prices")
            >>> calm = prices.suppress(Suppressed.until_time_limit("5ms"))
            >>> head(calm, {"prices": [("hat", 1, 0), ("hat", 2, 3), ("cap", 9, 5)]})
            [('hat', 2, 3)]

        Source: Kafka Streams `KTable#suppress`, KIP-328; differences: none.
        """
        expect(suppressed, Suppressed, 'write Suppressed.until_time_limit("1h"), or Suppressed.until_window_closes()')
        return self.declare("table", "suppress", _suppress, suppressed=suppressed)

    @spelled_out(Materialized)
    def transform_values(
        self,
        supplier: Callable[[], ValueTransformer[K, V, V2]],
        *stores: str | TableOption,
        **keywords: Unpack[MaterializedKeywords],
    ) -> KTable[K, V2]:
        """Replace the value of each row by what a transformer of the user returns.

        Shape: KTable[K, V] -> KTable[K, V2]; 1 -> 1; key kept; store: when named; repartition: no.

        Args:
            supplier: called without arguments once per task; returns an object with ``transform(key, value)``, which
                is called for deleted rows as well, and optionally ``init(context)`` and ``close()``.
            stores: names of the state stores that the transformer uses; a `Named` and a `Materialized` may follow.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> class Tagged:
            ...     def transform(self, key, value):
            ...         return f"{key}: {value}"
            ...
            >>> head(StreamsBuilder().table("prices").transform_values(Tagged), {"prices": [("hat", 12)]})
            [('hat', 'hat: 12', 0)]

        Source: Kafka Streams `KTable#transformValues`; differences: none.
        """
        check_supplier("transform_values", supplier)
        options = [each for each in stores if isinstance(each, TableOption)]
        names = tuple(check_resource_name(each, "store name") for each in stores if not isinstance(each, TableOption))
        table = materialization(options, keywords)
        return self.declare(
            "table", "transform_values", _transform_values, supplier=supplier, stores=names, table=table
        )


# --- in the graph -----------------------------------------------------------------------------------------------------
def _filter(
    graph: GraphBuilder, source: TableFlow, predicate: UserFunction, negate: bool, table: Materialization
) -> TableFlow:
    sends_old = send_old(graph, source.node, force=False)
    name = _name(graph, "FILTER", table)
    operator = TableFilter(predicate, negate, table.store_name, versioned=is_versioned(graph, source.node))
    return _derive(
        graph, source, Table(name=name, operator=operator, view=_NO_VIEW, send_old=sends_old), table, source.value_serde
    )


def _map_values(
    graph: GraphBuilder, source: TableFlow, mapper: UserFunction, with_key: bool, table: Materialization
) -> TableFlow:
    name = _name(graph, "MAPVALUES", table)
    operator = TableMapValues(mapper, with_key, table.store_name)
    return _derive(graph, source, Table(name=name, operator=operator, view=_NO_VIEW), table)


def _name(graph: GraphBuilder, java: str, table: Materialization) -> str:
    if table.explicit and table.store_name is None:
        graph.new_name(f"KTABLE-{java}-STATE-STORE-")  # Kafka uses up a number here
    return graph.name_or_new(table.name, f"KTABLE-{java}-")


_NO_VIEW = StoreView("")
"""Stands for the view of a table until `_derive` knows it."""


def _derive(
    graph: GraphBuilder, source: TableFlow, node: Table, table: Materialization, value_serde: Serde | None = None
) -> TableFlow:
    """Add a table computed row by row from another: on demand, or stored under the user's name."""
    store_name, key_serde = table.store_name, table.options.key_serde or source.key_serde
    value_serde = table.options.value_serde or value_serde
    if store_name is None:
        assert isinstance(node.operator, DerivedTable)
        view = DerivedView(view_of(graph, source.node), node.operator)
        versioned = False if table.explicit else None
        node = replace(node, view=view, computed_from=(source.node,), versioned=versioned)
    else:
        node = replace(node, **table_fields(row_store(graph, table, store_name, key_serde, value_serde)))
    node = graph.add(node, source.node)
    return TableFlow(node.id, node.name, key_serde, value_serde, source.sources, store_name)


def _to_stream(graph: GraphBuilder, source: TableFlow, mapper: UserFunction | None, name: str | None) -> StreamFlow:
    node = graph.step(graph.name_or_new(name, "KTABLE-TOSTREAM-"), TableToStream(), source.node)
    stream = StreamFlow(node.id, node.name, source.key_serde, source.value_serde, source.sources)
    if mapper is None:
        return stream
    graph.word = "select_key"
    return transform(graph, stream, "KEY-SELECT", SelectKey(mapper), None)


def _suppress(graph: GraphBuilder, source: TableFlow, suppressed: Suppressed) -> TableFlow:
    if is_versioned(graph, source.node):
        raise TopologyError(
            f'table "{source.name}" is versioned: its changes cannot be held back',
            hint="suppress before the versioned store, or use a store without versions",
            java="Invalid topology: suppress() is only supported for non-versioned KTables (note that version "
            "semantics might be inherited from upstream)",
        )
    name = suppressed.name or graph.new_name("KTABLE-SUPPRESS-")
    wait_ms = _grace(graph, source.node) if suppressed.until_close else suppressed.wait_ms
    store_name = f"{name}-store" if suppressed.name else graph.new_name("KTABLE-SUPPRESS-STATE-STORE-")
    buffer = suppressed.buffer
    if suppressed.name is None and buffer.logged:
        graph.note_unnamed("changelog topic", f"{store_name}-changelog")
    store = StoreSpec(
        store_name,
        "internal",
        source.key_serde,
        source.value_serde,
        persistent=False,
        extra={"type": "suppress"},
        **buffer.log_fields,
    )
    send_old(graph, source.node)
    close, limits = suppressed.until_close, (buffer.records_limit, buffer.bytes_limit, buffer.emit_early)
    operator = Suppress(store_name, wait_ms, close, close, *limits)
    view = SuppressView(view_of(graph, source.node), store_name)
    node = Table(name=name, operator=operator, view=view, store=store, versioned=False, computed_from=(source.node,))
    node = graph.add(node, source.node)
    return TableFlow(node.id, name, source.key_serde, source.value_serde, (source.name,))


def _grace(graph: GraphBuilder, node: int, below: str = "") -> int:
    """Return the milliseconds of stream time from the end of a window upstream until it closes.

    Raises: TopologyError when there is no windowed aggregation upstream.
    """
    above = graph.nodes[node]
    if isinstance(above, Table) and above.grace_ms is not None:
        return above.grace_ms
    chain = f"{above.name}->{below}" if below else above.name
    if not above.parents or (isinstance(above, Table) and above.topic):
        raise TopologyError(
            "only windows close: there is no windowed aggregation above this suppression",
            detail=f"above it are {chain.replace('->', ', then ')}",
            hint="window the stream first, or suppress with Suppressed.until_time_limit",
            java=f"Invalid topology: Window close time is only defined for windowed computations. Got [root->{chain}].",
        )
    return max(_grace(graph, parent, chain) for parent in above.parents)


def _transform_values(
    graph: GraphBuilder, source: TableFlow, supplier: UserFunction, stores: tuple[str, ...], table: Materialization
) -> TableFlow:
    name = graph.name_or_new(table.name, "KTABLE-TRANSFORMVALUES-")
    operator, own = TableTransformValues(supplier, table.store_name), supplied_stores(name, supplier)
    node = Table(name=name, operator=operator, view=_NO_VIEW, stores=stores, own=own)
    return _derive(graph, source, node, table)
