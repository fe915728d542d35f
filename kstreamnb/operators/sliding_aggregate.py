"""Aggregates a grouped stream in sliding windows: one for every set of records that are close to each other.

A window is stored by its start. The time of its row is the highest timestamp in it; from that the algorithm derives
where the record before the new one was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from kstreamnb.core.operator import Forward
from kstreamnb.core.record import Change, Headers, Windowed
from kstreamnb.core.traits import RowUse
from kstreamnb.errors import ProcessingError
from kstreamnb.operators.folding import FoldRecord, Late, WindowedFold, folding
from kstreamnb.operators.store_protocols import TimestampedRow, WindowStore

_OldRow: TypeAlias = "TimestampedRow | None"
_Add: TypeAlias = Callable[[int, _OldRow, Any, Any, int, Headers, int], None]
"""``add(start, row, key, value, timestamp, headers, close_ms)``; no row: a window that holds nothing yet."""
_CopyRow: TypeAlias = Callable[["TimestampedRow", Any, int, Headers], None]
_Slide: TypeAlias = Callable[[Any, Any, int, Headers, int], None]


@dataclass(frozen=True)
class SlidingAggregate(WindowedFold):
    """Adds each record to the aggregates of all windows that contain it, and creates the windows it begins or ends.

    A record at ``t`` is in its left window ``[t - difference, t]``, and begins a right window ``[t + 1, t + 1 +
    difference]`` once a later record is in it. The windows of records earlier than ``difference`` that would begin
    before 0 are one, ``[0, difference]``. Otherwise as `WindowAggregate`; null values are dropped.

    Shape: windowed stream[K, V] -> table[Windowed[K], A]; 1 -> 0..n; key windowed; headers kept; time: the highest
    timestamp in the window; store: window.
    Units: both ends of a window are inclusive; stream time is the highest timestamp seen here.
    Late: a window that ended before stream time - grace takes no more records: "late". Null keys and values are
    dropped: "null key", "null value".
    Source: Kafka Streams `TimeWindowedKStream#aggregate` by `SlidingWindows`, KIP-450, KIP-825.
    """

    drops_null_values: ClassVar[bool] = True
    row_use: ClassVar[RowUse] = "fold by time"

    def bind_fold(self, store: WindowStore, forward: Forward | None, late: Late) -> FoldRecord:
        """Return the function that adds a record to the windows around it; an early or late one emits no results, as in
        Kafka.
        """
        difference = self.windows.difference_ms
        add, copy = self._bind_changes(store, forward, late)
        slide, slide_early = self._bind_slide(store, add, copy), self._bind_slide_early(store, add, copy)

        def fold(key: object, value: object, timestamp: int, headers: Headers, close_ms: int) -> bool:
            if timestamp + difference < close_ms:
                late(key, value, timestamp, timestamp - difference, timestamp, close_ms)
                return False
            is_early = timestamp < difference
            (slide_early if is_early else slide)(key, value, timestamp, headers, close_ms)
            return not is_early

        return fold

    def _bind_changes(self, store: WindowStore, forward: Forward | None, late: Late) -> tuple[_Add, _CopyRow]:
        """Return functions that add a record to a window, and that create a right window from the contents of another
        one.
        """
        put, difference, send_old, make = store.put, self.windows.difference_ms, self.send_old, tuple.__new__
        initializer, aggregator = folding(self.initializer, self.aggregator)

        def add(
            start: int, row: _OldRow, key: object, value: object, timestamp: int, headers: Headers, close_ms: int
        ) -> None:
            end = start + difference
            old, row_time = (initializer(), timestamp) if row is None else row
            if end < close_ms:
                late(key, value, timestamp, start, end, close_ms)
                return
            if end == start:
                java = "Window endMs must be greater than window startMs."
                raise ProcessingError("a sliding window with a time difference of 0 ms holds no time", java=java)
            new, time = aggregator(key, value, old), row_time if row_time > timestamp else timestamp
            put(key, None if new is None else (new, time), start)
            if forward is not None:
                change = make(Change, (new, old if send_old else None, True))
                forward(make(Windowed, (key, start, end)), change, time, headers)

        def copy(row: TimestampedRow, key: object, start: int, headers: Headers) -> None:
            put(key, row, start)
            if forward is not None:
                window = make(Windowed, (key, start, start + difference))
                forward(window, make(Change, (row[0], None, True)), row[1], headers)

        return add, copy

    def _bind_slide(self, store: WindowStore, add: _Add, copy: _CopyRow) -> _Slide:
        """Return the rule for records at or after ``difference``: look back over the windows, newest first."""
        rows_between, difference = store.rows_between, self.windows.difference_ms

        def slide(key: object, value: object, timestamp: int, headers: Headers, close_ms: int) -> None:
            starts: list[int] = []
            in_left = in_right = previous = None
            has_left = has_right = False
            for start, row in rows_between(key, max(0, timestamp - 2 * difference), timestamp + 1, backward=True):
                starts.append(start)
                end = start + difference
                if start > timestamp:
                    has_right = True
                elif end > timestamp:
                    in_right = in_right or row
                    add(start, row, key, value, timestamp, headers, close_ms)
                elif end == timestamp:
                    has_left = True
                    add(start, row, key, value, timestamp, headers, close_ms)
                    if row[1] >= timestamp:
                        return
                    previous = row[1]
                else:
                    in_left, previous = row[0], row[1]
                    break
            if previous is not None and previous + 1 not in starts and previous + 1 + difference >= timestamp:
                add(previous + 1, None, key, value, timestamp, headers, close_ms)
            if not has_left:
                start = timestamp - difference
                left = (in_left, timestamp) if previous is not None and previous >= start else None
                add(start, left, key, value, timestamp, headers, close_ms)
            if not has_right and in_right is not None and in_right[1] > timestamp:
                copy(in_right, key, timestamp + 1, headers)

        return slide

    def _bind_slide_early(self, store: WindowStore, add: _Add, copy: _CopyRow) -> _Slide:
        """Return the rule for records before ``difference``: the window at 0 replaces all that would begin before
        it.
        """
        rows_between = store.rows_between

        def slide_early(key: object, value: object, timestamp: int, headers: Headers, close_ms: int) -> None:
            starts: list[int] = []
            combined = in_right = previous = None
            for start, row in rows_between(key, 0, timestamp + 1):
                starts.append(start)
                if start == 0:
                    combined = row
                    previous = row[1] if row[1] < timestamp else None
                elif start <= timestamp:
                    in_right = row
                    add(start, row, key, value, timestamp, headers, close_ms)
            in_right = in_right or combined
            if timestamp + 1 not in starts and in_right is not None and in_right[1] > timestamp:
                copy(in_right, key, timestamp + 1, headers)
            if previous is not None and previous + 1 not in starts:
                add(previous + 1, None, key, value, timestamp, headers, close_ms)
            add(0, combined, key, value, timestamp, headers, close_ms)

        return slide_early
