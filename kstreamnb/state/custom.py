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
from dataclasses import dataclass, field
from typing import Any

from kstreamnb.core.record import Windowed
from kstreamnb.core.stores import StoreSpec
from kstreamnb.errors import StateError
from kstreamnb.state.disk_rows import DiskRows
from kstreamnb.state.rows_by_key import RowsByKey


@dataclass(eq=False, repr=False)
class StoredElsewhere(MutableMapping[Hashable, object]):
    """Raw rows in a user's store; what has the key None is kept here.

    ``read(raw_key)``, ``write(raw_key, row)`` and ``read_all()`` call the store.
    """

    store: object
    read: Callable[[Any], object]
    write: Callable[[Any, object], object]
    read_all: Callable[[], Iterable[tuple[Hashable, object]]]
    _reserved: object = field(default=None, init=False)

    def __getitem__(self, raw_key: Hashable) -> object:
        row = self._reserved if raw_key is None else self.read(raw_key)
        if row is None:
            raise KeyError(raw_key)
        return row

    def __setitem__(self, raw_key: Hashable, row: object) -> None:
        if raw_key is None:
            self._reserved = row
        else:
            self.write(raw_key, row)

    def __delitem__(self, raw_key: Hashable) -> None:
        self[raw_key] = None

    def __iter__(self) -> Iterator[Hashable]:
        yield from () if self._reserved is None else (None,)
        yield from [raw_key for raw_key, _ in self.read_all()]

    def __len__(self) -> int:
        return sum(1 for _ in self)


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


_KINDS: dict[str, Callable[[Any], StoredElsewhere]] = {
    "key_value": _key_values,
    "versioned": _key_values,
    "lru": _key_values,
    "window": _windows,
    "session": _sessions,
}


def rows_of(spec: StoreSpec) -> MutableMapping[Any, Any]:
    """Return the container of a store's rows: a dict or `RowsByKey`, or what the spec's factory makes."""
    if spec.factory is None:
        return RowsByKey() if spec.retain_duplicates else {}
    kind = _KINDS.get(spec.kind.removeprefix("timestamped_"))
    if kind is None:
        raise StateError(f'store "{spec.name}" of kind "{spec.kind}" cannot have a factory')
    made = spec.factory(spec)
    if isinstance(made, DiskRows):
        return made
    return (_duplicates if spec.retain_duplicates else kind)(made)
