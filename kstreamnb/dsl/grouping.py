"""Grouping: of streams by key, of tables by a new key and value, of several streams together, and into windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Self, Unpack, overload

from kstreamnb.core.arguments import expect
from kstreamnb.core.record import Windowed
from kstreamnb.core.signatures import FOLD, RECORD, taking
from kstreamnb.core.traits import AggregationWindows
from kstreamnb.core.windows import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows
from kstreamnb.dsl.aggregating import (
    Aggregating,
    CogroupAggregating,
    KGroupedTable,
    SessionAggregating,
    SessionWindowedCogroupedKStream,
)
from kstreamnb.dsl.aggregation_graph import (
    emit_cogroup,
    emit_cogroup_more,
    emit_group_by,
    emit_group_by_key,
    emit_group_table_by,
    emit_windowing,
)
from kstreamnb.dsl.declarations import Handle, check_kind
from kstreamnb.dsl.keywords import GroupedKeywords, combined, spelled_out
from kstreamnb.dsl.options import EmitStrategy, Grouped
from kstreamnb.dsl.type_vars import K2, V2, A, Aggregator, K, V
from kstreamnb.errors import ConfigError


class StreamGrouping(Handle, Generic[K, V]):
    """Groupings of the records of a stream."""

    @spelled_out(Grouped)
    def group_by_key(self, grouped: Grouped | None = None, **keywords: Unpack[GroupedKeywords]) -> KGroupedStream[K, V]:
        """Group records by their key, to count, aggregate or window them.

        Shape: KStream[K, V] -> KGroupedStream[K, V]; key kept; store: no; repartition: only after a change of keys.

        Args:
            grouped: serdes and name of the repartition topic. Default: as the stream and the application say.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> orders = StreamsBuilder().stream("orders")
            >>> head(orders.group_by_key().count(), {"orders": [("a", 1), ("b", 3)]})
            [('a', 1, 0), ('b', 1, 1)]

        Source: Kafka Streams `KStream#groupByKey`; differences: none.
        """
        options = combined(Grouped, grouped, **keywords)
        return self.declare("grouped", "group_by_key", emit_group_by_key, options=options)

    @spelled_out(Grouped)
    def group_by(
        self, selector: Callable[[K, V], K2], grouped: Grouped | None = None, **keywords: Unpack[GroupedKeywords]
    ) -> KGroupedStream[K2, V]:
        """Group records by a new key.

        Shape: KStream[K, V] -> KGroupedStream[K2, V]; key changed; store: no; repartition: yes.

        Args:
            selector: function ``(key, value)`` that returns the new key.
            grouped: serdes and name of the repartition topic. Default: as the stream and the application say.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> orders = StreamsBuilder().stream("orders")
            >>> head(orders.group_by(lambda key, value: "all").count(), {"orders": [("a", 1), ("b", 3)]})
            [('all', 1, 0), ('all', 2, 1)]

        Source: Kafka Streams `KStream#groupBy`; differences: none.
        """
        options = combined(Grouped, grouped, **keywords)
        return self.declare("grouped", "group_by", emit_group_by, selector=taking(selector, *RECORD), options=options)


class TableGrouping(Handle, Generic[K, V]):
    """Groupings of the rows of a table."""

    @spelled_out(Grouped)
    def group_by(
        self,
        selector: Callable[[K, V], tuple[K2, V2]],
        grouped: Grouped | None = None,
        **keywords: Unpack[GroupedKeywords],
    ) -> KGroupedTable[K2, V2]:
        """Group rows by a new key, with a new value to aggregate.

        Shape: KTable[K, V] -> KGroupedTable[K2, V2]; key changed; store: the table's; repartition: yes.

        Args:
            selector: function ``(key, value)`` that returns the pair of the new key and the value to aggregate.
            grouped: serdes and name of the repartition topic. Default: as the stream and the application say.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> users = StreamsBuilder().table("users")
            >>> by_town = users.group_by(lambda user, town: (town, user))
            >>> head(by_town.count(), {"users": [("ann", "Ulm"), ("bob", "Ulm"), ("ann", "Bonn")]})
            [('Ulm', 1, 0), ('Ulm', 2, 1), ('Ulm', 1, 2), ('Bonn', 1, 2)]

        Source: Kafka Streams `KTable#groupBy`; differences: a tuple replaces `KeyValue`.
        """
        arguments = {"selector": taking(selector, *RECORD), "options": combined(Grouped, grouped, **keywords)}
        return self.declare("grouped_table", "group_by", emit_group_table_by, **arguments)


class KGroupedStream(Aggregating[K, V, K], Generic[K, V], kind="grouped"):
    """Records by key: count, reduce or aggregate them, window them, or combine them with other streams."""

    @overload
    def windowed_by(self, windows: SessionWindows) -> SessionWindowedKStream[K, V]: ...
    @overload
    def windowed_by(self, windows: TimeWindows | SlidingWindows | UnlimitedWindows) -> TimeWindowedKStream[K, V]: ...
    def windowed_by(self, windows: AggregationWindows) -> TimeWindowedKStream[K, V] | SessionWindowedKStream[K, V]:
        """Aggregate by key and window instead of by key.

        Shape: KGroupedStream[K, V] -> windowed stream; key kept; store: no; repartition: no.

        Args:
            windows: `TimeWindows`, `SlidingWindows`, `SessionWindows` or `UnlimitedWindows`.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> from kstreamnb import TimeWindows
            >>> clicks = StreamsBuilder().stream("clicks").group_by_key()
            >>> counts = clicks.windowed_by(TimeWindows.of(size="10ms")).count()
            >>> head(counts, {"clicks": [("a", 1, 3), ("a", 1, 12)]})
            [(Windowed(key='a', start=0, end=10), 1, 3), (Windowed(key='a', start=10, end=20), 1, 12)]

        Source: Kafka Streams `KGroupedStream#windowedBy`; differences: none.
        """
        return self.declare(_kind_of(windows), "windowed_by", emit_windowing, windows=windows)

    def cogroup(self, aggregator: Aggregator[K, V, A]) -> CogroupedKStream[K, A]:
        """Start to aggregate several streams into one table.

        Shape: KGroupedStream[K, V] -> CogroupedKStream[K, V2]; key kept; store: no; repartition: no.

        Args:
            aggregator: function ``(key, value, aggregate)`` that returns the new aggregate.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> builder = StreamsBuilder()
            >>> add = lambda key, value, total: total + value
            >>> spent, paid = (builder.stream(topic).group_by_key() for topic in ("spent", "paid"))
            >>> total = spent.cogroup(add).cogroup(paid, lambda key, value, total: total - value).aggregate(lambda: 0)
            >>> head(total, {"spent": [("a", 5)], "paid": [("a", 2)]})
            [('a', 5, 0), ('a', 3, 1)]

        Source: Kafka Streams `KGroupedStream#cogroup`, KIP-150; differences: none.
        """
        return self.declare("cogrouped", "cogroup", emit_cogroup, aggregator=taking(aggregator, *FOLD))


class CogroupedKStream(CogroupAggregating[A, K], Generic[K, A], kind="cogrouped"):
    """Several grouped streams that are aggregated into one table, each with its own aggregator."""

    def cogroup(self, grouped: KGroupedStream[K, V], aggregator: Aggregator[K, V, A]) -> CogroupedKStream[K, A]:
        """Add a stream with its aggregator.

        Shape: CogroupedKStream[K, V2], KGroupedStream[K, V] -> CogroupedKStream[K, V2]; store: no; repartition: no.

        Args:
            grouped: the other grouped stream, of the same builder.
            aggregator: function ``(key, value, aggregate)`` that returns the new aggregate.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> builder = StreamsBuilder()
            >>> spent, paid = (builder.stream(topic).group_by_key() for topic in ("spent", "paid"))
            >>> both = spent.cogroup(lambda key, value, log: log + f"-{value}").cogroup(
            ...     paid, lambda key, value, log: log + f"+{value}"
            ... )
            >>> head(both.aggregate(str), {"spent": [("a", 5)], "paid": [("a", 2)]})
            [('a', '-5', 0), ('a', '-5+2', 1)]

        Source: Kafka Streams `CogroupedKStream#cogroup`, KIP-150; differences: gives a new handle, and leaves this
            one as it was.
        """
        check_kind(grouped, "grouped", "cogroup")
        return self.declare("cogrouped", "cogroup", emit_cogroup_more, grouped, aggregator=taking(aggregator, *FOLD))

    @overload
    def windowed_by(self, windows: SessionWindows) -> SessionWindowedCogroupedKStream[K, A]: ...
    @overload
    def windowed_by(
        self, windows: TimeWindows | SlidingWindows | UnlimitedWindows
    ) -> TimeWindowedCogroupedKStream[K, A]: ...
    def windowed_by(
        self, windows: AggregationWindows
    ) -> TimeWindowedCogroupedKStream[K, A] | SessionWindowedCogroupedKStream[K, A]:
        """Aggregate by key and window instead of by key.

        Shape: CogroupedKStream[K, V] -> windowed cogrouped stream; key kept; store: no; repartition: no.

        Args:
            windows: `TimeWindows`, `SlidingWindows`, `SessionWindows` or `UnlimitedWindows`.

        Example:
            >>> from kstreamnb import StreamsBuilder, TimeWindows, head
            >>> add = lambda key, value, total: total + value
            >>> clicks = StreamsBuilder().stream("clicks").group_by_key().cogroup(add)
            >>> totals = clicks.windowed_by(TimeWindows.of(size="10ms")).aggregate(int)
            >>> head(totals, {"clicks": [("a", 1, 3), ("a", 2, 12)]})
            [(Windowed(key='a', start=0, end=10), 1, 3), (Windowed(key='a', start=10, end=20), 2, 12)]

        Source: Kafka Streams `CogroupedKStream#windowedBy`; differences: none.
        """
        return self.declare(f"{_kind_of(windows)}_cogrouped", "windowed_by", emit_windowing, windows=windows)


class _Windowed(Handle):
    def emit_strategy(self, strategy: EmitStrategy) -> Self:
        """Choose when results are emitted: at every update (the default), or once when a window has closed.

        With the strategy on close, a window is not emitted if its rows have expired before it closes, as in Kafka
        Streams. By default, rows are kept for the size of the window plus the grace, so a longer gap between records
        loses results: set ``retention=``, or use `suppress`.

        Shape: windowed stream -> the same; store: no; repartition: no.

        Args:
            strategy: `EmitStrategy.on_window_update()` or `EmitStrategy.on_window_close()`.

        Raises: ConfigError for emission on close of windows without end.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> from kstreamnb import EmitStrategy, TimeWindows
            >>> clicks = StreamsBuilder().stream("clicks").group_by_key().windowed_by(TimeWindows.of(size="10ms"))
            >>> counts = clicks.emit_strategy(EmitStrategy.on_window_close()).count()
            >>> head(counts, {"clicks": [("a", 1, 3), ("a", 1, 4), ("a", 1, 10)]})
            [(Windowed(key='a', start=0, end=10), 2, 4)]

        Source: Kafka Streams `TimeWindowedKStream#emitStrategy`, KIP-825; differences: gives a new handle.
        """
        hint = "write EmitStrategy.on_window_close(), or EmitStrategy.on_window_update()"
        expect(strategy, EmitStrategy, "strategy", hint=hint)
        windowed = next(above for above in reversed(list(self.upstream())) if above.word == "windowed_by")
        if strategy.on_close and isinstance(windowed.arguments["windows"], UnlimitedWindows):
            hint = "emit on every update, or use windows with a size"
            java = "ON_WINDOW_CLOSE emit strategy cannot be used for UnlimitedWindows"
            raise ConfigError("unlimited windows never close", hint=hint, java=java)
        return self.declare(self.kind, "emit_strategy", emit_windowing, emit_on_close=strategy.on_close)


class TimeWindowedKStream(_Windowed, Aggregating[K, V, Windowed[K]], Generic[K, V], kind="time_windowed"):
    """Records by key and window of fixed or sliding bounds: count, reduce or aggregate them."""


class SessionWindowedKStream(_Windowed, SessionAggregating[K, V], Generic[K, V], kind="session_windowed"):
    """Records by key and session: count, reduce or aggregate them."""


class TimeWindowedCogroupedKStream(CogroupAggregating[A, Windowed[K]], Generic[K, A], kind="time_windowed_cogrouped"):
    """Several grouped streams by key and window."""


def _kind_of(windows: AggregationWindows) -> str:
    """Return the kind of the windowed stream; raise ConfigError for anything that is not windows to group by."""
    hint = 'write for example TimeWindows.of("5m"), or SessionWindows.of("5m")'
    expect(windows, AggregationWindows, "windows", hint=hint)
    return "session_windowed" if isinstance(windows, SessionWindows) else "time_windowed"
