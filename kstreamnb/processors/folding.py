"""What all aggregates share: initializers and adders, and what closing means for windows.

The functions of a count are values that compare, so that equal topologies are equal; operators know them and take short
cuts. Results of windows that are emitted on close are looked for in the store after each record that moved the closing
time on. So a result that the store no longer shows, because its retention has passed, is never forwarded: as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from kstreamnb.core.operator import BindContext, Forward
from kstreamnb.core.record import Change, Headers
from kstreamnb.core.windows import SessionWindows, SlidingWindows, UnlimitedWindows
from kstreamnb.processors.tables import forwards_itself

Initializer: TypeAlias = Callable[[], Any]
Adder: TypeAlias = Callable[..., Any]
"""``(key, value, aggregate)``, or ``(aggregate, value)`` where there is no initializer."""


def zero() -> int:
    """What a count starts from."""
    return 0


def count_up(key: Any, value: Any, count: int) -> int:
    """Adder of a count."""
    return count + 1


def count_down(key: Any, value: Any, count: int) -> int:
    """Subtractor of a count."""
    return count - 1


def add_counts(key: Any, left: int, right: int) -> int:
    """Session merger of a count."""
    return left + right


def _nothing() -> None:
    return


def folding(initializer: Initializer | None, aggregator: Adder) -> tuple[Initializer, Callable[[Any, Any, Any], Any]]:
    """Initializer and aggregator; a reducer, which has no initializer, takes its first value as it is."""
    if initializer is not None:
        return initializer, aggregator

    def reduce(key: Any, value: Any, aggregate: Any) -> Any:
        return value if aggregate is None else aggregator(aggregate, value)

    return _nothing, reduce


EmitClosed: TypeAlias = Callable[[int, Headers], None]
"""``emit(close_ms, headers)`` forwards what has closed since it was last called with a later time."""

_NEVER = -1


def _no_emission(close_ms: int, headers: Headers) -> None:
    """Every update is forwarded at once, so nothing waits for its window to close."""


@dataclass(frozen=True)
class WindowedFold:
    """What aggregates in windows are declared with.

    ``aggregator`` is called with ``(key, value, aggregate)``; without an ``initializer`` it is a reducer ``(aggregate,
    value)``, and the first value is the aggregate. With ``emit_on_close`` only the final results are forwarded, after
    the record that closed them.
    """

    store: str
    windows: Any
    initializer: Initializer | None
    aggregator: Adder
    emit_on_close: bool = False
    send_old: bool = False

    def results(self, context: BindContext, store: Any, forward: Forward) -> tuple[EmitClosed, Forward | None]:
        """How to forward what has closed, and how to forward a change at once; None where the operator need not."""
        windows, of_sessions = self.windows, isinstance(self.windows, SessionWindows)
        if not self.emit_on_close or isinstance(windows, UnlimitedWindows):
            return _no_emission, forward if forwards_itself(store, forward, send_old=self.send_old) else None
        if of_sessions:  # found by their ends, windows by their starts
            find, span = store.find_sessions_by_end, 1
        elif isinstance(windows, SlidingWindows):
            find, span = store.fetch_all, windows.difference_ms + 1
        else:
            find, span = store.fetch_all, windows.size_ms
        last = context.cell("last_close_ms", _NEVER)

        def emit(close_ms: int, headers: Headers) -> None:
            last_ms, latest = last[0], close_ms - span
            if close_ms <= last_ms or latest < 0:
                return
            for key, row in find(0 if last_ms == _NEVER else last_ms - span + 1, latest):
                aggregate, timestamp = (row, key[2]) if of_sessions else row
                forward(key, Change(aggregate), timestamp, headers)
            last[0] = close_ms

        return emit, None


def dropping_late(
    context: BindContext, grace_ms: int, gap_ms: int | None = None
) -> Callable[[Any, Any, int, int, int, int], None]:
    """``late(key, value, timestamp, start, end, stream_time_ms)`` reports a record of a closed window."""
    drop, wait_ms = context.drop, grace_ms + (gap_ms or 0)
    known = {"grace_ms": grace_ms} if gap_ms is None else {"grace_ms": grace_ms, "gap_ms": gap_ms}

    def late(key: Any, value: Any, timestamp: int, start: int, end: int, stream_time_ms: int) -> None:
        found = {"window_start": start, "window_end": end, "close_ms": stream_time_ms - wait_ms}
        drop("late", key, value, timestamp, {**found, **known, "stream_time_ms": stream_time_ms})

    return late
