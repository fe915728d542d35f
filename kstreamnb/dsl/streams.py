"""Operators of a stream: one record at a time, users' processors, to topics and tables, into branches.

All are methods of `KStream`; below stands what they become in a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, Unpack

from kstreamnb.core.operator import Operator
from kstreamnb.core.processor import UserFixedKeyProcessor, UserProcessor
from kstreamnb.core.signatures import RECORD, taking
from kstreamnb.dsl.declarations import Handle
from kstreamnb.dsl.flows import StreamFlow, TableFlow
from kstreamnb.dsl.materializing import Keeping, kept, lazy_table, rows_store
from kstreamnb.dsl.options import (
    K2,
    V2,
    Branched,
    K,
    Kept,
    Printed,
    Produced,
    Repartitioned,
    Through,
    V,
    Writing,
    given,
    serdes_of,
    spelled_out,
)
from kstreamnb.errors import TopologyError
from kstreamnb.logical.builder import GraphBuilder
from kstreamnb.logical.nodes import Merge, Operation, StreamSink
from kstreamnb.operators import stateless
from kstreamnb.topology.validation import supplied_stores

if TYPE_CHECKING:  # the fronts are made of these classes
    from kstreamnb.dsl.fronts import KStream, KTable


class RecordOperators(Handle, Generic[K, V]):
    """What a stream does to one record at a time."""

    def filter(self, predicate: Callable[[K, V], Any], *, name: str | None = None) -> KStream[K, V]:
        """Keep the records for which ``predicate(key, value)`` holds.

        Shape: KStream[K, V] -> KStream[K, V]; n -> at most n; key kept; store: no; repartition: no.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> orders = StreamsBuilder().stream("orders")
            >>> head(orders.filter(lambda key, value: value > 2), {"orders": [("a", 1), ("b", 3)]})
            [('b', 3, 1)]

        Source: Kafka Streams `KStream#filter`; differences: none.
        """
        return self._then("filter", "FILTER", stateless.Filter(taking(predicate, *RECORD)), name)

    def filter_not(self, predicate: Callable[[K, V], Any], *, name: str | None = None) -> KStream[K, V]:
        """Keep the records for which ``predicate(key, value)`` does not hold.

        Shape: KStream[K, V] -> KStream[K, V]; n -> at most n; key kept; store: no; repartition: no.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> orders = StreamsBuilder().stream("orders")
            >>> head(orders.filter_not(lambda key, value: value > 2), {"orders": [("a", 1), ("b", 3)]})
            [('a', 1, 0)]

        Source: Kafka Streams `KStream#filterNot`; differences: none.
        """
        return self._then("filter_not", "FILTER", stateless.Filter(taking(predicate, *RECORD), negate=True), name)

    def map(self, mapper: Callable[[K, V], tuple[K2, V2]], *, name: str | None = None) -> KStream[K2, V2]:
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
        return self._then("map", "MAP", stateless.Map(taking(mapper, *RECORD)), name)

    def map_values(
        self, mapper: Callable[..., V2], *, with_key: bool = False, name: str | None = None
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
        mapper = taking(mapper, "value", key=with_key)
        return self._then("map_values", "MAPVALUES", stateless.MapValues(mapper, with_key), name)

    def flat_map(
        self, mapper: Callable[[K, V], Iterable[tuple[K2, V2]]], *, name: str | None = None
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
        return self._then("flat_map", "FLATMAP", stateless.FlatMap(taking(mapper, *RECORD)), name)

    def flat_map_values(
        self, mapper: Callable[..., Iterable[V2]], *, with_key: bool = False, name: str | None = None
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
        mapper = taking(mapper, "value", key=with_key)
        return self._then("flat_map_values", "FLATMAPVALUES", stateless.FlatMapValues(mapper, with_key), name)

    def select_key(self, mapper: Callable[[K, V], K2], *, name: str | None = None) -> KStream[K2, V]:
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
        return self._then("select_key", "KEY-SELECT", stateless.SelectKey(taking(mapper, *RECORD)), name)

    def peek(self, action: Callable[[K, V], object], *, name: str | None = None) -> KStream[K, V]:
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
        return self._then("peek", "PEEK", stateless.Peek(taking(action, *RECORD)), name)

    def foreach(self, action: Callable[[K, V], object], *, name: str | None = None) -> None:
        """Call ``action(key, value)`` for each record; the stream ends here.

        Shape: KStream[K, V] -> nothing; store: no; repartition: no.

        Example:
            >>> from kstreamnb import StreamsBuilder
            >>> StreamsBuilder().stream("orders").foreach(lambda key, value: None, name="audit")

        Source: Kafka Streams `KStream#foreach`; differences: none.
        """
        self._then("foreach", "FOREACH", stateless.Foreach(taking(action, *RECORD)), name)

    def print(self, printed: Printed | None = None, *, label: str | None = None, name: str | None = None) -> None:
        """Write each record as a line ``[label]: key, value``; the stream ends here.

        Shape: KStream[K, V] -> text; store: no; repartition: no.

        Example:
            >>> from kstreamnb import StreamsBuilder
            >>> StreamsBuilder().stream("orders").print(label="orders")

        Source: Kafka Streams `KStream#print`, `Printed`; differences: none.
        """
        self.declare("stream", "print", _print, options=given(Printed, printed, label=label, name=name))

    def merge(self, other: KStream[K, V], *, name: str | None = None) -> KStream[K, V]:
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

    def _then(self, verb: str, java: str, operator: Operator, name: str | None) -> KStream[Any, Any]:
        return self.declare("stream", verb, transform, java=java, operator=operator, name=name)


class StreamOperators(Handle, Generic[K, V]):
    """What a stream hands its records to: processors, topics, tables and branches."""

    def process(self, supplier: Callable[[], Any], *stores: str, name: str | None = None) -> KStream[Any, Any]:
        """Hand each record to a processor of the user's, which may forward any records and use the ``stores`` named.

        ``supplier()`` makes a processor for every task: a class is one.

        Shape: KStream[K, V] -> KStream[K2, V2]; 1 -> any number; key changed; store: the user's; repartition: before
            the next grouping or join.

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
        return self.declare("stream", "process", _process, supplier=supplier, stores=stores, name=name, fixed=False)

    def process_values(self, supplier: Callable[[], Any], *stores: str, name: str | None = None) -> KStream[K, Any]:
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
        return self.declare(
            "stream", "process_values", _process, supplier=supplier, stores=stores, name=name, fixed=True
        )

    @spelled_out
    def to(
        self,
        topic: str | Callable[[K, V, Any], str],
        produced: Produced | None = None,
        **options: Unpack[Writing],
    ) -> None:
        """Write the records to a topic, or each to the topic that ``topic(key, value, metadata)`` names.

        Shape: KStream[K, V] -> topic; 1 -> 1; key kept; store: no; repartition: no.

        Example:
            >>> from kstreamnb import StreamsBuilder
            >>> StreamsBuilder().stream("orders").to("copies", value_serde="json")

        Source: Kafka Streams `KStream#to`, `TopicNameExtractor`; differences: none.
        """
        self.declare("stream", "to", _to, topic=topic, options=given(Produced, produced, **options))

    @spelled_out
    def repartition(self, repartitioned: Repartitioned | None = None, **options: Unpack[Through]) -> KStream[K, V]:
        """Send the records through an internal topic, so that each key is in its partition.

        Shape: KStream[K, V] -> KStream[K, V]; 1 -> 1, records without key are lost; key kept; store: no;
            repartition: yes.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> orders = StreamsBuilder().stream("orders")
            >>> all_orders = orders.select_key(lambda key, value: "all").repartition(name="by-all")
            >>> head(all_orders, {"orders": [("a", 1), ("b", 3)]})
            [('all', 1, 0), ('all', 3, 1)]

        Source: Kafka Streams `KStream#repartition`, KIP-221; differences: none.
        """
        said = given(Repartitioned, repartitioned, **options)
        return self.declare("stream", "repartition", _repartition, options=said)

    @spelled_out
    def to_table(self, **options: Unpack[Kept]) -> KTable[K, V]:
        """Take each record as the new row of its key; a null value deletes the row.

        Shape: KStream[K, V] -> KTable[K, V]; 1 -> 1; key kept; store: when named or needed; repartition: after a change
            of keys.
        Late: an older record replaces a newer row, except in a versioned store. A null key is dropped.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> orders = StreamsBuilder().stream("orders")
            >>> head(orders.to_table(store="latest"), {"orders": [("a", 1), ("a", None)]})
            [('a', 1, 0), ('a', None, 1)]

        Source: Kafka Streams `KStream#toTable`, KIP-523; differences: none.
        """
        return self.declare("table", "to_table", _to_table, keeping=kept(options))

    def split(self, *, name: str | None = None) -> BranchedKStream:
        """Begin to split the stream: each record goes to the first branch whose predicate holds.

        ``name`` is the prefix of the branches' names.

        Shape: KStream[K, V] -> n KStream[K, V]; 1 -> at most 1; key kept; store: no; repartition: no.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> orders = StreamsBuilder().stream("orders")
            >>> parts = orders.split(name="by-").branch(lambda key, value: value > 2, name="large")
            >>> parts = parts.default_branch(name="small")
            >>> list(parts), head(parts["by-small"], {"orders": [("a", 1), ("b", 3)]})
            (['by-large', 'by-small'], [('a', 1, 0)])

        Source: Kafka Streams `KStream#split`, KIP-418; differences: the prefix of an unnamed split is not part of the
            names in the result.
        """
        branched: BranchedKStream = self.declare("split", "split", _split, name=name)
        branched.prefix = name or ""
        return branched


