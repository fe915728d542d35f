"""Window stores with duplicates: what each side of a stream join keeps."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

from kstreamnb.core.record import Headers
from kstreamnb.state.timed import TimedKey
from kstreamnb.state.window import WindowRows

SEQUENCE_BITS = 31
"""Lowest bits of a position that number the rows of a store."""
_NUMBERS, _NO_CLOCK = 1 << SEQUENCE_BITS, (-1, 0, 0)


class DuplicateRows(WindowRows):
    """Rows by key, window start and number; no put replaces a row.

    A position is ``start << 31 | sequence``, so that positions sort by start and then by arrival. Every put has a
    number, as in Kafka's changelogs: late records and null values, too. The clock has the number of the last put, and
    that of the newest row. Rows in memory are always indexed by key, and by nothing else: that index also tells which
    of them have expired.
    """

    _bits = SEQUENCE_BITS

    def _bind(self) -> None:
        self.row_at, self.put = self._duplicate_at, self._bind_put()
        if self._table is None:
            self.entries_between = self._bind_entries()  # type: ignore[method-assign,assignment]

    def _bind_put(self) -> Callable[[object, Any, int], None]:
        raw, retention, watched, insert = self.raw, self.retention, self.watched, self._insert
        encode_key, key_text, slow, times = self.keys.encode, self.keys.text, self._put_slowly, self._times
        prepare, text = (self._kept, None) if self.timestamped else (self.values.encode, self.values.text)
        positions = self._positions
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
            old = raw.get(None)
            number = 1 if old is None else (old[1] + 1) % _NUMBERS
            raw[None] = clock = retention.observed_ms, number, number
            raw_key = key, position = key, window_start << SEQUENCE_BITS | number
            known = positions.get(key)
            if known is None or times or position < known[-1]:
                insert(raw_key, value)
            else:
                raw[raw_key] = value
                known.append(position)
            if watched[0]:
                watched[0](None, old, clock)
                watched[0](raw_key, None, value)

        return put

    def _bind_entries(self) -> Callable[[object, int, int], Sequence[tuple[int, Any]]]:
        raw, known, retention, encode_key = self.raw, self._positions.get, self.retention, self.keys.encode
        key_text = self.keys.text

        def entries_between(key: Any, from_: int, to: int) -> Sequence[tuple[int, Any]]:
            raw_key = key if type(key) is key_text and key.isascii() else encode_key(key)
            positions = known(raw_key)
            if positions is None or positions[-1] < from_ << SEQUENCE_BITS:
                return ()  # the usual case in a join: no partner has come yet
            begin, end = max(from_, retention.visible_from, 0) << SEQUENCE_BITS, max(to, 0) + 1 << SEQUENCE_BITS
            found = positions[bisect_left(positions, begin) : bisect_left(positions, end)]
            return [(position >> SEQUENCE_BITS, raw[raw_key, position]) for position in found]

        return entries_between

    def entries_between(self, key: object, from_: int, to: int) -> Sequence[tuple[int, Any]]:
        """Return the rows of `fetch_between` in wire form, for operators; negative times stand for 0."""
        raw, raw_keys = self.raw, self.raw_keys_between(key, from_, to)
        return [(raw_key[1] >> SEQUENCE_BITS, raw[raw_key]) for raw_key in raw_keys]

    def raw_keys_between(self, key: object, from_: int, to: int) -> list[TimedKey[int]]:
        """Return the raw keys of `entries_between`."""
        raw_key = self.keys.encode(key)
        return [(raw_key, position) for position in self._of_key(raw_key, max(from_, 0), max(to, 0))]

    def _put_slowly(self, key: object, value: object, window_start: int) -> None:
        key, persistent, clock = self.keys.encode(key), self.spec.persistent, self.raw.get(None, _NO_CLOCK)
        number, latest_ms = (clock[1] + 1) % _NUMBERS, max(window_start, clock[0])
        refused = window_start <= latest_ms - self.retention.retention_ms
        observed_ms = clock[0] if value is None and persistent else latest_ms
        self._advance((observed_ms, number, clock[-1] if value is None else number))
        raw_key = (key, window_start << SEQUENCE_BITS | number)
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

    def _duplicate_at(self, key: object, at: int) -> object:
        """Return a duplicate as Kafka finds it: only the youngest row of all, and none in its in-memory store."""
        newest = self.raw.get(None, _NO_CLOCK)[-1]
        row = self.raw.get((self.keys.encode(key), at << SEQUENCE_BITS | newest))
        return None if not self.spec.persistent or at < self.retention.visible_from else self._shown(row)

    def _replay(self, key: bytes, value: bytes | None, timestamp: int, headers: Headers) -> None:
        start, number = divmod(self._key_from(key)[1], _NUMBERS)
        clock = self.raw.get(None, _NO_CLOCK)  # of two items in checkpoints of earlier versions
        observed_ms, last, newest = clock[0], clock[1], clock[-1]
        if value is not None or not self.spec.persistent:
            observed_ms = max(observed_ms, start)
        last = max(last, number)  # Kafka's own number restarts at 1 after each restart
        self._advance((observed_ms, last, newest if value is None else number), silently=True)
        if value is not None:  # None is put and logged, but deletes nothing
            super()._replay(key, value, timestamp, headers)
