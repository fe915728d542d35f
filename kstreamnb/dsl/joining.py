"""Joins of a stream: with another stream in a window, with a table, with a global table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypedDict, Unpack

from kstreamnb.core.signatures import RECORD, taking
from kstreamnb.core.stores import StoreSpec
from kstreamnb.core.time import Duration, duration_ms
from kstreamnb.core.windows import JoinWindows
from kstreamnb.dsl.declarations import Handle
from kstreamnb.dsl.flows import GlobalFlow, Joining, StreamFlow, TableFlow
from kstreamnb.dsl.options import GlobalJoined, Joined, K, StoreType, StreamJoined, V, given, spelled_out
from kstreamnb.errors import TopologyError
from kstreamnb.logical.builder import GraphBuilder, check_history, look_up
from kstreamnb.logical.nodes import JoinWindow, StateStore, StreamJoin
from kstreamnb.operators.stateless import PassThrough
from kstreamnb.operators.stream_joins import JoinWindow as KeepWindow
from kstreamnb.operators.stream_joins import StreamSelfJoin, StreamStreamJoin, StreamTableJoin
from kstreamnb.operators.table_joins import How
from kstreamnb.operators.tables import StoreView

if TYPE_CHECKING:  # the front is made of this class
    from kstreamnb.dsl.fronts import KStream


class JoinOptions(TypedDict, total=False):
    """Keywords of a stream's joins: short forms of `StreamJoined` and `Joined`, and names of the functions."""

    joiner: Callable[..., Any] | None
    windows: JoinWindows | None
    key_selector: Callable[[Any, Any], Any] | None
    joined: Joined | StreamJoined | None
    with_key: bool
    name: str | None
    key_serde: Any
    value_serde: Any
    other_value_serde: Any
    store_name: str | None
    store_type: StoreType | None
    logged: bool | None
    grace: Duration | None


class StreamJoins(Handle, Generic[K, V]):
    """What a stream can be joined with: streams, tables and global tables."""

    @spelled_out
    def join(self, other: Handle, *how: Any, **options: Unpack[JoinOptions]) -> KStream[K, Any]:
        """Join each record with the matching ones of another stream, or with the row of a table.

        - ``join(stream, joiner, windows)``: with the other stream's records of the same key within the windows;
        - ``join(table, joiner)``: with the table's row of the record's key;
        - ``join(global_table, key_selector, joiner)``: with the row of the key ``key_selector(key, value)``.

        ``joiner(left, right)`` gives the result's value, ``joiner(key, left, right)`` when ``with_key``. Options may
        follow as an object (`StreamJoined`, `Joined`) or as keywords.

        Shape: KStream[K, V], other -> KStream[K, V2]; n x m -> matches; key kept; store: two windows, or the table's;
            repartition: after a change of keys, except with a global table.
        Units: windows and ``grace``: stream time.
        Late: in a stream-stream join a record may find partners as long as they are kept (windows and grace). A null
            key or value is dropped.

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
        return _declare(self, other, "join", "inner", how, options)

    @spelled_out
    def left_join(self, other: Handle, *how: Any, **options: Unpack[JoinOptions]) -> KStream[K, Any]:
        """Join as `join` does, and give each record of this stream that finds no partner with None instead.

        Shape: KStream[K, V], other -> KStream[K, V2]; n x m -> matches and misses; key kept; store: as `join`, and one
            of pending records; repartition: as `join`.
        Units: windows and ``grace``: stream time.
        Late: a miss of a stream-stream join comes out once its window has closed: when stream time passes its end and
            the grace. A null value is dropped; a null key has no partner.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> builder = StreamsBuilder()
            >>> orders, names = builder.stream("orders"), builder.table("names")
            >>> joined = orders.left_join(names, lambda order, name: f"{order} for {name}")
            >>> head(joined, {"names": [("a", "Ann")], "orders": [("a", 1), ("b", 2)]})
            [('a', '1 for Ann', 1), ('b', '2 for None', 2)]

        Source: Kafka Streams `KStream#leftJoin`; differences: none.
        """
        return _declare(self, other, "left_join", "left", how, options)

    @spelled_out
    def outer_join(self, other: Handle, *how: Any, **options: Unpack[JoinOptions]) -> KStream[K, Any]:
        """Join two streams as `join` does, and give each record of either that finds no partner with None instead.

        Shape: KStream[K, V], KStream[K, V2] -> KStream[K, V3]; n x m -> matches and misses; key kept; store: two
            windows and one of pending records; repartition: as `join`.
        Units: windows: stream time.
        Late: as `left_join`, on both sides.

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
        if other.kind != "stream":
            raise TopologyError("only two streams can be outer joined", hint="use left_join with a table")
        return _declare(self, other, "outer_join", "outer", how, options)