class BranchedKStream(Handle, kind="split"):
    """A stream that is being split: add branches, then end with `default_branch` or `no_default_branch`.

    Example:
        >>> from kstreamnb import StreamsBuilder, head
        >>> orders = StreamsBuilder().stream("orders")
        >>> split = orders.split(name="by-size-").branch(lambda key, pieces: pieces > 9, name="large")
        >>> branches = split.default_branch(name="small")
        >>> sorted(branches)
        ['by-size-large', 'by-size-small']
        >>> head(branches["by-size-large"], {"orders": [("a", 10), ("b", 1)]})
        [('a', 10, 0)]
    """

    prefix: str = ""

    def __init__(self, ledger: Any, declaration: Any) -> None:
        super().__init__(ledger, declaration)
        self.branches: dict[str, Any] = {}
        self._count = 0

    def branch(
        self, predicate: Callable[[Any, Any], Any], branched: Branched | None = None, *, name: str | None = None
    ) -> BranchedKStream:
        """Add a branch for the records for which ``predicate(key, value)`` holds and no earlier one did.

        Shape: KStream[K, V] -> KStream[K, V]; 1 -> at most 1; key kept; store: no; repartition: no.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> split = StreamsBuilder().stream("orders").split(name="by-size-")
            >>> large = split.branch(lambda key, pieces: pieces > 9, name="large").no_default_branch()["by-size-large"]
            >>> head(large, {"orders": [("a", 10), ("b", 1)]})
            [('a', 10, 0)]

        Source: Kafka Streams `BranchedKStream#branch`; differences: none.
        """
        self._count += 1
        self._add(taking(predicate, *RECORD), given(Branched, branched, name=name), self._count)
        return self

    def default_branch(self, branched: Branched | None = None, *, name: str | None = None) -> dict[str, Any]:
        """End with a branch for all other records; gives the branches by name.

        Shape: KStream[K, V] -> KStream[K, V]; 1 -> at most 1; key kept; store: no; repartition: no.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> split = StreamsBuilder().stream("orders").split(name="by-size-")
            >>> rest = split.branch(lambda key, pieces: pieces > 9).default_branch(name="small")["by-size-small"]
            >>> head(rest, {"orders": [("a", 10), ("b", 1)]})
            [('b', 1, 1)]

        Source: Kafka Streams `BranchedKStream#defaultBranch`; differences: none.
        """
        self._add(None, given(Branched, branched, name=name), 0)
        return self.branches

    def no_default_branch(self) -> dict[str, Any]:
        """End without one: other records are gone; gives the branches by name.

        Shape: KStream[K, V] -> nothing; store: no; repartition: no.

        Example:
            >>> from kstreamnb import StreamsBuilder
            >>> split = StreamsBuilder().stream("orders").split(name="by-size-")
            >>> list(split.branch(lambda key, pieces: pieces > 9, name="large").no_default_branch())
            ['by-size-large']

        Source: Kafka Streams `BranchedKStream#noDefaultBranch`; differences: none.
        """
        return self.branches

    def _add(self, predicate: Any, branched: Branched, index: int) -> None:
        suffix = str(index) if branched.name is None else branched.name
        stream: Any = self.declare("stream", "branch", _branch, predicate=predicate, suffix=suffix)
        if branched.consumer is not None:
            branched.consumer(stream)
            return
        if branched.function is not None:
            stream = branched.function(stream)
        if stream is not None:
            self.branches[self.prefix + suffix] = stream


