"""Key-value, window and session stores behind a record cache.

The cache knows nothing of retention: what a store has forgotten can still be read while the cache holds it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from kstreamnb.core.record import Windowed
from kstreamnb.state.cache import CachedStore
from kstreamnb.state.key_value import KeyValueRows, TimestampedKeyValueRows
from kstreamnb.state.lru import LruRows
from kstreamnb.state.session import SessionRows
from kstreamnb.state.time_index import KeyIndex, TimeIndex
from kstreamnb.state.timed import TimedRows
from kstreamnb.state.window import TimestampedWindowRows, WindowRows

_SEGMENT_BYTES = 8


class _KeyValueCache(CachedStore, KeyValueRows):
    """What the cached kinds share: lookups and ranges that see the cache over the store."""

    def _shorten(self) -> None:
        """No short cuts past the cache."""

    def get(self, key: Any) -> Any:
        """The row of a key, or None."""
        raw_key = self.keys.encode(key)
        entry = self.cached_row(raw_key)
        if entry is not None:
            return None if entry.row is None else self._show_row(entry.row)
        value = super().get(key)
        if value is not None:
            self.cache_clean(raw_key, self._peek(raw_key))
        return value

    def put(self, key: Any, value: Any) -> None:
        """Keep a row; None removes it."""
        self.cache(self.keys.encode(key), None if value is None else self._encode_row(value))

    def _stored_row(self, raw_key: Any) -> Any:
        return self._peek(raw_key)

    def _user_key(self, raw_key: Any) -> Any:
        return self.keys.decode(raw_key)

    def _between(self, from_key: Any, to_key: Any) -> list[Any]:
        stored = super()._between(from_key, to_key)
        if not self._shadow():
            return stored
        least = b"" if from_key is None else self._bytes_of(from_key)
        most = None if to_key is None else self._bytes_of(to_key)
        return self._merge(stored, lambda data: data >= least and (most is None or data <= most))

    def _starting_with(self, prefix: bytes) -> list[Any]:
        stored = super()._starting_with(prefix)
        return self._merge(stored, lambda data: data.startswith(prefix)) if self._shadow() else stored

    def _shadow(self) -> Collection[Any]:
        """Keys whose entries may differ from the store."""
        return self._dirty

    def _merge(self, stored: list[Any], wanted: Any) -> list[Any]:
        to_bytes, shadow = self.keys.to_bytes, self._shadow()
        merged = {raw_key: None for raw_key in stored if raw_key not in shadow}
        for raw_key in shadow:
            if self.cached[raw_key].row is not None and wanted(to_bytes(raw_key)):
                merged[raw_key] = None
        return sorted(merged, key=to_bytes)

    def _row(self, raw_key: Any) -> Any:
        entry = self.cached.get(raw_key)
        return self._peek(raw_key) if entry is None else entry.row


class CachedKeyValueRows(_KeyValueCache):
    """Rows by key behind a cache."""


class CachedTimestampedKeyValueRows(_KeyValueCache, TimestampedKeyValueRows):
    """Rows ``(value, timestamp)`` by key behind a cache."""


class CachedLruRows(_KeyValueCache, LruRows):
    """The last used keys behind a cache, which may still show keys that the store has forgotten."""

    def _shadow(self) -> Collection[Any]:
        return self.cached


class _TimedCache(CachedStore, TimedRows):
    """What the cached kinds share: reads that see the cache over the store."""

    def _bind(self) -> None:
        super()._bind()
        self._cached_index, self._cached_places = TimeIndex(), KeyIndex()

    def _index_cached(self, raw_key: Any, *, gone: bool) -> None:
        key, place = raw_key
        if gone:
            self._cached_index.remove(self._time(place), raw_key)
            self._cached_places.remove(key, place)
        else:
            self._cached_index.add(self._time(place), raw_key)
            self._cached_places.add(key, place)

    def _stored_row(self, raw_key: Any) -> Any:
        return self.raw.get(raw_key) if self._time(raw_key[1]) >= self.retention.visible_from else None

    def _user_key(self, raw_key: Any) -> Windowed:
        return self._window(raw_key)

    def _key_size(self, raw_key: Any) -> int:
        return _SEGMENT_BYTES + len(self._key_bytes(raw_key))

    def _places_from(self, raw_key: Any, time: int) -> list[Any]:
        stored, cached = super()._places_from(raw_key, time), self._cached_places.get(raw_key)
        if cached is None:
            return stored
        entries, time_of = self.cached, self._time
        found = [place for place in stored if (raw_key, place) not in entries]
        found += [place for place in cached if time_of(place) >= time and entries[raw_key, place].row is not None]
        return sorted(found)

    def _between(self, from_: int, to: int) -> list[Any]:
        entries = self.cached
        found = [raw_key for raw_key in super()._between(from_, to) if raw_key not in entries]
        return found + [key for key in self._cached_index.between(from_, to) if entries[key].row is not None]

    def _row(self, raw_key: Any) -> Any:
        entry = self.cached.get(raw_key)
        return self.raw[raw_key] if entry is None else entry.row


class CachedWindowRows(_TimedCache, WindowRows):
    """Rows by key and window start behind a cache."""

    def _bind(self) -> None:
        super()._bind()
        fetch_stored, encode_key = self.fetch, self.keys.encode

        def fetch(key: Any, at: int) -> Any:
            entry = self.cached_row((encode_key(key), at))
            return fetch_stored(key, at) if entry is None else self._plain(entry.row)

        def put(key: Any, value: Any, window_start: int) -> None:
            self.cache((encode_key(key), window_start), None if value is None else self._prepare(value))

        self.fetch, self.put = fetch, put


class CachedTimestampedWindowRows(CachedWindowRows, TimestampedWindowRows):
    """Rows ``(value, timestamp)`` by key and window start behind a cache."""


class CachedSessionRows(_TimedCache, SessionRows):
    """Aggregates by session behind a cache."""

    def put(self, session: Windowed, aggregate: Any) -> None:
        """Keep an aggregate; None removes it."""
        self.cache(self._raw_key(session), None if aggregate is None else self.values.encode(aggregate))

    def remove(self, session: Windowed) -> None:
        """Remove a session."""
        self.cache(self._raw_key(session), None)

    def fetch_session(self, key: Any, start: int, end: int) -> Any:
        """The aggregate of exactly one session, or None."""
        entry = self.cached_row((self.keys.encode(key), (end, start)))
        return super().fetch_session(key, start, end) if entry is None else self.values.decode(entry.row)


CACHED_KINDS: dict[str, type[CachedStore]] = {
    "key_value": CachedKeyValueRows,
    "timestamped_key_value": CachedTimestampedKeyValueRows,
    "lru": CachedLruRows,
    "window": CachedWindowRows,
    "timestamped_window": CachedTimestampedWindowRows,
    "session": CachedSessionRows,
}
