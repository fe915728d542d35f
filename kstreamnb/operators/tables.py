"""Tables: how their rows are stored and looked up, and conversions between tables and streams.

Timestamped and versioned stores share one protocol, and so do cached ones: a store with a cache reports its changes
when it is flushed; then the operator itself forwards nothing. Joins, and operators that need old values, look up rows
in a view. It walks up the tables until it finds a store, and applies each table's function on the way back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from kstreamnb.core.block import Block
from kstreamnb.core.operator import BindContext, BlockOperator, Forward, GetRow, TableView
from kstreamnb.core.record import Change, Headers, Windowed
from kstreamnb.core.stores import LATEST, NOT_PUT
from kstreamnb.core.time import MAX_TIME_MS
from kstreamnb.core.traits import BufferTraits, OperatorTraits, RowUse
from kstreamnb.errors import ProcessingError
from kstreamnb.operators.store_protocols import RowStore, SuppressStore

UpdateRow: TypeAlias = Callable[[Any, Any, Any, int, Headers], None]
"""``update(key, new, old, timestamp, headers)`` puts the new value and forwards the change."""


def is_versioned(store: RowStore) -> bool:
    """Return whether the store keeps the history of its rows."""
    return store.spec.kind == "versioned"


def is_simple(store: RowStore) -> bool:
    """Return whether a change of this store is just a lookup and a put."""
    return not store.spec.cached and not is_versioned(store)


def bind_get(store: Any) -> GetRow:
    """Return a function that reads the latest row by key, or by windowed key; the time of a session is its end."""
    if store.spec.kind == "session":

        def get_session(key: Windowed[object]) -> tuple[object, int] | None:
            aggregate = store.fetch_session(*key)
            return None if aggregate is None else (aggregate, key[2])

        return get_session
    if store.spec.kind == "timestamped_window":
        return lambda key: store.row_at(key[0], key[1])
    return store.row if is_versioned(store) else store.get  # type: ignore[no-any-return]


def forwards_itself(store: RowStore, forward: Forward, *, send_old: bool) -> bool:
    """Let a cached store forward its flushed changes, sessions at their ends; True if it has no cache."""
    at_end = store.spec.kind == "session"

    def flushed(key: Any, new: object, old: object, timestamp: int, headers: Headers) -> None:
        forward(key, Change(new, old if send_old else None), key[2] if at_end else timestamp, headers)

    return not store.set_flush_listener(flushed, send_old=send_old)


def bind_update(context: BindContext, name: str | None, forward: Forward, *, send_old: bool) -> UpdateRow:
    """Return the function that puts a row and forwards the change: at once, on flush, or not at all if the store
    refuses it.

    Without a store the change is forwarded and nothing else.
    """
    make = tuple.__new__
    if name is None:

        def update(key: object, new: object, old: object, timestamp: int, headers: Headers) -> None:
            forward(key, make(Change, (new, old if send_old else None, True)), timestamp, headers)

        return update
    store = context.store(name)
    put = store.put
    if is_versioned(store):

        def update(key: object, new: object, old: object, timestamp: int, headers: Headers) -> None:
            valid_to = put(key, new, timestamp)
            if valid_to != NOT_PUT:
                forward(key, Change(new, old if send_old else None, valid_to == LATEST), timestamp, headers)

    else:
        tells = forwards_itself(store, forward, send_old=send_old)

        def update(key: object, new: object, old: object, timestamp: int, headers: Headers) -> None:
            put(key, None if new is None else (new, timestamp))
            if tells:
                forward(key, make(Change, (new, old if send_old else None, True)), timestamp, headers)

    return update


NO_ROW = (None, -1)
"""Stands for the row of a key that has none."""


@dataclass(frozen=True)
class MaterializedView:
    """The rows of a table's store: key-value, or windows or sessions by windowed key.

    Source: Kafka Streams `KTableSourceValueGetterSupplier`, `KTableMaterializedValueGetterSupplier`,
    `KStreamWindowAggregateValueGetter`, `KTableSessionWindowValueGetter`.
    """

    store: str
    versioned: bool = False

    @property
    def stores(self) -> tuple[str, ...]:
        """The one store."""
        return (self.store,)

    def bind(self, context: BindContext) -> GetRow:
        """Return a function that looks up a key's latest row or, in a versioned store, the one valid at a time."""
        return bind_get(context.store(self.store))


