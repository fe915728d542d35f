"""Aggregations: count, reduce and aggregate of grouped streams, windows, sessions, re-grouped tables and cogroups."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar, Unpack

from kstreamnb.core.record import Windowed
from kstreamnb.core.serdes import Serdes
from kstreamnb.core.signatures import FOLD, MERGE, REDUCE, taking
from kstreamnb.dsl.aggregation_graph import emit_aggregate_all, emit_count, emit_fold, emit_fold_table
from kstreamnb.dsl.declarations import Handle
from kstreamnb.dsl.flows import FoldSpec
from kstreamnb.dsl.keywords import MaterializedKeywords, TableOption, spelled_out
from kstreamnb.dsl.materialization import materialization
from kstreamnb.dsl.options import Materialized
from kstreamnb.dsl.type_vars import A, Aggregator, K, Merger, V
from kstreamnb.operators.folding import count_down, count_up, zero

if TYPE_CHECKING:  # a table is made of what grouping needs
    from kstreamnb.dsl.ktable import KTable


RK = TypeVar("RK")
"""The key of an aggregation's result: that of the records, alone or within a window."""


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
        return self.declare("table", "count", emit_count, table=materialization(options, keywords))

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
        fold = FoldSpec(None, taking(reducer, *REDUCE))
        return self.declare("table", "reduce", emit_fold, fold=fold, table=materialization(options, keywords))


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
            aggregator: function ``(key, value, aggregate)`` that returns the new aggregate; None deletes the row.
            options: a `Named` and a `Materialized`, as in Java, instead of keywords. Default: none.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> orders = StreamsBuilder().stream("orders")
            >>> values = orders.group_by_key().aggregate(list, lambda key, value, all_values: [*all_values, value])
            >>> head(values, {"orders": [("a", 3), ("a", 1)]})
            [('a', [3], 0), ('a', [3, 1], 1)]

        Source: Kafka Streams `KGroupedStream#aggregate`, `TimeWindowedKStream#aggregate`; differences: none.
        """
        fold = FoldSpec(taking(initializer), taking(aggregator, *FOLD))
        return self.declare("table", "aggregate", emit_fold, fold=fold, table=materialization(options, keywords))


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
            aggregator: function ``(key, value, aggregate)`` that returns the new aggregate; None deletes the row.
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
        fold = FoldSpec(taking(initializer), taking(aggregator, *FOLD), taking(merger, *MERGE))
        return self.declare("table", "aggregate", emit_fold, fold=fold, table=materialization(options, keywords))


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
        return self.declare("table", "aggregate", emit_aggregate_all, initializer=checked, merger=None, table=table)


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
        return self.declare("table", "aggregate", emit_aggregate_all, table=table, **arguments)


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
        fold, table = FoldSpec(zero, count_up, count_down, Serdes.long()), materialization(options, keywords)
        return self.declare("table", "count", emit_fold_table, fold=fold, table=table)

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
        fold = FoldSpec(None, taking(adder, *REDUCE), taking(subtractor, *REDUCE))
        return self.declare("table", "reduce", emit_fold_table, fold=fold, table=materialization(options, keywords))

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

        A result of None deletes the group's row, and the next value begins with ``initializer()`` again.

        Shape: KGroupedTable[K, V] -> KTable[K, A]; 1 -> 1; key kept; store: yes; repartition: yes.

        Args:
            initializer: function without arguments that returns the first aggregate of a group.
            adder: function ``(key, new, aggregate)`` that returns the aggregate with a new value; None deletes.
            subtractor: function ``(key, old, aggregate)`` that returns the aggregate without an old value, such as
                None for the last one. If the table is an aggregation, it is also called with that one's initial
                value, such as a count of 0, which was never added.
            options: a `Named` and a `Materialized`, as in Java, instead of keywords. Default: none.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> stock = StreamsBuilder().table("stock").group_by(lambda shelf, number: ("all", number))
            >>> add, take = (lambda key, value, total: total + value), (lambda key, value, total: total - value)
            >>> head(stock.aggregate(lambda: 0, add, take), {"stock": [("a", 5), ("a", 1)]})
            [('all', 5, 0), ('all', 1, 1)]

        Source: Kafka Streams `KGroupedTable#aggregate`; differences: none.
        """
        fold = FoldSpec(taking(initializer), taking(adder, *FOLD), taking(subtractor, *FOLD))
        return self.declare("table", "aggregate", emit_fold_table, fold=fold, table=materialization(options, keywords))
