"""Operators of a table: filter, map, hand on as a stream, hold back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from kstreamnb.core.stores import StoreSpec
from kstreamnb.core.windows import SessionWindows
from kstreamnb.dsl.flows import StreamFlow, TableFlow
from kstreamnb.dsl.materializing import kept, rows_store
from kstreamnb.dsl.options import Kept, Materialized
from kstreamnb.dsl.stateless import transform
from kstreamnb.dsl.suppressed import Suppressed
from kstreamnb.errors import TopologyError
from kstreamnb.graph import nodes
from kstreamnb.graph.draft import Draft
from kstreamnb.graph.table_nodes import StreamAggregate, Suppress, TableFilter, TableMapValues, TableNode, TableToStream

if TYPE_CHECKING:  # the front class lists these functions
    from kstreamnb.dsl.kstream import KStream
    from kstreamnb.dsl.ktable import KTable

__all__ = ["filter", "filter_not", "map_values", "suppress", "to_stream"]

K = TypeVar("K")
V = TypeVar("V")
V2 = TypeVar("V2")


def filter(
    self: KTable[K, V], predicate: Callable[[K, V], Any], *, name: str | None = None, **store: Unpack[Kept]
) -> KTable[K, V]:
    """Keep the rows for which ``predicate(key, value)`` holds; a row that no longer does is deleted.

    Shape: KTable[K, V] -> KTable[K, V]; 1 -> at most 1; key kept; store: when named; repartition: no.
    Source: Kafka Streams `KTable#filter`; differences: none (a miss is a tombstone, too, unless the table knows its
        old values).
    """
    arguments = {"predicate": predicate, "negate": False, "name": name, "materialized": kept(store)}
    return self.declare("table", "filter", _filter, **arguments)


def filter_not(
    self: KTable[K, V], predicate: Callable[[K, V], Any], *, name: str | None = None, **store: Unpack[Kept]
) -> KTable[K, V]:
    """Keep the rows for which ``predicate(key, value)`` does not hold; a row for which it comes to hold is deleted.

    Shape: KTable[K, V] -> KTable[K, V]; 1 -> at most 1; key kept; store: when named; repartition: no.
    Source: Kafka Streams `KTable#filterNot`; differences: none.
    """
    arguments = {"predicate": predicate, "negate": True, "name": name, "materialized": kept(store)}
    return self.declare("table", "filter_not", _filter, **arguments)


def map_values(
    self: KTable[K, V],
    mapper: Callable[..., V2],
    *,
    with_key: bool = False,
    name: str | None = None,
    **store: Unpack[Kept],
) -> KTable[K, V2]:
    """Replace each row's value by ``mapper(value)``, or ``mapper(key, value)`` when ``with_key``.

    Shape: KTable[K, V] -> KTable[K, V2]; 1 -> 1; key kept; store: when named; repartition: no.
    Source: Kafka Streams `KTable#mapValues`; differences: ``with_key`` stands for `ValueMapperWithKey`.
    """
    arguments = {"mapper": mapper, "with_key": with_key, "name": name, "materialized": kept(store)}
    return self.declare("table", "map_values", _map_values, **arguments)


def to_stream(
    self: KTable[K, V], mapper: Callable[[K, V], Any] | None = None, *, name: str | None = None
) -> KStream[Any, V]:
    """Hand on the changes of the table as records, deletions as null values; ``mapper(key, value)`` gives new keys.

    Shape: KTable[K, V] -> KStream[K, V]; 1 -> 1; key kept, or changed by the mapper; store: no; repartition: before
        the next grouping or join when keys were changed.
    Source: Kafka Streams `KTable#toStream`; differences: none.
    """
    return self.declare("stream", "to_stream", _to_stream, mapper=mapper, name=name)


def suppress(self: KTable[K, V], suppressed: Suppressed) -> KTable[K, V]:
    """Hold changes back: for a time, so that only the last of several comes out, or until their window has closed.

    Shape: KTable[K, V] -> KTable[K, V]; n -> at most n; key kept; store: a buffer; repartition: no.
    Units: stream time, as far as the records that reach this operator show it.
    Late: nothing is dropped, except deletions when windows are waited for.
    Source: Kafka Streams `KTable#suppress`, KIP-328; differences: none.
    """
    return self.declare("table", "suppress", _suppress, suppressed=suppressed)


# --- in the graph -----------------------------------------------------------------------------------------------------
def _filter(
    draft: Draft, source: TableFlow, predicate: Any, negate: bool, name: str | None, materialized: Materialized | None
) -> TableFlow:
    known = draft.send_old(source.node, force=False)
    fields = {"predicate": predicate, "negate": negate, "send_old": known}
    value_serde = (materialized.value_serde if materialized else None) or source.value_serde
    return _derive(draft, source, TableFilter, "FILTER", name, materialized, value_serde, fields)


def _map_values(
    draft: Draft, source: TableFlow, mapper: Any, with_key: bool, name: str | None, materialized: Materialized | None
) -> TableFlow:
    fields = {"mapper": mapper, "with_key": with_key}
    value_serde = materialized.value_serde if materialized else None
    return _derive(draft, source, TableMapValues, "MAPVALUES", name, materialized, value_serde, fields)


def _derive(
    draft: Draft,
    source: TableFlow,
    node_type: type[TableNode],
    java: str,
    name: str | None,
    materialized: Materialized | None,
    value_serde: Any,
    fields: dict[str, Any],
) -> TableFlow:
    """A table computed row by row from another; it is kept only under a name of the user's."""
    user_name = materialized.store_name if materialized else None
    if materialized is not None and user_name is None:
        draft.new_store_name(f"KTABLE-{java}-")  # Kafka uses up a number here
    key_serde = (materialized.key_serde if materialized else None) or source.key_serde
    store = rows_store(draft, materialized, user_name, key_serde, value_serde) if user_name else None
    versioned = None if materialized is None else materialized.is_versioned
    name = draft.name_or_new(name, f"KTABLE-{java}-")
    node = draft.add(node_type(name=name, store=store, versioned=versioned, **fields), source.node)
    return TableFlow(node.id, name, key_serde, value_serde, source.sources, user_name)