# --- in the graph -----------------------------------------------------------------------------------------------------
def transform(draft: GraphBuilder, source: StreamFlow, java: str, operator: Operator, name: str | None) -> StreamFlow:
    """Put an operator behind a stream; serdes hold only for what it leaves as it was."""
    node = draft.step(draft.name_or_new(name, f"KSTREAM-{java}-"), operator, source.node)
    stream = source.then(node)
    if operator.traits.changes_key:
        stream.key_serde, stream.rekeyed = None, True
    if operator.traits.changes_value:
        stream.value_serde = None
    return stream


def _print(draft: GraphBuilder, source: StreamFlow, options: Printed) -> StreamFlow:
    operator = stateless.Print(options.label or source.name, options.write or print, options.mapper)
    return transform(draft, source, "PRINTER", operator, options.name)


def _merge(draft: GraphBuilder, left: StreamFlow, right: StreamFlow, name: str | None) -> StreamFlow:
    node = Merge(name=draft.name_or_new(name, "KSTREAM-MERGE-"), operator=stateless.PassThrough())
    node = draft.add(node, left.node, right.node)
    sources = tuple(dict.fromkeys((*left.sources, *right.sources)))
    return StreamFlow(node.id, node.name, None, None, sources, left.rekeyed or right.rekeyed)