def own_store(view: TableView) -> str | None:
    """Return the store of a table that keeps its own rows, or None."""
    return view.store if isinstance(view, MaterializedView) else None


@dataclass(frozen=True)
class ViewOfParent:
    """A view that reads the stores of its parent, and looks up rows as of a time if the parent can."""

    parent: TableView

    @property
    def stores(self) -> tuple[str, ...]:
        """The parent's stores."""
        return self.parent.stores

    @property
    def versioned(self) -> bool:
        """As the parent."""
        return self.parent.versioned


@dataclass(frozen=True)
class SuppressView(ViewOfParent):
    """The rows that a suppression has emitted: a buffered row is shown as it was before.

    Source: Kafka Streams `KTableSuppressValueGetter`.
    """

    store: str

    @property
    def stores(self) -> tuple[str, ...]:
        """The buffer and the parent's stores."""
        return tuple(dict.fromkeys((self.store, *self.parent.stores)))

    def bind(self, context: BindContext) -> GetRow:
        """Return a function that reads the value before the buffered change (time unknown: -1), otherwise the parent's
        row; as of a time, the parent's.
        """
        prior, get_parent = context.store(self.store).prior, self.parent.bind(context)

        def get(key: object, *as_of_ms: int) -> tuple[object, int] | None:
            is_buffered, value = (False, None) if as_of_ms else prior(key)
            if not is_buffered:
                return get_parent(key, *as_of_ms)
            return None if value is None else (value, -1)

        return get


class KeepsRows:
    """An operator of a table that may keep its rows, as they are after each change."""

    store: str | None
    row_use: ClassVar[RowUse] = "replace"

    @property
    def traits(self) -> OperatorTraits:
        """Replaces its rows or folds into them, if it keeps any."""
        return OperatorTraits(self.row_use, self.store, sends_old=True)


@dataclass(frozen=True)
class TableSource(KeepsRows, BlockOperator):
    """Takes each record as the new value of its key's row; a null value deletes the row.

    Without a store the old value is unknown and never forwarded. A record older than its row still replaces
    it; a versioned store puts it into the row's history instead and may refuse it.

    Shape: stream[K, V] -> table[K, V]; 1 -> 0..1; key, time and headers kept; store: key-value, or none.
    Late: only a versioned store refuses, by its history retention. A null key is dropped: "null key".
    Source: Kafka Streams `StreamsBuilder#table`, `StreamsBuilder#globalTable`, `KStream#toTable`.
    """

    store: str | None = None
    send_old: bool = False

    def bind_block(self, context: BindContext, get_forward: Callable[[], Forward]) -> Block:
        """Return lines that put the row and leave the parts of its change, or that leave both to a store's update."""
        store: Any = None if self.store is None else context.store(self.store)
        lines, old = 'if key is None:\n {drop}("null key", key, value, timestamp)\n {skip}\n', "None"
        objects: dict[str, object] = {"drop": context.drop}
        if store is not None and self.send_old:
            lines, old = lines + "row = {get}(key)\nold = None if row is None else row[0]\n", "old"
            objects["get"] = bind_get(store)
        if store is not None and not is_simple(store):
            objects["update"] = bind_update(context, self.store, get_forward(), send_old=self.send_old)
            return Block(lines + f"{{update}}(key, value, {old}, timestamp, headers)", objects=objects, ends=True)
        if store is not None:
            lines += "{put}(key, None if value is None else ({copied}, timestamp))\n"
            objects["put"] = store.put
        return Block(lines, objects=objects, old=old, only_reads=True)


_NO_LIMIT = 2**63 - 1


