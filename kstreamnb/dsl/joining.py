"""Joins of a stream: with another stream in a window, with a table, with a global table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from kstreamnb.core.stores import StoreSpec
from kstreamnb.core.time import Duration, duration_ms
from kstreamnb.core.windows import JoinWindows
from kstreamnb.dsl.declarations import Handle
from kstreamnb.dsl.flows import GlobalFlow, StreamFlow, TableFlow
from kstreamnb.dsl.options import Joined, K, StoreType, StreamJoined, V, given, spelled_out
from kstreamnb.errors import ConfigError, TopologyError
from kstreamnb.graph.draft import Draft, check_history, check_resource_name, look_up
from kstreamnb.graph.nodes import JoinWindow, StateStore, StreamJoin
from kstreamnb.processors.stateless import PassThrough
from kstreamnb.processors.stream_joins import JoinWindow as KeepWindow
from kstreamnb.processors.stream_joins import StreamSelfJoin, StreamStreamJoin, StreamTableJoin
from kstreamnb.processors.table_joins import How
from kstreamnb.processors.tables import StoreView

if TYPE_CHECKING:  # the front class lists these functions
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


@spelled_out
def join(self: KStream[K, V], other: Handle, *how: Any, **options: Unpack[JoinOptions]) -> KStream[K, Any]:
    """Join each record with the matching ones of another stream, or with the row of a table.

    - ``join(stream, joiner, windows)``: with the other stream's records of the same key within the windows;
    - ``join(table, joiner)``: with the table's row of the record's key;
    - ``join(global_table, key_selector, joiner)``: with the row of the key ``key_selector(key, value)``.

    ``joiner(left, right)`` gives the result's value, ``joiner(key, left, right)`` when ``with_key``. Options may
    follow as an object (`StreamJoined`, `Joined`) or as keywords.

    Shape: KStream[K, V], other -> KStream[K, V2]; n x m -> matches; key kept; store: two windows, or the table's;
        repartition: after a change of keys, except with a global table.
    Units: windows and ``grace``: stream time.
    Late: in a stream-stream join a record may find partners as long as they are kept (windows and grace). A null key
        or value is dropped.

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
def left_join(self: KStream[K, V], other: Handle, *how: Any, **options: Unpack[JoinOptions]) -> KStream[K, Any]:
    """Join as `join` does, and give each record of this stream that finds no partner with None instead.

    Shape: KStream[K, V], other -> KStream[K, V2]; n x m -> matches and misses; key kept; store: as `join`, and one of
        pending records; repartition: as `join`.
    Units: windows and ``grace``: stream time.
    Late: a miss of a stream-stream join comes out once its window has closed: when stream time passes its end and the
        grace. A null value is dropped; a null key has no partner.

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
def outer_join(self: KStream[K, V], other: Handle, *how: Any, **options: Unpack[JoinOptions]) -> KStream[K, Any]:
    """Join two streams as `join` does, and give each record of either that finds no partner with None instead.

    Shape: KStream[K, V], KStream[K, V2] -> KStream[K, V3]; n x m -> matches and misses; key kept; store: two windows
        and one of pending records; repartition: as `join`.
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


_POSITIONS = {
    "stream": ("joiner", "windows", "joined"),
    "table": ("joiner", "joined"),
    "global_table": ("key_selector", "joiner"),
}


def _declare(self: KStream[K, V], other: Handle, verb: str, how: How, positional: Any, options: Any) -> KStream[K, Any]:
    """Declare the join that fits the other side, with arguments by position or by name."""
    positions = _POSITIONS.get(getattr(other, "kind", ""))
    if positions is None:
        raise TopologyError(f"a stream cannot be joined with a {type(other).__name__}")
    positions = tuple(position for position in positions if position not in options)
    if len(positional) > len(positions):
        raise TopologyError(f'"{verb}" takes at most {len(positions)} arguments after the other side')
    said = {**options, **dict(zip(positions, positional, strict=False))}
    joiner, joined = said.pop("joiner", None), said.pop("joined", None)
    arguments: dict[str, Any] = {"how": how, "joiner": joiner, "with_key": said.pop("with_key", False)}
    wanted = {"joiner": joiner}
    if other.kind == "stream":
        arguments["windows"] = wanted["windows"] = said.pop("windows", None)
        arguments["options"] = given(StreamJoined, joined, **said)
        emit: Callable[..., Any] = _join_streams
    elif other.kind == "table":
        arguments["options"] = given(Joined, joined, **said)
        emit = _join_table
    else:
        arguments["key_selector"] = wanted["key_selector"] = said.pop("key_selector", None)
        arguments["name"] = said.pop("name", None)
        if said:
            raise ConfigError(f'a join with a global table has no option "{min(said)}"')
        emit = _join_global
    for name, value in wanted.items():
        if value is None:
            raise TopologyError(f'"{verb}" with a {type(other).__name__} needs a {name}')
    return self.declare("stream", verb, emit, other, **arguments)


