"""Window stores and session stores: rows by key and their position in time, expired after their retention."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeAlias

from kstreamnb.core.record import AggregationWithHeaders, Headers, Windowed
from kstreamnb.core.stores import StoreSpec
from kstreamnb.core.time import MAX_TIME_MS, Instant, instant_ms
from kstreamnb.errors import StateError
from kstreamnb.state.codec import ValueWithHeaders, headers_of
from kstreamnb.state.rows_by_key import RowsByKey, TimedKey
from kstreamnb.state.store import Rows, StoreContext, StoreForUser
from kstreamnb.state.timed import TimedRows

SessionKey: TypeAlias = TimedKey[tuple[int, int]]
"""The wire form of a key, and end and start (ms) of one of its sessions."""


class WindowRows(TimedRows[int]):
    """Rows by key and window start.

    A position is the window start. A ``time_ordered`` store (see ``spec.extra``) is Kafka's store for windows that are
    emitted on close: it is ordered by time first and shows rows for one ms longer.
    """

    _bits, _time_at = 0, 12

    def __init__(self, spec: StoreSpec, context: StoreContext) -> None:
        self.window_size_ms = spec.window_size_ms or 0
        self._by_time_first = not spec.persistent or bool(spec.extra.get("time_ordered"))
        super().__init__(spec, context, clamp_ms=0 if spec.persistent and self._by_time_first else 1)

    def _bind(self) -> None:
        self.row_at, self.put = self._bind_row_at(), self._bind_put()

    def _bind_row_at(self) -> Callable[[object, int], object]:
        retention, encode_key, direct = self.retention, self.keys.encode, self.keys.direct
        find, show, exact = self.raw.get, self._shown, tuple if self.timestamped else None

        def row_at(key: object, at: int) -> object:
            row = find((key if direct else encode_key(key), at))
            if type(row) is exact and retention.shown_from <= at >= retention.observed_ms - retention.hidden_ms:
                return row
            if row is None:
                encode_key(key)
                return None
            return show(row) if at >= retention.visible_from else None

        return row_at

    def _bind_put(self) -> Callable[[object, Any, int], None]:
        raw, retention, watched, index = self.raw, self.retention, self.watched, self._index
        encode_key, stamped_rows, slow = self.keys.encode, self.timestamped, self._put_slowly
        prepare = self._kept if stamped_rows else self.values.encode
        least, most, text, key_text = -self.values.small, self.values.small, self.values.text, self.keys.text
        if self._forgets_times:
            return slow

        def put(key: Any, value: Any, window_start: int) -> None:
            timely = type(window_start) is int and retention.kept_from <= window_start < retention.next_expiry
            if value is None or not timely or window_start <= retention.observed_ms - retention.lag_ms:
                slow(key, value, window_start)
                return
            part = value[0] if stamped_rows else value
            kind = type(part)
            if (stamped_rows and type(value) is not tuple) or not (
                (kind is int and least < part < most) or (kind is text and part.isascii())
            ):
                value = prepare(value)
                if value is None:  # the serde has no bytes for it
                    slow(key, None, window_start)
                    return
            if not (type(key) is key_text and key.isascii()):
                key = encode_key(key)
            if window_start > retention.observed_ms:
                retention.observed_ms = window_start
                if watched[0]:
                    watched[0](None, raw.get(None), (window_start, 0))
                raw[None] = window_start, 0
            old = raw.get(raw_key := (key, window_start))
            raw[raw_key] = value
            if old is None:
                index(raw_key, gone=False)
            if watched[0]:
                watched[0](raw_key, old, value)

        return put

    def _put_slowly(self, key: object, value: object, window_start: Instant) -> None:
        self.write((self.keys.encode(key), instant_ms(window_start)), self._kept(value))

    def fetch(self, key: object, from_: Instant, to: Instant | None = None) -> object:
        """Return the value of one window start or, with two times, the result of `fetch_between`."""
        return self.row_at(key, instant_ms(from_)) if to is None else self.fetch_between(key, from_, to)

    def fetch_between(self, key: object, from_: Instant, to: Instant) -> Rows:
        """Return ``(window start, value)`` of one key with starts between two times, both inclusive, ascending."""
        return Rows(self.rows_between(key, instant_ms(from_), instant_ms(to)))

    def rows_between(self, key: object, from_: int, to: int, *, backward: bool = False) -> Iterable[tuple[int, Any]]:
        """Return the rows of `fetch_between`, for operators: a list, unless each read is noted when it happens."""
        raw_key = self.keys.encode(key)
        positions = self._of_key(raw_key, from_, to)
        return self._starts(raw_key, positions[::-1] if backward else positions)

    def backward_fetch(self, key: object, from_: Instant, to: Instant) -> Rows:
        """Return the rows of `fetch_between`, descending."""
        return Rows(self.rows_between(key, instant_ms(from_), instant_ms(to), backward=True))

    def _of_key(self, raw_key: Hashable, from_: int, to: int) -> list[int]:
        from_ = max(from_, 0) if to >= 0 else from_  # bytes of negative times follow all others
        positions, end = self._positions_from(raw_key, from_), to + 1 << self._bits
        return positions if not positions or positions[-1] < end else positions[: bisect_left(positions, end)]

    def _starts(self, raw_key: Hashable, positions: list[int]) -> Iterable[tuple[int, Any]]:
        row, bits, show = self._row, self._bits, self._shown if self.timestamped else self.values.decode
        return [(position >> bits, show(row((raw_key, position)))) for position in positions]

    def fetch_keys(self, from_key: object, to_key: object, from_: Instant, to: Instant) -> Rows:
        """Return rows of a range of keys and starts, all bounds inclusive; a key of None is open."""
        return self._rows(self._in_keys(self._between(instant_ms(from_), instant_ms(to)), from_key, to_key))

    def backward_fetch_keys(self, from_key: object, to_key: object, from_: Instant, to: Instant) -> Rows:
        """Return the rows of `fetch_keys` in reverse order."""
        return self._rows(self._in_keys(self._between(instant_ms(from_), instant_ms(to)), from_key, to_key)[::-1])

    def fetch_all(self, from_: Instant, to: Instant) -> Rows:
        """Return rows of all keys with starts between two times, both inclusive."""
        return self._rows(self._in_time(instant_ms(from_), instant_ms(to)))

    def backward_fetch_all(self, from_: Instant, to: Instant) -> Rows:
        """Return the rows of `fetch_all` in reverse order."""
        return self._rows(self._in_time(instant_ms(from_), instant_ms(to))[::-1])

    def _rows(self, raw_keys: list[TimedKey[int]]) -> Rows:
        """Return the rows of a range; fail as Kafka does if it has a window before time 0, which Kafka cannot name."""
        if any(position < 0 for _, position in raw_keys):
            hint, java = "read them key by key, with fetch()", "Window startMs time cannot be negative."
            raise StateError(f'store "{self.name}" has windows that begin before 0 ms', hint=hint, java=java)
        return super()._rows(raw_keys)

    def all(self) -> Rows:
        """Return all rows that have not expired."""
        return self.fetch_all(0, MAX_TIME_MS)

    def backward_all(self) -> Rows:
        """Return the rows of `all` in reverse order."""
        return self.backward_fetch_all(0, MAX_TIME_MS)

    def _in_time(self, from_: int, to: int) -> list[TimedKey[int]]:
        return sorted(self._between(from_, to), key=self._time_rank if self._by_time_first else self._segment_rank)

    def _time_rank(self, raw_key: TimedKey[int]) -> tuple[int, bytes]:
        key, position = raw_key
        return position >> self._bits, self.keys.to_bytes(key) + self._sequence_bytes(position)

    def _sequence_bytes(self, position: int) -> bytes:
        """Return the number of a row as bytes, 0 without duplicates."""
        return (position % (1 << self._bits)).to_bytes(4)

    def _key_bytes(self, raw_key: TimedKey[int]) -> bytes:
        """Return key, window start (8 bytes) and sequence (4 bytes) as bytes."""
        key, position = raw_key
        start = (position >> self._bits).to_bytes(8, signed=True)
        return b"".join((self.keys.to_bytes(key), start, self._sequence_bytes(position)))

    def _key_from(self, data: bytes) -> TimedKey[int]:
        start, number = int.from_bytes(data[-12:-4], signed=True), int.from_bytes(data[-4:])
        return super()._key_from(data[:-12]), start << self._bits | number

    def _user_key(self, raw_key: TimedKey[int]) -> Windowed[object]:
        """Return the window of a row."""
        key, position = raw_key
        start = position >> self._bits
        return Windowed(self.keys.decode(key), start, min(start + self.window_size_ms, MAX_TIME_MS))


class SessionRows(TimedRows[tuple[int, int]]):
    """Aggregates by session, both of whose ends are inclusive; a position is ``(end, start)``."""

    _time_at = 16

    def _bind(self) -> None:
        self.put: Callable[..., None] = lambda at, new: self.write(self._raw_key(at), self.values.encode(new))
        if isinstance(self.raw, RowsByKey) and not self.spec.cached:
            self.put = self._bind_put(self.raw)
            self.remove, self.rows_between = self._bind_reads(self.raw)  # type: ignore[method-assign]

    def _bind_put(self, rows: RowsByKey) -> Callable[..., None]:
        by_key, times, retention, watched, text = rows.entries, rows.times, self.retention, self.watched, self.keys.text
        encode_key, encode, least, most = self.keys.encode, self.values.encode, -self.values.small, self.values.small

        def put(session: Windowed[Any], aggregate: Any) -> None:
            """Keep an aggregate; None removes it."""
            key, start, end = session
            if not (type(key) is text and key.isascii()):
                key = encode_key(key)
            row = aggregate if type(aggregate) is int and least < aggregate < most else encode(aggregate)
            timely = retention.kept_from <= end < retention.next_expiry and 0 <= start <= end
            if row is None or not timely or end <= retention.observed_ms - retention.lag_ms:
                self._check_session(start, end)
                self.write((key, (end, start)), row)
                return
            if end > retention.observed_ms:
                retention.observed_ms = end
                if watched[0]:
                    watched[0](None, rows.clock, (end, 0))
                rows.clock = end, 0
            entries, old = by_key.get(key) or by_key.setdefault(key, []), None
            if times or (entries and entries[-1] >= (end, start)):
                old = rows.write((key, (end, start)), row)
            else:
                entries.append((end, start, row))
                rows.count += 1
            if watched[0]:
                watched[0]((key, (end, start)), old, row)

        return put

    def _bind_reads(self, rows: RowsByKey) -> tuple[Callable[..., Any], ...]:
        by_key, retention, watched, text = rows.entries, self.retention, self.watched, self.keys.text
        encode_key, decode_key, decode, make = self.keys.encode, self.keys.decode, self.values.decode, tuple.__new__

        def remove(session: Windowed[Any]) -> None:
            """Remove a session."""
            key, start, end = session
            entries = by_key.get(key) if type(key) is text and not (watched[0] or rows.times) else None
            if entries is None or entries[-1][:2] != (end, start) or end > retention.observed_ms:
                SessionRows.remove(self, session)
                return
            rows.count -= 1
            entries.pop()
            if not entries:
                del by_key[key]

        def rows_between(key: Any, earliest_end: int, latest_start: int) -> list[tuple[Windowed[Any], object]]:
            raw_key = key if type(key) is text and key.isascii() else encode_key(key)
            entries = by_key.get(raw_key)
            if earliest_end < retention.observed_ms - retention.hidden_ms:
                earliest_end = retention.observed_ms - retention.hidden_ms
            if entries is None or (len(entries) > 1 and entries[-2][0] >= earliest_end):
                return SessionRows.rows_between(self, key, earliest_end, latest_start)
            end, start, row = entries[-1]  # the usual case: no search
            if end < earliest_end or start > latest_start:
                return []
            session = make(Windowed, (key if type(key) is text else decode_key(raw_key), start, end))
            return [(session, row if type(row) is int else decode(row))]

        return remove, rows_between

    def remove(self, session: Windowed[object]) -> None:
        """Remove a session."""
        raw_key, end = self._raw_key(session), session.end
        if end > self.retention.observed_ms and self.spec.persistent:
            self._advance((end, 0))
        old = self.raw.pop(raw_key, None)
        if old is not None:
            self._index(raw_key, gone=True)
        if self.watched[0]:
            self.watched[0](raw_key, old, None)

    def _check_session(self, start: int, end: int) -> None:
        """Raise StateError for times that no session can have."""
        if not 0 <= start <= end:
            time, fact = ("startMs", "negative") if start < 0 else ("endMs", "smaller than window startMs time")
            message = f'store "{self.name}" expects 0 <= start <= end, got a session from {start} to {end} ms'
            raise StateError(message, java=f"Window {time} time cannot be {fact}.")

    def rows_between(self, key: object, earliest_end: int, latest_start: int) -> list[tuple[Windowed[Any], object]]:
        """Return the rows of `find_sessions`, for operators."""
        decode, row = self.values.decode, self._row
        return [(self._user_key(at), decode(row(at))) for at in self._of_key(key, earliest_end, latest_start)]

    def fetch_session(self, key: object, start: Instant, end: Instant) -> object:
        """Return the aggregate of exactly one session, or None."""
        start, end = instant_ms(start), instant_ms(end)
        row = self.raw.get((self.keys.encode(key), (end, start)))
        return None if row is None or end < self.retention.visible_from else self.values.decode(row)

    def find_sessions(self, key: object, earliest_end: Instant, latest_start: Instant) -> Rows:
        """Return sessions of a key that end at or after a time and start at or before another, by end."""
        return self._rows(self._of_key(key, instant_ms(earliest_end), instant_ms(latest_start)))

    def backward_find_sessions(self, key: object, earliest_end: Instant, latest_start: Instant) -> Rows:
        """Return the sessions of `find_sessions` in reverse order."""
        return self._rows(self._of_key(key, instant_ms(earliest_end), instant_ms(latest_start))[::-1])

    def find_sessions_between(
        self, from_key: object, to_key: object, earliest_end: Instant, latest_start: Instant
    ) -> Rows:
        """Return the same for a range of keys; both bounds are inclusive, and None means unbounded."""
        return self._rows(self._of_keys(from_key, to_key, instant_ms(earliest_end), instant_ms(latest_start)))

    def backward_find_sessions_between(
        self, from_key: object, to_key: object, earliest_end: Instant, latest_start: Instant
    ) -> Rows:
        """Return the sessions of `find_sessions_between` in reverse order."""
        return self._rows(self._of_keys(from_key, to_key, instant_ms(earliest_end), instant_ms(latest_start))[::-1])

    def find_sessions_by_end(self, earliest_end: Instant, latest_end: Instant) -> Rows:
        """Return sessions of all keys that end between two times, both inclusive, by end; used to close windows.

        Kafka's persistent store shows rows not yet dropped here, its in-memory store rows not yet expired.

        Raises: StateError behind a cache, and for a persistent store that is not ordered by time.
        """
        if self.spec.cached or (self.spec.persistent and not self.spec.extra.get("time_ordered")):
            hint = "use Stores.in_memory_session_store without a cache"
            java = "This API is not supported by this implementation of SessionStore."
            raise StateError(f'store "{self.name}" cannot list sessions by their end', hint=hint, java=java)
        earliest_end, latest_end = instant_ms(earliest_end), instant_ms(latest_end)
        if not self.spec.persistent:
            return self._rows(sorted(self._between(earliest_end, latest_end), key=self._time_rank))
        by_end = sorted(self._by_time(earliest_end, latest_end), key=lambda at: (*at[1], self.keys.to_bytes(at[0])))
        return self._rows(by_end)

    def fetch(self, key: object, to_key: object = ...) -> Rows:
        """Return all sessions of a key, or of a range of keys; a bound of None is open.

        Raises: StateError if the first key comes after the last one, in memory and without a cache, unless it is empty.
        """
        return self._rows(self._of_all(key, to_key))

    def backward_fetch(self, key: object, to_key: object = ...) -> Rows:
        """Return the sessions of `fetch` in reverse order."""
        return self._rows(self._of_all(key, to_key)[::-1])

    def _of_all(self, key: object, to_key: object) -> list[SessionKey]:
        if to_key is ...:
            return self._of_key(key, 0, MAX_TIME_MS)
        checks = not (self.spec.persistent or self.spec.cached) and None not in (key, to_key)
        if checks and self._between(0, MAX_TIME_MS) and self._bytes_of(key) > self._bytes_of(to_key):
            java = "IllegalArgumentException: inconsistent range"
            raise StateError(f'store "{self.name}" has no sessions from key {key!r} to {to_key!r}', java=java)
        return self._of_keys(key, to_key, 0, MAX_TIME_MS)

    def _of_key(self, key: object, earliest_end: int, latest_start: int) -> list[SessionKey]:
        if latest_start < 0 and (self.spec.persistent or self.spec.cached):
            self._check_session(latest_start, MAX_TIME_MS)
        raw_key = self.keys.encode(key)
        positions = self._positions_from(raw_key, earliest_end)
        sessions = [(raw_key, position) for position in positions if position[1] <= latest_start]
        return sessions if len(sessions) < 2 or self.spec.persistent else sorted(sessions, key=self._time_rank)

    def _of_keys(self, from_key: object, to_key: object, earliest_end: int, latest_start: int) -> list[SessionKey]:
        ending = self._between(earliest_end, MAX_TIME_MS)
        return self._in_keys([session for session in ending if session[1][1] <= latest_start], from_key, to_key)

    def _time_rank(self, raw_key: SessionKey) -> tuple[int, bytes, int]:
        """End, key bytes, then the latest start first: the order of Kafka's in-memory store."""
        key, (end, start) = raw_key
        return end, self.keys.to_bytes(key), -start

    def headers_at(self, session: Windowed[object]) -> Headers:
        """Return the headers kept with the aggregate of a session; none without such a session."""
        return headers_of(self._row(self._raw_key(session)))

    @property
    def for_user(self) -> object:
        """The store as a user's processor gets it: with headers, aggregates are `AggregationWithHeaders`."""
        return SessionStoreForUser(self) if self.keeps_headers else self

    def _row_from(self, data: bytes, timestamp: int, headers: Headers) -> object:
        value = super()._row_from(data, timestamp, headers)
        return ValueWithHeaders(value, headers) if headers and self.keeps_headers else value

    def _raw_key(self, session: Windowed[object]) -> SessionKey:
        key, start, end = session
        self._check_session(start, end)
        return self.keys.encode(key), (end, start)

    def _user_key(self, raw_key: SessionKey) -> Windowed[Any]:
        """Return the session of a row."""
        key, (end, start) = raw_key
        return Windowed(self.keys.decode(key), start, end)

    def _key_bytes(self, raw_key: SessionKey) -> bytes:
        """Return key, session end and session start (8 bytes each) as bytes."""
        key, (end, start) = raw_key
        return b"".join((self.keys.to_bytes(key), end.to_bytes(8, signed=True), start.to_bytes(8, signed=True)))

    def _key_from(self, data: bytes) -> SessionKey:
        end, start = int.from_bytes(data[-16:-8], signed=True), int.from_bytes(data[-8:], signed=True)
        return super()._key_from(data[:-16]), (end, start)


