"""Grouping: of streams by key, of tables by a new key and value, of several streams together, and into windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kstreamnb.core.windows import JoinWindows, SessionWindows, UnlimitedWindows
from kstreamnb.dsl import aggregating
from kstreamnb.dsl.declarations import Handle
from kstreamnb.dsl.flows import CogroupFlow, GroupFlow, StreamFlow, TableFlow, WindowFlow
from kstreamnb.dsl.options import EmitStrategy, Grouped, given
from kstreamnb.errors import ConfigError
from kstreamnb.graph.demands import is_versioned, send_old
from kstreamnb.graph.draft import Draft
from kstreamnb.processors.select_key import SelectKey
from kstreamnb.processors.table_group_by import TableGroupBy

if TYPE_CHECKING:  # the front classes list these functions
    from kstreamnb.dsl.kstream import KStream
    from kstreamnb.dsl.ktable import KTable

__all__ = [
    "CogroupedKStream", "KGroupedStream", "KGroupedTable", "SessionWindowedCogroupedKStream", "SessionWindowedKStream",
    "TimeWindowedCogroupedKStream", "TimeWindowedKStream", "group_by", "group_by_key", "group_table_by",
]  # fmt: skip

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")


def group_by_key(
    self: KStream[K, V],
    grouped: Grouped | None = None,
    *,
    key_serde: Any = None,
    value_serde: Any = None,
    name: str | None = None,
) -> KGroupedStream[K, V]:
    """Group records of the same key, for counting, folding or windowing.

    Shape: KStream[K, V] -> KGroupedStream[K, V]; key kept; store: no; repartition: only after a change of keys.
    Source: Kafka Streams `KStream#groupByKey`; differences: none.
    """
    options = given(Grouped, grouped, key_serde=key_serde, value_serde=value_serde, name=name)
    return self.declare("grouped", "group_by_key", _group_by_key, options=options)


def group_by(
    self: KStream[K, V],
    selector: Callable[[K, V], K2],
    grouped: Grouped | None = None,
    *,
    key_serde: Any = None,
    value_serde: Any = None,
    name: str | None = None,
) -> KGroupedStream[K2, V]:
    """Group records by the key ``selector(key, value)``.

    Shape: KStream[K, V] -> KGroupedStream[K2, V]; key changed; store: no; repartition: yes.
    Source: Kafka Streams `KStream#groupBy`; differences: none.
    """
    options = given(Grouped, grouped, key_serde=key_serde, value_serde=value_serde, name=name)
    return self.declare("grouped", "group_by", _group_by, selector=selector, options=options)


def group_table_by(
    self: KTable[K, V],
    selector: Callable[[K, V], tuple[Any, Any]],
    grouped: Grouped | None = None,
    *,
    key_serde: Any = None,
    value_serde: Any = None,
    name: str | None = None,
) -> KGroupedTable:
    """Group rows by the first of the pair ``selector(key, value)``; the second is what is folded.

    Shape: KTable[K, V] -> KGroupedTable[K2, V2]; key changed; store: the table's; repartition: yes.
    Source: Kafka Streams `KTable#groupBy`; differences: a tuple stands for `KeyValue`.
    """
    options = given(Grouped, grouped, key_serde=key_serde, value_serde=value_serde, name=name)
    return self.declare("grouped_table", "group_by", _group_table_by, selector=selector, options=options)


class KGroupedStream(Handle, Generic[K, V], kind="grouped"):
    """Records by key: count, reduce or aggregate them, window them, or group them with other streams."""

    count = aggregating.count
    reduce = aggregating.reduce
    aggregate = aggregating.aggregate

    def windowed_by(self, windows: Any) -> TimeWindowedKStream | SessionWindowedKStream:
        """Fold by key and window: of `TimeWindows`, `SlidingWindows`, `SessionWindows` or `UnlimitedWindows`.

        Shape: KGroupedStream[K, V] -> windowed stream; key kept; store: no; repartition: no.
        Source: Kafka Streams `KGroupedStream#windowedBy`; differences: none.
        """
        _check_windows(windows)
        kind = "session_windowed" if isinstance(windows, SessionWindows) else "time_windowed"
        return self.declare(kind, "windowed_by", _windowed_by, windows=windows)

    def cogroup(self, aggregator: Callable[[Any, Any, Any], Any]) -> CogroupedKStream:
        """Begin to fold several streams into one table: this one with ``aggregator(key, value, aggregate)``.

        Shape: KGroupedStream[K, V] -> CogroupedKStream[K, V2]; key kept; store: no; repartition: no.
        Source: Kafka Streams `KGroupedStream#cogroup`, KIP-150; differences: none.
        """
        return self.declare("cogrouped", "cogroup", _cogroup, aggregator=aggregator)


class KGroupedTable(Handle, kind="grouped_table"):
    """Rows of a table under new keys: count, reduce or aggregate them; changes are subtracted, then added."""

    count = aggregating.count_table
    reduce = aggregating.reduce_table
    aggregate = aggregating.aggregate_table


class CogroupedKStream(Handle, kind="cogrouped"):
    """Several grouped streams that are folded into one table, each with its own aggregator."""

    aggregate = aggregating.aggregate_cogrouped

    def cogroup(
        self, grouped: KGroupedStream[Any, Any], aggregator: Callable[[Any, Any, Any], Any]
    ) -> CogroupedKStream:
        """Add a stream with its ``aggregator(key, value, aggregate)``.

        Shape: CogroupedKStream[K, V2], KGroupedStream[K, V] -> CogroupedKStream[K, V2]; store: no; repartition: no.
        Source: Kafka Streams `CogroupedKStream#cogroup`, KIP-150; differences: gives a new handle, and leaves this
            one as it was.
        """
        return self.declare("cogrouped", "cogroup", _cogroup_more, grouped, aggregator=aggregator)

    def windowed_by(self, windows: Any) -> TimeWindowedCogroupedKStream | SessionWindowedCogroupedKStream:
        """Fold by key and window: of `TimeWindows`, `SlidingWindows`, `SessionWindows` or `UnlimitedWindows`.

        Shape: CogroupedKStream[K, V] -> windowed cogrouped stream; key kept; store: no; repartition: no.
        Source: Kafka Streams `CogroupedKStream#windowedBy`; differences: none.
        """
        _check_windows(windows)
        kind = "session_windowed_cogrouped" if isinstance(windows, SessionWindows) else "time_windowed_cogrouped"
        return self.declare(kind, "windowed_by", _windowed_by, windows=windows)


class _Windowed(Handle):
    def emit_strategy(self, strategy: EmitStrategy) -> Any:
        """Speak at every update (the default), or once when a window has closed.

        Shape: windowed stream -> the same; store: no; repartition: no.
        Source: Kafka Streams `TimeWindowedKStream#emitStrategy`, KIP-825; differences: gives a new handle.
        """
        windows = self.declaration.arguments.get("windows")
        if strategy.on_close and isinstance(windows, UnlimitedWindows):
            raise ConfigError(
                "a window without end never closes",
                hint="emit on update, or use windows of a size",
                java="ON_WINDOW_CLOSE emit strategy cannot be used for UnlimitedWindows",
            )
        return self.declare(self.kind, "emit_strategy", _emit, strategy=strategy, windows=windows)


class TimeWindowedKStream(_Windowed, kind="time_windowed"):
    """Records by key and window of fixed or sliding bounds: count, reduce or aggregate them."""

    count = aggregating.count
    reduce = aggregating.reduce
    aggregate = aggregating.aggregate


class SessionWindowedKStream(_Windowed, kind="session_windowed"):
    """Records by key and session: count, reduce or aggregate them."""

    count = aggregating.count
    reduce = aggregating.reduce
    aggregate = aggregating.aggregate_sessions


class TimeWindowedCogroupedKStream(Handle, kind="time_windowed_cogrouped"):
    """Several grouped streams by key and window."""

    aggregate = aggregating.aggregate_cogrouped


class SessionWindowedCogroupedKStream(Handle, kind="session_windowed_cogrouped"):
    """Several grouped streams by key and session."""

    aggregate = aggregating.aggregate_cogrouped_sessions


def _check_windows(windows: Any) -> None:
    if isinstance(windows, JoinWindows) or not hasattr(windows, "grace_ms"):
        raise ConfigError(
            f"a {type(windows).__name__} is no window to group by",
            hint="give TimeWindows, SlidingWindows, SessionWindows or UnlimitedWindows",
        )


# --- in the graph -----------------------------------------------------------------------------------------------------
def _group_by_key(draft: Draft, source: StreamFlow, options: Grouped) -> GroupFlow:
    return GroupFlow(
        source.node,
        source.name,
        options.key_serde or source.key_serde,
        options.value_serde or source.value_serde,
        source.sources,
        source.rekeyed,
        options.name,
    )


def _group_by(draft: Draft, source: StreamFlow, selector: Any, options: Grouped) -> GroupFlow:
    name = draft.name_or_new(options.name, "KSTREAM-KEY-SELECT-")
    node = draft.step(name, SelectKey(selector), source.node)
    value_serde = options.value_serde or source.value_serde
    return GroupFlow(node.id, name, options.key_serde, value_serde, source.sources, True, options.name)  # noqa: FBT003


def _group_table_by(draft: Draft, source: TableFlow, selector: Any, options: Grouped) -> GroupFlow:
    name = draft.name_or_new(options.name, "KTABLE-SELECT-")
    node = draft.step(name, TableGroupBy(selector, is_versioned(draft, source.node)), source.node)
    send_old(draft, source.node)
    serdes = (options.key_serde, options.value_serde)
    return GroupFlow(node.id, name, *serdes, source.sources, True, options.name)  # noqa: FBT003


def _cogroup(draft: Draft, group: GroupFlow, aggregator: Any) -> CogroupFlow:
    return CogroupFlow({group: aggregator})


def _cogroup_more(draft: Draft, cogroup: CogroupFlow, group: GroupFlow, aggregator: Any) -> CogroupFlow:
    return CogroupFlow({**cogroup.groups, group: aggregator}, cogroup.repartitioned)


def _windowed_by(draft: Draft, group: GroupFlow | CogroupFlow, windows: Any) -> WindowFlow:
    return WindowFlow(group, windows)


def _emit(draft: Draft, windowed: WindowFlow, strategy: EmitStrategy, windows: Any) -> WindowFlow:
    return WindowFlow(windowed.group, windowed.windows, strategy.on_close)
