"""Grouping: of streams by key, of tables by a new key and value, of several streams together, and into windows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Generic, Unpack, overload

from kstreamnb.core.signatures import FOLD, RECORD, taking
from kstreamnb.core.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows
from kstreamnb.dsl.aggregating import (
    Aggregating,
    CogroupAggregating,
    KGroupedTable,
    SessionAggregating,
    SessionWindowedCogroupedKStream,
)
from kstreamnb.dsl.declarations import Handle
from kstreamnb.dsl.flows import CogroupFlow, GroupFlow, StreamFlow, TableFlow
from kstreamnb.dsl.options import K2, EmitStrategy, Grouped, Grouping, K, V, given, serdes_of, spelled_out
from kstreamnb.dsl.streams import transform
from kstreamnb.errors import ConfigError
from kstreamnb.logical.builder import GraphBuilder, is_versioned, send_old
from kstreamnb.operators.derived_tables import TableGroupBy
from kstreamnb.operators.stateless import SelectKey


class StreamGrouping(Handle, Generic[K, V]):
    """How the records of a stream are grouped."""

    @spelled_out
    def group_by_key(self, grouped: Grouped | None = None, **options: Unpack[Grouping]) -> KGroupedStream[K, V]:
        """Group records of the same key, for counting, folding or windowing.

        Shape: KStream[K, V] -> KGroupedStream[K, V]; key kept; store: no; repartition: only after a change of keys.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> orders = StreamsBuilder().stream("orders")
            >>> head(orders.group_by_key().count(), {"orders": [("a", 1), ("b", 3)]})
            [('a', 1, 0), ('b', 1, 1)]

        Source: Kafka Streams `KStream#groupByKey`; differences: none.
        """
        return self.declare("grouped", "group_by_key", _group_by_key, options=given(Grouped, grouped, **options))

    @spelled_out
    def group_by(
        self, selector: Callable[[K, V], K2], grouped: Grouped | None = None, **options: Unpack[Grouping]
    ) -> KGroupedStream[K2, V]:
        """Group records by the key ``selector(key, value)``.

        Shape: KStream[K, V] -> KGroupedStream[K2, V]; key changed; store: no; repartition: yes.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> orders = StreamsBuilder().stream("orders")
            >>> head(orders.group_by(lambda key, value: "all").count(), {"orders": [("a", 1), ("b", 3)]})
            [('all', 1, 0), ('all', 2, 1)]

        Source: Kafka Streams `KStream#groupBy`; differences: none.
        """
        said = given(Grouped, grouped, **options)
        return self.declare("grouped", "group_by", _group_by, selector=taking(selector, *RECORD), options=said)


class TableGrouping(Handle, Generic[K, V]):
    """How the rows of a table are grouped."""

    @spelled_out
    def group_by(
        self,
        selector: Callable[[K, V], tuple[Any, Any]],
        grouped: Grouped | None = None,
        **options: Unpack[Grouping],
    ) -> KGroupedTable:
        """Group rows by the first of the pair ``selector(key, value)``; the second is what is folded.

        Shape: KTable[K, V] -> KGroupedTable[K2, V2]; key changed; store: the table's; repartition: yes.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> users = StreamsBuilder().table("users")
            >>> by_town = users.group_by(lambda user, town: (town, user))
            >>> head(by_town.count(), {"users": [("ann", "Ulm"), ("bob", "Ulm"), ("ann", "Bonn")]})
            [('Ulm', 1, 0), ('Ulm', 2, 1), ('Ulm', 1, 2), ('Bonn', 1, 2)]

        Source: Kafka Streams `KTable#groupBy`; differences: a tuple stands for `KeyValue`.
        """
        arguments = {"selector": taking(selector, *RECORD), "options": given(Grouped, grouped, **options)}
        return self.declare("grouped_table", "group_by", _group_table_by, **arguments)


class KGroupedStream(Aggregating, Generic[K, V], kind="grouped"):
    """Records by key: count, reduce or aggregate them, window them, or group them with other streams."""

    @overload
    def windowed_by(self, windows: SessionWindows) -> SessionWindowedKStream: ...
    @overload
    def windowed_by(self, windows: TimeWindows | SlidingWindows | UnlimitedWindows) -> TimeWindowedKStream: ...
    def windowed_by(self, windows: Any) -> TimeWindowedKStream | SessionWindowedKStream:
        """Fold by key and window: of `TimeWindows`, `SlidingWindows`, `SessionWindows` or `UnlimitedWindows`.

        Shape: KGroupedStream[K, V] -> windowed stream; key kept; store: no; repartition: no.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> from kstreamnb import TimeWindows
            >>> clicks = StreamsBuilder().stream("clicks").group_by_key()
            >>> counts = clicks.windowed_by(TimeWindows.of(size="10ms")).count()
            >>> head(counts, {"clicks": [("a", 1, 3), ("a", 1, 12)]})
            [(Windowed(key='a', start=0, end=10), 1, 3), (Windowed(key='a', start=10, end=20), 1, 12)]

        Source: Kafka Streams `KGroupedStream#windowedBy`; differences: none.
        """
        return self.declare(_kind_of(windows), "windowed_by", _change, windows=windows)

    def cogroup(self, aggregator: Callable[[Any, Any, Any], Any]) -> CogroupedKStream:
        """Begin to fold several streams into one table: this one with ``aggregator(key, value, aggregate)``.

        Shape: KGroupedStream[K, V] -> CogroupedKStream[K, V2]; key kept; store: no; repartition: no.

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
        return self.declare("cogrouped", "cogroup", _cogroup, aggregator=taking(aggregator, *FOLD))