def _process(
    draft: GraphBuilder, source: StreamFlow, supplier: Any, stores: tuple[str, ...], name: str | None, fixed: bool
) -> StreamFlow:
    name = name or draft.new_name("KSTREAM-PROCESSVALUES-" if fixed else "KSTREAM-PROCESSOR-")
    operator = UserFixedKeyProcessor(supplier) if fixed else UserProcessor(supplier)
    node = draft.step(name, operator, source.node, stores=stores, own=supplied_stores(name, supplier))
    if fixed:
        return source.then(node, value_serde=None)
    return StreamFlow(node.id, name, None, None, source.sources, rekeyed=True)


def _to(draft: GraphBuilder, source: StreamFlow, topic: Any, options: Produced) -> None:
    serdes = serdes_of(options, source.key_serde, source.value_serde)
    name = draft.name_or_new(options.name, "KSTREAM-SINK-")
    draft.add(StreamSink(name=name, topic=topic, partitioner=options.partitioner, **serdes), source.node)


def _repartition(draft: GraphBuilder, source: StreamFlow, options: Repartitioned) -> StreamFlow:
    name = options.name
    if name is None:
        name = draft.new_name("KSTREAM-REPARTITION-")
        draft.note_unnamed("repartition topic", f"{name}-repartition")
    serdes = serdes_of(options, source.key_serde, source.value_serde)
    fields = {"partitioner": options.partitioner, "partitions": options.partitions, "mergeable": False, **serdes}
    node = draft.add(draft.repartition(name, **fields), source.node)
    return StreamFlow(node.id, node.name, node.key_serde, node.value_serde, (node.name,))


def _to_table(draft: GraphBuilder, source: StreamFlow, keeping: Keeping) -> TableFlow:
    name = draft.name_or_new(keeping.name, "KSTREAM-TOTABLE-")
    store_name = keeping.new_store(draft, "KSTREAM-TOTABLE-")
    store = rows_store(draft, keeping, store_name, source.key_serde, source.value_serde)
    parent, sources = source.node, source.sources
    if source.rekeyed:
        node = draft.repartition(name, key_serde=store.key_serde, value_serde=store.value_serde)
        node = draft.add(node, parent)
        if keeping.name is None:
            draft.note_unnamed("repartition topic", node.topic)
        parent, sources = node.id, (node.name,)
    return lazy_table(draft, name, store, keeping, parent, sources)


def _split(draft: GraphBuilder, source: StreamFlow, name: str | None) -> StreamFlow:
    name = draft.name_or_new(name, "KSTREAM-BRANCH-")
    return source.then(draft.step(name, stateless.Branch((), (None,)), source.node))


def _branch(draft: GraphBuilder, above: StreamFlow, predicate: Any, suffix: str) -> StreamFlow:
    split = draft.nodes[above.node]
    assert isinstance(split, Operation)
    assert isinstance(split.operator, stateless.Branch)
    name = split.name + suffix
    predicates, (*children, default) = split.operator.predicates, split.operator.children
    if predicate is None:
        if default is not None:
            raise TopologyError(f'split "{split.name}" has two default branches')
        default = name
    else:
        predicates, children = (*predicates, predicate), [*children, name]
    draft.change(split, operator=stateless.Branch(predicates, (*children, default)))
    draft.new_name(name)
    return above.then(draft.step(name, stateless.PassThrough(), split.id))
