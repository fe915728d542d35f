"""The base of window and session stores: rows by key and position in time, expired after their retention.

Kafka's persistent stores expire whole segments and refuse puts by segment; its in-memory stores refuse exactly. Both
hide rows older than the retention from every read, so both can expire by segment here. The rows of joins leave memory
sooner, after at most one more retention, because nothing can read them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from operator import itemgetter
from sys import getsizeof
from typing import Any, Generic, TypeAlias

from kstreamnb.core.record import Headers, Windowed
from kstreamnb.core.stores import StoreSpec
from kstreamnb.core.time import MAX_TIME_MS
from kstreamnb.errors import ConfigError
from kstreamnb.state.custom import StoredElsewhere
from kstreamnb.state.disk_rows import TimedDiskRows
from kstreamnb.state.rows_by_key import KeyIndex, P, RowsByKey, TimedKey, TimeIndex
from kstreamnb.state.store import NO_TIME, Store, StoreContext

StoreClock: TypeAlias = tuple[int, ...]
"""Observed stream time (ms) and 0; with duplicates, observed stream time, the number of the last put and that of the
newest row. Kept under the raw key None.
"""

_LEAST_SEGMENT_MS, _LEAST_STEP_MS = 60_000, 1_000


class Retention:
    """The times that follow from the observed stream time of one store (all in ms).

    ``live_from`` is the first time that is still held. Puts may have times from ``segment_from``, and are kept from
    ``kept_from``, unless they are ``lag_ms`` or more before the observed time. ``next_expiry`` is the observed time at
    which these three advance next; until then a put only has to set ``observed_ms``. Reads show times from
    ``hidden_ms`` before it, but not before ``shown_from``.
    """

    def __init__(self, spec: StoreSpec, *, clamp_ms: int = 1) -> None:
        self.retention_ms = spec.retention_ms or 0
        if self.retention_ms < 0:
            fact = f'retention of store "{spec.name}" must not be negative, got {self.retention_ms} ms'
            hint = f"set a retention, or shorten windows and grace to at most {MAX_TIME_MS} ms together"
            raise ConfigError(fact, hint=hint, java="retentionPeriod cannot be negative")
        self.segment_ms = spec.segment_ms or max(self.retention_ms // 2, _LEAST_SEGMENT_MS)
        step_ms = max(self.retention_ms, _LEAST_STEP_MS) if spec.retain_duplicates else self.segment_ms
        self._step_ms = min(self.segment_ms, step_ms)
        self.hidden_ms = self.retention_ms - clamp_ms
        self.lag_ms, self.shown_from = (2 * MAX_TIME_MS, -MAX_TIME_MS) if spec.persistent else (self.retention_ms, 0)
        self.observe(NO_TIME)

    @property
    def visible_from(self) -> int:
        """The first time that reads show."""
        return max(self.observed_ms - self.hidden_ms, self.shown_from)

    def holds(self, time_ms: int) -> bool:
        """Return whether a row with a time is kept; a store with duplicates accepts some that it does not keep."""
        return time_ms >= self.kept_from and time_ms > self.observed_ms - self.lag_ms

    def observe(self, observed_ms: int) -> None:
        """Recompute everything for an observed stream time, either later or, after an undo, earlier."""
        length = self.segment_ms
        segment, begin = divmod(observed_ms - self.retention_ms, length)
        if segment < 0 < begin:  # Kafka rounds towards zero, so one segment has times before and after zero
            segment += 1
        self.live_from = self.segment_from = segment * length if segment > 0 else (segment - 1) * length + 1
        self.next_expiry = self.retention_ms + ((segment + 1) * length if segment >= 0 else segment * length + 1)
        if self._step_ms < length:
            self.live_from = (observed_ms - self.hidden_ms) // self._step_ms * self._step_ms
            self.next_expiry = min(self.next_expiry, self.live_from + self._step_ms + self.hidden_ms)
        if not self.lag_ms:
            self.next_expiry = NO_TIME  # every row is too old on arrival
        self.observed_ms, self.kept_from = observed_ms, max(self.live_from, self.segment_from)


class TimedRows(Store[TimedKey[P], Any], Generic[P]):
    """Rows by key and position.

    ``raw`` maps ``(wire key, position)`` to rows and None to ``(observed stream time, sequence)``. Positions of one key
    sort by time; `_time` gives the time by which a position expires: its first item, or the number without its lowest
    ``_bits`` unless those are -1. The observed stream time is the highest timestamp put so far.

    Rows are always indexed for expiry, by segment; by time and by key only after the first range query. A ``_table``
    finds its rows itself.
    """

    _bits = -1
    _table: TimedDiskRows | RowsByKey | None = None
    _time_at: int
    """The distance of a row's time from the end of its key bytes."""

    def __init__(self, spec: StoreSpec, context: StoreContext, *, clamp_ms: int = 1) -> None:
        super().__init__(spec, context)
        self._table = self.raw if isinstance(self.raw, RowsByKey) else self._table
        self.retention = Retention(spec, clamp_ms=clamp_ms)
        self.expired = None if isinstance(self.raw, StoredElsewhere) else 0
        self._segments: defaultdict[int, dict[TimedKey[P], None]] = defaultdict(dict)
        self._times: TimeIndex = TimeIndex()
        self._positions: KeyIndex[P] = KeyIndex()
        self._index = self._bind_index()  # type: ignore[method-assign]
        self._bind()

    @property
    def index_bytes(self) -> int:
        """Return an estimate of the memory that indexes of rows take, in bytes."""
        indexes = 1 + bool(self._times) + bool(self._positions)
        return indexes * (sum(map(getsizeof, self._segments.values())) or getsizeof(self.raw))

    def _bind_disk(self, rows: TimedDiskRows) -> None:
        self._table = rows
        rows.bind(self.row_key, self._key_from, self._time_at, self.live_from)

    def _bind(self) -> None:
        """Create the closures that are called for each record."""

    def _time(self, position: P) -> int:
        time: int = position[0] if self._bits < 0 else position >> self._bits
        return time

    def _bind_index(self) -> Callable[..., None]:
        """Return the function that updates the indexes after a row was added or removed."""
        bits, segments, segment_ms = self._bits, self._segments, self.retention.segment_ms
        positions, times = self._positions, self._times
        if self._table is not None:  # finds its rows by time itself
            return lambda raw_key, gone: None

        def index(raw_key: TimedKey[P], gone: bool) -> None:
            key, position = raw_key
            time = position[0] if bits < 0 else position >> bits
            if gone:
                del segments[time - time % segment_ms][raw_key]
            else:
                segments[time - time % segment_ms][raw_key] = None
            if positions:
                (positions.remove if gone else positions.add)(key, position)
            if times:
                (times.remove if gone else times.add)(time, raw_key)

        return index

    def write(self, raw_key: TimedKey[P] | None, row: object) -> None:
        """Change one row and log it, unless it has expired; None deletes."""
        assert raw_key is not None
        retention, time = self.retention, self._time(raw_key[1])
        if time > retention.observed_ms:
            self._advance((time, 0))
        if retention.holds(time):
            super().write(raw_key, row)
            return
        if time < retention.segment_from or time <= retention.observed_ms - retention.lag_ms:
            window = self._user_key(raw_key)
            assert isinstance(window, Windowed)
            times = {"window_start": window.start, "window_end": window.end, "stream_time_ms": retention.observed_ms}
            details = {**times, "retention_ms": retention.retention_ms, "store": self.name}
            self.context.refuse(self.name, window.key, self._shown(row), self.context.timestamp(), details)
        self._log(raw_key, row)

    def _advance(self, clock: StoreClock, *, silently: bool = False) -> None:
        """Replace the clock; drop the rows that are now too old. Note both for the journal unless ``silently``."""
        retention, observed_ms, journal = self.retention, clock[0], None if silently else self._journal
        if journal is not None:
            journal.append((None, self.raw.get(None), clock))
        self.raw[None] = clock
        if observed_ms < retention.next_expiry:
            retention.observed_ms = observed_ms
            return
        retention.observe(observed_ms)
        before = 0 if self.expired is None else len(self.raw)
        expired = self._take_expired()
        if journal is not None:
            if self.expired is not None:
                self.expired += before - len(self.raw)
            journal.extend((raw_key, row, None) for raw_key, row in expired)

    def _take_expired(self) -> Iterable[tuple[TimedKey[P], Any]]:
        """Remove expired rows, also from the indexes; return pairs of raw key and row."""
        live_from, segment_ms, table = self.retention.live_from, self.retention.segment_ms, self._table
        if isinstance(table, RowsByKey):
            return table.take_before(live_from)
        dead = [first for first in sorted(self._segments) if first + segment_ms <= live_from]
        expired = [raw_key for first in dead for raw_key in self._segments.pop(first)]
        expired = expired if table is None else table.keys_between(0, live_from - 1)
        end = (dead[-1] if dead else live_from - 2 * segment_ms) + segment_ms
        for key in dict.fromkeys(map(itemgetter(0), expired)) if self._positions else ():
            self._positions.take_before(key, self._first_at(end))
        self._times.drop_before(end)
        return zip(expired, list(map(self.raw.pop, expired)), strict=True)

    def _first_at(self, time: int) -> Any:
        """Return what sorts before all positions of a time, and after all earlier ones."""
        return (time,) if self._bits < 0 else time << self._bits

    def live_from(self, clock: StoreClock | None) -> int:
        """Advance to the store's clock; return the earliest time (ms) that is still kept."""
        self.retention.observe(NO_TIME if clock is None else clock[0])
        return self.retention.live_from

    def apply(self, raw_key: TimedKey[P] | None, row: Any) -> None:
        """Change one row silently; None deletes. A later clock drops the rows that are too old."""
        raw = self.raw
        if raw_key is None:
            before = self.retention.live_from
            if self.live_from(row) > before:
                self._take_expired()
            if row is None:
                raw.pop(None, None)
            else:
                raw[None] = row
        else:
            super().apply(raw_key, row)

    def _positions_from(self, raw_key: Hashable, time: int) -> list[P]:
        """Return the visible positions of a key that are not before a time, ascending."""
        time = max(time, self.retention.visible_from)
        if self._table is not None:
            return self._table.positions(raw_key, self.keys.to_bytes(raw_key), time)
        if not self._positions:
            for key, position in sorted((k for k in self.raw if k is not None), key=lambda raw_key: raw_key[1]):
                self._positions.add(key, position)
        positions = self._positions.get(raw_key)
        return [] if positions is None else positions[bisect_left(positions, self._first_at(time)) :]

    def _between(self, from_: int, to: int) -> list[TimedKey[P]]:
        """Return raw keys of a range of times that are visible, unordered."""
        return list(self._by_time(max(from_, self.retention.visible_from), to))

    def _by_time(self, from_: int, to: int) -> Iterator[TimedKey[P]]:
        """Return raw keys of a range of times, whether they are visible or not."""
        if self._table is not None:
            return iter(self._table.keys_between(from_, to))
        if not self._times:
            for raw_key in filter(None, self.raw):
                self._times.add(self._time(raw_key[1]), raw_key)
        return self._times.between(from_, to)

    def _in_keys(self, raw_keys: list[TimedKey[P]], from_key: object, to_key: object) -> list[TimedKey[P]]:
        """Return those of a range of keys, in the order of a range of keys."""
        as_bytes, least = self.keys.to_bytes, b"" if from_key is None else self._bytes_of(from_key)
        most = None if to_key is None else self._bytes_of(to_key)
        in_range = [k for k in raw_keys if (data := as_bytes(k[0])) >= least and (most is None or data <= most)]
        by_time = not self.spec.persistent or not self.spec.extra.get("indexed", True)
        return sorted(in_range, key=self._time_rank if by_time else self._segment_rank)

    def _segment_rank(self, raw_key: TimedKey[P]) -> tuple[int, bytes]:
        """Rank rows segment by segment, then by bytes, as Kafka's persistent stores do."""
        return self._time(raw_key[1]) // self.retention.segment_ms, self._key_bytes(raw_key)

    def _time_rank(self, raw_key: TimedKey[P]) -> tuple[object, ...]:
        """Rank rows by time first, as Kafka's in-memory stores do."""
        raise NotImplementedError

    def _row_time(self, raw_key: TimedKey[P], row: object, timestamp: int) -> int:
        return super()._row_time(raw_key, row, self._time(raw_key[1]))

    def _replay(self, key: bytes, value: bytes | None, timestamp: int, headers: Headers) -> None:
        raw_key = self._key_from(key)
        time = self._time(raw_key[1])
        if time > self.retention.observed_ms:
            self._advance((time, 0), silently=True)
        if self.retention.holds(time):
            self.apply(raw_key, None if value is None else self._row_from(value, timestamp, headers))
