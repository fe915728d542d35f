"""Joins of a stream: with another stream in a window, with a table, with a global table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Literal, Unpack, cast, overload

from kstreamnb.core.serde import Serde
from kstreamnb.core.signatures import RECORD, taking
from kstreamnb.core.stores import StoreSpec
from kstreamnb.core.time import Duration, duration_ms
from kstreamnb.core.windows import JoinWindows
from kstreamnb.dsl.declarations import Emit, Handle
from kstreamnb.dsl.flows import GlobalFlow, JoinSpec, StreamFlow, TableFlow, UserFunction
from kstreamnb.dsl.keywords import GroupedKeywords, by_keyword, combined, expect, spelled_out
from kstreamnb.dsl.option_fields import Named, NamedOptions, SerdeLike, StoreType
from kstreamnb.dsl.options import GlobalJoined, Joined, StreamJoined
from kstreamnb.dsl.type_vars import K2, V2, V3, Joiner, K, KeyedJoiner, V
from kstreamnb.errors import TopologyError
from kstreamnb.logical.builder import GraphBuilder, check_history, look_up
from kstreamnb.logical.nodes import JoinWindow, StateStore, StreamJoin
from kstreamnb.operators.stateless import PassThrough
from kstreamnb.operators.stream_joins import JoinWindow as KeepWindow
from kstreamnb.operators.stream_joins import StreamSelfJoin, StreamStreamJoin, StreamTableJoin
from kstreamnb.operators.table_joins import How
from kstreamnb.operators.tables import StoreView

if TYPE_CHECKING:  # streams and tables are made of this class
    from kstreamnb.dsl.kstream import KStream
    from kstreamnb.dsl.ktable import GlobalKTable, KTable


class TableLookupKeywords(GroupedKeywords, total=False):
    """Keywords of a join with a table: those of `Joined`."""

    other_value_serde: SerdeLike | None
    grace: Duration | None


class StreamJoinKeywords(GroupedKeywords, total=False):
    """Keywords of a join with a stream: those of `StreamJoined`."""

    other_value_serde: SerdeLike | None
    store_name: str | None
    store_type: StoreType | None
    this_store: StoreSpec | None
    other_store: StoreSpec | None
    logged: bool | None


class AllJoinKeywords(StreamJoinKeywords, total=False):
    """Keywords of every join of a stream."""

    joiner: UserFunction | None
    windows: JoinWindows | None
    key_selector: UserFunction | None
    joined: Joined | StreamJoined | None
    with_key: bool
    grace: Duration | None


class StreamJoins(Handle, Generic[K, V]):
    """Joins of a stream with streams, tables and global tables."""

    @overload
    def join(
        self,
        other: KStream[K, V2],
        joiner: Joiner[V, V2, V3],
        windows: JoinWindows,
        joined: StreamJoined | None = None,
        *,
        with_key: Literal[False] = False,
        **keywords: Unpack[StreamJoinKeywords],
    ) -> KStream[K, V3]: ...
    @overload
    def join(
        self,
        other: KTable[K, V2],
        joiner: Joiner[V, V2, V3],
        joined: Joined | None = None,
        *,
        with_key: Literal[False] = False,
        **keywords: Unpack[TableLookupKeywords],
    ) -> KStream[K, V3]: ...
    @overload
    def join(
        self,
        other: GlobalKTable[K2, V2],
        key_selector: Callable[[K, V], K2 | None],
        joiner: Joiner[V, V2, V3],
        *options: Named,
        with_key: Literal[False] = False,
        name: str | None = None,
    ) -> KStream[K, V3]: ...
    @overload
    def join(
        self,
        other: KStream[K, V2],
        joiner: KeyedJoiner[K, V, V2, V3],
        windows: JoinWindows,
        joined: StreamJoined | None = None,
        *,
        with_key: Literal[True],
        **keywords: Unpack[StreamJoinKeywords],
    ) -> KStream[K, V3]: ...
    @overload
    def join(
        self,
        other: KTable[K, V2],
        joiner: KeyedJoiner[K, V, V2, V3],
        joined: Joined | None = None,
        *,
        with_key: Literal[True],
        **keywords: Unpack[TableLookupKeywords],
    ) -> KStream[K, V3]: ...
    @overload
    def join(
        self,
        other: GlobalKTable[K2, V2],
        key_selector: Callable[[K, V], K2 | None],
        joiner: KeyedJoiner[K, V, V2, V3],
        *options: Named,
        with_key: Literal[True],
        name: str | None = None,
    ) -> KStream[K, V3]: ...
    @spelled_out(StreamJoined, Joined)
    def join(self, other: Handle, *arguments: Any, **keywords: Unpack[AllJoinKeywords]) -> KStream[K, Any]:
        """Join each record with the matching ones of another stream, or with the row of a table.

        - ``join(stream, joiner, windows)``: with the other stream's records of the same key within the windows;
        - ``join(table, joiner)``: with the table's row of the record's key;
        - ``join(global_table, key_selector, joiner)``: with the row of a key of any kind.

        Shape: KStream[K, V], other -> KStream[K, V2]; n x m -> matches; key kept; store: two windows, or the table's;
            repartition: after a change of keys, except with a global table.
        Units: windows and ``grace``: stream time.
        Late: in a stream-stream join a record may find partners as long as they are kept (windows and grace). A null
            key or value is dropped.

        Args:
            other: the other stream, table or global table, of the same builder.
            arguments: the arguments named above by position; a `StreamJoined` or `Joined` may follow, as in Java.
            joiner: function ``(left, right)`` that returns the value of the result; ``(key, left, right)`` if
                ``with_key``.
            windows: how far apart in event time two records may be. Required with a stream.
            key_selector: function ``(key, value)`` that returns the key of the global table's row. Required with a
                global table.
            joined: option object of the join. Default: none.
            with_key: whether the joiner takes the key as well. Default: False.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> from kstreamnb import JoinWindows
            >>> builder = StreamsBuilder()
            >>> orders, paid = builder.stream("orders"), builder.stream("paid")
            >>> joined = orders.join(paid, lambda order, sum: (order, sum), JoinWindows.of(difference="5ms"))
            >>> head(joined, {"orders": [("a", 1, 0), ("b", 2, 1)], "paid": [("a", 9, 3), ("b", 9, 8)]})
            [('a', [1, 9], 3)]

        Source: Kafka Streams `KStream#join`; differences: none.
        """
        return _declare(self, other, "join", "inner", arguments, keywords)

    @overload
    def left_join(
        self,
        other: KStream[K, V2],
        joiner: Joiner[V, V2 | None, V3],
        windows: JoinWindows,
        joined: StreamJoined | None = None,
        *,
        with_key: Literal[False] = False,
        **keywords: Unpack[StreamJoinKeywords],
    ) -> KStream[K, V3]: ...
    @overload
    def left_join(
        self,
        other: KTable[K, V2],
        joiner: Joiner[V, V2 | None, V3],
        joined: Joined | None = None,
        *,
        with_key: Literal[False] = False,
        **keywords: Unpack[TableLookupKeywords],
    ) -> KStream[K, V3]: ...
    @overload
    def left_join(
        self,
        other: GlobalKTable[K2, V2],
        key_selector: Callable[[K, V], K2 | None],
        joiner: Joiner[V, V2 | None, V3],
        *options: Named,
        with_key: Literal[False] = False,
        name: str | None = None,
    ) -> KStream[K, V3]: ...
    @overload
    def left_join(
        self,
        other: KStream[K, V2],
        joiner: KeyedJoiner[K, V, V2 | None, V3],
        windows: JoinWindows,
        joined: StreamJoined | None = None,
        *,
        with_key: Literal[True],
        **keywords: Unpack[StreamJoinKeywords],
    ) -> KStream[K, V3]: ...
    @overload
    def left_join(
        self,
        other: KTable[K, V2],
        joiner: KeyedJoiner[K, V, V2 | None, V3],
        joined: Joined | None = None,
        *,
        with_key: Literal[True],
        **keywords: Unpack[TableLookupKeywords],
    ) -> KStream[K, V3]: ...
    @overload
    def left_join(
        self,
        other: GlobalKTable[K2, V2],
        key_selector: Callable[[K, V], K2 | None],
        joiner: KeyedJoiner[K, V, V2 | None, V3],
        *options: Named,
        with_key: Literal[True],
        name: str | None = None,
    ) -> KStream[K, V3]: ...
    @spelled_out(StreamJoined, Joined)
    def left_join(self, other: Handle, *arguments: Any, **keywords: Unpack[AllJoinKeywords]) -> KStream[K, Any]:
        """Join as `join` does, and emit each record of this stream without a partner with None in its place.

        Shape: KStream[K, V], other -> KStream[K, V2]; n x m -> matches and misses; key kept; store: as `join`, and one
            of pending records; repartition: as `join`.
        Units: windows and ``grace``: stream time.
        Late: a miss of a stream-stream join is emitted when its window has closed: when stream time passes its end
            and the grace. A null value is dropped; a null key has no partner.

        Args:
            other: the other stream, table or global table, of the same builder.
            arguments: the arguments of `join` by position; a `StreamJoined` or `Joined` may follow, as in Java.
            joiner: function ``(left, right)`` that returns the value of the result; ``(key, left, right)`` if
                ``with_key``; ``right`` may be None.
            windows: how far apart in event time two records may be. Required with a stream.
            key_selector: function ``(key, value)`` that returns the key of the global table's row. Required with a
                global table.
            joined: option object of the join. Default: none.
            with_key: whether the joiner takes the key as well. Default: False.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> builder = StreamsBuilder()
            >>> orders, names = builder.stream("orders"), builder.table("names")
            >>> joined = orders.left_join(names, lambda order, name: f"{order} for {name}")
            >>> head(joined, {"names": [("a", "Ann")], "orders": [("a", 1), ("b", 2)]})
            [('a', '1 for Ann', 1), ('b', '2 for None', 2)]

        Source: Kafka Streams `KStream#leftJoin`; differences: none.
        """
        return _declare(self, other, "left_join", "left", arguments, keywords)

    @overload
    def outer_join(
        self,
        other: KStream[K, V2],
        joiner: Joiner[V | None, V2 | None, V3],
        windows: JoinWindows,
        joined: StreamJoined | None = None,
        *,
        with_key: Literal[False] = False,
        **keywords: Unpack[StreamJoinKeywords],
    ) -> KStream[K, V3]: ...
    @overload
    def outer_join(
        self,
        other: KStream[K, V2],
        joiner: KeyedJoiner[K, V | None, V2 | None, V3],
        windows: JoinWindows,
        joined: StreamJoined | None = None,
        *,
        with_key: Literal[True],
        **keywords: Unpack[StreamJoinKeywords],
    ) -> KStream[K, V3]: ...
    @spelled_out(StreamJoined, Joined)
    def outer_join(self, other: Handle, *arguments: Any, **keywords: Unpack[AllJoinKeywords]) -> KStream[K, Any]:
        """Join two streams as `join` does, and emit each record of either without a partner with None in its place.

        Shape: KStream[K, V], KStream[K, V2] -> KStream[K, V3]; n x m -> matches and misses; key kept; store: two
            windows and one of pending records; repartition: as `join`.
        Units: windows: stream time.
        Late: as `left_join`, on both sides.

        Args:
            other: the other stream, of the same builder.
            arguments: joiner and windows by position; a `StreamJoined` may follow, as in Java.
            joiner: function ``(left, right)`` that returns the value of the result; ``(key, left, right)`` if
                ``with_key``; one of the values may be None.
            windows: how far apart in event time two records may be. Required.
            key_selector: not allowed here.
            joined: option object of the join. Default: none.
            with_key: whether the joiner takes the key as well. Default: False.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> from kstreamnb import JoinWindows
            >>> builder = StreamsBuilder()
            >>> left, right = builder.stream("left"), builder.stream("right")
            >>> joined = left.outer_join(right, lambda a, b: f"{a}+{b}", JoinWindows.of(difference="5ms"))
            >>> head(joined, {"left": [("a", 1, 0)], "right": [("a", 2, 3), ("b", 3, 4), ("c", 4, 20)]})
            [('a', '1+2', 3), ('b', 'None+3', 4)]

        Source: Kafka Streams `KStream#outerJoin`; differences: none.
        """
        if getattr(type(other), "kind", "") != "stream":
            raise TopologyError("only two streams can be outer joined", hint="use left_join with a table")
        return _declare(self, other, "outer_join", "outer", arguments, keywords)


def _declare(
    left: Handle, right: Handle, word: str, how: How, arguments: tuple[object, ...], keywords: Mapping[str, object]
) -> KStream[K, V3]:
    """Declare the join that fits the other side, with arguments by position or by name."""
    kind = getattr(type(right), "kind", "")
    if kind not in _JOINS:
        raise TopologyError(f"a stream cannot be joined with a {type(right).__name__}")
    emit, options_kind, names = _JOINS[kind]
    options = [each for each in arguments if isinstance(each, NamedOptions | Named)]
    positional = [each for each in arguments if each not in options and each is not None]
    fields = by_keyword(options, keywords, joined=NamedOptions, name=Named)
    free = [name for name in names if name not in fields]
    if len(positional) > len(free):
        raise TopologyError(
            f'"{word}" takes {" and ".join(names)} after the other side, got {len(positional)} arguments'
        )
    fields |= zip(free, positional, strict=False)
    for name in names:
        if name not in fields:
            raise TopologyError(f'"{word}" with a {type(right).__name__} is missing its {name}')
    with_key = bool(fields.pop("with_key", False))
    joiner = cast("UserFunction", taking(fields.pop("joiner"), "left", "right", key=with_key))
    extra = {name: fields.pop(name) for name in names if name != "joiner"}
    if "key_selector" in extra:
        taking(extra["key_selector"], *RECORD)
    if "windows" in extra:
        expect(extra["windows"], JoinWindows, 'write for example JoinWindows.of(difference="5m")')
    joined = cast("NamedOptions | None", fields.pop("joined", None))
    settings = combined(options_kind, joined, **fields)
    return left.declare("stream", word, emit, right, join=JoinSpec(how, joiner, with_key), options=settings, **extra)


# --- in the graph -----------------------------------------------------------------------------------------------------
def _repartitioned(
    graph: GraphBuilder,
    stream: StreamFlow,
    prefix: str | None,
    options: Joined | StreamJoined,
    value_serde: Serde | None,
) -> StreamFlow:
    """Return the stream with each key in its partition: as it is, or below a topic that joins of one name share."""
    if not stream.rekeyed:
        return stream
    key_serde, value_serde = options.key_serde or stream.key_serde, value_serde or stream.value_serde
    new = graph.repartition(prefix or stream.name, key_serde=key_serde, value_serde=value_serde)
    if stream.repartitioned is None or prefix not in (None, stream.name):
        stream.repartitioned = graph.add(new, stream.node)
    if options.name is None:
        graph.note_unnamed("repartition topic", new.topic)
    node = stream.repartitioned
    return StreamFlow(node.id, node.name, key_serde, value_serde, (node.name,))


_THIS, _OTHER = ("KSTREAM-JOINTHIS-", "-this-join"), ("KSTREAM-JOINOTHER-", "-other-join")
_OUTER_THIS, _OUTER_OTHER = ("KSTREAM-OUTERTHIS-", "-outer-this-join"), ("KSTREAM-OUTEROTHER-", "-outer-other-join")
_SIDES = {"inner": (_THIS, _OTHER), "left": (_THIS, _OUTER_OTHER), "outer": (_OUTER_THIS, _OUTER_OTHER)}
"""Kafka's names of the sides of a join and of their stores: numbered, and as suffixes of the user's name."""


def _join_streams(
    graph: GraphBuilder,
    left: StreamFlow,
    right: StreamFlow,
    join: JoinSpec,
    windows: JoinWindows,
    options: StreamJoined,
) -> StreamFlow:
    name = options.name
    this = _repartitioned(graph, left, name and f"{name}-left", options, options.value_serde)
    other = _repartitioned(graph, right, name and f"{name}-right", options, options.other_value_serde)
    sources = graph.co_partition((*this.sources, *other.sources))
    windowed = [graph.name_or_new(name, "KSTREAM-WINDOWED-", f"-{word}-windowed") for word in ("this", "other")]
    numbered = [graph.new_name(prefix) for prefix, _ in _SIDES[join.how]]
    names = [name + suffix for _, suffix in _SIDES[join.how]] if name else numbered
    merge = graph.name_or_new(name, "KSTREAM-MERGE-", "-merge")
    stores = _stores(graph, (this, other), join.how, windows, options, numbered)
    sides = [
        graph.add(JoinWindow(name=each, operator=KeepWindow(store.name), store=store), flow.node).id
        for each, store, flow in zip(windowed, stores, (this, other), strict=False)
    ]
    spans = (windows.before_ms, windows.after_ms, windows.grace_ms, join.joiner, join.with_key)
    shared = (stores[2].name if stores[2:] else None, merge)
    node = StreamJoin(
        name=merge,
        operator=PassThrough(),
        this=(names[0], StreamStreamJoin(True, stores[1].name, *spans, join.is_left, *shared)),  # noqa: FBT003
        other=(names[1], StreamStreamJoin(False, stores[0].name, *spans, join.how == "outer", *shared)),  # noqa: FBT003
        alone=StreamSelfJoin(stores[0].name, *spans),
        uses=tuple(sides),
        own=tuple(stores[2:]),
        keeps_null_keys=join.is_left,
    )
    node = graph.add(node, this.node, other.node)
    return StreamFlow(node.id, node.name, options.key_serde, None, sources)


def _stores(
    graph: GraphBuilder,
    flows: tuple[StreamFlow, StreamFlow],
    how: How,
    windows: JoinWindows,
    options: StreamJoined,
    numbered: list[str],
) -> list[StoreSpec]:
    """Return the stores of both sides, and that of pending records if some wait for partners."""
    base, supplied = options.store_name, (options.this_store, options.other_store)
    serdes = (options.value_serde or flows[0].value_serde, options.other_value_serde or flows[1].value_serde)
    key_serde = options.key_serde or flows[0].key_serde or flows[1].key_serde
    persistent, logging = graph.is_persistent(options.store_type), options.log_fields
    names = [base + suffix for _, suffix in _SIDES[how]] if base else numbered
    stores = []
    for name, value_serde, spec in zip(names, serdes, supplied, strict=True):
        store = StoreSpec(
            f"{name}-store",
            "window",
            key_serde,
            value_serde,
            retention_ms=windows.size_ms + windows.grace_ms,
            window_size_ms=windows.size_ms,
            retain_duplicates=True,
            persistent=persistent,
            logged=logging["logged"],
            log_config=(*logging["log_config"], ("cleanup.policy", "delete")),
        )
        stores.append(store if spec is None else _supplied(spec, store))
    if supplied[0] and supplied[1] and supplied[0].name == supplied[1].name:
        java = "Both StoreSuppliers have the same name.  StoreSuppliers must provide unique names"
        raise TopologyError(f'both stores of a join are called "{supplied[0].name}"', java=java)
    if how != "inner":
        named = supplied[0].name if supplied[0] else base
        number = numbered[0].rpartition("-")[2]
        name = f"{named}-{how}-shared-join" if named else f"KSTREAM-OUTERSHARED-{number}"
        extra = {"type": "pending_joins", "left_serde": serdes[0], "right_serde": serdes[1]}
        pending = StoreSpec(f"{name}-store", "internal", key_serde, persistent=persistent, extra=extra, **logging)
        stores.append(pending)
    for store, spec in zip(stores, (*supplied, supplied[0]), strict=False):
        if base is None and spec is None:
            graph.note_unnamed_store(store.name, logged=options.logged)
    return stores[:2] if windows.eager else stores  # an eager join keeps nothing for later, but Kafka asks for its name


def _supplied(spec: StoreSpec, wanted: StoreSpec) -> StoreSpec:
    """Return the user's store of a join's side if it fits the windows; raise TopologyError otherwise."""
    if not spec.retain_duplicates:
        java = "The StoreSupplier must set retainDuplicates=true, found retainDuplicates=false"
        raise TopologyError(f'store "{spec.name}" of a join does not retain duplicates', java=java)
    if (spec.retention_ms, spec.window_size_ms) != (wanted.retention_ms, wanted.window_size_ms):
        raise TopologyError(
            f'store "{spec.name}" does not fit the windows of its join',
            detail=f"it keeps {spec.retention_ms} ms of windows of {spec.window_size_ms} ms; "
            f"the join needs {wanted.retention_ms} ms and {wanted.window_size_ms} ms",
            java="Window settings mismatch. WindowBytesStoreSupplier settings",
        )
    return replace(wanted, name=spec.name, persistent=spec.persistent, factory=spec.factory)


def _join_table(graph: GraphBuilder, left: StreamFlow, table: TableFlow, join: JoinSpec, options: Joined) -> StreamFlow:
    this = _repartitioned(graph, left, options.name, options, options.value_serde)
    sources = graph.co_partition((*this.sources, *table.sources))
    name = graph.name_or_new(options.name, "KSTREAM-LEFTJOIN-" if join.is_left else "KSTREAM-JOIN-")
    view = look_up(graph, table.node)
    key_serde = options.key_serde or this.key_serde
    grace_ms: int | None = None
    buffers: tuple[str, ...] = ()
    if options.grace is not None:
        grace_ms = duration_ms(options.grace, "grace")
        check_history(graph, table.node, grace_ms)
        extra = {"type": "join_buffer", "grace_ms": grace_ms}
        value_serde = options.value_serde or this.value_serde
        spec = StoreSpec(f"{name}-Buffer", "internal", key_serde, value_serde, extra=extra)
        buffers = (graph.add(StateStore(name=spec.name, store=spec)).name,)
        if options.name is None:
            graph.note_unnamed_store(spec.name)
    buffer = buffers[0] if buffers else None
    operator = StreamTableJoin(view, join.joiner, join.with_key, join.is_left, grace_ms, buffer)
    stores = (*buffers, *view.stores)
    node = graph.step(name, operator, this.node, stores=stores, uses=(table.node,), keeps_null_keys=join.is_left)
    return StreamFlow(node.id, name, key_serde, None, sources)


def _join_global(
    graph: GraphBuilder,
    left: StreamFlow,
    table: GlobalFlow,
    join: JoinSpec,
    key_selector: UserFunction,
    options: GlobalJoined,
) -> StreamFlow:
    name = graph.name_or_new(options.name, "KSTREAM-LEFTJOIN-")
    view = StoreView(table.store)
    operator = StreamTableJoin(view, join.joiner, join.with_key, join.is_left, key_selector=key_selector)
    node = graph.step(name, operator, left.node, uses=(table.node,))
    return StreamFlow(node.id, name, left.key_serde, None, left.sources, left.rekeyed)


_JOINS: dict[str, tuple[Emit, type[NamedOptions], tuple[str, ...]]] = {
    "stream": (_join_streams, StreamJoined, ("joiner", "windows")),
    "table": (_join_table, Joined, ("joiner",)),
    "global_table": (_join_global, GlobalJoined, ("key_selector", "joiner")),
}
"""By the kind of the other side: what emits the join, its options, and its arguments by position."""