class CogroupedKStream(CogroupAggregating, kind="cogrouped"):
    """Several grouped streams that are folded into one table, each with its own aggregator."""

    def cogroup(
        self, grouped: KGroupedStream[Any, Any], aggregator: Callable[[Any, Any, Any], Any]
    ) -> CogroupedKStream:
        """Add a stream with its ``aggregator(key, value, aggregate)``.

        Shape: CogroupedKStream[K, V2], KGroupedStream[K, V] -> CogroupedKStream[K, V2]; store: no; repartition: no.

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
        return self.declare("cogrouped", "cogroup", _cogroup_more, grouped, aggregator=taking(aggregator, *FOLD))

    @overload
    def windowed_by(self, windows: SessionWindows) -> SessionWindowedCogroupedKStream: ...
    @overload
    def windowed_by(self, windows: TimeWindows | SlidingWindows | UnlimitedWindows) -> TimeWindowedCogroupedKStream: ...
    def windowed_by(self, windows: Any) -> TimeWindowedCogroupedKStream | SessionWindowedCogroupedKStream:
        """Fold by key and window: of `TimeWindows`, `SlidingWindows`, `SessionWindows` or `UnlimitedWindows`.

        Shape: CogroupedKStream[K, V] -> windowed cogrouped stream; key kept; store: no; repartition: no.

        Example:
            >>> from kstreamnb import StreamsBuilder, TimeWindows, head
            >>> add = lambda key, value, total: total + value
            >>> clicks = StreamsBuilder().stream("clicks").group_by_key().cogroup(add)
            >>> totals = clicks.windowed_by(TimeWindows.of(size="10ms")).aggregate(int)
            >>> head(totals, {"clicks": [("a", 1, 3), ("a", 2, 12)]})
            [(Windowed(key='a', start=0, end=10), 1, 3), (Windowed(key='a', start=10, end=20), 2, 12)]

        Source: Kafka Streams `CogroupedKStream#windowedBy`; differences: none.
        """
        return self.declare(f"{_kind_of(windows)}_cogrouped", "windowed_by", _change, windows=windows)


class _Windowed(Handle):
    def emit_strategy(self, strategy: EmitStrategy) -> Any:
        """Speak at every update (the default), or once when a window has closed.

        Shape: windowed stream -> the same; store: no; repartition: no.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> from kstreamnb import EmitStrategy, TimeWindows
            >>> clicks = StreamsBuilder().stream("clicks").group_by_key().windowed_by(TimeWindows.of(size="10ms"))
            >>> counts = clicks.emit_strategy(EmitStrategy.on_window_close()).count()
            >>> head(counts, {"clicks": [("a", 1, 3), ("a", 1, 4), ("a", 1, 10)]})
            [(Windowed(key='a', start=0, end=10), 2, 4)]

        Source: Kafka Streams `TimeWindowedKStream#emitStrategy`, KIP-825; differences: gives a new handle.
        """
        windowed = next(above for above in reversed(list(self.upstream())) if above.word == "windowed_by")
        if strategy.on_close and isinstance(windowed.arguments["windows"], UnlimitedWindows):
            raise ConfigError(
                "a window without end never closes",
                hint="emit on update, or use windows of a size",
                java="ON_WINDOW_CLOSE emit strategy cannot be used for UnlimitedWindows",
            )
        return self.declare(self.kind, "emit_strategy", _change, emit_on_close=strategy.on_close)


class TimeWindowedKStream(_Windowed, Aggregating, kind="time_windowed"):
    """Records by key and window of fixed or sliding bounds: count, reduce or aggregate them."""


class SessionWindowedKStream(_Windowed, SessionAggregating, kind="session_windowed"):
    """Records by key and session: count, reduce or aggregate them."""


class TimeWindowedCogroupedKStream(CogroupAggregating, kind="time_windowed_cogrouped"):
    """Several grouped streams by key and window."""


def _kind_of(windows: Any) -> str:
    """The kind of a stream that is windowed like that; raises ConfigError when these are no windows to group by."""
    if isinstance(windows, JoinWindows) or not hasattr(windows, "grace_ms"):
        hint = "give TimeWindows, SlidingWindows, SessionWindows or UnlimitedWindows"
        raise ConfigError(f'type "{type(windows).__name__}" is no window to group by', hint=hint)
    return "session_windowed" if isinstance(windows, SessionWindows) else "time_windowed"


# --- in the graph -----------------------------------------------------------------------------------------------------
def _group_by_key(draft: GraphBuilder, source: StreamFlow, options: Grouped) -> GroupFlow:
    serdes = serdes_of(options, source.key_serde, source.value_serde)
    grouped: dict[str, Any] = {"rekeyed": source.rekeyed, "topic_name": options.name, **serdes}
    return GroupFlow(source.node, source.name, sources=source.sources, **grouped)


def _group_by(draft: GraphBuilder, source: StreamFlow, selector: Any, options: Grouped) -> GroupFlow:
    return _group_by_key(draft, transform(draft, source, "KEY-SELECT", SelectKey(selector), options.name), options)


def _group_table_by(draft: GraphBuilder, source: TableFlow, selector: Any, options: Grouped) -> GroupFlow:
    name = draft.name_or_new(options.name, "KTABLE-SELECT-")
    node = draft.step(name, TableGroupBy(selector, is_versioned(draft, source.node)), source.node)
    send_old(draft, source.node)
    serdes = serdes_of(options, None, None)
    return GroupFlow(node.id, name, sources=source.sources, rekeyed=True, topic_name=options.name, **serdes)


def _cogroup(draft: GraphBuilder, group: GroupFlow, aggregator: Any) -> CogroupFlow:
    return CogroupFlow(groups={group: aggregator})


def _cogroup_more(draft: GraphBuilder, cogroup: CogroupFlow, group: GroupFlow, aggregator: Any) -> CogroupFlow:
    return replace(cogroup, groups={**cogroup.groups, group: aggregator})


def _change(draft: GraphBuilder, group: GroupFlow | CogroupFlow, **changes: Any) -> GroupFlow | CogroupFlow:
    return replace(group, **changes)
