"""Aggregates of a grouped stream: by key over all time, in windows aligned to the epoch, in sessions.

Without cache, versions or old values, aggregates are lines of a fused chain. A count may also replace a row of its
store directly, if the store allows that. The chain replaces words in braces, such as ``{put}``, by names of objects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, TypeAlias

from kstreamnb.core.block import Block
from kstreamnb.core.codec import encoder
from kstreamnb.core.operator import BindContext, BlockOperator, Forward
from kstreamnb.core.record import Change, Headers, Windowed
from kstreamnb.core.serde import Serde
from kstreamnb.core.time import MAX_TIME_MS
from kstreamnb.core.traits import RowUse
from kstreamnb.core.windows import TimeWindows
from kstreamnb.operators.folding import Adder, FoldRecord, Initializer, Late, WindowedFold, count_up, folding, zero
from kstreamnb.operators.store_protocols import RowStore, SessionStore, WindowStore
from kstreamnb.operators.tables import KeepsRows, bind_get, bind_update, is_simple


class Fold(NamedTuple):
    """The function that folds, and whether old values are sent.

    ``wire`` is the serde with which the result is written before the store gets it; None if the store writes it.
    """

    initializer: Initializer | None
    aggregator: Adder
    send_old: bool
    wire: Serde | None = None

    @property
    def counts(self) -> bool:
        """Whether it counts."""
        return (self.initializer, self.aggregator) == (zero, count_up)


def _written(context: BindContext, store: RowStore, fold: Fold) -> Fold:
    """Return a fold that writes its result before the put, so that a sink below need not write it again."""
    serde = context.value_serde(store.spec.value_serde)
    leaves = fold.counts or len(serde.plain) == 1 or context.keeps_copies or not is_simple(store)
    return fold if leaves else fold._replace(wire=serde)


def fold_by_window(context: BindContext, store: WindowStore, fold: Fold, *, size: int, grace: int, late: Late) -> Block:
    """Return lines that fold a record into the row of its key and tumbling window.

    The window, row and windowed key of a key's last record are cached: the next record is mostly in the same window.
    Keys that are equal but name different rows are never cached.
    """
    windows: dict[object, _WindowOfKey] = {}
    keeps = store.keys.direct
    located = "start, end, at, key = {locate}(inner, timestamp)"
    known = f"start, end, at, key = {{places}}(inner, {{nowhere}})\nif not start <= timestamp < end: {located}"
    lines = f"""\
if key is None:
 {{drop}}("null key", key, value, timestamp)
 {{skip}}
inner = key
{known if keeps else located}
if timestamp > {{seen}}[0]:
 {{seen}}[0] = timestamp
elif end <= {{seen}}[0] - {grace}:
 {{late}}(inner, value, timestamp, start, end, {{seen}}[0] - {grace})
 {{skip}}"""
    names: dict[str, object] = {"drop": context.drop, "get": store.row_at, "put": store.put, "places": windows.get}
    seen, locate = context.state_var("stream_time_ms", -1), _locating(windows, size, keeps=keeps)
    names |= {"nowhere": (0, 0, None, None), "locate": locate, "seen": seen, "late": late}
    block = _block(f"{lines}\n{_fold(fold, store, 'inner', 'start')}", names, store, fold)
    return replace(block, writes={"key", *block.writes}, window_size_ms=size)


_WindowOfKey: TypeAlias = tuple[int, int, tuple[Any, int], Windowed[object]]
"""Start and end of a window, and a key in it: as the store has it, and as the table has it."""


def _locating(windows: dict[object, _WindowOfKey], size: int, *, keeps: bool) -> Callable[[object, int], _WindowOfKey]:
    """Return ``locate(key, timestamp)``, which with ``keeps`` caches some results until a later window begins."""
    newest, make = -1, tuple.__new__

    def locate(key: object, timestamp: int) -> _WindowOfKey:
        nonlocal newest
        start = timestamp - timestamp % size
        if start > newest or len(windows) == 50_000:  # state may be larger than memory
            newest = max(start, newest)
            windows.clear()
        window = start, start + size, (key, start), make(Windowed, (key, start, start + size))
        if keeps:
            windows[key] = window
        return window

    return locate


def _fold(fold: Fold, store: RowStore, key: str, *position: str) -> str:
    """Return lines that compute the new aggregate and its time, for a row by the names of a key and perhaps its window
    start.
    """
    at = "at" if position else key
    get = f"row = {{get}}({', '.join((key, *position))})"
    put = f"{{put}}({', '.join((key, 'None if value is None else (value, timestamp)', *position))})"
    if not is_simple(store):
        put = "{update}(key, value, old, timestamp, headers)"
    if fold.wire is not None:
        put = "wire = value if type(value) in {plain} else {encode}(value)\n" + put.replace("(value,", "(wire,")
    latest = "row is not None and row[1] > timestamp: timestamp = row[1]"
    reduces = fold.initializer is None
    if not (fold.counts and store.values.small and store.in_place()):  # type: ignore[attr-defined] # every store has a codec
        return f"""\
{get}
old = {"None" if reduces else "{init}()"} if row is None else row[0]
{"if row is not None: value = {add}(old, value)" if reduces else f"value = {{add}}({key}, value, old)"}
if {latest}
{put}"""
    new = f"{get}\n old = 0 if row is None else row[0]\n value = old + 1\n if {latest}"
    return f"""\
