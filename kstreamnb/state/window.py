"""Window stores: rows by key and window start, with or without duplicates, forgotten after their retention."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Any

from kstreamnb.core.record import Windowed
from kstreamnb.core.stores import StoreSpec
from kstreamnb.core.wire import Encoded
from kstreamnb.state.store import Recorder, Rows, Store, StoreContext
from kstreamnb.state.time_index import KeyIndex, Retention, TimeIndex

__all__ = ["MAX_TIME_MS", "TimestampedWindowRows", "WindowRows"]

MAX_TIME_MS = 2**63 - 1
_SEQUENCE_BITS = 31
_SEQUENCE_MASK = (1 << _SEQUENCE_BITS) - 1


class WindowRows(Store):
    """Rows by key and window start.

    ``raw`` maps ``(wire key, slot)`` to the wire value, and None to ``(observed stream time, sequence)``. A slot is
    the window start, or with duplicates ``start << 31 | sequence``, so that slots sort by start and then by arrival.
    """

    def __init__(self, spec: StoreSpec, context: StoreContext) -> None:
        super().__init__(spec, context)
        self.window_size_ms = spec.window_size_ms or 0
        self._bits = _SEQUENCE_BITS if spec.retain_duplicates else 0
        self._by_time_first = not spec.persistent or bool(spec.extra.get("time_ordered"))
        clamp = 0 if spec.persistent and spec.extra.get("time_ordered") else 1
        self.retention = Retention(spec, clamp_ms=clamp)
        self._sequence = 0
        self._index = TimeIndex()
        self._slots = KeyIndex()
        self._bind()
        self._hook(self._recorder())

    def _bind(self) -> None:
        raw, retention, encode_key, direct = self.raw, self.retention, self.keys.encode, self.keys.direct
        decode, find, insert = self.values.decode, self.raw.get, self._inserter()
        stamped, prepare, text, small = self.timestamped, self._prepare, self.values.text, self.values.small
        put_slowly = self._put_duplicate if self.spec.retain_duplicates else self._put_single
        record: Recorder | None = None

        def hook(new: Recorder | None) -> None:
            nonlocal record
            record = new

        def fetch(key: Any, at: int) -> Any:
            row = find((key if direct else encode_key(key), at))
            if row is None:
                encode_key(key)
                return None
            if at < retention.visible_from:
                return None
            if stamped:
                return (decode(row[0]), row[1]) if type(row[0]) is Encoded else row
            return decode(row) if type(row) is Encoded else row

        def put(key: Any, value: Any, window_start: int) -> None:
            if value is not None:
                part = value[0] if stamped else value
                kind = type(part)
                if not ((kind is int and -small < part < small) or (kind is text and part.isascii())):
                    value = prepare(value)
                if record is None and retention.accepted_from <= window_start <= retention.observed_ms:
                    raw_key = (key if direct else encode_key(key), window_start)
                    if raw_key in raw:
                        raw[raw_key] = value
                    else:
                        insert((encode_key(key), window_start), value)
                    return
            put_slowly(encode_key(key), window_start, value, record)

        def put_duplicate(key: Any, value: Any, window_start: int) -> None:
            put_slowly(encode_key(key), window_start, None if value is None else prepare(value), record)

        self._hook_in, self._insert = hook, insert
        self.put = put_duplicate if self.spec.retain_duplicates else put
        self.fetch = self._fetch_duplicate if self.spec.retain_duplicates else fetch

    def _inserter(self) -> Callable[[Any, Any], None]:
        raw, bits, add = self.raw, self._bits, self._index.add
        slots_of, add_slot = self._slots, self._slots.add

        def insert(raw_key: Any, row: Any) -> None:
            raw[raw_key] = row
            key, slot = raw_key
            add(slot >> bits, raw_key)
            if slots_of:
                add_slot(key, slot)

        return insert

    def _hook(self, record: Recorder | None) -> None:
        self._hook_in(record)

    def _prepare(self, value: Any) -> Any:
        return self.values.encode(value)

    def _put_single(self, key: Any, start: int, row: Any, record: Recorder | None) -> None:
        if start > self.retention.observed_ms:
            self._advance(start, self._sequence)
        self._put_row((key, start), start, row, record)

    def _put_duplicate(self, key: Any, start: int, row: Any, record: Recorder | None) -> None:
        spec, observed_ms = self.spec, max(start, self.retention.observed_ms)
        if row is None:  # deletes nothing, but Kafka's in-memory store takes note of the time, and its changelog of all
            if not spec.persistent:
                self._advance(observed_ms, self._sequence)
                if start < self.retention.accepted_from:
                    self._refuse(key, start, None)
            self._log_refused((key, start << _SEQUENCE_BITS | self._sequence), None)
            return
        refused_in_memory = not spec.persistent and start <= observed_ms - self.retention.retention_ms
        sequence = self._sequence if refused_in_memory else (self._sequence + 1) & _SEQUENCE_MASK
        self._advance(observed_ms, sequence)
        self._put_row((key, start << _SEQUENCE_BITS | sequence), start, row, record)

    def _put_row(self, raw_key: Any, start: int, row: Any, record: Recorder | None) -> None:
        if start < self.retention.accepted_from:
            self._refuse(raw_key[0], start, row)
            self._log_refused(raw_key, row)
            return
        old = self.raw.get(raw_key)
        if old is None and row is not None:
            self._insert(raw_key, row)
        else:
            self.apply(raw_key, row)
        if record is not None:
            record(raw_key, old, row)

    def _log_refused(self, raw_key: Any, row: Any) -> None:
        if self._changes is not None:
            time = self.context.timestamp() if row is None else self._row_time(raw_key, row)
            self._changes.append((raw_key, row, time, ()))

    def _refuse(self, key: Any, start: int, row: Any) -> None:
        details = {
            "window_start": start,
            "window_end": min(start + self.window_size_ms, MAX_TIME_MS),
            "stream_time_ms": self.retention.observed_ms,
            "retention_ms": self.retention.retention_ms,
            "store": self.name,
        }
        value = self._plain(row)
        self.context.drop("expired", self.keys.decode(key), value, self.context.timestamp(), details)

    def _plain(self, row: Any) -> Any:
        return None if row is None else self.values.decode(row)

    def _advance(self, observed_ms: int, sequence: int) -> None:
        """Move observed time and sequence on; forget the segments that are now too old."""
        retention, clock = self.retention, (observed_ms, sequence)
        if self._journal is not None:
            self._journal.append((None, self.raw.get(None), clock))
        self.raw[None] = clock
        self._sequence = sequence
        if observed_ms > retention.observed_ms:
            if observed_ms < retention.next_expiry:
                retention.advance(observed_ms)
            else:
                retention.observe(observed_ms)
                for raw_key in self._index.before(retention.live_from):
                    self.note(raw_key, self.raw[raw_key], None)
                    self.apply(raw_key, None)

    def apply(self, raw_key: Any, row: Any) -> None:
        """Change one row silently; None deletes."""
        raw = self.raw
        if raw_key is None:
            observed_ms, self._sequence = row or (-1, 0)
            if observed_ms != self.retention.observed_ms:
                self.retention.observe(observed_ms)
            if row is None:
                raw.pop(None, None)
            else:
                raw[None] = row
        elif row is None:
            if raw.pop(raw_key, None) is not None:
                key, slot = raw_key
                self._index.remove(slot >> self._bits, raw_key)
                self._slots.remove(key, slot)
        elif raw_key in raw:
            raw[raw_key] = row
        else:
            self._insert(raw_key, row)

    def _fetch_duplicate(self, key: Any, at: int) -> Any:
        """With duplicates, Kafka finds only the youngest row of all, and none in its in-memory store."""
        row = self.raw.get((self.keys.encode(key), at << self._bits | self._sequence))
        if row is None or not self.spec.persistent or at < self.retention.visible_from:
            return None
        return self._plain(row)

    def fetch_between(self, key: Any, from_: int, to: int) -> Rows:
        """``(window start, value)`` of one key with starts between two times, both inclusive, ascending."""
        raw_key = self.keys.encode(key)
        return self._starts(raw_key, self._of_key(raw_key, from_, to))

    def backward_fetch(self, key: Any, from_: int, to: int) -> Rows:
        """The same, descending."""
        raw_key = self.keys.encode(key)
        return self._starts(raw_key, self._of_key(raw_key, from_, to)[::-1])

    def _of_key(self, raw_key: Any, from_: int, to: int) -> list[int]:
        if not self._slots:
            for found, slot in sorted((k for k in self.raw if k is not None), key=_slot_of):
                self._slots.add(found, slot)
        slots = self._slots.get(raw_key)
        if slots is None:
            return []
        low = bisect_left(slots, max(from_, self.retention.visible_from) << self._bits)
        return slots[low : bisect_right(slots, (to + 1 << self._bits) - 1)]

    def _starts(self, raw_key: Any, slots: list[int]) -> Rows:
        row, bits = self._row, self._bits
        starts = [slot >> bits for slot in slots] if bits else slots
        return Rows(zip(starts, map(self._plain, [row((raw_key, slot)) for slot in slots]), strict=True))

    def fetch_keys(self, from_key: Any, to_key: Any, from_: int, to: int) -> Rows:
        """Rows of a range of keys and starts, all bounds inclusive; a key of None is open."""
        return self._windows(self._in_range(from_key, to_key, from_, to))

    def backward_fetch_keys(self, from_key: Any, to_key: Any, from_: int, to: int) -> Rows:
        """The same, the other way round."""
        return self._windows(self._in_range(from_key, to_key, from_, to)[::-1])

    def fetch_all(self, from_: int, to: int) -> Rows:
        """Rows of all keys with starts between two times, both inclusive."""
        return self._windows(self._in_time(from_, to))

    def backward_fetch_all(self, from_: int, to: int) -> Rows:
        """The same, the other way round."""
        return self._windows(self._in_time(from_, to)[::-1])

    def all(self) -> Rows:
        """All rows that have not expired."""
        return self.fetch_all(0, MAX_TIME_MS)

    def backward_all(self) -> Rows:
        """The same, the other way round."""
        return self.backward_fetch_all(0, MAX_TIME_MS)

    def _in_time(self, from_: int, to: int) -> list[Any]:
        return sorted(self._stored_between(from_, to), key=self._rank if self._by_time_first else self._segment_rank)

    def _stored_between(self, from_: int, to: int) -> list[Any]:
        """Raw keys of a range of starts, in no order."""
        return list(self._index.between(max(from_, self.retention.visible_from), to))

    def _in_range(self, from_key: Any, to_key: Any, from_: int, to: int) -> list[Any]:
        as_bytes, encode = self.keys.to_bytes, self.keys.encode
        least = b"" if from_key is None else as_bytes(encode(from_key))
        most = None if to_key is None else as_bytes(encode(to_key))
        found = []
        for raw_key in self._stored_between(from_, to):
            data = as_bytes(raw_key[0])
            if data >= least and (most is None or data <= most):
                found.append(raw_key)
        return sorted(found, key=self._segment_rank if self.spec.persistent else self._rank)

    def _rank(self, raw_key: Any) -> tuple[int, bytes]:
        """Time first, as in Kafka's in-memory and time-ordered stores."""
        return raw_key[1] >> self._bits, self.keys.to_bytes(raw_key[0]) + self._sequence_bytes(raw_key)

    def _segment_rank(self, raw_key: Any) -> tuple[int, bytes]:
        """Segment by segment, then key bytes, start and sequence, as in Kafka's persistent stores."""
        return self.retention.segment(raw_key[1] >> self._bits), self.changelog_key(raw_key)

    def _sequence_bytes(self, raw_key: Any) -> bytes:
        return (raw_key[1] & _SEQUENCE_MASK if self._bits else 0).to_bytes(4)

    def changelog_key(self, raw_key: Any) -> bytes:
        """Key, window start (8 bytes) and sequence (4 bytes)."""
        start: int = raw_key[1] >> self._bits
        return self.keys.to_bytes(raw_key[0]) + start.to_bytes(8, signed=True) + self._sequence_bytes(raw_key)

    def changelog_entry(self, raw_key: Any, row: Any) -> tuple[bytes, bytes | None]:
        """Kafka's changelog bytes of a row."""
        value = row[0] if self.timestamped and row is not None else row
        return self.changelog_key(raw_key), None if value is None else self.values.to_bytes(value)

    def _replay(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        raw_key = self._key_from(key)
        start = raw_key[1] >> self._bits
        ignored = self._bits > 0 and value is None
        sequence = raw_key[1] & _SEQUENCE_MASK if self._bits and not ignored else self._sequence
        if not (ignored and self.spec.persistent):
            self._observe_silently(max(start, self.retention.observed_ms), sequence)
        if start >= self.retention.accepted_from and not ignored:
            self.apply(raw_key, None if value is None else self._row_from(value, timestamp))

    def _observe_silently(self, observed_ms: int, sequence: int) -> None:
        self.apply(None, (observed_ms, sequence))
        for raw_key in self._index.before(self.retention.live_from):
            self.apply(raw_key, None)

    def _key_from(self, data: bytes) -> Any:
        start = int.from_bytes(data[-12:-4], signed=True)
        slot = start << self._bits | int.from_bytes(data[-4:]) if self._bits else start
        return super()._key_from(data[:-12]), slot

    def _windows(self, raw_keys: list[Any]) -> Rows:
        return Rows(map(self._show, raw_keys, [self._row(raw_key) for raw_key in raw_keys]))

    def _row(self, raw_key: Any) -> Any:
        """The row of a key that was found in a range."""
        return self.raw[raw_key]

    def _show(self, raw_key: Any, row: Any) -> tuple[Windowed, Any]:
        start = raw_key[1] >> self._bits
        end = min(start + self.window_size_ms, MAX_TIME_MS)
        return Windowed(self.keys.decode(raw_key[0]), start, end), self._plain(row)


class TimestampedWindowRows(WindowRows):
    """Rows ``(value, timestamp)`` by key and window start."""

    timestamped = True

    def _prepare(self, value: Any) -> Any:
        wire = self.values.encode(value[0])
        return None if wire is None else value if wire is value[0] else (wire, value[1])

    def _plain(self, row: Any) -> Any:
        return None if row is None else (self.values.decode(row[0]), row[1])

    @property
    def for_user(self) -> Any:
        """The store with `ValueAndTimestamp` rows."""
        from kstreamnb.state.views import TimestampedStoreForUser

        return TimestampedStoreForUser(self)


def _slot_of(raw_key: Any) -> int:
    slot: int = raw_key[1]
    return slot
