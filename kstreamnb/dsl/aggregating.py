"""Aggregations: count, reduce and aggregate of grouped streams, windows, sessions, re-grouped tables and cogroups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Generic, Literal, NamedTuple, TypeVar, Unpack

from kstreamnb.core.record import Windowed
from kstreamnb.core.serde import Serde
from kstreamnb.core.serdes import Serdes, SessionWindowedSerde, TimeWindowedSerde
from kstreamnb.core.signatures import FOLD, MERGE, REDUCE, taking
from kstreamnb.core.stores import StoreSpec
from kstreamnb.core.windows import SessionWindows, SlidingWindows
from kstreamnb.dsl.declarations import Handle
from kstreamnb.dsl.flows import CogroupFlow, GroupFlow, SourceNames, TableFlow, UserFunction
from kstreamnb.dsl.keywords import MaterializedKeywords, spelled_out
from kstreamnb.dsl.materialization import Materialization, materialization, row_store, table_fields, window_store
from kstreamnb.dsl.option_fields import SerdeFields, serde_of
from kstreamnb.dsl.options import Materialized
from kstreamnb.dsl.tables import TableOption
from kstreamnb.dsl.type_vars import A, Aggregator, K, Merger, V
from kstreamnb.logical.builder import GraphBuilder
from kstreamnb.logical.nodes import Repartition, Table
from kstreamnb.operators.aggregates import SessionAggregate, StreamAggregate, WindowAggregate
from kstreamnb.operators.derived_tables import ChangeSerde, TableAggregate
from kstreamnb.operators.folding import add_counts, count_down, count_up, zero
from kstreamnb.operators.sliding_aggregate import SlidingAggregate
from kstreamnb.operators.stateless import PassThrough

if TYPE_CHECKING:  # a table is made of what grouping needs
    from kstreamnb.dsl.ktable import KTable

RK = TypeVar("RK")
"""The key of an aggregation's result: that of the records, alone or within a window."""


class FoldFunctions(NamedTuple):
    """The functions of an aggregation; without an initializer, the first value of a key is its aggregate.

    ``third`` is a session's merger or the subtractor of a re-grouped table.
    """

    initializer: UserFunction | None
    aggregator: UserFunction
    third: UserFunction | None = None


class Folding(Handle, Generic[K, V, RK]):
    """Aggregations of records by key, and by key and window."""

    @spelled_out(Materialized)
    def count(self, *options: TableOption, **keywords: Unpack[MaterializedKeywords]) -> KTable[RK, int]:
        """Count the records of each key, or of each key and window.

        Shape: grouped or windowed stream -> KTable[K, int]; 1 -> 1; key kept, or within its window; store: yes;
            repartition: after a change of keys.
        Units: records. Null values are counted in time windows and sessions only.
        Late: a record whose window has closed is dropped; a null key is dropped.

        Args:
            options: a `Named` and a `Materialized`, as in Java, instead of keywords. Default: none.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> orders = StreamsBuilder().stream("orders")
            >>> head(orders.group_by_key().count(store="counts"), {"orders": [("a", 1), ("a", 3)]})
            [('a', 1, 0), ('a', 2, 1)]

        Source: Kafka Streams `KGroupedStream#count`, `TimeWindowedKStream#count`, `SessionWindowedKStream#count`;
            differences: none.
        """
        return self.declare("table", "count", _count, table=materialization(options, keywords))

    @spelled_out(Materialized)
    def reduce(
        self, reducer: Callable[[V, V], V], *options: TableOption, **keywords: Unpack[MaterializedKeywords]
    ) -> KTable[RK, V]:
        """Combine the values of each key, or of each key and window, into one of the same type.

        Shape: grouped or windowed stream[K, V] -> KTable[K, V]; 1 -> 1; key kept, or within its window; store: yes;
            repartition: after a change of keys.
        Late: a record whose window has closed is dropped; a null key is dropped, a null value outside time windows and
            sessions.

        Args:
            reducer: function ``(aggregate, value)`` that returns the new aggregate; the first value is the first
                aggregate.
            options: a `Named` and a `Materialized`, as in Java, instead of keywords. Default: none.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> orders = StreamsBuilder().stream("orders")
            >>> head(orders.group_by_key().reduce(max, store="largest"), {"orders": [("a", 3), ("a", 1)]})
            [('a', 3, 0), ('a', 3, 1)]

        Source: Kafka Streams `KGroupedStream#reduce`, `TimeWindowedKStream#reduce`, `SessionWindowedKStream#reduce`;
            differences: none.
        """
        functions = FoldFunctions(None, taking(reducer, *REDUCE))
        return self.declare("table", "reduce", _fold, functions=functions, table=materialization(options, keywords))