def _declare(self: Handle, other: Handle, verb: str, how: How, positional: Any, options: Any) -> KStream[Any, Any]:
    """Declare the join that fits the other side, with arguments by position or by name."""
    if getattr(other, "kind", "") not in _OTHERS:
        raise TopologyError(f"a stream cannot be joined with a {type(other).__name__}")
    emit, kind, names = _OTHERS[other.kind]
    positions = [name for name in names if name not in options]
    if len(positional) > len(positions):
        raise TopologyError(f'"{verb}" takes at most {len(positions)} arguments after the other side')
    said = {**options, **dict(zip(positions, positional, strict=False))}
    wanted = {name: said.pop(name, None) for name in names if name != "joined"}
    for name, value in wanted.items():
        if value is None:
            raise TopologyError(f'"{verb}" with a {type(other).__name__} is missing its {name}')
        if name == "key_selector":
            taking(value, *RECORD)
    with_key = said.pop("with_key", False)
    join = Joining(how, taking(wanted.pop("joiner"), "left", "right", key=with_key), with_key)
    given_options = given(kind, said.pop("joined", None), **said)
    return self.declare("stream", verb, emit, other, join=join, options=given_options, **wanted)


# --- in the graph -----------------------------------------------------------------------------------------------------
def _in_place(
    draft: GraphBuilder, stream: StreamFlow, prefix: str | None, options: Any, value_serde: Any
) -> StreamFlow:
    """The stream with its keys in their partitions: as it is, or behind a topic, which joins under its name share."""
    if not stream.rekeyed:
        return stream
    key_serde, value_serde = options.key_serde or stream.key_serde, value_serde or stream.value_serde
    made = draft.repartition(prefix or stream.name, key_serde=key_serde, value_serde=value_serde)
    if stream.repartitioned is None or prefix not in (None, stream.name):
        stream.repartitioned = draft.add(made, stream.node)
    if options.name is None:
        draft.note_unnamed("repartition topic", made.topic)
    node = stream.repartitioned
    return StreamFlow(node.id, node.name, key_serde, value_serde, (node.name,))


_THIS, _OTHER = ("KSTREAM-JOINTHIS-", "-this-join"), ("KSTREAM-JOINOTHER-", "-other-join")
_OUTER_THIS, _OUTER_OTHER = ("KSTREAM-OUTERTHIS-", "-outer-this-join"), ("KSTREAM-OUTEROTHER-", "-outer-other-join")
_SIDES = {"inner": (_THIS, _OTHER), "left": (_THIS, _OUTER_OTHER), "outer": (_OUTER_THIS, _OUTER_OTHER)}
"""How Kafka calls the sides of a join and their stores: by number, and after the user's name."""


