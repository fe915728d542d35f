"""Users' processors in the middle of a stream, and transformers of a table's values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from kstreamnb.dsl.flows import StreamFlow, TableFlow
from kstreamnb.dsl.materializing import kept, rows_store
from kstreamnb.dsl.options import Kept, Materialized
from kstreamnb.graph import nodes
from kstreamnb.graph.draft import Draft
from kstreamnb.graph.table_nodes import TableTransformValues

if TYPE_CHECKING:  # the front classes list these functions
    from kstreamnb.dsl.kstream import KStream
    from kstreamnb.dsl.ktable import KTable

__all__ = ["process", "process_values", "transform_values"]

K = TypeVar("K")
V = TypeVar("V")


def process(
    self: KStream[K, V], supplier: Callable[[], Any], *stores: str, name: str | None = None
) -> KStream[Any, Any]:
    """Hand each record to a processor of the user's, which may forward any records and use the ``stores`` named.

    ``supplier()`` makes a processor for every task: a class is one.

    Shape: KStream[K, V] -> KStream[K2, V2]; 1 -> any number; key changed; store: the user's; repartition: before the
        next grouping or join.
    Source: Kafka Streams `KStream#process`, KIP-820; differences: none.
    """
    return self.declare("stream", "process", _process, supplier=supplier, stores=stores, name=name)


def process_values(
    self: KStream[K, V], supplier: Callable[[], Any], *stores: str, name: str | None = None
) -> KStream[K, Any]:
    """Hand each record to a processor of the user's that keeps every record's key.

    Shape: KStream[K, V] -> KStream[K, V2]; 1 -> any number; key kept; store: the user's; repartition: no.
    Source: Kafka Streams `KStream#processValues`, KIP-820; differences: none.
    """
    return self.declare("stream", "process_values", _process_values, supplier=supplier, stores=stores, name=name)


def transform_values(
    self: KTable[K, V], supplier: Callable[[], Any], *stores: str, name: str | None = None, **store: Unpack[Kept]
) -> KTable[K, Any]:
    """Replace each row's value by what a transformer makes of it; it may use the ``stores`` named.

    ``supplier()`` makes a transformer for every task: an object with ``transform(key, value)``, which is called for
    deleted rows as well, and, when it likes, ``init(context)`` and ``close()``.

    Shape: KTable[K, V] -> KTable[K, V2]; 1 -> 1; key kept; store: when named; repartition: no.
    Source: Kafka Streams `KTable#transformValues`; differences: none.
    """
    arguments = {"supplier": supplier, "stores": stores, "name": name, "materialized": kept(store)}
    return self.declare("table", "transform_values", _transform_values, **arguments)


# --- in the graph -----------------------------------------------------------------------------------------------------
def _process(draft: Draft, source: StreamFlow, supplier: Any, stores: tuple[str, ...], name: str | None) -> StreamFlow:
    name = name or draft.new_name("KSTREAM-PROCESSOR-")
    node = draft.add(nodes.Process(name=name, supplier=supplier, stores=stores), source.node)
    return StreamFlow(node.id, name, None, None, source.sources, rekeyed=True)


def _process_values(
    draft: Draft, source: StreamFlow, supplier: Any, stores: tuple[str, ...], name: str | None
) -> StreamFlow:
    name = name or draft.new_name("KSTREAM-PROCESSVALUES-")
    node = draft.add(nodes.Process(name=name, supplier=supplier, stores=stores, fixed_key=True), source.node)
    return replace(source, node=node.id, name=name, value_serde=None, repartitioned=None)


def _transform_values(
    draft: Draft,
    source: TableFlow,
    supplier: Any,
    stores: tuple[str, ...],
    name: str | None,
    materialized: Materialized | None,
) -> TableFlow:
    user_name = materialized.store_name if materialized else None
    name = draft.name_or_new(name, "KTABLE-TRANSFORMVALUES-")
    key_serde = (materialized.key_serde if materialized else None) or source.key_serde
    value_serde = materialized.value_serde if materialized else None
    store = rows_store(draft, materialized, user_name, key_serde) if user_name else None
    versioned = None if materialized is None else materialized.is_versioned
    node = draft.add(
        TableTransformValues(name=name, supplier=supplier, stores=stores, store=store, versioned=versioned), source.node
    )
    return TableFlow(node.id, name, key_serde, value_serde, source.sources, user_name)