class Aggregating(Folding[K, V, RK], Generic[K, V, RK]):
    """Aggregations of records by key, and by key and time window."""

    @spelled_out(Materialized)
    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Aggregator[K, V, A],
        *options: TableOption,
        **keywords: Unpack[MaterializedKeywords],
    ) -> KTable[RK, A]:
        """Fold the values of each key, or of each key and window, into an aggregate of any type.

        Shape: grouped or time-windowed stream[K, V] -> KTable[K, A]; 1 -> 1; key kept, or within its window; store:
            yes; repartition: after a change of keys.
        Late: a record whose window has closed is dropped; a null key is dropped, a null value outside time windows.

        Args:
            initializer: function without arguments that returns the first aggregate of a key.
            aggregator: function ``(key, value, aggregate)`` that returns the new aggregate.
            options: a `Named` and a `Materialized`, as in Java, instead of keywords. Default: none.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> orders = StreamsBuilder().stream("orders")
            >>> values = orders.group_by_key().aggregate(list, lambda key, value, all_values: [*all_values, value])
            >>> head(values, {"orders": [("a", 3), ("a", 1)]})
            [('a', [3], 0), ('a', [3, 1], 1)]

        Source: Kafka Streams `KGroupedStream#aggregate`, `TimeWindowedKStream#aggregate`; differences: none.
        """
        functions = FoldFunctions(taking(initializer), taking(aggregator, *FOLD))
        return self.declare("table", "aggregate", _fold, functions=functions, table=materialization(options, keywords))


class SessionAggregating(Folding[K, V, Windowed[K]], Generic[K, V]):
    """Aggregations of records by key and session."""

    @spelled_out(Materialized)
    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Aggregator[K, V, A],
        merger: Merger[K, A],
        *options: TableOption,
        **keywords: Unpack[MaterializedKeywords],
    ) -> KTable[Windowed[K], A]:
        """Fold the values of each session into an aggregate of any type.

        Shape: session-windowed stream[K, V] -> KTable[Windowed[K], A]; 1 -> any number; key within its session; store:
            yes; repartition: after a change of keys.
        Late: a record whose session has closed is dropped; a null key is dropped.

        Args:
            initializer: function without arguments that returns the first aggregate of a session.
            aggregator: function ``(key, value, aggregate)`` that returns the new aggregate.
            merger: function ``(key, left, right)`` that returns the aggregate of two sessions that a record connects.
            options: a `Named` and a `Materialized`, as in Java, instead of keywords. Default: none.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> from kstreamnb import SessionWindows
            >>> clicks = StreamsBuilder().stream("clicks").group_by_key().windowed_by(SessionWindows.of(gap="5ms"))
            >>> add, join = (lambda key, value, total: total + value), (lambda key, left, right: left + right)
            >>> total = clicks.aggregate(lambda: 0, add, join)
            >>> head(total, {"clicks": [("a", 1, 0), ("a", 2, 9)]})
            [(Windowed(key='a', start=0, end=0), 1, 0), (Windowed(key='a', start=9, end=9), 2, 9)]

        Source: Kafka Streams `SessionWindowedKStream#aggregate`; differences: none.
        """
        functions = FoldFunctions(taking(initializer), taking(aggregator, *FOLD), taking(merger, *MERGE))
        return self.declare("table", "aggregate", _fold, functions=functions, table=materialization(options, keywords))


class CogroupAggregating(Handle, Generic[A, RK]):
    """The aggregation of several grouped streams."""

    @spelled_out(Materialized)
    def aggregate(
        self, initializer: Callable[[], A], *options: TableOption, **keywords: Unpack[MaterializedKeywords]
    ) -> KTable[RK, A]:
        """Fold the values of all streams into one aggregate per key, or key and window, each by its own aggregator.

        Shape: cogrouped stream -> KTable[K, A]; 1 -> 1; key kept, or within its window; store: yes; repartition: of
            each stream after a change of keys.
        Late: as the windows say, by the stream time of each stream; a null key is dropped.

        Args:
            initializer: function without arguments that returns the first aggregate of a key.
            options: a `Named` and a `Materialized`, as in Java, instead of keywords. Default: none.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> add = lambda key, value, total: total + value
            >>> orders = StreamsBuilder().stream("orders").group_by_key().cogroup(add)
            >>> total = orders.aggregate(lambda: 0, store="total")
            >>> head(total, {"orders": [("a", 1), ("a", 3)]})
            [('a', 1, 0), ('a', 4, 1)]

        Source: Kafka Streams `CogroupedKStream#aggregate`, `TimeWindowedCogroupedKStream#aggregate`, KIP-150;
            differences: none.
        """
        checked, table = taking(initializer), materialization(options, keywords)
        return self.declare("table", "aggregate", _aggregate_all, initializer=checked, merger=None, table=table)