def _to_stream(draft: Draft, source: TableFlow, mapper: Any, name: str | None) -> StreamFlow:
    node = draft.add(TableToStream(name=draft.name_or_new(name, "KTABLE-TOSTREAM-")), source.node)
    stream = StreamFlow(node.id, node.name, source.key_serde, source.value_serde, source.sources)
    if mapper is None:
        return stream
    return transform(draft, stream, nodes.SelectKey, "KEY-SELECT", None, {"mapper": mapper})


def _suppress(draft: Draft, source: TableFlow, suppressed: Suppressed) -> TableFlow:
    table = draft.nodes[source.node]
    if isinstance(table, TableNode) and table.versioned:
        java = "Invalid topology: suppress() is only supported for non-versioned KTables"
        raise TopologyError(f'table "{table.name}" is versioned: its changes cannot be held back', java=java)
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
    draft.send_old(source.node)
    node = Suppress(
        name=name,
        store=store,
        wait_ms=wait_ms,
        until_close=suppressed.until_close,
        max_records=buffer.max_records_,
        max_bytes=buffer.max_bytes_,
        emit_early=buffer.emit_early,
        versioned=False,
    )
    node = draft.add(node, source.node)
    return TableFlow(node.id, name, source.key_serde, source.value_serde, (source.name,))


def _grace(draft: Draft, node: int, below: str = "") -> int:
    """How long after its end a window upstream closes.

    Raises: TopologyError when there is no windowed aggregation upstream.
    """
    above = draft.nodes[node]
    if isinstance(above, StreamAggregate) and above.windows is not None:
        windows = above.windows
        return int(windows.grace_ms + (windows.gap_ms if isinstance(windows, SessionWindows) else 0))
    chain = f"{above.name}->{below}" if below else above.name
    if not above.parents:
        raise TopologyError(
            "only windows close: there is no windowed aggregation above this suppression",
            detail=f"above it are {chain.replace('->', ', then ')}",
            hint="window the stream first, or suppress with Suppressed.until_time_limit",
            java=f"Invalid topology: Window close time is only defined for windowed computations. Got [root->{chain}].",
        )
    return max(_grace(draft, parent, chain) for parent in above.parents)
