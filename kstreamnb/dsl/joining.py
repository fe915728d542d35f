"""Joins of a stream: with another stream in a window, with a table, with a global table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

from kstreamnb.core.durations import Duration, duration_ms
from kstreamnb.core.stores import StoreSpec
from kstreamnb.core.windows import JoinWindows
from kstreamnb.dsl.declarations import Handle
from kstreamnb.dsl.flows import GlobalFlow, StreamFlow, TableFlow
from kstreamnb.dsl.options import Joined, StoreType, StreamJoined, given
from kstreamnb.errors import ConfigError, TopologyError
from kstreamnb.graph.draft import Draft, check_resource_name
from kstreamnb.graph.join_nodes import How, JoinWindow, StreamGlobalJoin, StreamJoin, StreamTableJoin
from kstreamnb.graph.nodes import StateStore
from kstreamnb.graph.table_nodes import TableNode

if TYPE_CHECKING:  # the front class lists these functions
    from kstreamnb.dsl.kstream import KStream

__all__ = ["join", "left_join", "outer_join"]

K = TypeVar("K")
V = TypeVar("V")


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
    Source: Kafka Streams `KStream#join`; differences: none.
    """
    return _declare(self, other, "join", "inner", how, options)


def left_join(self: KStream[K, V], other: Handle, *how: Any, **options: Unpack[JoinOptions]) -> KStream[K, Any]:
    """Join as `join` does, and give each record of this stream that finds no partner with None instead.

    Shape: KStream[K, V], other -> KStream[K, V2]; n x m -> matches and misses; key kept; store: as `join`, and one of
        pending records; repartition: as `join`.
    Units: windows and ``grace``: stream time.
    Late: a miss of a stream-stream join comes out once its window has closed: when stream time passes its end and the
        grace. A null value is dropped; a null key has no partner.
    Source: Kafka Streams `KStream#leftJoin`; differences: none.
    """
    return _declare(self, other, "left_join", "left", how, options)


