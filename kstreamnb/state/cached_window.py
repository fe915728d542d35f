"""Window and session stores behind a record cache.

The cache knows nothing of retention: what the store has forgotten can still be read while the cache holds it.
"""

from __future__ import annotations

from typing import Any

from kstreamnb.core.record import Windowed
from kstreamnb.state.cache import CachedStore
from kstreamnb.state.session import SessionRows
from kstreamnb.state.time_index import KeyIndex, TimeIndex
from kstreamnb.state.timed import TimedRows
from kstreamnb.state.window import TimestampedWindowRows, WindowRows

__all__ = ["CachedSessionRows", "CachedTimestampedWindowRows", "CachedWindowRows"]

_SEGMENT_BYTES = 8


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

    def _store_row(self, raw_key: Any, row: Any) -> None:
        self._put_row(raw_key, row)

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