# --- in the graph -----------------------------------------------------------------------------------------------------
def _repartitioned(draft: Draft, stream: StreamFlow, prefix: str, options: Any, value_serde: Any) -> StreamFlow:
    """The stream behind an internal topic; joins of a stream under its own name share one."""
    key_serde, value_serde = options.key_serde or stream.key_serde, value_serde or stream.value_serde
    made = draft.repartition(prefix, key_serde=key_serde, value_serde=value_serde)
    if stream.repartitioned is None or stream.name != prefix:
        stream.repartitioned = draft.add(made, stream.node)
        if options.name is None:
            draft.unnamed_repartitions.append(made.topic)
    node = stream.repartitioned
    return StreamFlow(node.id, node.name, key_serde, value_serde, (node.name,))


def _join_streams(
    draft: Draft,
    left: StreamFlow,
    right: StreamFlow,
    how: How,
    joiner: Any,
    with_key: bool,
    windows: JoinWindows,
    options: StreamJoined,
) -> StreamFlow:
    name = options.name
    this, other = left, right
    if left.rekeyed:
        this = _repartitioned(draft, left, f"{name}-left" if name else left.name, options, options.value_serde)
    if right.rekeyed:
        serde = options.other_value_serde
        other = _repartitioned(draft, right, f"{name}-right" if name else right.name, options, serde)
    sources = tuple(dict.fromkeys((*this.sources, *other.sources)))
    draft.co_partition(sources)
    names = _names(draft, name, how)
    stores = _stores(draft, this, other, how, windows, options, names)
    sides = [
        draft.add(JoinWindow(name=names[word], operator=KeepWindow(store.name), store=store), flow.node).id
        for word, store, flow in zip(("this-windowed", "other-windowed"), stores, (this, other), strict=False)
    ]
    spans = (windows.before_ms, windows.after_ms, windows.grace_ms, joiner, with_key)
    shared = (stores[2].name if stores[2:] else None, names["merge"])
    node = StreamJoin(
        name=names["merge"],
        operator=PassThrough(),
        this=(names["this"], StreamStreamJoin(True, stores[1].name, *spans, how != "inner", *shared)),  # noqa: FBT003
        other=(names["other"], StreamStreamJoin(False, stores[0].name, *spans, how == "outer", *shared)),  # noqa: FBT003
        alone=StreamSelfJoin(stores[0].name, *spans),
        uses=tuple(sides),
        own=tuple(stores[2:]),
        keeps_null_keys=how != "inner",
    )
    node = draft.add(node, this.node, other.node)
    return StreamFlow(node.id, node.name, options.key_serde, None, sources)


def _names(draft: Draft, name: str | None, how: How) -> dict[str, str]:
    """Names of a stream-stream join's nodes; ``base-…`` are what its stores are called after."""
    this_suffix = "-outer-this-join" if how == "outer" else "-this-join"
    other_suffix = "-other-join" if how == "inner" else "-outer-other-join"
    names = {
        "this-windowed": draft.name_or_new(name, "KSTREAM-WINDOWED-", "-this-windowed"),
        "other-windowed": draft.name_or_new(name, "KSTREAM-WINDOWED-", "-other-windowed"),
        "base-this": draft.new_name("KSTREAM-OUTERTHIS-" if how == "outer" else "KSTREAM-JOINTHIS-"),
        "base-other": draft.new_name("KSTREAM-JOINOTHER-" if how == "inner" else "KSTREAM-OUTEROTHER-"),
        "suffix-this": this_suffix,
        "suffix-other": other_suffix,
    }
    names["this"] = check_resource_name(name + this_suffix) if name else names["base-this"]
    names["other"] = check_resource_name(name + other_suffix) if name else names["base-other"]
    names["merge"] = draft.name_or_new(name, "KSTREAM-MERGE-", "-merge")
    return names


