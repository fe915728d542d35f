"""The record cache, and key-value, window and session stores behind one.

Writes wait in memory and are forwarded, one for each key, when the cache is flushed or full. As in Kafka Streams, keys
are flushed in the order in which they were last written; the old value of a change is the one at the previous flush; a
key that was added and removed between two flushes is not reported; if the cache exceeds its limit the least recently
used entry is evicted, and if it is dirty all dirty ones are flushed. Flushed rows stay readable. The cache ignores
retention: expired rows can still be read while the cache holds them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from kstreamnb.core.record import Headers, RecordMetadata, Windowed
from kstreamnb.core.stores import FlushListener, StoreSpec
from kstreamnb.core.time import MAX_TIME_MS, Instant, instant_ms
from kstreamnb.state.codec import context_size, headers_of, headers_size
from kstreamnb.state.key_value import KeyValueRows, LruRows
from kstreamnb.state.rows_by_key import KeyIndex, P, TimedKey, TimeIndex
from kstreamnb.state.store import RawKey, Row, Rows, Store, StoreContext
from kstreamnb.state.timed import TimedRows
from kstreamnb.state.window import SessionKey, SessionRows, WindowRows

_DEFAULT_BYTES = 10 * 1024 * 1024
_LINKS, _FLAG, _TIME, _SEGMENT = 24, 1, 8, 8

_Pairs: TypeAlias = Iterator[tuple[Any, Any]]
"""Positions or keys, each with its row."""


class CacheBudget:
    """Limit and present size of the caches of a task's stores (bytes, by Kafka's count)."""

    def __init__(self, max_bytes: int = _DEFAULT_BYTES) -> None:
        self.max_bytes, self.size_bytes = max_bytes, 0


class CacheEntry(NamedTuple):
    """A row in the cache; ``turn`` tells when it was written, -1 for one that was only read."""

    row: Any
    timestamp: int = -1
    headers: Headers = ()
    metadata: RecordMetadata | None = None
    dirty: bool = False
    size_bytes: int = 0
    turn: int = -1


class InCache(NamedTuple):
    """The journal's and snapshot's key of a cache entry."""

    raw_key: Hashable


class CachedStore(Store[RawKey, Row]):
    """A store behind a cache; subclasses mix it into a kind of store and define how that one is read and written.

    ``cached`` maps raw keys to entries, the least recently used first.
    """

    def __init__(self, spec: StoreSpec, context: StoreContext, budget: CacheBudget | None = None) -> None:
        self.budget = budget or CacheBudget()
        self.cached: dict[RawKey, CacheEntry] = {}
        self._dirty: dict[RawKey, None] = {}
        self._turn = 0
        self._listener: FlushListener | None = None
        self._send_old = True
        super().__init__(spec, context)

    def set_flush_listener(self, listener: FlushListener, *, send_old: bool = True) -> bool:
        """Have every flushed change reported to ``listener(key, new, old, timestamp, headers)``."""
        self._listener, self._send_old = listener, send_old
        return True

    def cached_row(self, raw_key: RawKey) -> CacheEntry | None:
        """Return the entry of a key, which becomes the most recently used one."""
        entry = self.cached.pop(raw_key, None)
        if entry is not None:
            self.cached[raw_key] = entry
        return entry

    def cache(self, raw_key: RawKey, row: object) -> None:
        """Write a row into the cache; None deletes."""
        context = self.context
        timestamp, headers, metadata = context.timestamp(), context.headers(), context.metadata()
        self._turn += 1
        self._keep(raw_key, CacheEntry(row, timestamp, headers, metadata, dirty=True, turn=self._turn))

    def _keep(self, raw_key: RawKey, entry: CacheEntry) -> None:
        size = self._entry_size(raw_key, entry.row, context_size(entry.headers, entry.metadata))
        self._change(raw_key, entry._replace(size_bytes=size))
        while self.budget.size_bytes > self.budget.max_bytes and self.cached:
            eldest = next(iter(self.cached))
            evicted = self.cached[eldest]
            self._change(eldest, None)
            if evicted.dirty:
                self.budget.size_bytes += evicted.size_bytes
                try:
                    self._flush_entries([(eldest, evicted)])
                finally:
                    self.budget.size_bytes -= evicted.size_bytes

    def _entry_size(self, raw_key: RawKey, row: object, context_bytes: int) -> int:
        data = self.values.to_bytes(self._wire_value(row)) or b""
        size = len(data) + (_TIME if self.timestamped and row is not None else 0)
        if self.keeps_headers and row is not None:
            size += headers_size(headers_of(row))
        return self._key_size(raw_key) + _LINKS + _FLAG + size + context_bytes

    def _key_size(self, raw_key: RawKey) -> int:
        return len(self.keys.to_bytes(raw_key))

    def flush(self) -> None:
        """Write every dirty entry to the store and notify the listener."""
        if self._dirty:
            self._flush_entries([])

    def _flush_entries(self, first: list[tuple[RawKey, CacheEntry]]) -> None:
        dirty = sorted(((raw_key, self.cached[raw_key]) for raw_key in self._dirty), key=lambda item: item[1].turn)
        for raw_key, entry in dirty:
            self._change(raw_key, entry._replace(dirty=False))
        for raw_key, entry in first + dirty:
            self._write_back(raw_key, entry)
        for raw_key, entry in dirty:
            if entry.row is None and raw_key in self.cached:
                self._change(raw_key, None)

    def _write_back(self, raw_key: RawKey, entry: CacheEntry) -> None:
        context, listener = self.context, self._listener
        before = context.timestamp(), context.headers()
        context.set_record(entry.timestamp, entry.headers)
        position = context.resume(entry.metadata)
        try:
            if listener is None:
                self.write(raw_key, entry.row)
                return
            old = self._stored_row(raw_key) if entry.row is None or self._send_old else None
            if entry.row is None and old is None:
                return
            self.write(raw_key, entry.row)
            decode, old = self.values.decode, old if self._send_old else None
            new_value, old_value = decode(self._wire_value(entry.row)), decode(self._wire_value(old))
            timestamp = entry.row[1] if self.timestamped and entry.row is not None else entry.timestamp
            headers = entry.headers if self.timestamped or not self.keeps_headers else headers_of(entry.row)
            listener(self._user_key(raw_key), new_value, old_value, timestamp, headers)
        finally:
            context.set_record(*before)
            context.resume(position)

    def _stored_row(self, raw_key: RawKey) -> Row | None:
        """Read from the store behind the cache."""
        return super()._row(raw_key)

    def _row(self, raw_key: RawKey) -> Row | None:
        entry = self.cached.get(raw_key)
        return super()._row(raw_key) if entry is None else entry.row

    def _rows(self, raw_keys: list[RawKey]) -> Rows:
        for raw_key in raw_keys:
            self.cached_row(raw_key)
        return super()._rows(raw_keys)

    def _index_cached(self, raw_key: RawKey, *, gone: bool) -> None:
        """Update the index after an entry was added or removed."""

    def clear_cache(self) -> None:
        """Forget flushed entries, as a restart would."""
        for raw_key in [raw_key for raw_key, entry in self.cached.items() if not entry.dirty]:
            self._change(raw_key, None)

    def _change(self, raw_key: RawKey, entry: CacheEntry | None) -> None:
        self._note(InCache(raw_key), self.cached.get(raw_key), entry)
        self._apply_cached(raw_key, entry)

    def _apply_cached(self, raw_key: RawKey, entry: CacheEntry | None) -> None:
        old = self.cached.pop(raw_key, None)
        if old is not None:
            self.budget.size_bytes -= old.size_bytes
        if (old is None) != (entry is None):
            self._index_cached(raw_key, gone=entry is None)
        self._dirty.pop(raw_key, None)
        if entry is not None:
            self.cached[raw_key] = entry
            self.budget.size_bytes += entry.size_bytes
            self._turn = max(self._turn, entry.turn)
            if entry.dirty:
                self._dirty[raw_key] = None

    def apply(self, raw_key: RawKey | InCache | None, row: object) -> None:
        """Change one row of the store or one entry of the cache silently; None deletes."""
        if type(raw_key) is InCache:
            self._apply_cached(raw_key.raw_key, row)  # type: ignore[arg-type] # a key of this store
        else:
            super().apply(raw_key, row)  # type: ignore[arg-type] # it is a key of the store itself

    def snapshot(self) -> dict[Hashable, Any]:
        """Copy all rows and cache entries."""
        return super().snapshot() | {InCache(raw_key): entry for raw_key, entry in self.cached.items()}

    def restore(self, rows: Mapping[Hashable, Any]) -> None:
        """Replace all rows and cache entries, silently."""
        for raw_key in list(self.cached):
            self._apply_cached(raw_key, None)
        super().restore(rows)


def _merged(fresh: _Pairs, stored: _Pairs, *, reverse: bool) -> _Pairs:
    """Merge rows of cache and store as Kafka Streams does.

    Descending, an unflushed deletion is a row of None if the store has only lesser keys left, and hides nothing if the
    store still has a greater one.
    """
    new, old = next(fresh, None), next(stored, None)
    while new is not None or old is not None:
        if old is not None and (
            new is None or (new[1] is not None and new[0] < old[0] if reverse else old[0] < new[0])
        ):
            yield old
            old = next(stored, None)
        elif new is not None:
            if new[1] is not None or (old is not None and old[0] < new[0]):
                yield new
            if old is not None and old[0] == new[0]:
                old = next(stored, None)
            new = next(fresh, None)


class CachedKeyValueRows(CachedStore[Hashable, Any], KeyValueRows):
    """Rows by key behind a cache: lookups and ranges see the cache over the store."""

    def get(self, key: object) -> object:
        """Return the row of a key, or None."""
        raw_key = self.keys.encode(key)
        entry = self.cached_row(raw_key)
        if entry is not None:
            return self._shown(entry.row)
        value = super().get(key)
        if value is not None:
            self._keep(raw_key, CacheEntry(self._stored_row(raw_key)))
        return value

    def put(self, key: object, value: object) -> None:
        """Put a row; None deletes it."""
        self.cache(self.keys.encode(key), self._kept(value))

    def _scan(self, least: bytes, end: bytes | None, *, reverse: bool = False) -> Rows:
        """Return the rows of a range of keys."""
        if not reverse or all(self.cached[raw_key].row is not None for raw_key in self._dirty):
            return super()._scan(least, end, reverse=reverse)
        both = super()._between(least, end), list(self.cached)
        stored, fresh = ([(self.keys.to_bytes(raw_key), raw_key) for raw_key in raw_keys] for raw_keys in both)
        fresh = sorted(each for each in fresh if least <= each[0] and (end is None or each[0] < end))
        rows = _merged(
            ((each, self.cached_row(each[1]) and self.cached[each[1]].row) for each in fresh[::-1]),
            ((each, self._stored_row(each[1])) for each in stored[::-1]),
            reverse=True,
        )
        return Rows([(self._user_key(raw_key), self._shown(row)) for (_, raw_key), row in rows])

    def _between(self, least: bytes, end: bytes | None) -> list[Hashable]:
        stored, shadow, to_bytes = super()._between(least, end), self._shadow(), self.keys.to_bytes
        if not shadow:
            return stored
        raw_keys = [raw_key for raw_key in stored if raw_key not in shadow]
        fresh = [(to_bytes(raw_key), raw_key) for raw_key in shadow if self.cached[raw_key].row is not None]
        raw_keys += [raw_key for data, raw_key in fresh if least <= data and (end is None or data < end)]
        return sorted(raw_keys, key=to_bytes)

    def _shadow(self) -> Collection[Hashable]:
        """Return keys whose entries may differ from the store."""
        return self._dirty


class CachedLruRows(CachedKeyValueRows, LruRows):
    """The most recently used keys behind a cache, which may still show keys that the store has evicted."""

    def _shadow(self) -> Collection[Hashable]:
        return self.cached


class _TimedCache(CachedStore[TimedKey[P], Any], TimedRows[P]):
    """Base of the cached kinds: reads that see the cache over the store."""

    def _bind(self) -> None:
        super()._bind()
        self._cached_index = TimeIndex()
        self._cached_positions: KeyIndex[P] = KeyIndex()

    def _index_cached(self, raw_key: TimedKey[P], *, gone: bool) -> None:
        times, positions = self._cached_index, self._cached_positions
        (times.remove if gone else times.add)(self._time(raw_key[1]), raw_key)
        (positions.remove if gone else positions.add)(*raw_key)

    def _stored_row(self, raw_key: TimedKey[P]) -> object:
        return self.raw.get(raw_key) if self._time(raw_key[1]) >= self.retention.visible_from else None

    def _key_size(self, raw_key: TimedKey[P]) -> int:
        prefix = self.spec.persistent and bool(self.spec.extra.get("time_ordered"))
        return _SEGMENT + prefix + len(self._key_bytes(raw_key))

    def _stored_from(self, raw_key: Hashable, time: int) -> list[P]:
        return super()._positions_from(raw_key, time)

    def _positions_from(self, raw_key: Hashable, time: int) -> list[P]:
        stored, cached = self._stored_from(raw_key, time), self._cached_positions.get(raw_key)
        if cached is None:
            return stored
        entries, time_of = self.cached, self._time
        positions = [position for position in stored if (raw_key, position) not in entries]
        positions += [at for at in cached if time_of(at) >= time and entries[raw_key, at].row is not None]
        return sorted(positions)

    def _passed(self, raw_key: Hashable, from_: int, to: int, step: int = 1) -> Iterator[TimedKey[P]]:
        """Yield the cached rows that an iterator over a key passes, all of which count as used.

        Kafka's cache sorts them by segment and key. The segments of its in-memory stores are 1 ms long, and all earlier
        ones of windows are passed.
        """
        time, key_bytes = self._time, self.keys.to_bytes
        if self.spec.persistent:
            positions = self._cached_positions.get(raw_key, ())
            yield from [(raw_key, position) for position in positions if from_ <= time(position) <= to][::step]
            return
        least, own = from_ if self._bits < 0 else 0, key_bytes(raw_key)
        for at_ms in self._cached_index.times_between(least, to)[::step]:
            cached_keys: Iterable[Any] = self._cached_index.get(at_ms, ())
            for data, position, key in sorted((key_bytes(each[0]), each[1], each[0]) for each in cached_keys)[::step]:
                if (least, own) <= (at_ms, data) <= (to, own):
                    yield key, position

    def _between(self, from_: int, to: int) -> list[TimedKey[P]]:
        entries = self.cached
        raw_keys = [raw_key for raw_key in super()._between(from_, to) if raw_key not in entries]
        return raw_keys + [key for key in self._cached_index.between(from_, to) if entries[key].row is not None]


class CachedWindowRows(_TimedCache[int], WindowRows):
    """Rows by key and window start behind a cache."""

    def _bind(self) -> None:
        super()._bind()
        stored_at, encode_key = self.row_at, self.keys.encode

        def row_at(key: object, at: int) -> object:
            entry = self.cached_row((encode_key(key), at))
            return stored_at(key, at) if entry is None else self._shown(entry.row)

        def put(key: object, value: object, window_start: Instant) -> None:
            start = window_start if type(window_start) is int else instant_ms(window_start)
            self.cache((encode_key(key), start), self._kept(value))

        self.row_at, self.put = row_at, put

    def rows_between(self, key: object, from_: int, to: int, *, backward: bool = False) -> Iterator[tuple[int, Any]]:
        """Yield rows when they are reached: what is put meanwhile may evict those that follow.

        As in Kafka Streams, the next rows of cache and store are read ahead, all cached rows that are passed count as
        used, and only the in-memory store shows what was evicted meanwhile. Backward, all rows of the first segment are
        passed.
        """
        from_ = max(from_, 0) if to >= 0 else from_  # as without a cache
        raw_key, step = self.keys.encode(key), -1 if backward else 1
        segment_ms = self.retention.segment_ms if backward else 1
        passed = self._passed(raw_key, from_ // segment_ms * segment_ms, to, step)
        stored = self._stored_from(raw_key, from_)
        rows = [(at, self._stored_row((raw_key, at))) for at in stored[: bisect_left(stored, to + 1)][::step]]
        live = iter(rows) if self.spec.persistent else self._live_rows(raw_key, from_, to, step)

        def fresh() -> Iterator[tuple[int, Any]]:
            for cached_key in passed:
                entry = self.cached_row(cached_key)
                if entry is not None and cached_key[0] == raw_key and cached_key[1] >= from_:
                    yield cached_key[1], entry.row

        for at, row in _merged(fresh(), live, reverse=backward):
            yield at, self._shown(row)

    def _live_rows(self, raw_key: Hashable, from_: int, to: int, step: int) -> Iterator[tuple[int, Any]]:
        """Yield the rows of the store itself, as they are when they are reached."""
        last = None
        while rows := [
            at for at in self._stored_from(raw_key, from_) if at <= to and (last is None or at * step > last * step)
        ]:
            last = rows[::step][0]
            yield last, self._stored_row((raw_key, last))


class CachedSessionRows(_TimedCache[tuple[int, int]], SessionRows):
    """Aggregates by session behind a cache."""

    def _bind(self) -> None:
        super()._bind()
        self.put = lambda session, aggregate: self.cache(self._raw_key(session), self.values.encode(aggregate))

    def remove(self, session: Windowed[object]) -> None:
        """Remove a session."""
        self.cache(self._raw_key(session), None)

    def _of_key(self, key: object, earliest_end: int, latest_start: int) -> list[SessionKey]:
        raw_key = self.keys.encode(key)
        for cached_key in self._passed(raw_key, earliest_end, MAX_TIME_MS):
            self.cached_row(cached_key)
        return super()._of_key(key, earliest_end, latest_start)

    def fetch_session(self, key: object, start: Instant, end: Instant) -> object:
        """Return the aggregate of exactly one session, or None."""
        entry = self.cached_row((self.keys.encode(key), (instant_ms(end), instant_ms(start))))
        return super().fetch_session(key, start, end) if entry is None else self.values.decode(entry.row)


BEHIND_CACHE: dict[type[Store], type[CachedStore]] = {
    KeyValueRows: CachedKeyValueRows,
    LruRows: CachedLruRows,
    WindowRows: CachedWindowRows,
    SessionRows: CachedSessionRows,
}
"""A kind of store, and the same behind a cache."""
