"""Session stores: aggregates by key, session start and session end, forgotten after their retention."""

from __future__ import annotations

from typing import Any

from kstreamnb.core.record import Windowed
from kstreamnb.state.store import Rows, Store
from kstreamnb.state.timed import MAX_TIME_MS, TimedRows


class SessionRows(TimedRows):
    """Aggregates by session, both of whose ends are inclusive; a place is ``(end, start)``."""

    def put(self, session: Windowed, aggregate: Any) -> None:
        """Keep an aggregate; None removes it."""
        self.write(self._raw_key(session), None if aggregate is None else self.values.encode(aggregate))

    def remove(self, session: Windowed) -> None:
        """Remove a session."""
        raw_key = self._raw_key(session)
        if self.spec.persistent and session.end > self.retention.observed_ms:
            self._advance(session.end, 0)
        Store.write(self, raw_key, None)

    def fetch_session(self, key: Any, start: int, end: int) -> Any:
        """The aggregate of exactly one session, or None."""
        row = self.raw.get((self.keys.encode(key), (end, start)))
        return None if row is None or end < self.retention.visible_from else self.values.decode(row)

    def find_sessions(self, key: Any, earliest_end: int, latest_start: int) -> Rows:
        """Sessions of a key that end at or after a time and start at or before another, by end."""
        return self._rows(self._of_key(key, earliest_end, latest_start))

    def backward_find_sessions(self, key: Any, earliest_end: int, latest_start: int) -> Rows:
        """The same, the other way round."""
        return self._rows(self._of_key(key, earliest_end, latest_start)[::-1])

    def find_sessions_between(self, from_key: Any, to_key: Any, earliest_end: int, latest_start: int) -> Rows:
        """The same for a range of keys, both inclusive, None being open."""
        return self._rows(self._of_keys(from_key, to_key, earliest_end, latest_start))

    def backward_find_sessions_between(self, from_key: Any, to_key: Any, earliest_end: int, latest_start: int) -> Rows:
        """The same, the other way round."""
        return self._rows(self._of_keys(from_key, to_key, earliest_end, latest_start)[::-1])

    def find_sessions_by_end(self, earliest_end: int, latest_end: int) -> Rows:
        """Sessions of all keys that end between two times, both inclusive, by end; what closing windows looks for.

        Kafka's persistent store shows here what has not been forgotten yet, its in-memory store what has not expired.
        """
        if not self.spec.persistent:
            return self._rows(sorted(self._between(earliest_end, latest_end), key=self._time_rank))
        return self._rows(sorted(self._by_time(earliest_end, latest_end), key=self._time_ordered_rank))

    def fetch(self, key: Any, to_key: Any = None) -> Rows:
        """All sessions of a key, or of a range of keys."""
        if to_key is None and key is not None:
            return self.find_sessions(key, 0, MAX_TIME_MS)
        return self.find_sessions_between(key, to_key, 0, MAX_TIME_MS)

    def backward_fetch(self, key: Any, to_key: Any = None) -> Rows:
        """The same, the other way round."""
        if to_key is None and key is not None:
            return self.backward_find_sessions(key, 0, MAX_TIME_MS)
        return self.backward_find_sessions_between(key, to_key, 0, MAX_TIME_MS)

    def _of_key(self, key: Any, earliest_end: int, latest_start: int) -> list[Any]:
        raw_key = self.keys.encode(key)
        found = [(raw_key, place) for place in self._places_from(raw_key, earliest_end) if place[1] <= latest_start]
        return found if self.spec.persistent or len(found) < 2 else sorted(found, key=self._time_rank)

    def _of_keys(self, from_key: Any, to_key: Any, earliest_end: int, latest_start: int) -> list[Any]:
        ending = self._between(earliest_end, MAX_TIME_MS)
        return self._in_keys([found for found in ending if found[1][1] <= latest_start], from_key, to_key)

    def _time_rank(self, raw_key: Any) -> tuple[int, bytes, int]:
        """End, key bytes, then the latest start first: the order of Kafka's in-memory store."""
        key, (end, start) = raw_key
        return end, self.keys.to_bytes(key), -start

    def _time_ordered_rank(self, raw_key: Any) -> tuple[int, int, bytes]:
        key, (end, start) = raw_key
        return end, start, self.keys.to_bytes(key)

    def _raw_key(self, session: Windowed) -> tuple[Any, tuple[int, int]]:
        return self.keys.encode(session.key), (session.end, session.start)

    def _window(self, raw_key: Any) -> Windowed:
        key, (end, start) = raw_key
        return Windowed(self.keys.decode(key), start, end)

    def _key_bytes(self, raw_key: Any) -> bytes:
        """Key, session end and session start (8 bytes each)."""
        key, (end, start) = raw_key
        return b"".join((self.keys.to_bytes(key), end.to_bytes(8, signed=True), start.to_bytes(8, signed=True)))

    def _key_from(self, data: bytes) -> Any:
        end, start = int.from_bytes(data[-16:-8], signed=True), int.from_bytes(data[-8:], signed=True)
        return super()._key_from(data[:-16]), (end, start)
