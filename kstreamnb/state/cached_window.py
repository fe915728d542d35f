"""Window and session stores behind a record cache.

The cache knows nothing of retention: what the store has forgotten can still be read while the cache holds it.
"""

from __future__ import annotations

from typing import Any

from kstreamnb.core.record import Windowed
from kstreamnb.core.stores import StoreSpec
from kstreamnb.state.cache import CacheBudget, CachedStore
from kstreamnb.state.session import SessionRows
from kstreamnb.state.store import Recorder, StoreContext
from kstreamnb.state.time_index import KeyIndex, TimeIndex
from kstreamnb.state.window import MAX_TIME_MS, TimestampedWindowRows, WindowRows

__all__ = ["CachedSessionRows", "CachedTimestampedWindowRows", "CachedWindowRows"]

_SEGMENT_BYTES, _SEQUENCE_BYTES = 8, 4


class CachedWindowRows(CachedStore, WindowRows):
    """Rows by key and window start behind a cache."""

    def __init__(self, spec: StoreSpec, context: StoreContext, budget: CacheBudget | None = None) -> None:
        self._cached_index, self._cached_slots = TimeIndex(), KeyIndex()
        super().__init__(spec, context, budget)

    def _bind(self) -> None:
        super()._bind()
        fetch_stored, encode_key = self.fetch, self.keys.encode

        def fetch(key: Any, at: int) -> Any:
            entry = self.cached_row((encode_key(key), at))
            return fetch_stored(key, at) if entry is None else self._plain(entry.row)

        def put(key: Any, value: Any, window_start: int) -> None:
            self.cache((encode_key(key), window_start), None if value is None else self._prepare(value))

        self.fetch, self.put = fetch, put

    def _hook(self, record: Recorder | None) -> None:
        super()._hook(record)
        self._record = record

    def _index_cached(self, raw_key: Any, *, gone: bool) -> None:
        key, start = raw_key
        if gone:
            self._cached_index.remove(start, raw_key)
            self._cached_slots.remove(key, start)
        else:
            self._cached_index.add(start, raw_key)
            self._cached_slots.add(key, start)

    def _store_row(self, raw_key: Any, row: Any) -> None:
        key, start = raw_key
        self._put_single(key, start, row, self._record)

    def _stored_row(self, raw_key: Any) -> Any:
        return self.raw.get(raw_key) if raw_key[1] >= self.retention.visible_from else None

    def _user_key(self, raw_key: Any) -> Windowed:
        key, start = raw_key
        return Windowed(self.keys.decode(key), start, min(start + self.window_size_ms, MAX_TIME_MS))

    def _key_size(self, raw_key: Any) -> int:
        return _SEGMENT_BYTES + len(self.changelog_key(raw_key))

    def _of_key(self, raw_key: Any, from_: int, to: int) -> list[int]:
        stored, cached = super()._of_key(raw_key, from_, to), self._cached_slots.get(raw_key)
        if cached is None:
            return stored
        slots = {slot for slot in stored if (raw_key, slot) not in self.cached}
        slots.update(slot for slot in cached if from_ <= slot <= to and self.cached[raw_key, slot].row is not None)
        return sorted(slots)

    def _stored_between(self, from_: int, to: int) -> list[Any]:
        cached = self.cached
        found = [raw_key for raw_key in super()._stored_between(from_, to) if raw_key not in cached]
        return found + [key for key in self._cached_index.between(from_, to) if cached[key].row is not None]

    def _row(self, raw_key: Any) -> Any:
        entry = self.cached.get(raw_key)
        return self.raw[raw_key] if entry is None else entry.row


class CachedTimestampedWindowRows(CachedWindowRows, TimestampedWindowRows):
    """Rows ``(value, timestamp)`` by key and window start behind a cache."""


class CachedSessionRows(CachedStore, SessionRows):
    """Aggregates by session behind a cache."""

    def __init__(self, spec: StoreSpec, context: StoreContext, budget: CacheBudget | None = None) -> None:
        self._cached_index, self._cached_sessions = TimeIndex(), KeyIndex()
        super().__init__(spec, context, budget)

    def put(self, session: Windowed, aggregate: Any) -> None:
        """Keep an aggregate; None removes it."""
        row = None if aggregate is None else self.values.encode(aggregate)
        self.cache((self.keys.encode(session.key), session.end, session.start), row)

    def remove(self, session: Windowed) -> None:
        """Remove a session."""
        self.put(session, None)

    def fetch_session(self, key: Any, start: int, end: int) -> Any:
        """The aggregate of exactly one session, or None."""
        entry = self.cached_row((self.keys.encode(key), end, start))
        return super().fetch_session(key, start, end) if entry is None else self.values.decode(entry.row)

    def _index_cached(self, raw_key: Any, *, gone: bool) -> None:
        key, end, start = raw_key
        if gone:
            self._cached_index.remove(end, raw_key)
            self._cached_sessions.remove(key, (end, start))
        else:
            self._cached_index.add(end, raw_key)
            self._cached_sessions.add(key, (end, start))

    def _store_row(self, raw_key: Any, row: Any) -> None:
        self.write(raw_key, row)

    def _stored_row(self, raw_key: Any) -> Any:
        return self.raw.get(raw_key) if raw_key[1] >= self.retention.visible_from else None

    def _user_key(self, raw_key: Any) -> Windowed:
        key, end, start = raw_key
        return Windowed(self.keys.decode(key), start, end)

    def _key_size(self, raw_key: Any) -> int:
        return _SEGMENT_BYTES + len(self.changelog_key(raw_key))

    def _sessions_of(self, raw_key: Any, earliest_end: int) -> list[tuple[int, int]]:
        stored, cached = super()._sessions_of(raw_key, earliest_end), self._cached_sessions.get(raw_key)
        if cached is None:
            return stored
        found = {session for session in stored if (raw_key, *session) not in self.cached}
        found.update(s for s in cached if s[0] >= earliest_end and self.cached[(raw_key, *s)].row is not None)
        return sorted(found)

    def _stored_between(self, earliest_end: int, latest_end: int) -> list[Any]:
        cached = self.cached
        found = [raw_key for raw_key in super()._stored_between(earliest_end, latest_end) if raw_key not in cached]
        between = self._cached_index.between(earliest_end, latest_end)
        return found + [raw_key for raw_key in between if cached[raw_key].row is not None]

    def _row(self, raw_key: Any) -> Any:
        entry = self.cached.get(raw_key)
        return self.raw[raw_key] if entry is None else entry.row
