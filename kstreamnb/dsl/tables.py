"""Operators of a table: filter, map, hand on as a stream, hold back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Unpack

from kstreamnb.core.operator import TableView
from kstreamnb.core.stores import StoreSpec
from kstreamnb.dsl.flows import StreamFlow, TableFlow
from kstreamnb.dsl.materializing import Keeping, kept, rows_store
from kstreamnb.dsl.options import V2, K, Kept, V, serdes_of, spelled_out
from kstreamnb.dsl.stateless import transform
from kstreamnb.dsl.suppressed import Suppressed
from kstreamnb.errors import TopologyError
from kstreamnb.graph.demands import is_versioned, send_old, view_of
from kstreamnb.graph.draft import Draft
from kstreamnb.graph.nodes import Table
from kstreamnb.processors.derived_table import DerivedTable, DerivedView
from kstreamnb.processors.select_key import SelectKey
from kstreamnb.processors.suppress import Suppress
from kstreamnb.processors.table_filter import TableFilter
from kstreamnb.processors.table_map_values import TableMapValues
from kstreamnb.processors.table_to_stream import TableToStream
from kstreamnb.processors.table_view import StoreView, SuppressView

if TYPE_CHECKING:  # the front class lists these functions
    from kstreamnb.dsl.kstream import KStream
    from kstreamnb.dsl.ktable import KTable


@spelled_out
def filter(self: KTable[K, V], predicate: Callable[[K, V], Any], **options: Unpack[Kept]) -> KTable[K, V]:
    """Keep the rows for which ``predicate(key, value)`` holds; a row that no longer does is deleted.

    Shape: KTable[K, V] -> KTable[K, V]; 1 -> at most 1; key kept; store: when named; repartition: no.

    Example:
        >>> from kstreamnb import StreamsBuilder, head
        >>> prices = StreamsBuilder().table("prices", store="prices")
        >>> head(prices.filter(lambda sku, price: price > 9), {"prices": [("hat", 12), ("hat", 8), ("cap", 5)]})
        [('hat', 12, 0), ('hat', None, 1)]

    Source: Kafka Streams `KTable#filter`; differences: none (a miss is a tombstone, too, unless the table knows its
        old values).
    """
    return self.declare("table", "filter", _filter, predicate=predicate, negate=False, keeping=kept(options))


@spelled_out
def filter_not(self: KTable[K, V], predicate: Callable[[K, V], Any], **options: Unpack[Kept]) -> KTable[K, V]:
    """Keep the rows for which ``predicate(key, value)`` does not hold; a row for which it comes to hold is deleted.

    Shape: KTable[K, V] -> KTable[K, V]; 1 -> at most 1; key kept; store: when named; repartition: no.

    Example:
        >>> from kstreamnb import StreamsBuilder, head
        >>> prices = StreamsBuilder().table("prices", store="prices")
        >>> head(prices.filter_not(lambda sku, price: price > 9), {"prices": [("hat", 12), ("cap", 5)]})
        [('cap', 5, 1)]

    Source: Kafka Streams `KTable#filterNot`; differences: none.
    """
    return self.declare("table", "filter_not", _filter, predicate=predicate, negate=True, keeping=kept(options))


@spelled_out
def map_values(
    self: KTable[K, V], mapper: Callable[..., V2], *, with_key: bool = False, **options: Unpack[Kept]
) -> KTable[K, V2]:
    """Replace each row's value by ``mapper(value)``, or ``mapper(key, value)`` when ``with_key``.

    Shape: KTable[K, V] -> KTable[K, V2]; 1 -> 1; key kept; store: when named; repartition: no.

    Example:
        >>> from kstreamnb import StreamsBuilder, head
        >>> prices = StreamsBuilder().table("prices")
        >>> head(prices.map_values(lambda price: price * 2), {"prices": [("hat", 12), ("hat", None)]})
        [('hat', 24, 0), ('hat', None, 1)]

    Source: Kafka Streams `KTable#mapValues`; differences: ``with_key`` stands for `ValueMapperWithKey`.
    """
    return self.declare("table", "map_values", _map_values, mapper=mapper, with_key=with_key, keeping=kept(options))


def to_stream(
    self: KTable[K, V], mapper: Callable[[K, V], Any] | None = None, *, name: str | None = None
) -> KStream[Any, V]:
    """Hand on the changes of the table as records, deletions as null values; ``mapper(key, value)`` gives new keys.

    Shape: KTable[K, V] -> KStream[K, V]; 1 -> 1; key kept, or changed by the mapper; store: no; repartition: before
        the next grouping or join when keys were changed.

    Example:
        >>> from kstreamnb import StreamsBuilder, head
        >>> prices = StreamsBuilder().table("prices")
        >>> head(prices.to_stream(lambda sku, price: sku.upper()), {"prices": [("hat", 12)]})
        [('HAT', 12, 0)]

    Source: Kafka Streams `KTable#toStream`; differences: none.
    """
    return self.declare("stream", "to_stream", _to_stream, mapper=mapper, name=name)


def suppress(self: KTable[K, V], suppressed: Suppressed) -> KTable[K, V]:
    """Hold changes back: for a time, so that only the last of several comes out, or until their window has closed.

    Shape: KTable[K, V] -> KTable[K, V]; n -> at most n; key kept; store: a buffer; repartition: no.
    Units: stream time, as far as the records that reach this operator show it.
    Late: nothing is dropped, except deletions when windows are waited for.

    Example:
        >>> from kstreamnb import StreamsBuilder, head
        >>> from kstreamnb import Suppressed
        >>> prices = StreamsBuilder().table("prices")
        >>> calm = prices.suppress(Suppressed.until_time_limit("5ms"))
        >>> head(calm, {"prices": [("hat", 1, 0), ("hat", 2, 3), ("cap", 9, 5)]})
        [('hat', 2, 3)]

    Source: Kafka Streams `KTable#suppress`, KIP-328; differences: none.
    """
    return self.declare("table", "suppress", _suppress, suppressed=suppressed)


# --- in the graph -----------------------------------------------------------------------------------------------------
def _filter(draft: Draft, source: TableFlow, predicate: Any, negate: bool, keeping: Keeping) -> TableFlow:
    known = send_old(draft, source.node, force=False)
    name = _name(draft, "FILTER", keeping)
    operator = TableFilter(predicate, negate, keeping.store_name, versioned=is_versioned(draft, source.node))
    return derive(draft, source, name, operator, keeping, source.value_serde, send_old=known)


def _map_values(draft: Draft, source: TableFlow, mapper: Any, with_key: bool, keeping: Keeping) -> TableFlow:
    name = _name(draft, "MAPVALUES", keeping)
    return derive(draft, source, name, TableMapValues(mapper, with_key, keeping.store_name), keeping)


def _name(draft: Draft, java: str, keeping: Keeping) -> str:
    if keeping.said is not None and keeping.store_name is None:
        draft.new_store_name(f"KTABLE-{java}-")  # Kafka uses up a number here
    return draft.name_or_new(keeping.name, f"KTABLE-{java}-")


def derive(
    draft: Draft,
    source: TableFlow,
    name: str,
    operator: DerivedTable,
    keeping: Keeping,
    value_serde: Any = None,
    **fields: Any,
) -> TableFlow:
    """A table computed row by row from another, when it is asked unless it is kept under a name of the user's."""
    view: TableView = DerivedView(view_of(draft, source.node), operator)
    user_name, serdes = keeping.store_name, serdes_of(keeping.options, source.key_serde, value_serde)
    if keeping.said is not None:
        fields["versioned"] = keeping.said.is_versioned
    if user_name is None:
        fields["computed_from"] = (source.node,)
    else:
        fields["store"] = store = rows_store(draft, keeping, user_name, **serdes)
        view = StoreView(user_name, store.kind == "versioned")
    node = draft.add(Table(name=name, operator=operator, view=view, **fields), source.node)
    return TableFlow(node.id, name, sources=source.sources, store_name=user_name, **serdes)