class SessionWindowedCogroupedKStream(Handle, Generic[K, A], kind="session_windowed_cogrouped"):
    """Several grouped streams by key and session."""

    @spelled_out(Materialized)
    def aggregate(
        self,
        initializer: Callable[[], A],
        merger: Merger[K, A],
        *options: TableOption,
        **keywords: Unpack[MaterializedKeywords],
    ) -> KTable[Windowed[K], A]:
        """Fold the values of all streams by session, each by its own aggregator.

        Shape: session-windowed cogrouped stream -> KTable[Windowed[K], A]; 1 -> any number; key within its session;
            store: yes; repartition: of each stream after a change of keys.
        Late: a record whose session has closed is dropped; a null key is dropped.

        Args:
            initializer: function without arguments that returns the first aggregate of a session.
            merger: function ``(key, left, right)`` that returns the aggregate of two sessions that a record connects.
            options: a `Named` and a `Materialized`, as in Java, instead of keywords. Default: none.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> from kstreamnb import SessionWindows
            >>> add = lambda key, value, total: total + value
            >>> clicks = StreamsBuilder().stream("clicks").group_by_key().cogroup(add)
            >>> clicks = clicks.windowed_by(SessionWindows.of(gap="5ms"))
            >>> head(clicks.aggregate(lambda: 0, lambda key, left, right: left + right), {"clicks": [("a", 1)]})
            [(Windowed(key='a', start=0, end=0), 1, 0)]

        Source: Kafka Streams `SessionWindowedCogroupedKStream#aggregate`, KIP-150; differences: none.
        """
        arguments = {"initializer": taking(initializer), "merger": taking(merger, *MERGE)}
        table = materialization(options, keywords)
        return self.declare("table", "aggregate", _aggregate_all, table=table, **arguments)


class KGroupedTable(Handle, Generic[K, V], kind="grouped_table"):
    """Rows of a table by new keys: count, reduce or aggregate them; a change is subtracted, then added."""

    @spelled_out(Materialized)
    def count(self, *options: TableOption, **keywords: Unpack[MaterializedKeywords]) -> KTable[K, int]:
        """Count the rows of each group of a re-grouped table.

        Shape: KGroupedTable[K, V] -> KTable[K, int]; 1 -> 1; key kept; store: yes; repartition: yes.
        Units: rows.

        Args:
            options: a `Named` and a `Materialized`, as in Java, instead of keywords. Default: none.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> users = StreamsBuilder().table("users").group_by(lambda user, town: (town, user))
            >>> head(users.count(), {"users": [("ann", "Ulm"), ("bob", "Ulm")]})
            [('Ulm', 1, 0), ('Ulm', 2, 1)]

        Source: Kafka Streams `KGroupedTable#count`; differences: none.
        """
        functions, table = FoldFunctions(zero, count_up, count_down), materialization(options, keywords)
        return self.declare("table", "count", _fold_table, functions=functions, value_serde=Serdes.long(), table=table)

    @spelled_out(Materialized)
    def reduce(
        self,
        adder: Callable[[V, V], V],
        subtractor: Callable[[V, V], V],
        *options: TableOption,
        **keywords: Unpack[MaterializedKeywords],
    ) -> KTable[K, V]:
        """Combine the values of each group into one of the same type; a change is subtracted, then added.

        Shape: KGroupedTable[K, V] -> KTable[K, V]; 1 -> 1; key kept; store: yes; repartition: yes.

        Args:
            adder: function ``(aggregate, new)`` that returns the aggregate with a new value.
            subtractor: function ``(aggregate, old)`` that returns the aggregate without an old value.
            options: a `Named` and a `Materialized`, as in Java, instead of keywords. Default: none.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> stock = StreamsBuilder().table("stock").group_by(lambda shelf, number: ("all", number))
            >>> total = stock.reduce(lambda total, new: total + new, lambda total, old: total - old)
            >>> head(total, {"stock": [("a", 5), ("b", 2), ("a", 1)]})
            [('all', 5, 0), ('all', 7, 1), ('all', 3, 2)]

        Source: Kafka Streams `KGroupedTable#reduce`; differences: none.
        """
        functions = FoldFunctions(None, taking(adder, *REDUCE), taking(subtractor, *REDUCE))
        table = materialization(options, keywords)
        return self.declare("table", "reduce", _fold_table, functions=functions, table=table)

    @spelled_out(Materialized)
    def aggregate(
        self,
        initializer: Callable[[], A],
        adder: Aggregator[K, V, A],
        subtractor: Aggregator[K, V, A],
        *options: TableOption,
        **keywords: Unpack[MaterializedKeywords],
    ) -> KTable[K, A]:
        """Fold the values of each group into an aggregate of any type; a change is subtracted, then added.

        Shape: KGroupedTable[K, V] -> KTable[K, A]; 1 -> 1; key kept; store: yes; repartition: yes.

        Args:
            initializer: function without arguments that returns the first aggregate of a group.
            adder: function ``(key, new, aggregate)`` that returns the aggregate with a new value.
            subtractor: function ``(key, old, aggregate)`` that returns the aggregate without an old value.
            options: a `Named` and a `Materialized`, as in Java, instead of keywords. Default: none.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> stock = StreamsBuilder().table("stock").group_by(lambda shelf, number: ("all", number))
            >>> add, take = (lambda key, value, total: total + value), (lambda key, value, total: total - value)
            >>> head(stock.aggregate(lambda: 0, add, take), {"stock": [("a", 5), ("a", 1)]})
            [('all', 5, 0), ('all', 1, 1)]

        Source: Kafka Streams `KGroupedTable#aggregate`; differences: none.
        """
        functions = FoldFunctions(taking(initializer), taking(adder, *FOLD), taking(subtractor, *FOLD))
        table = materialization(options, keywords)
        return self.declare("table", "aggregate", _fold_table, functions=functions, table=table)