def outer_join(self: KStream[K, V], other: Handle, *how: Any, **options: Unpack[JoinOptions]) -> KStream[K, Any]:
    """Join two streams as `join` does, and give each record of either that finds no partner with None instead.

    Shape: KStream[K, V], KStream[K, V2] -> KStream[K, V3]; n x m -> matches and misses; key kept; store: two windows
        and one of pending records; repartition: as `join`.
    Units: windows: stream time.
    Late: as `left_join`, on both sides.
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
    return StreamFlow(node.id, made.name, key_serde, value_serde, (made.name,))


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
    specs = _window_stores(draft, this, other, how, windows, options, names)
    sides = [
        draft.add(JoinWindow(name=names[side], store=spec), flow.node)
        for side, spec, flow in (("this-windowed", specs[0], this), ("other-windowed", specs[1], other))
    ]
    node = StreamJoin(
        name=names["merge"],
        how=how,
        joiner=joiner,
        with_key=with_key,
        windows=windows,
        this_name=names["this"],
        other_name=names["other"],
        windows_of=(sides[0].id, sides[1].id),
        pending=specs[2],
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


def _window_stores(
    draft: Draft,
    this: StreamFlow,
    other: StreamFlow,
    how: How,
    windows: JoinWindows,
    options: StreamJoined,
    names: dict[str, str],
) -> tuple[StoreSpec, StoreSpec, StoreSpec | None]:
    """The stores of both sides, and that of pending records where some wait for partners."""
    key_serde = options.key_serde or this.key_serde or other.key_serde
    left_serde = options.value_serde or this.value_serde
    right_serde = options.other_value_serde or other.value_serde
    persistent = draft.persistent if options.store_type is None else options.store_type == "persistent"
    common: dict[str, Any] = {"persistent": persistent, "logged": options.logged}
    log_config = tuple(sorted(options.log_config.items()))

    def side(word: str, value_serde: Any, spec: StoreSpec | None) -> StoreSpec:
        base = options.store_name + names[f"suffix-{word}"] if options.store_name else names[f"base-{word}"]
        store = StoreSpec(
            f"{base}-store",
            "window",
            key_serde,
            value_serde,
            retention_ms=windows.size_ms + windows.grace_ms,
            window_size_ms=windows.size_ms,
            retain_duplicates=True,
            log_config=(*log_config, ("cleanup.policy", "delete")),
            **common,
        )
        if spec is not None:
            return _supplied(spec, store)
        if options.store_name is None:
            draft.note_unnamed_store(store.name, logged=options.logged)
        return store

    left = side("this", left_serde, options.this_store)
    right = side("other", right_serde, options.other_store)
    if options.this_store and options.other_store and options.this_store.name == options.other_store.name:
        java = "Both StoreSuppliers have the same name.  StoreSuppliers must provide unique names"
        raise TopologyError(f'both stores of a join are called "{left.name}"', java=java)
    if how == "inner" or windows.eager:
        return left, right, None
    suffix = "-outer-shared-join" if how == "outer" else "-left-shared-join"
    user_base = options.this_store.name if options.this_store else options.store_name
    number = names["base-this"].rpartition("-")[2]
    name = (user_base + suffix if user_base else f"KSTREAM-OUTERSHARED-{number}") + "-store"
    if user_base is None:
        draft.note_unnamed_store(name, logged=options.logged)
    extra = {"type": "pending_joins", "left_serde": left_serde, "right_serde": right_serde}
    return left, right, StoreSpec(name, "internal", key_serde, log_config=log_config, extra=extra, **common)


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
    return StoreSpec(
        **{
            **{name: getattr(wanted, name) for name in wanted.__dataclass_fields__},
            "name": spec.name,
            "persistent": spec.persistent,
            "factory": spec.factory,
        }
    )


def _join_table(
    draft: Draft, left: StreamFlow, table: TableFlow, how: How, joiner: Any, with_key: bool, options: Joined
) -> StreamFlow:
    this = left
    if left.rekeyed:
        this = _repartitioned(draft, left, options.name or left.name, options, options.value_serde)
    sources = tuple(dict.fromkeys((*this.sources, *table.sources)))
    draft.co_partition(sources)
    name = draft.name_or_new(options.name, "KSTREAM-JOIN-" if how == "inner" else "KSTREAM-LEFTJOIN-")
    grace_ms = buffer = None
    if options.grace is not None:
        grace_ms, buffer = duration_ms(options.grace, "grace"), f"{name}-Buffer"
        above = draft.nodes[table.node]
        if isinstance(above, TableNode) and above.versioned is False:
            raise _unversioned(above.name)
        value_serde = options.value_serde or this.value_serde
        key_serde = options.key_serde or this.key_serde
        extra = {"type": "join_buffer", "grace_ms": grace_ms}
        spec = StoreSpec(buffer, "internal", key_serde, value_serde, extra=extra)
        if options.name is None:
            draft.note_unnamed_store(buffer)
        draft.add(StateStore(name=buffer, store=spec))
    draft.materialize(table.node)
    node = StreamTableJoin(
        name=name, how=how, table=table.node, joiner=joiner, with_key=with_key, grace_ms=grace_ms, buffer=buffer
    )
    node = draft.add(node, this.node)
    return StreamFlow(node.id, name, options.key_serde or this.key_serde, None, sources)


def _unversioned(table: str) -> TopologyError:
    return TopologyError(
        f'table "{table}" keeps no versions, so records cannot wait for it',
        hint='give the table a versioned store, such as store="x", versioned="1h"',
        java="KTable must be versioned to use a grace period in a stream table join.",
    )


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
    node = StreamGlobalJoin(
        name=name, how=how, store=table.store, key_selector=key_selector, joiner=joiner, with_key=with_key
    )
    node = draft.add(node, left.node)
    return StreamFlow(node.id, name, left.key_serde, None, left.sources, left.rekeyed)
