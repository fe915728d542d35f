"""Converts a store's raw rows to keys, values and times."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kstreamnb.core.record import Change
from kstreamnb.state.cache import InCache
from kstreamnb.state.rows_by_key import SEQUENCE_BITS
from kstreamnb.state.store import Store
from kstreamnb.state.versioned import LATEST_ROW


class StoredRow(NamedTuple):
    """One row of one partition of a store.

    ``timestamp`` (ms) is None if the store keeps none. ``note`` tells, for example, that the row is still in the cache
    or has expired, which side of a join it waits on, or until when a version was valid.
    """

    task: str
    key: Any
    value: Any
    timestamp: int | None = None
    note: str = ""


def stored_rows(task: str, store: Store, rows: Mapping[Any, Any]) -> list[StoredRow]:
    """Return the rows of a store in its own order: by key bytes, then by time."""
    merged, cached = without_cache(rows)
    show, visible_from = _SHOW.get(_kind(store)) or _row, _visible_from(store, rows)
    result = []
    for raw_key in sorted(merged, key=raw_order(store)):
        expired = visible_from is not None and _time(store, raw_key) < visible_from
        state = "expired, no longer read" if expired else "in the cache" if raw_key in cached else ""
        for key, value, timestamp, note in show(store, raw_key, merged[raw_key]):
            result.append(StoredRow(task, key, value, timestamp, state or note))
    return result


def _visible_from(store: Store, rows: Mapping[Any, Any]) -> int | None:
    """Return the first time that reads of a window or session store show; older rows await segment expiry."""
    retention, clock = getattr(store, "retention", None), rows.get(None)
    if retention is None or clock is None:
        return None
    return int(clock[0]) + int(retention.visible_from) - int(retention.observed_ms)


def _time(store: Store, raw_key: Any) -> int:
    """Return the time of a window (its start) or of a session (its end)."""
    position = raw_key[1]
    if isinstance(position, tuple):
        return int(position[0])
    return int(position >> SEQUENCE_BITS if store.spec.retain_duplicates else position)


def without_cache(rows: Mapping[Any, Any]) -> tuple[dict[Hashable, object], set[Hashable]]:
    """Return rows as readers see them through the cache, and the keys that are not flushed yet."""
    merged = {key: row for key, row in rows.items() if key is not None and type(key) is not InCache}
    dirty = {key.raw_key: entry.row for key, entry in rows.items() if type(key) is InCache and entry.dirty}
    return {key: row for key, row in {**merged, **dirty}.items() if row is not None}, set(dirty)


def raw_order(store: Store) -> Callable[[Any], Any]:
    """Return the sort key of a store's raw keys."""
    as_bytes, kind = store.keys.to_bytes, _kind(store)
    if kind in ("key_value", "timestamped_key_value", "lru", "suppress"):
        return as_bytes
    if kind == "join_buffer":
        return lambda raw: (raw[0], as_bytes(raw[1]), raw[2])
    if kind == "pending_joins":
        return lambda raw: (raw[0], raw[1], as_bytes(raw[2]))
    return lambda raw: (as_bytes(raw[0]), raw[1])


def _kind(store: Store) -> str:
    spec = store.spec
    return str(spec.extra["type"] if spec.kind == "internal" else spec.kind)


_ShownRows = Iterator[tuple[object, object, "int | None", str]]


def _row(store: Any, raw_key: Hashable, row: Any) -> _ShownRows:
    key, (value, time) = store.user_key(raw_key), row[:2] if store.timestamped else (row, None)
    if store.spec.retain_duplicates:  # records of one side of a join
        key, time = key.key, key.start
    yield key, store.values.decode(value), time, ""


def _versioned(store: Store, raw_key: tuple[Hashable, int], row: Any) -> _ShownRows:
    key, segment = raw_key
    if segment == LATEST_ROW:
        yield store.keys.decode(key), store.values.decode(row[0]), row[1], ""
        return
    until, versions = row
    for valid_from, value in versions:
        if value is not None:
            yield store.keys.decode(key), store.values.decode(value), valid_from, f"until {until}"
        until = valid_from


def _suppress(store: Store, raw_key: Hashable, row: Any) -> _ShownRows:
    time, new, old, _, timestamp, _, _ = row
    decode = store.values.decode
    yield store.keys.decode(raw_key), Change(decode(new), decode(old)), timestamp, f"held back since {time}"


def _join_buffer(store: Store, raw_key: tuple[int, Hashable, int], row: tuple[object, int]) -> _ShownRows:
    yield store.keys.decode(raw_key[1]), store.values.decode(row[0]), raw_key[0], "waits for its table"


def _pending_joins(store: Any, raw_key: tuple[int, int, Hashable], row: Iterable[object]) -> _ShownRows:
    timestamp, side, key = raw_key
    note = f"{'left' if side else 'right'} record that waits for a partner"
    for value in row:
        yield store.keys.decode(key), store.sides[side].decode(value), timestamp, note


_SHOW: dict[str, Callable[..., _ShownRows]] = {
    "versioned": _versioned,
    "suppress": _suppress,
    "join_buffer": _join_buffer,
    "pending_joins": _pending_joins,
}
