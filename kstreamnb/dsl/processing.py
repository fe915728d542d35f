"""Users' processors in the middle of a stream, and transformers of a table's values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from kstreamnb.core.user_processor import UserFixedKeyProcessor, UserProcessor
from kstreamnb.dsl.flows import StreamFlow, TableFlow
from kstreamnb.dsl.materializing import Keeping, kept
from kstreamnb.dsl.options import K, Kept, V, spelled_out
from kstreamnb.dsl.tables import derive
from kstreamnb.graph.draft import Draft
from kstreamnb.processors.table_transform_values import TableTransformValues
from kstreamnb.topology.suppliers import supplied_stores

if TYPE_CHECKING:  # the front classes list these functions
    from kstreamnb.dsl.kstream import KStream
    from kstreamnb.dsl.ktable import KTable


def process(
    self: KStream[K, V], supplier: Callable[[], Any], *stores: str, name: str | None = None
) -> KStream[Any, Any]:
    """Hand each record to a processor of the user's, which may forward any records and use the ``stores`` named.

    ``supplier()`` makes a processor for every task: a class is one.

    Shape: KStream[K, V] -> KStream[K2, V2]; 1 -> any number; key changed; store: the user's; repartition: before the
        next grouping or join.

    Example:
        >>> from kstreamnb import StreamsBuilder, head
        >>> from kstreamnb import Processor
        >>> class Twice(Processor):
        ...     def process(self, record):
        ...         self.context.forward(record)
        ...         self.context.forward(record.with_key(record.key * 2))
        ...
        >>> head(StreamsBuilder().stream("orders").process(Twice), {"orders": [("a", 1)]})
        [('a', 1, 0), ('aa', 1, 0)]

    Source: Kafka Streams `KStream#process`, KIP-820; differences: none.
    """
    arguments = {"supplier": supplier, "stores": stores, "name": name, "fixed": False}
    return self.declare("stream", "process", _process, **arguments)


def process_values(
    self: KStream[K, V], supplier: Callable[[], Any], *stores: str, name: str | None = None
) -> KStream[K, Any]:
    """Hand each record to a processor of the user's that keeps every record's key.

    Shape: KStream[K, V] -> KStream[K, V2]; 1 -> any number; key kept; store: the user's; repartition: no.

    Example:
        >>> from kstreamnb import StreamsBuilder, head
        >>> from kstreamnb import FixedKeyProcessor
        >>> class Double(FixedKeyProcessor):
        ...     def process(self, record):
        ...         self.context.forward(record.with_value(record.value * 2))
        ...
        >>> head(StreamsBuilder().stream("orders").process_values(Double), {"orders": [("a", 1)]})
        [('a', 2, 0)]

    Source: Kafka Streams `KStream#processValues`, KIP-820; differences: none.
    """
    arguments = {"supplier": supplier, "stores": stores, "name": name, "fixed": True}
    return self.declare("stream", "process_values", _process, **arguments)


@spelled_out
def transform_values(
    self: KTable[K, V], supplier: Callable[[], Any], *stores: str, **options: Unpack[Kept]
) -> KTable[K, Any]:
    """Replace each row's value by what a transformer makes of it; it may use the ``stores`` named.

    ``supplier()`` makes a transformer for every task: an object with ``transform(key, value)``, which is called for
    deleted rows as well, and, when it likes, ``init(context)`` and ``close()``.

    Shape: KTable[K, V] -> KTable[K, V2]; 1 -> 1; key kept; store: when named; repartition: no.

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
    arguments = {"supplier": supplier, "stores": stores, "keeping": kept(options)}
    return self.declare("table", "transform_values", _transform_values, **arguments)


# --- in the graph -----------------------------------------------------------------------------------------------------
def _process(
    draft: Draft, source: StreamFlow, supplier: Any, stores: tuple[str, ...], name: str | None, fixed: bool
) -> StreamFlow:
    name = name or draft.new_name("KSTREAM-PROCESSVALUES-" if fixed else "KSTREAM-PROCESSOR-")
    operator = UserFixedKeyProcessor(supplier) if fixed else UserProcessor(supplier)
    node = draft.step(name, operator, source.node, stores=stores, own=supplied_stores(name, supplier))
    if fixed:
        return replace(source, node=node.id, name=name, value_serde=None, repartitioned=None)
    return StreamFlow(node.id, name, None, None, source.sources, rekeyed=True)


def _transform_values(
    draft: Draft, source: TableFlow, supplier: Any, stores: tuple[str, ...], keeping: Keeping
) -> TableFlow:
    name = draft.name_or_new(keeping.name, "KTABLE-TRANSFORMVALUES-")
    fields = {"stores": stores, "own": supplied_stores(name, supplier)}
    return derive(draft, source, name, TableTransformValues(supplier, keeping.store_name), keeping, **fields)