# --- in the graph -----------------------------------------------------------------------------------------------------
def _count(graph: GraphBuilder, grouped: GroupFlow, table: Materialization) -> TableFlow:
    unnamed = table.explicit and table.store_name is None
    if unnamed and not isinstance(grouped.windows, SlidingWindows):
        graph.new_name("KSTREAM-AGGREGATE-STATE-STORE-")  # Kafka uses up a number here
    return _fold(graph, grouped, table, FoldFunctions(zero, count_up, add_counts), Serdes.long())


def _fold(
    graph: GraphBuilder,
    grouped: GroupFlow,
    table: Materialization,
    functions: FoldFunctions,
    value_serde: Serde | None = None,
) -> TableFlow:
    java, value_serde = _kind(grouped, functions, value_serde)
    store_name = table.new_store(graph, f"KSTREAM-{java}-")
    name = graph.name_or_new(table.name, f"KSTREAM-{java}-")
    store = _store(graph, grouped, table, store_name, grouped.key_serde, value_serde)
    parent, sources = grouped.node, grouped.sources
    if grouped.rekeyed:
        repartition = _repartition(graph, grouped, grouped, store_name)
        parent, sources = repartition.id, (repartition.name,)
    node = graph.add(_aggregation(name, grouped, store, functions), parent)
    return _table(node, store, sources, grouped, table)


def _kind(
    grouped: GroupFlow, functions: FoldFunctions, value_serde: Serde | None
) -> tuple[Literal["REDUCE", "AGGREGATE"], Serde | None]:
    """Return Java's word for a fold, and the serde of its result: without an initializer, that of the values."""
    return ("REDUCE", grouped.value_serde) if functions.initializer is None else ("AGGREGATE", value_serde)


def _store(
    graph: GraphBuilder,
    grouped: GroupFlow | CogroupFlow,
    table: Materialization,
    name: str,
    key_serde: Serde | None = None,
    value_serde: Serde | None = None,
) -> StoreSpec:
    """Return the store of an aggregation."""
    if grouped.windows is None:
        return row_store(graph, table, name, key_serde, value_serde)
    serdes: SerdeFields = {"key_serde": key_serde, "value_serde": value_serde}
    return window_store(graph, table, name, grouped.windows, emit_on_close=grouped.emit_on_close, **serdes)


def _aggregation(name: str, grouped: GroupFlow | CogroupFlow, store: StoreSpec, functions: FoldFunctions) -> Table:
    """Return the node of an aggregation, by key or by key and window."""
    windows, emit_on_close, rows = grouped.windows, grouped.emit_on_close, table_fields(store)
    initializer, aggregator, merger = functions
    if windows is None:
        return Table(name=name, operator=StreamAggregate(store.name, initializer, aggregator), **rows)
    if isinstance(windows, SessionWindows):
        session = SessionAggregate(store.name, windows, initializer, aggregator, emit_on_close, merger=merger)
        return Table(name=name, operator=session, grace_ms=windows.grace_ms + windows.gap_ms, **rows)
    kind = SlidingAggregate if isinstance(windows, SlidingWindows) else WindowAggregate
    operator = kind(store.name, windows, initializer, aggregator, emit_on_close)
    return Table(name=name, operator=operator, grace_ms=windows.grace_ms, **rows)


