"""A user's own store as the place where rows lie.

`StoreSpec.factory` makes an object of the kind's protocol. It is asked only for single rows and for all of them;
order, ranges, retention, cache, changelog and journal stay those of every other store. What it gets are wire keys and
immutable rows that it need not understand, as Kafka's custom stores get bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

from kstreamnb.core.record import Windowed
from kstreamnb.core.stores import StoreSpec
from kstreamnb.errors import StateError


class StoredElsewhere(MutableMapping[Any, Any]):
    """Raw rows that lie in a user's store; what has the key None is kept here."""

    def __init__(self, spec: StoreSpec, store: Any) -> None:
        self.spec, self.store = spec, store
        self._reserved: dict[Any, Any] = {}

    def __getitem__(self, raw_key: Any) -> Any:
        row = self._reserved.get(None) if raw_key is None else self._read(raw_key)
        if row is None:
            raise KeyError(raw_key)
        return row

    def __setitem__(self, raw_key: Any, row: Any) -> None:
        if raw_key is None:
            self._reserved[None] = row
        else:
            self._write(raw_key, row)

    def __delitem__(self, raw_key: Any) -> None:
        self[raw_key] = None

    def __iter__(self) -> Iterator[Any]:
        yield from (raw_key for raw_key, row in self._reserved.items() if row is not None)
        yield from [raw_key for raw_key, _ in self._all()]

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _read(self, raw_key: Any) -> Any:
        raise NotImplementedError

    def _write(self, raw_key: Any, row: Any) -> None:
        raise NotImplementedError

    def _all(self) -> Iterator[tuple[Any, Any]]:
        raise NotImplementedError


class _KeyValueElsewhere(StoredElsewhere):
    def _read(self, raw_key: Any) -> Any:
        return self.store.get(raw_key)

    def _write(self, raw_key: Any, row: Any) -> None:
        self.store.put(raw_key, row)

    def _all(self) -> Iterator[tuple[Any, Any]]:
        return iter(self.store.all())


class _WindowsElsewhere(StoredElsewhere):
    """A raw key is (key, window start)."""

    def _read(self, raw_key: Any) -> Any:
        return self.store.fetch(*raw_key)

    def _write(self, raw_key: Any, row: Any) -> None:
        key, start = raw_key
        self.store.put(key, row, start)

    def _all(self) -> Iterator[tuple[Any, Any]]:
        return (((window.key, window.start), row) for window, row in self.store.all())


class _DuplicatesElsewhere(StoredElsewhere):
    """A raw key is (key, window start << 31 | sequence); rows of one start lie together as {sequence: row} pairs."""

    def _read(self, raw_key: Any) -> Any:
        key, slot = raw_key
        return dict(self.store.fetch(key, slot >> 31) or ()).get(slot)

    def _write(self, raw_key: Any, row: Any) -> None:
        key, slot = raw_key
        rows = {**dict(self.store.fetch(key, slot >> 31) or ()), slot: row}
        if row is None:
            del rows[slot]
        self.store.put(key, tuple(rows.items()) or None, slot >> 31)

    def _all(self) -> Iterator[tuple[Any, Any]]:
        for window, rows in self.store.all():
            for slot, row in rows:
                yield (window.key, slot), row


class _SessionsElsewhere(StoredElsewhere):
    """A raw key is (key, (end, start))."""

    def _read(self, raw_key: Any) -> Any:
        key, (end, start) = raw_key
        return self.store.fetch_session(key, start, end)

    def _write(self, raw_key: Any, row: Any) -> None:
        key, (end, start) = raw_key
        if row is None:
            self.store.remove(Windowed(key, start, end))
        else:
            self.store.put(Windowed(key, start, end), row)

    def _all(self) -> Iterator[tuple[Any, Any]]:
        return (((session.key, (session.end, session.start)), row) for session, row in self.store.fetch(None))


_KINDS: dict[str, type[StoredElsewhere]] = {
    "key_value": _KeyValueElsewhere,
    "timestamped_key_value": _KeyValueElsewhere,
    "versioned": _KeyValueElsewhere,
    "lru": _KeyValueElsewhere,
    "window": _WindowsElsewhere,
    "timestamped_window": _WindowsElsewhere,
    "session": _SessionsElsewhere,
}


def rows_of(spec: StoreSpec) -> MutableMapping[Any, Any]:
    """Where the rows of a store lie: in a dict, or in the store that the spec's factory makes."""
    if spec.factory is None:
        return {}
    kind = _KINDS.get(spec.kind)
    if kind is None:
        raise StateError(f'store "{spec.name}" of kind "{spec.kind}" cannot have a factory')
    return (_DuplicatesElsewhere if spec.retain_duplicates else kind)(spec, spec.factory(spec))
