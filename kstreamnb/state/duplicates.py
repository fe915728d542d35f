"""Window stores with duplicates: what each side of a stream join keeps."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any

from kstreamnb.core.record import Headers
from kstreamnb.core.time import Instant, instant_ms
from kstreamnb.state.codec import MOST_COPIES
from kstreamnb.state.rows_by_key import NUMBERS, SEQUENCE_BITS, NumberedRow, RowsByKey, position_of
from kstreamnb.state.window import WindowRows

_NO_CLOCK = (-1, 0, 0)


class DuplicateRows(WindowRows):
    """Rows by key, window start and number; no put replaces a row.

    A position is ``start << 31 | sequence``, so that positions sort by start and then by arrival. Every put has a
    number, as in Kafka's changelogs: late records and null values, too. The clock has the number of the last put, and
    that of the newest row.
    """

    _bits = SEQUENCE_BITS

    def _bind(self) -> None:
        self.row_at, self.put = self._duplicate_at, self._put_slowly
        if isinstance(self.raw, RowsByKey) and not self._forgets_times:
            self.put, self.entries_between = self._bind_fast_put(self.raw), self._bind_entries(self.raw)  # type: ignore[method-assign,assignment]

    def _bind_fast_put(self, rows: RowsByKey) -> Callable[[object, Any, int], None]:
        by_key, retention, watched, slow = rows.entries, self.retention, self.watched, self._put_slowly
        encode_key, key_text, copies = self.keys.encode, self.keys.text, self.values.copies
        prepare, text = (self._kept, None) if self.timestamped else (self.values.encode, self.values.text)

        def put(key: Any, value: Any, window_start: int) -> None:
            timely = type(window_start) is int and retention.kept_from <= window_start < retention.next_expiry
            if value is None or not timely or window_start <= retention.observed_ms - retention.lag_ms:
                slow(key, value, window_start)
                return
            if not (type(value) is text and value.isascii()):
                value = value if type(value) is copies and rows.count < MOST_COPIES else prepare(value)
                if value is None:  # the serde has no bytes for it
                    slow(key, None, window_start)
                    return
            if not (type(key) is key_text and key.isascii()):
                key = encode_key(key)
            if window_start > retention.observed_ms:
                retention.observed_ms = window_start
            old = rows.clock
            number = 1 if old is None else (old[1] + 1) % NUMBERS
            rows.clock = clock = retention.observed_ms, number, number
            entries = by_key.get(key) or by_key.setdefault(key, [])
            if entries and window_start <= entries[-1][0]:
                rows[key, position_of(window_start, number)] = value
            else:
                entries.append((window_start, number, value))
                rows.count += 1
            if watched[0]:
                watched[0](None, old, clock)
                watched[0]((key, position_of(window_start, number)), None, value)

        return put

    def _bind_entries(self, rows: RowsByKey) -> Callable[[object, int, int], Any]:
        find, retention, encode_key, key_text = rows.entries.get, self.retention, self.keys.encode, self.keys.text

        def entries_between(key: Any, from_: int, to: int) -> Any:
            entries = find(key if type(key) is key_text and key.isascii() else encode_key(key))
            if entries is None or entries[-1][0] < from_:
                return ()  # the usual case in a join: no partner has come yet
            if from_ < 0 or from_ < retention.observed_ms - retention.hidden_ms:
                from_, to = max(from_, retention.visible_from, 0), max(to, 0)
            begin = bisect_left(entries, (from_,))
            return entries[begin:] if entries[-1][0] <= to else entries[begin : bisect_left(entries, (to + 1,))]

        return entries_between

    def entries_between(self, key: object, from_: int, to: int) -> Sequence[NumberedRow]:
        """Return the rows of `fetch_between` as entries, for operators; negative times stand for 0."""
        raw_key = self.keys.encode(key)
        positions = self._of_key(raw_key, max(from_, 0), max(to, 0))
        return [(*divmod(position, NUMBERS), self.raw[raw_key, position]) for position in positions]

    def _put_slowly(self, key: object, value: object, window_start: Instant) -> None:
        key, row, clock = self.keys.encode(key), self._kept(value), self.raw.get(None, _NO_CLOCK)
        window_start = instant_ms(window_start)
        number, latest_ms = (clock[1] + 1) % NUMBERS, max(window_start, clock[0])
        refused = window_start <= latest_ms - self.retention.retention_ms
        observed_ms = clock[0] if row is None and self.spec.persistent else latest_ms
        self._advance((observed_ms, number, clock[-1] if row is None else number))
        raw_key = (key, window_start << SEQUENCE_BITS | number)
        if row is not None or (refused and not self.spec.persistent):
            self.write(raw_key, row)
        else:  # deletes nothing, but Kafka's changelog gets it
            self._log(raw_key, None)

    def _duplicate_at(self, key: object, at: int) -> object:
        """Return a duplicate as Kafka finds it: only the youngest row of all, and none in its in-memory store."""
        newest = self.raw.get(None, _NO_CLOCK)[-1]
        row = self.raw.get((self.keys.encode(key), at << SEQUENCE_BITS | newest))
        return None if not self.spec.persistent or at < self.retention.visible_from else self._shown(row)

    def _replay(self, key: bytes, value: bytes | None, timestamp: int, headers: Headers) -> None:
        start, number = divmod(self._key_from(key)[1], NUMBERS)
        clock = self.raw.get(None, _NO_CLOCK)  # of two items in checkpoints of earlier versions
        observed_ms, last, newest = clock[0], clock[1], clock[-1]
        if value is not None or not self.spec.persistent:
            observed_ms = max(observed_ms, start)
        last = max(last, number)  # Kafka's own number restarts at 1 after each restart
        self._advance((observed_ms, last, newest if value is None else number), silently=True)
        if value is not None:  # None is put and logged, but deletes nothing
            super()._replay(key, value, timestamp, headers)