def _repartition(
    graph: GraphBuilder, shared: GroupFlow | CogroupFlow, group: GroupFlow, store_name: str
) -> Repartition:
    """Return the repartition below a group, adding it if needed.

    A grouped stream has one for all its aggregations when its topic has a name, a cogrouped one in any case.
    """
    node = graph.repartition(group.topic_name or store_name, key_serde=group.key_serde, value_serde=group.value_serde)
    if group.topic_name is None and ("state store", store_name) in graph.unnamed:  # it is called after the store
        graph.note_unnamed("repartition topic", node.topic)
    key = None if shared is group else group
    if key in shared.repartitioned and (key or group.topic_name):
        return shared.repartitioned[key] if key else graph.attach(shared.repartitioned[key], group.node)
    shared.repartitioned[key] = graph.add(node, group.node)
    return shared.repartitioned[key]


def _table(
    node: Table, store: StoreSpec, sources: SourceNames, grouped: GroupFlow | CogroupFlow, table: Materialization
) -> TableFlow:
    key_serde, value_serde = serde_of(store.key_serde), serde_of(store.value_serde)
    if isinstance(grouped.windows, SessionWindows):
        key_serde = SessionWindowedSerde(key_serde)
    elif grouped.windows is not None:
        key_serde = TimeWindowedSerde(key_serde, grouped.windows.size_ms or None)
    return TableFlow(node.id, node.name, key_serde, value_serde, sources, table.store_name)


def _aggregate_all(
    graph: GraphBuilder,
    grouped: CogroupFlow,
    table: Materialization,
    initializer: UserFunction,
    merger: UserFunction | None,
) -> TableFlow:
    store_name = table.new_store(graph, "COGROUPKSTREAM-AGGREGATE-")
    store = _store(graph, grouped, table, store_name)
    parents = [
        _repartition(graph, grouped, group, store_name).id if group.rekeyed else group.node for group in grouped.groups
    ]
    graph.co_partition(source for group in grouped.groups for source in group.sources)
    folded: list[Table] = []
    for index, aggregator in enumerate(grouped.groups.values()):
        name = graph.name_or_new(table.name, "COGROUPKSTREAM-AGGREGATE-", f"-cogroup-agg-{index}")
        node = _aggregation(name, grouped, store, FoldFunctions(initializer, aggregator, merger))
        stored = {"stores": (store_name,)} if folded else {"own": (store,)}
        folded.append(graph.add(replace(node, store=None, **stored), parents[index]))
    ids = tuple(node.id for node in folded)
    merge_name = graph.name_or_new(table.name, "COGROUPKSTREAM-MERGE-", "-cogroup-merge")
    merge = Table(name=merge_name, operator=PassThrough(), view=folded[0].view, computed_from=ids)
    merge = graph.add(merge, *ids)
    return _table(merge, store, (merge.name,), grouped, table)


def _fold_table(
    graph: GraphBuilder,
    group: GroupFlow,
    table: Materialization,
    functions: FoldFunctions,
    value_serde: Serde | None = None,
) -> TableFlow:
    java, value_serde = _kind(group, functions, value_serde)
    store_name = table.new_store(graph, "KTABLE-AGGREGATE-")
    store = row_store(graph, table, store_name, group.key_serde, value_serde)
    sink = graph.name_or_new(table.name, "KSTREAM-SINK-", "-sink")
    source = graph.name_or_new(table.name, "KSTREAM-SOURCE-", "-source")
    name = graph.name_or_new(table.name, f"KTABLE-{java}-")
    topic = f"{group.topic_name or store_name}-repartition"
    repartition = group.repartitioned.get(None)
    if repartition is None or group.topic_name is None:
        repartition = Repartition(
            name=source,
            topic=topic,
            sink_name=sink,
            word="repartition",
            key_serde=group.key_serde,
            value_serde=ChangeSerde(group.value_serde),
        )
        group.repartitioned[None] = repartition = graph.add(repartition, group.node)
    else:
        graph.attach(repartition, group.node)
    initializer, adder, subtractor = functions
    assert subtractor is not None
    operator = TableAggregate(store_name, initializer, adder, subtractor)
    node = graph.add(Table(name=name, operator=operator, **table_fields(store)), repartition.id)
    return _table(node, store, (source,), group, table)
