"""Joins of a stream: with another stream in a window, with a table, with a global table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, Unpack, overload

from kstreamnb.core.arguments import expect
from kstreamnb.core.signatures import RECORD, taking
from kstreamnb.core.stores import StoreSpec
from kstreamnb.core.time import Duration
from kstreamnb.core.windows import JoinWindows
from kstreamnb.dsl.declarations import Emit, Handle
from kstreamnb.dsl.flows import JoinSpec, UserFunction
from kstreamnb.dsl.join_graph import emit_join_global, emit_join_streams, emit_join_table
from kstreamnb.dsl.keywords import GroupedKeywords, by_keyword, combined, spelled_out
from kstreamnb.dsl.option_fields import Named, NamedOptions, SerdeLike, StoreType
from kstreamnb.dsl.options import GlobalJoined, Joined, StreamJoined
from kstreamnb.dsl.type_vars import K2, V2, V3, Joiner, K, KeyedJoiner, V
from kstreamnb.errors import TopologyError
from kstreamnb.operators.table_joins import How

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
    def join(self, other: Handle, *arguments: object, **keywords: Unpack[AllJoinKeywords]) -> KStream[K, Any]:
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
                ``with_key``. Required.
            windows: how far apart in event time two records may be. Required with a stream.
            key_selector: function ``(key, value)`` that returns the key of the global table's row. Required with a
                global table.
            joined: option object of the join. Default: none.
            with_key: whether the joiner takes the key as well. Default: False.

        Raises: TopologyError for a handle that cannot be joined or is from another builder, or for a missing argument.

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
    def left_join(self, other: Handle, *arguments: object, **keywords: Unpack[AllJoinKeywords]) -> KStream[K, Any]:
        """Join as `join` does, and emit each record of this stream without a partner with None in its place.

        Shape: KStream[K, V], other -> KStream[K, V2]; n x m -> matches and misses; key kept; store: as `join`, and one
            of pending records; repartition: as `join`.
        Units: windows and ``grace``: stream time.
        Late: a miss of a stream-stream join is emitted when its window has closed: when stream time passes its end
            and the grace. A null value is dropped; a null key has no partner, and raises if a table has a grace.

        Args:
            other: the other stream, table or global table, of the same builder.
            arguments: the arguments of `join` by position; a `StreamJoined` or `Joined` may follow, as in Java.
            joiner: function ``(left, right)`` that returns the value of the result; ``(key, left, right)`` if
                ``with_key``; ``right`` may be None. Required.
            windows: how far apart in event time two records may be. Required with a stream.
            key_selector: function ``(key, value)`` that returns the key of the global table's row. Required with a
                global table.
            joined: option object of the join. Default: none.
            with_key: whether the joiner takes the key as well. Default: False.

        Raises: TopologyError for a handle that cannot be joined or is from another builder, or for a missing argument.

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
    def outer_join(self, other: Handle, *arguments: object, **keywords: Unpack[AllJoinKeywords]) -> KStream[K, Any]:
        """Join two streams as `join` does, and emit each record of either without a partner with None in its place.

        Shape: KStream[K, V], KStream[K, V2] -> KStream[K, V3]; n x m -> matches and misses; key kept; store: two
            windows and one of pending records; repartition: as `join`.
        Units: windows: stream time.
        Late: as `left_join`, on both sides.

        Args:
            other: the other stream, of the same builder.
            arguments: joiner and windows by position; a `StreamJoined` may follow, as in Java.
            joiner: function ``(left, right)`` that returns the value of the result; ``(key, left, right)`` if
                ``with_key``; one of the values may be None. Required.
            windows: how far apart in event time two records may be. Required.
            key_selector: not allowed here.
            joined: option object of the join. Default: none.
            with_key: whether the joiner takes the key as well. Default: False.

        Raises: TopologyError if the other handle is not a stream or is from another builder.

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
            raise TopologyError("outer_join of a stream needs another stream", hint="use left_join with a table")
        return _declare(self, other, "outer_join", "outer", arguments, keywords)


def _declare(
    left: Handle, right: Handle, word: str, how: How, arguments: tuple[object, ...], keywords: Mapping[str, object]
) -> KStream[K, V3]:
    """Declare the join that fits the other side, with arguments by position or by name."""
    kind = getattr(type(right), "kind", "")
    if kind not in _JOINS:
        hint = "pass a handle, such as builder.table(…)" if isinstance(right, str) else None
        raise TopologyError(f'expected a stream or table to join with, got type "{type(right).__name__}"', hint=hint)
    emit, options_kind, names = _JOINS[kind]
    options = [each for each in arguments if isinstance(each, NamedOptions | Named)]
    positional = [each for each in arguments if each not in options and each is not None]
    fields = by_keyword(options, keywords, joined=NamedOptions, name=Named)
    free = [name for name in names if name not in fields]
    if len(positional) > len(free):
        fact = f'"{word}" takes {" and ".join(names)} after the other side, got {len(positional)} arguments'
        raise TopologyError(fact, hint=_call(word, kind))
    fields |= zip(free, positional, strict=False)
    for name in names:
        if name not in fields:
            raise TopologyError(f'"{word}" with a {type(right).__name__} is missing its {name}', hint=_call(word, kind))
    with_key = bool(fields.pop("with_key", False))
    joiner = taking(fields.pop("joiner"), "left", "right", key=with_key)
    extra = {name: fields.pop(name) for name in names if name != "joiner"}
    if "key_selector" in extra:
        taking(extra["key_selector"], *RECORD)
    if "windows" in extra:
        expect(extra["windows"], JoinWindows, "windows", hint='write for example JoinWindows.of(difference="5m")')
    settings = combined(options_kind, fields.pop("joined", None), **fields)
    return left.declare("stream", word, emit, right, join=JoinSpec(how, joiner, with_key), options=settings, **extra)


def _call(word: str, kind: str) -> str:
    """Return the call that joins a stream with the other side, for hints."""
    rule = "" if kind == "stream" else "; only two streams are joined within windows"
    return f"write {word}({kind}, {', '.join(_JOINS[kind][2])}){rule}"


_JOINS: dict[str, tuple[Emit, type[NamedOptions], tuple[str, ...]]] = {
    "stream": (emit_join_streams, StreamJoined, ("joiner", "windows")),
    "table": (emit_join_table, Joined, ("joiner",)),
    "global_table": (emit_join_global, GlobalJoined, ("key_selector", "joiner")),
}
"""By the kind of the other side: what emits the join, its options, and its arguments by position."""