class SessionStoreForUser(StoreForUser):
    """A session store whose aggregates are `AggregationWithHeaders`, otherwise the store itself."""

    _store: SessionRows

    def put(self, session: Windowed[object], aggregate: AggregationWithHeaders | None) -> None:
        """Keep an aggregate with its headers; None removes it."""
        if aggregate is not None and type(aggregate) is not AggregationWithHeaders:
            hint = f"write AggregationWithHeaders({aggregate!r}, record.headers)"
            raise StateError(f'store "{self._store.name}" expects AggregationWithHeaders, got {aggregate!r}', hint=hint)
        self._store.put(session, None if aggregate is None else ValueWithHeaders(*aggregate))

    def fetch_session(self, key: object, start: Instant, end: Instant) -> AggregationWithHeaders | None:
        """Return the aggregate of exactly one session, or None."""
        session = Windowed(key, instant_ms(start), instant_ms(end))
        return self._named(session, self._store.fetch_session(*session))

    def _named(self, session: Windowed[object], aggregate: object) -> AggregationWithHeaders | None:
        return None if aggregate is None else AggregationWithHeaders(aggregate, self._store.headers_at(session))

    def _shown(self, result: object) -> object:
        return Rows([(row[0], self._named(*row)) for row in result]) if isinstance(result, Rows) else result
