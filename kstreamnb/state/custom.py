"""Keeps the rows of a store in a user's own store.

`StoreSpec.factory` makes it. It only gets and puts single rows, and lists all of them; order, ranges, retention, cache,
changelog and journal are those of every other store. It receives wire keys and immutable opaque rows, as Kafka's custom
stores get bytes. None stands for no row; times are in ms.

- A key-value store has ``get(key)``, ``put(key, row)`` and ``all()``, which returns pairs.
- A window store has ``fetch(key, start)``, ``put(key, row, start)`` and ``all()``, which returns windows with rows.
- A session store has ``fetch_session(key, start, end)``, ``put(window, row)``, ``remove(window)`` and ``fetch(None)``,
  which returns all windows with rows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any

from kstreamnb.core.record import Windowed
from kstreamnb.core.stores import StoreSpec
from kstreamnb.errors import StateError
from kstreamnb.state.disk_rows import DiskRows
from kstreamnb.state.rows_by_key import RowsByKey, RowsWithClock


@dataclass(eq=False, repr=False)
class StoredElsewhere(RowsWithClock):
    """Raw rows in a user's store, which the functions call; the clock is kept here."""

    store: object
    read: Callable[[Any], object]
    write: Callable[[Any, object], object]
    read_all: Callable[[], Iterable[tuple[Hashable, object]]]


def _key_values(store: Any) -> StoredElsewhere:
    return StoredElsewhere(store, store.get, store.put, store.all)


def _windows(store: Any) -> StoredElsewhere:
    """Convert raw keys of the form (key, window start)."""

    def write(raw_key: tuple[Hashable, int], row: object) -> None:
        store.put(raw_key[0], row, raw_key[1])

    def read_all() -> Iterator[tuple[Hashable, object]]:
        return (((window.key, window.start), row) for window, row in store.all())

    return StoredElsewhere(store, lambda raw_key: store.fetch(*raw_key), write, read_all)


def _duplicates(store: Any) -> StoredElsewhere:
    """Convert raw keys of the form (key, window start << 31 | sequence); rows of one start are
    {sequence: row} pairs.
    """

    def rows_at(key: Hashable, slot: int) -> dict[int, object]:
        return dict(store.fetch(key, slot >> 31) or ())

    def write(raw_key: tuple[Hashable, int], row: object) -> None:
        key, slot = raw_key
        rows = {**rows_at(key, slot), slot: row}
        if row is None:
            del rows[slot]
        store.put(key, tuple(rows.items()) or None, slot >> 31)

    def read_all() -> Iterator[tuple[Hashable, object]]:
        return (((window.key, slot), row) for window, rows in store.all() for slot, row in rows)

    return StoredElsewhere(store, lambda raw_key: rows_at(*raw_key).get(raw_key[1]), write, read_all)


def _sessions(store: Any) -> StoredElsewhere:
    """Convert raw keys of the form (key, (end, start))."""

    def read(raw_key: tuple[Hashable, tuple[int, int]]) -> object:
        key, (end, start) = raw_key
        return store.fetch_session(key, start, end)

    def write(raw_key: tuple[Hashable, tuple[int, int]], row: object) -> None:
        key, (end, start) = raw_key
        session = Windowed(key, start, end)
        if row is None:
            store.remove(session)
        else:
            store.put(session, row)

    def read_all() -> Iterator[tuple[Hashable, object]]:
        return (((session.key, (session.end, session.start)), row) for session, row in store.fetch(None))

    return StoredElsewhere(store, read, write, read_all)


_KINDS = {**dict.fromkeys(("key_value", "versioned", "lru"), _key_values), "window": _windows, "session": _sessions}


def rows_of(spec: StoreSpec) -> MutableMapping[Any, Any]:
    """Return the container of a store's rows: a dict or `RowsByKey`, or what the spec's factory makes."""
    if spec.factory is None:
        sessions = spec.kind == "session"
        return RowsByKey(sessions=sessions) if sessions or spec.retain_duplicates else {}
    kind = _KINDS.get(spec.kind.removeprefix("timestamped_"))
    if kind is None:
        raise StateError(f'store "{spec.name}" of kind "{spec.kind}" cannot have a factory')
    made = spec.factory(spec)
    if isinstance(made, DiskRows):
        return made
    return (_duplicates if spec.retain_duplicates else kind)(made)