row = {{find}}({at})
if row is None:
 {"old, value = 0, 1" if position else new}
 {put}
else:
 old, last = row
 value = old + 1
 if last > timestamp: timestamp = last
 {{rows}}[{at}] = fresh = value, timestamp
 if {{watched}}[0]: {{watched}}[0]({at}, row, fresh)"""


def _block(lines: str, objects: Mapping[str, object], store: RowStore, fold: Fold) -> Block:
    """Return these lines as a block, with the objects that they use."""
    rows, watched = store.in_place() or ({}, [None])
    objects = {"find": rows.get, "rows": rows, "watched": watched, "init": fold.initializer, **objects}
    objects = {"add": fold.aggregator, **objects}
    if fold.wire is not None:
        objects = {"plain": fold.wire.plain, "encode": encoder(fold.wire), **objects}
    used = {word: thing for word, thing in objects.items() if f"{{{word}}}" in lines}
    block = Block(lines, {"value", "timestamp"}, used, counts=fold.counts, only_reads=fold.counts, wire=fold.wire)
    return replace(block, old="old" if fold.send_old else "None") if is_simple(store) else replace(block, ends=True)


@dataclass(frozen=True)
class StreamAggregate(KeepsRows, BlockOperator):
    """Adds each record to its key's aggregate by ``aggregator(key, value, aggregate)`` and forwards the change.

    ``initializer()`` starts an aggregate, and is the old value of its first change. Without one ``aggregator`` is a
    reducer ``(aggregate, value)``, and the first value becomes the aggregate. None deletes the row.

    Shape: grouped stream[K, V] -> table[K, A]; 1 -> 0..1; key and headers kept; time: the later of record and row;
    store: key-value.
    Late: nothing is late; a null key or value is dropped: "null key", "null value".
    Source: Kafka Streams `KGroupedStream#aggregate`, `#reduce`, `#count`, `CogroupedKStream#aggregate`.
    """

    store: str
    initializer: Initializer | None
    aggregator: Adder
    send_old: bool = False
    row_use: ClassVar[RowUse] = "fold"

    def bind_block(self, context: BindContext, get_forward: Callable[[], Forward]) -> Block:
        """Return lines that put the row and leave the parts of its change, or that leave both to a store's update."""
        store = context.store(self.store)
        fold = _written(context, store, Fold(self.initializer, self.aggregator, self.send_old))
        lines = """\
if key is None or value is None:
 {drop}("null key" if key is None else "null value", key, value, timestamp)
 {skip}"""
        names = {"drop": context.drop, "get": bind_get(store), "put": store.put}
        if not is_simple(store):
            names["update"] = bind_update(context, self.store, get_forward(), send_old=self.send_old)
        return _block(f"{lines}\n{_fold(fold, store, 'key')}", names, store, fold)


