"""Operators of a stream that look at one record at a time.

Each is a method of `KStream`, listed in its class body; beside it stands what it becomes in a graph.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kstreamnb.core.operator import Operator
from kstreamnb.dsl.flows import StreamFlow
from kstreamnb.dsl.options import K2, V2, K, Printed, V, given
from kstreamnb.graph.draft import Draft
from kstreamnb.graph.nodes import CHANGES_KEY, CHANGES_VALUE, Merge
from kstreamnb.processors.filter import Filter
from kstreamnb.processors.flat_map import FlatMap
from kstreamnb.processors.flat_map_values import FlatMapValues
from kstreamnb.processors.map import Map
from kstreamnb.processors.map_values import MapValues
from kstreamnb.processors.pass_through import PassThrough
from kstreamnb.processors.peek import Foreach, Peek, Print
from kstreamnb.processors.select_key import SelectKey

if TYPE_CHECKING:  # the front class lists these functions
    from kstreamnb.dsl.kstream import KStream


def filter(self: KStream[K, V], predicate: Callable[[K, V], Any], *, name: str | None = None) -> KStream[K, V]:
    """Keep the records for which ``predicate(key, value)`` holds.

    Shape: KStream[K, V] -> KStream[K, V]; n -> at most n; key kept; store: no; repartition: no.

    Example:
        >>> from kstreamnb import StreamsBuilder, head
        >>> orders = StreamsBuilder().stream("orders")
        >>> head(orders.filter(lambda key, value: value > 2), {"orders": [("a", 1), ("b", 3)]})
        [('b', 3, 1)]

    Source: Kafka Streams `KStream#filter`; differences: none.
    """
    return self._then("filter", "FILTER", Filter(predicate), name)


def filter_not(self: KStream[K, V], predicate: Callable[[K, V], Any], *, name: str | None = None) -> KStream[K, V]:
    """Keep the records for which ``predicate(key, value)`` does not hold.

    Shape: KStream[K, V] -> KStream[K, V]; n -> at most n; key kept; store: no; repartition: no.

    Example:
        >>> from kstreamnb import StreamsBuilder, head
        >>> orders = StreamsBuilder().stream("orders")
        >>> head(orders.filter_not(lambda key, value: value > 2), {"orders": [("a", 1), ("b", 3)]})
        [('a', 1, 0)]

    Source: Kafka Streams `KStream#filterNot`; differences: none.
    """
    return self._then("filter_not", "FILTER", Filter(predicate, negate=True), name)


def map(self: KStream[K, V], mapper: Callable[[K, V], tuple[K2, V2]], *, name: str | None = None) -> KStream[K2, V2]:
    """Replace each record's key and value by the pair ``mapper(key, value)``.

    Shape: KStream[K, V] -> KStream[K2, V2]; 1 -> 1; key changed; store: no; repartition: before the next grouping
        or join.

    Example:
        >>> from kstreamnb import StreamsBuilder, head
        >>> orders = StreamsBuilder().stream("orders")
        >>> head(orders.map(lambda key, value: (key.upper(), value * 2)), {"orders": [("a", 1), ("b", 3)]})
        [('A', 2, 0), ('B', 6, 1)]

    Source: Kafka Streams `KStream#map`; differences: a tuple stands for `KeyValue`.
    """
    return self._then("map", "MAP", Map(mapper), name)


def map_values(
    self: KStream[K, V], mapper: Callable[..., V2], *, with_key: bool = False, name: str | None = None
) -> KStream[K, V2]:
    """Replace each value by ``mapper(value)``, or ``mapper(key, value)`` when ``with_key``.

    Shape: KStream[K, V] -> KStream[K, V2]; 1 -> 1; key kept; store: no; repartition: no.

    Example:
        >>> from kstreamnb import StreamsBuilder, head
        >>> orders = StreamsBuilder().stream("orders")
        >>> head(orders.map_values(lambda value: value + 1), {"orders": [("a", 1), ("b", 3)]})
        [('a', 2, 0), ('b', 4, 1)]

    Source: Kafka Streams `KStream#mapValues`; differences: ``with_key`` stands for `ValueMapperWithKey`.
    """
    return self._then("map_values", "MAPVALUES", MapValues(mapper, with_key), name)


def flat_map(
    self: KStream[K, V], mapper: Callable[[K, V], Iterable[tuple[K2, V2]]], *, name: str | None = None
) -> KStream[K2, V2]:
    """Replace each record by the pairs ``mapper(key, value)``, in their order.

    Shape: KStream[K, V] -> KStream[K2, V2]; 1 -> any number; key changed; store: no; repartition: before the next
        grouping or join.

    Example:
        >>> from kstreamnb import StreamsBuilder, head
        >>> orders = StreamsBuilder().stream("orders")
        >>> head(orders.flat_map(lambda key, value: [(key, value), (key * 2, value)]), {"orders": [("a", 1)]})
        [('a', 1, 0), ('aa', 1, 0)]

    Source: Kafka Streams `KStream#flatMap`; differences: tuples stand for `KeyValue`.
    """
    return self._then("flat_map", "FLATMAP", FlatMap(mapper), name)


def flat_map_values(
    self: KStream[K, V], mapper: Callable[..., Iterable[V2]], *, with_key: bool = False, name: str | None = None
) -> KStream[K, V2]:
    """Replace each value by the values ``mapper(value)``, or ``mapper(key, value)`` when ``with_key``.

    Shape: KStream[K, V] -> KStream[K, V2]; 1 -> any number; key kept; store: no; repartition: no.

    Example:
        >>> from kstreamnb import StreamsBuilder, head
        >>> lines = StreamsBuilder().stream("lines")
        >>> head(lines.flat_map_values(str.split), {"lines": [("a", "to be")]})
        [('a', 'to', 0), ('a', 'be', 0)]

    Source: Kafka Streams `KStream#flatMapValues`; differences: ``with_key`` stands for `ValueMapperWithKey`.
    """
    return self._then("flat_map_values", "FLATMAPVALUES", FlatMapValues(mapper, with_key), name)


def select_key(self: KStream[K, V], mapper: Callable[[K, V], K2], *, name: str | None = None) -> KStream[K2, V]:
    """Replace each key by ``mapper(key, value)``.

    Shape: KStream[K, V] -> KStream[K2, V]; 1 -> 1; key changed; store: no; repartition: before the next grouping
        or join.

    Example:
        >>> from kstreamnb import StreamsBuilder, head
        >>> orders = StreamsBuilder().stream("orders")
        >>> head(orders.select_key(lambda key, value: str(value)), {"orders": [("a", 1), ("b", 3)]})
        [('1', 1, 0), ('3', 3, 1)]

    Source: Kafka Streams `KStream#selectKey`; differences: none.
    """
    return self._then("select_key", "KEY-SELECT", SelectKey(mapper), name)


def peek(self: KStream[K, V], action: Callable[[K, V], object], *, name: str | None = None) -> KStream[K, V]:
    """Call ``action(key, value)`` for each record and pass it on unchanged.

    Shape: KStream[K, V] -> KStream[K, V]; 1 -> 1; key kept; store: no; repartition: no.

    Example:
        >>> from kstreamnb import StreamsBuilder, head
        >>> seen = []
        >>> orders = StreamsBuilder().stream("orders")
        >>> head(orders.peek(lambda key, value: seen.append(value)), {"orders": [("a", 1)]}), seen
        ([('a', 1, 0)], [1])

    Source: Kafka Streams `KStream#peek`; differences: none.
    """
    return self._then("peek", "PEEK", Peek(action), name)


def foreach(self: KStream[K, V], action: Callable[[K, V], object], *, name: str | None = None) -> None:
    """Call ``action(key, value)`` for each record; the stream ends here.

    Shape: KStream[K, V] -> nothing; store: no; repartition: no.

    Example:
        >>> from kstreamnb import StreamsBuilder
        >>> StreamsBuilder().stream("orders").foreach(lambda key, value: None, name="audit")

    Source: Kafka Streams `KStream#foreach`; differences: none.
    """
    self._then("foreach", "FOREACH", Foreach(action), name)


def print(
    self: KStream[K, V], printed: Printed | None = None, *, label: str | None = None, name: str | None = None
) -> None:
    """Write each record as a line ``[label]: key, value``; the stream ends here.

    Shape: KStream[K, V] -> text; store: no; repartition: no.

    Example:
        >>> from kstreamnb import StreamsBuilder
        >>> StreamsBuilder().stream("orders").print(label="orders")

    Source: Kafka Streams `KStream#print`, `Printed`; differences: none.
    """
    self.declare("stream", "print", _print, options=given(Printed, printed, label=label, name=name))


def merge(self: KStream[K, V], other: KStream[K, V], *, name: str | None = None) -> KStream[K, V]:
    """Bring the records of both streams into one; there is no order between them.

    Shape: KStream[K, V], KStream[K, V] -> KStream[K, V]; 1 -> 1; key kept; store: no; repartition: no.

    Example:
        >>> from kstreamnb import StreamsBuilder, head
        >>> builder = StreamsBuilder()
        >>> both = builder.stream("shop").merge(builder.stream("web"))
        >>> head(both, {"shop": [("a", 1)], "web": [("b", 2)]})
        [('a', 1, 0), ('b', 2, 1)]

    Source: Kafka Streams `KStream#merge`; differences: none.
    """
    return self.declare("stream", "merge", _merge, other, name=name)


# --- in the graph -----------------------------------------------------------------------------------------------------
def transform(draft: Draft, source: StreamFlow, java: str, operator: Operator, name: str | None) -> StreamFlow:
    """Put an operator behind a stream; serdes hold only for what it leaves as it was."""
    node = draft.step(draft.name_or_new(name, f"KSTREAM-{java}-"), operator, source.node)
    changes_key = isinstance(operator, CHANGES_KEY)
    return replace(
        source,
        node=node.id,
        name=node.name,
        key_serde=None if changes_key else source.key_serde,
        value_serde=None if isinstance(operator, CHANGES_VALUE) else source.value_serde,
        rekeyed=source.rekeyed or changes_key,
        repartitioned=None,
    )


def _print(draft: Draft, source: StreamFlow, options: Printed) -> StreamFlow:
    operator = Print(options.label or source.name, options.write or builtins.print, options.mapper)
    return transform(draft, source, "PRINTER", operator, options.name)


def _merge(draft: Draft, left: StreamFlow, right: StreamFlow, name: str | None) -> StreamFlow:
    node = Merge(name=draft.name_or_new(name, "KSTREAM-MERGE-"), operator=PassThrough())
    node = draft.add(node, left.node, right.node)
    sources = tuple(dict.fromkeys((*left.sources, *right.sources)))
    return StreamFlow(node.id, node.name, None, None, sources, left.rekeyed or right.rekeyed)