def _join_streams(
    draft: GraphBuilder, left: StreamFlow, right: StreamFlow, join: Joining, windows: JoinWindows, options: StreamJoined
) -> StreamFlow:
    name = options.name
    this = _in_place(draft, left, name and f"{name}-left", options, options.value_serde)
    other = _in_place(draft, right, name and f"{name}-right", options, options.other_value_serde)
    sources = draft.co_partition((*this.sources, *other.sources))
    windowed = [draft.name_or_new(name, "KSTREAM-WINDOWED-", f"-{word}-windowed") for word in ("this", "other")]
    numbered = [draft.new_name(prefix) for prefix, _ in _SIDES[join.how]]
    names = [name + suffix for _, suffix in _SIDES[join.how]] if name else numbered
    merge = draft.name_or_new(name, "KSTREAM-MERGE-", "-merge")
    stores = _stores(draft, (this, other), join.how, windows, options, numbered)
    sides = [
        draft.add(JoinWindow(name=each, operator=KeepWindow(store.name), store=store), flow.node).id
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
    node = draft.add(node, this.node, other.node)
    return StreamFlow(node.id, node.name, options.key_serde, None, sources)


def _stores(
    draft: GraphBuilder,
    flows: tuple[Any, Any],
    how: How,
    windows: JoinWindows,
    options: StreamJoined,
    numbered: list[str],
) -> list[StoreSpec]:
    """The stores of both sides, and that of pending records where some wait for partners."""
    base, supplied = options.store_name, (options.this_store, options.other_store)
    serdes = (options.value_serde or flows[0].value_serde, options.other_value_serde or flows[1].value_serde)
    key_serde = options.key_serde or flows[0].key_serde or flows[1].key_serde
    common: dict[str, Any] = {"key_serde": key_serde, "persistent": draft.is_persistent(options.store_type)}
    common |= options.logging
    window: dict[str, Any] = {"retention_ms": windows.size_ms + windows.grace_ms, "window_size_ms": windows.size_ms}
    window |= {**common, "log_config": (*common["log_config"], ("cleanup.policy", "delete"))}
    names = [base + suffix for _, suffix in _SIDES[how]] if base else numbered
    stores = []
    for name, value_serde, spec in zip(names, serdes, supplied, strict=True):
        store = StoreSpec(f"{name}-store", "window", value_serde=value_serde, retain_duplicates=True, **window)
        stores.append(store if spec is None else _supplied(spec, store))
    if supplied[0] and supplied[1] and supplied[0].name == supplied[1].name:
        java = "Both StoreSuppliers have the same name.  StoreSuppliers must provide unique names"
        raise TopologyError(f'both stores of a join are called "{supplied[0].name}"', java=java)
    if how != "inner":
        named = supplied[0].name if supplied[0] else base
        number = numbered[0].rpartition("-")[2]
        name = f"{named}-{how}-shared-join" if named else f"KSTREAM-OUTERSHARED-{number}"
        extra = {"type": "pending_joins", "left_serde": serdes[0], "right_serde": serdes[1]}
        stores.append(StoreSpec(f"{name}-store", "internal", extra=extra, **common))
    for store, spec in zip(stores, (*supplied, supplied[0]), strict=False):
        if base is None and spec is None:
            draft.note_unnamed_store(store.name, logged=options.logged)
    return stores[:2] if windows.eager else stores  # an eager join keeps nothing for later, but Kafka asks for its name


def _supplied(spec: StoreSpec, wanted: StoreSpec) -> StoreSpec:
    """A user's own store of a join's side, if it fits the windows."""
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


def _join_table(draft: GraphBuilder, left: StreamFlow, table: TableFlow, join: Joining, options: Joined) -> StreamFlow:
    this = _in_place(draft, left, options.name, options, options.value_serde)
    sources = draft.co_partition((*this.sources, *table.sources))
    name = draft.name_or_new(options.name, "KSTREAM-LEFTJOIN-" if join.is_left else "KSTREAM-JOIN-")
    view = look_up(draft, table.node)
    key_serde = options.key_serde or this.key_serde
    grace_ms: int | None = None
    buffers: tuple[str, ...] = ()
    if options.grace is not None:
        grace_ms = duration_ms(options.grace, "grace")
        check_history(draft, table.node, grace_ms)
        extra = {"type": "join_buffer", "grace_ms": grace_ms}
        value_serde = options.value_serde or this.value_serde
        spec = StoreSpec(f"{name}-Buffer", "internal", key_serde, value_serde, extra=extra)
        buffers = (draft.add(StateStore(name=spec.name, store=spec)).name,)
        if options.name is None:
            draft.note_unnamed_store(spec.name)
    buffer = buffers[0] if buffers else None
    operator = StreamTableJoin(view, join.joiner, join.with_key, join.is_left, grace_ms, buffer)
    fields = {"stores": (*buffers, *view.stores), "uses": (table.node,), "keeps_null_keys": join.is_left}
    node = draft.step(name, operator, this.node, **fields)
    return StreamFlow(node.id, name, key_serde, None, sources)


def _join_global(
    draft: GraphBuilder, left: StreamFlow, table: GlobalFlow, join: Joining, key_selector: Any, options: GlobalJoined
) -> StreamFlow:
    name = draft.name_or_new(options.name, "KSTREAM-LEFTJOIN-")
    view = StoreView(table.store)
    operator = StreamTableJoin(view, join.joiner, join.with_key, join.is_left, key_selector=key_selector)
    node = draft.step(name, operator, left.node, uses=(table.node,))
    return StreamFlow(node.id, name, left.key_serde, None, left.sources, left.rekeyed)


_OTHERS: dict[str, tuple[Callable[..., StreamFlow], type, tuple[str, ...]]] = {
    "stream": (_join_streams, StreamJoined, ("joiner", "windows", "joined")),
    "table": (_join_table, Joined, ("joiner", "joined")),
    "global_table": (_join_global, GlobalJoined, ("key_selector", "joiner")),
}
"""What a stream can be joined with: how, with which options, and with which arguments by position."""