@dataclass(frozen=True)
class WindowAggregate(WindowedFold):
    """Adds each record to the aggregate of its key in every window that contains it, earliest first.

    ``aggregator`` is called with ``(key, value, aggregate)``, null values included; a None result deletes the row.
    Without an ``initializer`` it is a reducer ``(aggregate, value)`` and the first value is the aggregate. With
    ``emit_on_close`` only the final results are forwarded, after the record that closed them.

    Shape: windowed stream[K, V] -> table[Windowed[K], A]; 1 -> 0..n; key windowed; headers kept; time: the later of
    record and row; store: window.
    Units: windows are ``[start, start + size)`` in ms of stream time, which is the highest timestamp seen here.
    Late: a window that ended at or before stream time - grace accepts no more records: "late". A null key is dropped.
    Source: Kafka Streams `TimeWindowedKStream#aggregate`, `#count`, KIP-328, KIP-825.
    """

    def bind_fold(self, store: WindowStore, forward: Forward | None, late: Late) -> FoldRecord:
        """Return the function that adds a record to each of its windows."""
        fetch, put, send_old = store.row_at, store.put, self.send_old
        windows_for, size = self.windows.windows_for, self.windows.size_ms
        initializer, aggregator = folding(self.initializer, self.aggregator)

        def fold(key: object, value: object, timestamp: int, headers: Headers, close_ms: int) -> bool:
            for start in windows_for(timestamp):
                end = min(start + size, MAX_TIME_MS)
                if end <= close_ms:
                    late(key, value, timestamp, start, end, close_ms)
                    continue
                row = fetch(key, start)
                old, time = (initializer(), timestamp) if row is None else row
                new = aggregator(key, value, old)
                time = time if time > timestamp else timestamp
                put(key, None if new is None else (new, time), start)
                if forward is not None:
                    forward(Windowed(key, start, end), Change(new, old if send_old else None), time, headers)
            return True

        return fold

    def fuse(self, context: BindContext) -> Block:
        """Return the same without a call for each record: for tumbling windows on a simple store that outlasts them."""
        store, windows = context.store(self.store), self.windows
        tumbling = isinstance(windows, TimeWindows) and windows.advance_ms == windows.size_ms
        size, grace = windows.size_ms, windows.grace_ms
        if self.emit_on_close or not (is_simple(store) and tumbling and (store.spec.retention_ms or 0) >= size + grace):
            return super().fuse(context)
        late, fold = self.dropping_late(context), Fold(self.initializer, self.aggregator, self.send_old)
        return fold_by_window(context, store, _written(context, store, fold), size=size, grace=grace, late=late)


@dataclass(frozen=True)
class SessionAggregate(WindowedFold):
    """Adds each record to its session, and merges all sessions that it connects.

    The sessions that are merged are deleted first, oldest first. ``merger(key, left, right)`` joins their aggregates
    with a new one from ``initializer()``; then ``aggregator(key, value, aggregate)`` adds the record, null values
    included. Without an ``initializer`` a reducer ``(aggregate, value)`` does both. With ``emit_on_close`` only the
    final results are forwarded.

    Shape: session-windowed stream[K, V] -> table[Windowed[K], A]; 1 -> 0..n; key windowed; headers none; time: the
    session's end; store: session.
    Units: a session ``[start, end]`` holds records at most ``gap`` ms apart, both ends being timestamps of records.
    Late: a record whose session, merged, ended before stream time - grace - gap is dropped: "late". So is a null key.
    Source: Kafka Streams `SessionWindowedKStream#aggregate`, `#count`, `#reduce`, KIP-825.
    """

    merger: Adder | None = field(default=None, metadata={"takes_aggregates": True})

    def bind_fold(self, store: SessionStore, forward: Forward | None, late: Late) -> FoldRecord:
        """Return the function that replaces the sessions connected by a record with one that includes it."""
        rows_between, put, remove, make = store.rows_between, store.put, store.remove, tuple.__new__
        initializer, aggregator = folding(self.initializer, self.aggregator)
        merger = self.merger or (lambda key, left, right: aggregator(key, right, left))  # as a reducer combines values
        gap, send_old, gone = self.windows.gap_ms, self.send_old, Change(None)

        def fold(key: object, value: object, timestamp: int, headers: Headers, close_ms: int) -> bool:
            start = end = timestamp
            aggregate, merged = initializer(), rows_between(key, timestamp - gap, timestamp + gap)
            for (_, first, last), other in merged:
                aggregate = merger(key, aggregate, other)
                start, end = first if first < start else start, last if last > end else end
            if end < close_ms:
                late(key, value, timestamp, start, end, close_ms)
                return True
            for session, old in merged if start != end else ():
                remove(session)
                if forward is not None:
                    forward(session, make(Change, (None, old, True)) if send_old else gone, session[2], ())
            session, aggregate = make(Windowed, (key, start, end)), aggregator(key, value, aggregate)
            put(session, aggregate)
            if forward is not None:
                forward(session, make(Change, (aggregate, None, True)), end, ())
            return True

        return fold
