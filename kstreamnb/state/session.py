"""Session stores: aggregates by key, session start and session end, forgotten after their retention."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

from kstreamnb.core.record import Windowed
from kstreamnb.core.stores import StoreSpec
from kstreamnb.state.store import Recorder, Rows, Store, StoreContext
from kstreamnb.state.time_index import KeyIndex, Retention, TimeIndex
from kstreamnb.state.window import MAX_TIME_MS

__all__ = ["SessionRows"]


class SessionRows(Store):
    """Aggregates by session, both of whose ends are inclusive.

    ``raw`` maps ``(wire key, end, start)`` to the wire value and None to the observed stream time, which is the
    greatest session end that was put.
    """

    def __init__(self, spec: StoreSpec, context: StoreContext) -> None:
        super().__init__(spec, context)
        self.retention = Retention(spec)
        self._index = TimeIndex()
        self._sessions = KeyIndex()
        self._record: Recorder | None = None
        self._hook(self._recorder())

    def _hook(self, record: Recorder | None) -> None:
        self._record = record

    def put(self, session: Windowed, aggregate: Any) -> None:
        """Keep an aggregate; None removes it."""
        row = None if aggregate is None else self.values.encode(aggregate)
        self.write((self.keys.encode(session.key), session.end, session.start), row)

    def remove(self, session: Windowed) -> None:
        """Remove a session."""
        raw_key = (self.keys.encode(session.key), session.end, session.start)
        if self.spec.persistent:
            self._observe(session.end)
        old = self.raw.get(raw_key)
        self.apply(raw_key, None)
        if self._record is not None:
            self._record(raw_key, old, None)

    def write(self, raw_key: Any, row: Any) -> None:
        """Change one row and note it, unless its session has expired; None deletes."""
        end = raw_key[1]
        self._observe(end)
        old = self.raw.get(raw_key)
        if end < self.retention.accepted_from:
            self._refuse(raw_key, row)
            if self._changes is not None:
                self._changes.append((raw_key, row, self.context.timestamp(), ()))
            return
        self.apply(raw_key, row)
        if self._record is not None:
            self._record(raw_key, old, row)

    def _refuse(self, raw_key: Any, row: Any) -> None:
        key, end, start = raw_key
        details = {
            "window_start": start,
            "window_end": end,
            "stream_time_ms": self.retention.observed_ms,
            "retention_ms": self.retention.retention_ms,
            "store": self.name,
        }
        value = self.values.decode(row)
        self.context.drop("expired", self.keys.decode(key), value, self.context.timestamp(), details)

    def _observe(self, end: int) -> None:
        retention = self.retention
        if end <= retention.observed_ms:
            return
        due = end >= retention.next_expiry
        self.note(None, self.raw.get(None), end)
        self.apply(None, end)
        if due:
            for raw_key in self._index.before(retention.live_from):
                self.note(raw_key, self.raw[raw_key], None)
                self.apply(raw_key, None)

    def apply(self, raw_key: Any, row: Any) -> None:
        """Change one row silently; None deletes."""
        raw = self.raw
        if raw_key is None:
            self.retention.observe(-1 if row is None else row)
            if row is None:
                raw.pop(None, None)
            else:
                raw[None] = row
        elif row is None:
            if raw.pop(raw_key, None) is not None:
                key, end, start = raw_key
                self._index.remove(end, raw_key)
                self._sessions.remove(key, (end, start))
        else:
            if raw_key not in raw:
                key, end, start = raw_key
                self._index.add(end, raw_key)
                self._sessions.add(key, (end, start))
            raw[raw_key] = row

    def fetch_session(self, key: Any, start: int, end: int) -> Any:
        """The aggregate of exactly one session, or None."""
        row = self.raw.get((self.keys.encode(key), end, start))
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
            earliest_end = max(earliest_end, self.retention.visible_from)
        return self._rows(sorted(self._index.between(earliest_end, latest_end), key=self._time_rank))

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
        sessions = self._sessions_of(raw_key, earliest_end)
        found = [(raw_key, end, start) for end, start in sessions if start <= latest_start]
        return found if self.spec.persistent or len(found) < 2 else sorted(found, key=self._rank)

    def _sessions_of(self, raw_key: Any, earliest_end: int) -> list[tuple[int, int]]:
        """End and start of a key's sessions that end at or after a time, ascending."""
        sessions = self._sessions.get(raw_key)
        if sessions is None:
            return []
        return sessions[bisect_left(sessions, (max(earliest_end, self.retention.visible_from),)) :]

    def _stored_between(self, earliest_end: int, latest_end: int) -> list[Any]:
        """Raw keys of a range of session ends, in no order."""
        return list(self._index.between(max(earliest_end, self.retention.visible_from), latest_end))

    def _of_keys(self, from_key: Any, to_key: Any, earliest_end: int, latest_start: int) -> list[Any]:
        as_bytes, encode = self.keys.to_bytes, self.keys.encode
        least = b"" if from_key is None else as_bytes(encode(from_key))
        most = None if to_key is None else as_bytes(encode(to_key))
        found = []
        for raw_key in self._stored_between(earliest_end, MAX_TIME_MS):
            data = as_bytes(raw_key[0])
            if raw_key[2] <= latest_start and data >= least and (most is None or data <= most):
                found.append(raw_key)
        return sorted(found, key=self._segment_rank if self.spec.persistent else self._rank)

    def _rank(self, raw_key: Any) -> tuple[int, bytes, int]:
        """End, key bytes, then the latest start first: the order of Kafka's in-memory store."""
        return raw_key[1], self.keys.to_bytes(raw_key[0]), -raw_key[2]

    def _segment_rank(self, raw_key: Any) -> tuple[int, bytes]:
        """Segment by segment, then key bytes, end and start: the order of Kafka's persistent store."""
        return self.retention.segment(raw_key[1]), self.changelog_key(raw_key)

    def _time_rank(self, raw_key: Any) -> tuple[Any, ...]:
        if not self.spec.persistent:
            return self._rank(raw_key)
        return raw_key[1], raw_key[2], self.keys.to_bytes(raw_key[0])

    def changelog_key(self, raw_key: Any) -> bytes:
        """Key, session end and session start (8 bytes each)."""
        key, end, start = raw_key
        data: bytes = self.keys.to_bytes(key) + end.to_bytes(8, signed=True) + start.to_bytes(8, signed=True)
        return data

    def changelog_entry(self, raw_key: Any, row: Any) -> tuple[bytes, bytes | None]:
        """Kafka's changelog bytes of a row."""
        return self.changelog_key(raw_key), None if row is None else self.values.to_bytes(row)

    def _key_from(self, data: bytes) -> Any:
        end, start = int.from_bytes(data[-16:-8], signed=True), int.from_bytes(data[-8:], signed=True)
        return super()._key_from(data[:-16]), end, start

    def _replay(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        raw_key = self._key_from(key)
        if raw_key[1] > self.retention.observed_ms:
            self.apply(None, raw_key[1])
            for old in self._index.before(self.retention.live_from):
                self.apply(old, None)
        if raw_key[1] >= self.retention.accepted_from:
            self.apply(raw_key, None if value is None else self._row_from(value, timestamp))

    def _rows(self, raw_keys: list[Any]) -> Rows:
        return Rows(map(self._show, raw_keys, [self._row(raw_key) for raw_key in raw_keys]))

    def _row(self, raw_key: Any) -> Any:
        """The row of a session that was found in a range."""
        return self.raw[raw_key]

    def _show(self, raw_key: Any, row: Any) -> tuple[Windowed, Any]:
        key, end, start = raw_key
        return Windowed(self.keys.decode(key), start, end), self.values.decode(row)
