"""Window stores with duplicates: what each side of a stream join keeps."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import Any

from kstreamnb.core.record import Headers
from kstreamnb.state.timed import StoreClock, TimedKey
from kstreamnb.state.window import WindowRows

SEQUENCE_BITS = 31
"""Lowest bits of a position that number the rows of a store."""
_SEQUENCE_MASK = (1 << SEQUENCE_BITS) - 1


class DuplicateRows(WindowRows):
    """Rows by key, window start and number; no put replaces a row.

    A position is ``start << 31 | sequence``, so that positions sort by start and then by arrival. Every put has a
    number, as in Kafka's changelogs: late records and null values, too. Rows in memory are always indexed by key, and
    by nothing else: that index also tells which of them have expired.
    """

    _bits, _newest = SEQUENCE_BITS, 0

    def _bind(self) -> None:
        self.row_at, self.put = self._duplicate_at, self._bind_put()

    def _bind_put(self) -> Callable[[object, Any, int], None]:
        raw, retention, watched, insert = self.raw, self.retention, self.watched, self._insert
        encode_key, key_text, slow = self.keys.encode, self.keys.text, self._put_slowly
        prepare, text = (self._kept, None) if self.timestamped else (self.values.encode, self.values.text)
        if self._forgets_times:
            return slow

        def put(key: Any, value: Any, window_start: int) -> None:
            if value is None or not retention.accepted_from <= window_start < retention.next_expiry:
                slow(key, value, window_start)
                return
            if not (type(value) is text and value.isascii()):
                value = prepare(value)
            if not (type(key) is key_text and key.isascii()):
                key = encode_key(key)
            if window_start > retention.observed_ms:
                retention.advance(window_start)
            self._sequence = self._newest = number = (self._sequence + 1) & _SEQUENCE_MASK
            clock = retention.observed_ms, number, number
            if watched[0]:
                watched[0](None, raw.get(None), clock)
            raw[None] = clock
            raw_key = key, window_start << SEQUENCE_BITS | number
            insert(raw_key, value)
            if watched[0]:
                watched[0](raw_key, None, value)

        return put

    def _put_slowly(self, key: object, value: object, window_start: int) -> None:
        key, persistent = self.keys.encode(key), self.spec.persistent
        observed_ms = max(window_start, self.retention.observed_ms)
        refused = window_start <= observed_ms - self.retention.retention_ms
        sequence = (self._sequence + 1) & _SEQUENCE_MASK
        if value is not None:
            self._newest = sequence
        elif persistent:
            observed_ms = self.retention.observed_ms
        self._advance(observed_ms, sequence)
        raw_key = (key, window_start << SEQUENCE_BITS | sequence)
        if value is not None or (refused and not persistent):
            self.write(raw_key, self._kept(value))
        else:  # deletes nothing, but Kafka's changelog gets it
            self._log(raw_key, None)

    def _take_expired(self) -> list[TimedKey[int]]:
        if self._table is not None:
            return super()._take_expired()
        positions, begin, expired = self._positions, self._first_at(self.retention.live_from), list[TimedKey[int]]()
        for key in [key for key, known in positions.items() if known[0] < begin]:
            expired += zip(repeat(key), positions.take_before(key, begin))
        self._times.drop_before(self.retention.live_from)
        return expired

    def _clock(self, observed_ms: int) -> StoreClock:
        return observed_ms, self._sequence, self._newest

    def _set_clock(self, clock: StoreClock) -> None:
        super()._set_clock(clock[:2])
        self._newest = clock[-1]  # of two items in checkpoints of earlier versions

    def _duplicate_at(self, key: object, at: int) -> object:
        """Return a duplicate as Kafka finds it: only the youngest row of all, and none in its in-memory store."""
        row = self.raw.get((self.keys.encode(key), at << SEQUENCE_BITS | self._newest))
        return None if not self.spec.persistent or at < self.retention.visible_from else self._shown(row)

    def _sequence_bytes(self, position: int) -> bytes:
        return (position & _SEQUENCE_MASK).to_bytes(4)

    def _key_from(self, data: bytes) -> TimedKey[int]:
        key, start = super()._key_from(data)
        return key, start << SEQUENCE_BITS | int.from_bytes(data[-4:])

    def _replay(self, key: bytes, value: bytes | None, timestamp: int, headers: Headers) -> None:
        _, position = self._key_from(key)
        sequence = position & _SEQUENCE_MASK
        self._sequence = max(self._sequence, sequence)  # Kafka's own sequence restarts at 1 after each restart
        self._newest = self._newest if value is None else sequence
        counts = value is not None or not self.spec.persistent
        self._observe_silently(position >> SEQUENCE_BITS if counts else self.retention.observed_ms)
        if value is not None:  # None is put and logged, but deletes nothing
            super()._replay(key, value, timestamp, headers)