def _to_stream(draft: Draft, source: TableFlow, mapper: Any, name: str | None) -> StreamFlow:
    node = draft.step(draft.name_or_new(name, "KTABLE-TOSTREAM-"), TableToStream(), source.node)
    stream = StreamFlow(node.id, node.name, source.key_serde, source.value_serde, source.sources)
    if mapper is None:
        return stream
    draft.word = "select_key"
    return transform(draft, stream, "KEY-SELECT", SelectKey(mapper), None)


def _suppress(draft: Draft, source: TableFlow, suppressed: Suppressed) -> TableFlow:
    if is_versioned(draft, source.node):
        raise TopologyError(
            f'table "{source.name}" is versioned: its changes cannot be held back',
            hint="suppress before the versioned store, or use a store without versions",
            java="Invalid topology: suppress() is only supported for non-versioned KTables (note that version "
            "semantics might be inherited from upstream)",
        )
    name = suppressed.name or draft.new_name("KTABLE-SUPPRESS-")
    wait_ms = _grace(draft, source.node) if suppressed.until_close else suppressed.wait_ms
    store_name = f"{name}-store" if suppressed.name else draft.new_store_name("KTABLE-SUPPRESS-")
    buffer = suppressed.buffer
    if suppressed.name is None and buffer.logged:
        draft.unnamed_changelogs.append(f"{store_name}-changelog")
    store = StoreSpec(
        store_name,
        "internal",
        source.key_serde,
        source.value_serde,
        logged=buffer.logged,
        log_config=tuple(sorted(buffer.log_config.items())),
        persistent=False,
        extra={"type": "suppress"},
    )
    send_old(draft, source.node)
    close, limits = suppressed.until_close, (buffer.records_limit, buffer.bytes_limit, buffer.emit_early)
    operator = Suppress(store_name, wait_ms, close, close, *limits)
    view = SuppressView(view_of(draft, source.node), store_name)
    node = Table(name=name, operator=operator, view=view, store=store, versioned=False, computed_from=(source.node,))
    node = draft.add(node, source.node)
    return TableFlow(node.id, name, source.key_serde, source.value_serde, (source.name,))


def _grace(draft: Draft, node: int, below: str = "") -> int:
    """How long after its end a window upstream closes.

    Raises: TopologyError when there is no windowed aggregation upstream.
    """
    above = draft.nodes[node]
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
    return max(_grace(draft, parent, chain) for parent in above.parents)
