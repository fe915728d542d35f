"""Operators of a stream that lead records elsewhere: to topics, through topics, into tables, into branches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from kstreamnb.core.stores import StoreSpec
from kstreamnb.dsl.declarations import Handle
from kstreamnb.dsl.flows import SplitFlow, StreamFlow, TableFlow
from kstreamnb.dsl.materializing import Keeping, kept, rows_store
from kstreamnb.dsl.options import (
    Branched,
    K,
    Kept,
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
from kstreamnb.graph.draft import Draft, check_resource_name
from kstreamnb.graph.nodes import Sink, Step, Table
from kstreamnb.processors.branch import Branch
from kstreamnb.processors.pass_through import PassThrough
from kstreamnb.processors.table_source import TableSource
from kstreamnb.processors.table_view import StoreView

if TYPE_CHECKING:  # the front classes list these functions
    from kstreamnb.dsl.kstream import KStream
    from kstreamnb.dsl.ktable import KTable


@spelled_out
def to(
    self: KStream[K, V],
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
def repartition(
    self: KStream[K, V], repartitioned: Repartitioned | None = None, **options: Unpack[Through]
) -> KStream[K, V]:
    """Send the records through an internal topic, so that each key is in its partition.

    Shape: KStream[K, V] -> KStream[K, V]; 1 -> 1, records without key are lost; key kept; store: no; repartition: yes.

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
def to_table(self: KStream[K, V], **options: Unpack[Kept]) -> KTable[K, V]:
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


def split(self: KStream[K, V], *, name: str | None = None) -> BranchedKStream:
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
        self._add(predicate, given(Branched, branched, name=name), self._count)
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
        check_resource_name(self.prefix + suffix)
        stream: Any = self.declare("stream", "branch", _branch, predicate=predicate, suffix=suffix)
        if branched.consumer is not None:
            branched.consumer(stream)
            return
        if branched.function is not None:
            stream = branched.function(stream)
        if stream is not None:
            self.branches[self.prefix + suffix] = stream


# --- in the graph -----------------------------------------------------------------------------------------------------
def _to(draft: Draft, source: StreamFlow, topic: Any, options: Produced) -> None:
    serdes = serdes_of(options, source.key_serde, source.value_serde)
    name = draft.name_or_new(options.name, "KSTREAM-SINK-")
    draft.add(Sink(name=name, topic=topic, partitioner=options.partitioner, **serdes), source.node)


def _repartition(draft: Draft, source: StreamFlow, options: Repartitioned) -> StreamFlow:
    name = options.name
    if name is None:
        name = draft.new_name("KSTREAM-REPARTITION-")
        draft.unnamed_repartitions.append(f"{name}-repartition")
    serdes = serdes_of(options, source.key_serde, source.value_serde)
    fields = {"partitioner": options.partitioner, "partitions": options.partitions, "mergeable": False, **serdes}
    node = draft.add(draft.repartition(name, **fields), source.node)
    return StreamFlow(node.id, node.name, node.key_serde, node.value_serde, (node.name,))


def _to_table(draft: Draft, source: StreamFlow, keeping: Keeping) -> TableFlow:
    name = draft.name_or_new(keeping.name, "KSTREAM-TOTABLE-")
    store_name = keeping.new_store(draft, "KSTREAM-TOTABLE-")
    store = rows_store(draft, keeping, store_name, source.key_serde, source.value_serde)
    parent, sources = source.node, source.sources
    if source.rekeyed:
        node = draft.repartition(name, key_serde=store.key_serde, value_serde=store.value_serde)
        node = draft.add(node, parent)
        if keeping.name is None:
            draft.unnamed_repartitions.append(node.topic)
        parent, sources = node.id, (node.name,)
    return lazy_table(draft, name, store, keeping.store_name, parent, sources)


def lazy_table(
    draft: Draft,
    name: str,
    store: StoreSpec,
    user_name: str | None,
    parent: int,
    sources: tuple[str, ...],
    topic: str | None = None,
) -> TableFlow:
    """A table made of records as they come: kept under the user's name, or once something needs it."""
    versioned = store.kind == "versioned"
    node = Table(
        name=name,
        operator=TableSource(store.name),
        view=StoreView(store.name, versioned),
        store=store,
        lazy=True,
        materialized=user_name is not None,
        versioned=versioned,
        topic=topic,
    )
    node = draft.add(node, parent)
    return TableFlow(node.id, name, store.key_serde, store.value_serde, sources, user_name)


def _split(draft: Draft, source: StreamFlow, name: str | None) -> SplitFlow:
    return SplitFlow(source, draft.step(draft.name_or_new(name, "KSTREAM-BRANCH-"), Branch((), (None,)), source.node))


def _branch(draft: Draft, flow: SplitFlow, predicate: Any, suffix: str) -> StreamFlow:
    split = draft.nodes[flow.split.id]
    assert isinstance(split, Step)
    name = split.name + suffix
    predicates, (*children, default) = split.operator.predicates, split.operator.children
    if predicate is None:
        if default is not None:
            raise TopologyError(f'split "{split.name}" has two default branches')
        default = name
    else:
        predicates, children = (*predicates, predicate), [*children, name]
    draft.change(split, operator=Branch(predicates, (*children, default)))
    draft.new_name(name)
    node = draft.step(name, PassThrough(), split.id)
    return replace(flow.source, node=node.id, name=name, repartitioned=None)