def _stores(
    draft: Draft,
    this: StreamFlow,
    other: StreamFlow,
    how: How,
    windows: JoinWindows,
    options: StreamJoined,
    names: dict[str, str],
) -> list[StoreSpec]:
    """The stores of both sides, and that of pending records where some wait for partners."""
    base, given_ = options.store_name, (options.this_store, options.other_store)
    value_serdes = (options.value_serde or this.value_serde, options.other_value_serde or other.value_serde)
    common: dict[str, Any] = {
        "key_serde": options.key_serde or this.key_serde or other.key_serde,
        "persistent": draft.persistent if options.store_type is None else options.store_type == "persistent",
        "logged": options.logged,
        "log_config": tuple(sorted(options.log_config.items())),
    }
    window = StoreSpec(
        "",
        "window",
        retention_ms=windows.size_ms + windows.grace_ms,
        window_size_ms=windows.size_ms,
        retain_duplicates=True,
        **{**common, "log_config": (*common["log_config"], ("cleanup.policy", "delete"))},
    )
    stores = []
    for word, value_serde, spec in zip(("this", "other"), value_serdes, given_, strict=True):
        name = (base + names[f"suffix-{word}"] if base else names[f"base-{word}"]) + "-store"
        store = replace(window, name=name, value_serde=value_serde)
        stores.append(store if spec is None else _supplied(spec, store))
    if given_[0] and given_[1] and given_[0].name == given_[1].name:
        java = "Both StoreSuppliers have the same name.  StoreSuppliers must provide unique names"
        raise TopologyError(f'both stores of a join are called "{given_[0].name}"', java=java)
    if how != "inner" and not windows.eager:
        suffix = "-outer-shared-join" if how == "outer" else "-left-shared-join"
        user_base = given_[0].name if given_[0] else base
        number = names["base-this"].rpartition("-")[2]
        name = (user_base + suffix if user_base else f"KSTREAM-OUTERSHARED-{number}") + "-store"
        extra = {"type": "pending_joins", "left_serde": value_serdes[0], "right_serde": value_serdes[1]}
        stores.append(StoreSpec(name, "internal", extra=extra, **common))
    for store, spec in zip(stores, (*given_, given_[0]), strict=False):
        if base is None and spec is None:
            draft.note_unnamed_store(store.name, logged=options.logged)
    return stores


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


def _join_table(
    draft: Draft, left: StreamFlow, table: TableFlow, how: How, joiner: Any, with_key: bool, options: Joined
) -> StreamFlow:
    this = left
    if left.rekeyed:
        this = _repartitioned(draft, left, options.name or left.name, options, options.value_serde)
    sources = tuple(dict.fromkeys((*this.sources, *table.sources)))
    draft.co_partition(sources)
    name = draft.name_or_new(options.name, "KSTREAM-JOIN-" if how == "inner" else "KSTREAM-LEFTJOIN-")
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
    left_join = how != "inner"
    operator = StreamTableJoin(view, joiner, with_key, left_join, grace_ms, buffers[0] if buffers else None)
    fields = {"stores": (*buffers, *view.stores), "uses": (table.node,), "keeps_null_keys": left_join}
    node = draft.step(name, operator, this.node, **fields)
    return StreamFlow(node.id, name, key_serde, None, sources)


def _join_global(
    draft: Draft,
    left: StreamFlow,
    table: GlobalFlow,
    how: How,
    joiner: Any,
    with_key: bool,
    key_selector: Any,
    name: str | None,
) -> StreamFlow:
    name = draft.name_or_new(name, "KSTREAM-LEFTJOIN-")
    operator = StreamTableJoin(StoreView(table.store), joiner, with_key, how != "inner", key_selector=key_selector)
    node = draft.step(name, operator, left.node, uses=(table.node,))
    return StreamFlow(node.id, name, left.key_serde, None, left.sources, left.rekeyed)