@dataclass(frozen=True)
class Suppress(BlockOperator):
    """Keeps one change for each key in a buffer and forwards it when its time has come.

    The time of a buffered change is that of the first one buffered for its key, or with ``window_end`` the end of its
    window. It is emitted once stream time has reached that time + ``wait_ms``, ordered by time and key bytes, with its
    own timestamp and headers. If the buffer exceeds ``max_records`` or ``max_bytes`` the first ones are emitted early
    (``emit_early``), or the task fails.

    Shape: table[K, V] -> table[K, V]; 1 -> 0..n; key, time and headers of the last buffered change; store: buffer.
    Units: ``wait_ms`` is stream time, which is the highest timestamp seen here; ``max_bytes`` is an estimate.
    Late: nothing is dropped; with ``drop_tombstones`` deletions end here.
    Source: Kafka Streams `KTable#suppress`, `Suppressed`, KIP-328.
    """

    store: str
    wait_ms: int
    window_end: bool = False
    drop_tombstones: bool = False
    max_records: int | None = None
    max_bytes: int | None = None
    emit_early: bool = True

    @property
    def traits(self) -> OperatorTraits:
        """Holds changes back."""
        bounded = self.max_records is not None or self.max_bytes is not None
        buffer = BufferTraits("change", self.store, self.wait_ms, window_end=self.window_end, bounded=bounded)
        return OperatorTraits("match", buffer=buffer)

    def bind_block(self, context: BindContext, get_forward: Callable[[], Forward]) -> Block:
        """Return lines that buffer a change, directly in place of the one before it unless the buffer has a limit."""
        store, wait, at = context.store(self.store), self.wait_ms, "key[2]" if self.window_end else "timestamp"
        least, most, due = -store.values.small, store.values.small, "{seen}[0]" + f" - {wait}" * bool(wait)
        known = "{counted} or " * bool(most)  # of a count, every serde that keeps small numbers keeps all
        bounded = self.max_records is not None or self.max_bytes is not None
        emit = self._bind_emit(context, store, get_forward())
        lines = f"""\
if timestamp > {{seen}}[0]: {{seen}}[0] = timestamp
if not ({known}type(new) is type(old) is int and {least} < old < {most} and {least} < new < {most}):
 new, old = {{encode}}(new), {{encode}}(old)
row = {{find}}(key)
if row is None or {{watched}}[0]:
 {{put}}({at}, key, new, old, timestamp, headers, {{position}})
else:
 {{rows}}[key] = row[0], new, old, row[3], timestamp, headers, {{position}}
if {{heap}} and {{heap}}[0][0] <= {due}: {{emit}}({due})"""
        objects = {"seen": context.state_var("stream_time_ms", -1), "rows": store.raw, "watched": store.watched}
        objects |= {"find": store.raw.get if store.keys.direct and not bounded else {}.get, "heap": store.heap}
        objects |= {"encode": store.values.encode, "put": store.put, "metadata": context.metadata, "emit": emit}
        if bounded:
            lines += "\n{enforce}()"
            objects["enforce"] = self._bind_limit(context, store, emit)
        parts = "new, old = value, {old}\n" + lines
        return Block("new, old = value[0], value[1]\n" + lines, of_parts=parts, objects=objects, ends=True)

    def _bind_emit(self, context: BindContext, store: SuppressStore, forward: Forward) -> Callable[..., None]:
        """Return the function that forwards changes as the records they were; until then each counts as buffered."""
        release, resume, drop_tombstones, make = store.release, context.resume, self.drop_tombstones, tuple.__new__

        def emit(due_ms: int, *is_full: Callable[[], bool]) -> None:
            previous = resume(None)
            try:
                for key, new, old, timestamp, headers, metadata in release(due_ms, *is_full):
                    if new is not None or not drop_tombstones:
                        resume(metadata)
                        forward(key, make(Change, (new, old, True)), timestamp, headers)
            finally:
                resume(previous)

        return emit

    def _bind_limit(self, context: BindContext, store: SuppressStore, emit: Callable[..., None]) -> Callable[[], None]:
        """Emit early or fail when the buffer exceeds its limits."""
        count, size_bytes, emit_early, node = store.count, store.size_bytes, self.emit_early, context.node
        most = _NO_LIMIT if self.max_records is None else self.max_records
        most_bytes = _NO_LIMIT if self.max_bytes is None else self.max_bytes

        def is_full() -> bool:
            return count() > most or size_bytes() > most_bytes

        def enforce() -> None:
            if not is_full():
                return
            if not emit_early:
                numbers = f"[{count()}/{most}] records and [{size_bytes()}/{most_bytes}] bytes."
                detail = f"{count()} of at most {most} records, {size_bytes()} of at most {most_bytes} bytes"
                hint = "allow more records, or let the buffer emit early when it is full"
                java = f"{node} buffer exceeded its max capacity. Currently {numbers}"
                raise ProcessingError(f'the buffer of "{node}" is full', detail=detail, hint=hint, java=java)
            emit(MAX_TIME_MS, is_full)

        return enforce
