"""Operators of a stream that look at one record at a time.

Each is a method of `KStream`, listed in its class body; beside it stands what it becomes in a graph.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from kstreamnb.dsl.flows import StreamFlow
from kstreamnb.dsl.options import Printed, given
from kstreamnb.graph import nodes
from kstreamnb.graph.draft import Draft

if TYPE_CHECKING:  # the front class lists these functions
    from kstreamnb.dsl.kstream import KStream

__all__ = [
    "filter", "filter_not", "flat_map", "flat_map_values", "foreach", "map", "map_values", "merge", "peek", "print",
    "select_key",
]  # fmt: skip

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")


def filter(self: KStream[K, V], predicate: Callable[[K, V], Any], *, name: str | None = None) -> KStream[K, V]:
    """Keep the records for which ``predicate(key, value)`` holds.

    Shape: KStream[K, V] -> KStream[K, V]; n -> at most n; key kept; store: no; repartition: no.
    Source: Kafka Streams `KStream#filter`; differences: none.
    """
    return self._then("filter", "FILTER", nodes.Filter, name, predicate=predicate)


def filter_not(self: KStream[K, V], predicate: Callable[[K, V], Any], *, name: str | None = None) -> KStream[K, V]:
    """Keep the records for which ``predicate(key, value)`` does not hold.

    Shape: KStream[K, V] -> KStream[K, V]; n -> at most n; key kept; store: no; repartition: no.
    Source: Kafka Streams `KStream#filterNot`; differences: none.
    """
    return self._then("filter_not", "FILTER", nodes.Filter, name, predicate=predicate, negate=True)


def map(self: KStream[K, V], mapper: Callable[[K, V], tuple[K2, V2]], *, name: str | None = None) -> KStream[K2, V2]:
    """Replace each record's key and value by the pair ``mapper(key, value)``.

    Shape: KStream[K, V] -> KStream[K2, V2]; 1 -> 1; key changed; store: no; repartition: before the next grouping
        or join.
    Source: Kafka Streams `KStream#map`; differences: a tuple stands for `KeyValue`.
    """
    return self._then("map", "MAP", nodes.Map, name, mapper=mapper)


def map_values(
    self: KStream[K, V], mapper: Callable[..., V2], *, with_key: bool = False, name: str | None = None
) -> KStream[K, V2]:
    """Replace each value by ``mapper(value)``, or ``mapper(key, value)`` when ``with_key``.

    Shape: KStream[K, V] -> KStream[K, V2]; 1 -> 1; key kept; store: no; repartition: no.
    Source: Kafka Streams `KStream#mapValues`; differences: ``with_key`` stands for `ValueMapperWithKey`.
    """
    return self._then("map_values", "MAPVALUES", nodes.MapValues, name, mapper=mapper, with_key=with_key)


def flat_map(
    self: KStream[K, V], mapper: Callable[[K, V], Iterable[tuple[K2, V2]]], *, name: str | None = None
) -> KStream[K2, V2]:
    """Replace each record by the pairs ``mapper(key, value)``, in their order.

    Shape: KStream[K, V] -> KStream[K2, V2]; 1 -> any number; key changed; store: no; repartition: before the next
        grouping or join.
    Source: Kafka Streams `KStream#flatMap`; differences: tuples stand for `KeyValue`.
    """
    return self._then("flat_map", "FLATMAP", nodes.FlatMap, name, mapper=mapper)


def flat_map_values(
    self: KStream[K, V], mapper: Callable[..., Iterable[V2]], *, with_key: bool = False, name: str | None = None
) -> KStream[K, V2]:
    """Replace each value by the values ``mapper(value)``, or ``mapper(key, value)`` when ``with_key``.

    Shape: KStream[K, V] -> KStream[K, V2]; 1 -> any number; key kept; store: no; repartition: no.
    Source: Kafka Streams `KStream#flatMapValues`; differences: ``with_key`` stands for `ValueMapperWithKey`.
    """
    return self._then("flat_map_values", "FLATMAPVALUES", nodes.FlatMapValues, name, mapper=mapper, with_key=with_key)


def select_key(self: KStream[K, V], mapper: Callable[[K, V], K2], *, name: str | None = None) -> KStream[K2, V]:
    """Replace each key by ``mapper(key, value)``.

    Shape: KStream[K, V] -> KStream[K2, V]; 1 -> 1; key changed; store: no; repartition: before the next grouping
        or join.
    Source: Kafka Streams `KStream#selectKey`; differences: none.
    """
    return self._then("select_key", "KEY-SELECT", nodes.SelectKey, name, mapper=mapper)


def peek(self: KStream[K, V], action: Callable[[K, V], object], *, name: str | None = None) -> KStream[K, V]:
    """Call ``action(key, value)`` for each record and pass it on unchanged.

    Shape: KStream[K, V] -> KStream[K, V]; 1 -> 1; key kept; store: no; repartition: no.
    Source: Kafka Streams `KStream#peek`; differences: none.
    """
    return self._then("peek", "PEEK", nodes.Peek, name, action=action)


def foreach(self: KStream[K, V], action: Callable[[K, V], object], *, name: str | None = None) -> None:
    """Call ``action(key, value)`` for each record; the stream ends here.

    Shape: KStream[K, V] -> nothing; store: no; repartition: no.
    Source: Kafka Streams `KStream#foreach`; differences: none.
    """
    self._then("foreach", "FOREACH", nodes.Foreach, name, action=action)


def print(
    self: KStream[K, V], printed: Printed | None = None, *, label: str | None = None, name: str | None = None
) -> None:
    """Write each record as a line ``[label]: key, value``; the stream ends here.

    Shape: KStream[K, V] -> text; store: no; repartition: no.
    Source: Kafka Streams `KStream#print`, `Printed`; differences: none.
    """
    self.declare("stream", "print", _print, options=given(Printed, printed, label=label, name=name))


def merge(self: KStream[K, V], other: KStream[K, V], *, name: str | None = None) -> KStream[K, V]:
    """Bring the records of both streams into one; there is no order between them.

    Shape: KStream[K, V], KStream[K, V] -> KStream[K, V]; 1 -> 1; key kept; store: no; repartition: no.
    Source: Kafka Streams `KStream#merge`; differences: none.
    """
    return self.declare("stream", "merge", _merge, other, name=name)


# --- in the graph -----------------------------------------------------------------------------------------------------
def transform(
    draft: Draft,
    source: StreamFlow,
    node_type: type[nodes.Node],
    java: str,
    name: str | None,
    arguments: dict[str, Any],
) -> StreamFlow:
    """Put a node of a kind behind a stream; serdes hold only for what it leaves as it was."""
    node = draft.add(node_type(name=draft.name_or_new(name, f"KSTREAM-{java}-"), **arguments), source.node)
    return replace(
        source,
        node=node.id,
        name=node.name,
        key_serde=None if node_type.changes_key else source.key_serde,
        value_serde=None if node_type.changes_value or node_type in (nodes.Map, nodes.FlatMap) else source.value_serde,
        rekeyed=source.rekeyed or node_type.changes_key,
        repartitioned=None,
    )


def _print(draft: Draft, source: StreamFlow, options: Printed) -> StreamFlow:
    write = options.write or builtins.print
    arguments = {"label": options.label or source.name, "write": write, "mapper": options.mapper}
    return transform(draft, source, nodes.Print, "PRINTER", options.name, arguments)


def _merge(draft: Draft, left: StreamFlow, right: StreamFlow, name: str | None) -> StreamFlow:
    node = draft.add(nodes.Merge(name=draft.name_or_new(name, "KSTREAM-MERGE-")), left.node, right.node)
    sources = tuple(dict.fromkeys((*left.sources, *right.sources)))
    return StreamFlow(node.id, node.name, None, None, sources, left.rekeyed or right.rekeyed)
