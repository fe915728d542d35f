"""Parts shared by all aggregates: initializers, adders, and the closing of windows.

The functions of a count compare by value, so that equal topologies are equal; operators recognize them and take
shortcuts. Results of windows that are emitted on close are searched in the store after each record that advanced the
closing time. So a result that has left the store, because its retention has passed, is never forwarded: as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from kstreamnb.core.block import Block
from kstreamnb.core.operator import EMITTED, BindContext, BlockOperator, Forward
from kstreamnb.core.record import Change, Headers
from kstreamnb.core.traits import OperatorTraits, RowUse
from kstreamnb.core.windows import SessionWindows, SlidingWindows, UnlimitedWindows
from kstreamnb.errors import ProcessingError
from kstreamnb.operators.tables import forwards_itself

Initializer: TypeAlias = Callable[[], Any]
Adder: TypeAlias = Callable[..., Any]
"""``(key, value, aggregate)``, or ``(aggregate, value)`` if there is no initializer."""


def zero() -> int:
    """Return the start of a count."""
    return 0


def count_up(key: object, value: object, count: int) -> int:
    """Add one to a count."""
    return count + 1


def count_down(key: object, value: object, count: int) -> int:
    """Subtract one from a count."""
    return count - 1


def add_counts(key: object, left: int, right: int) -> int:
    """Merge the counts of two sessions."""
    return left + right


def folding(initializer: Initializer | None, aggregator: Adder) -> tuple[Initializer, Adder]:
    """Return initializer and aggregator; a reducer, which has no initializer, keeps its first value unchanged."""
    if initializer is not None:
        return initializer, aggregator

    def reduce(key: object, value: object, aggregate: object) -> object:
        return value if aggregate is None else aggregator(aggregate, value)

    return (lambda: None), reduce


EmitClosed: TypeAlias = Callable[[int, Headers], None]
"""``emit(close_ms, headers)`` forwards what has closed since it was last called with a later time."""

FoldRecord: TypeAlias = Callable[[Any, Any, int, Headers, int], bool]
"""``fold(key, value, timestamp, headers, close_ms)``; says whether results of windows that have closed may follow."""

Late: TypeAlias = Callable[[Any, Any, int, int, int, int], None]
"""``late(key, value, timestamp, start, end, close_ms)``."""

_NEVER = -1


@dataclass(frozen=True)
class WindowedFold(BlockOperator):
    """An aggregate in windows: its declaration, and the processing that is common to all windows.

    ``aggregator`` is called with ``(key, value, aggregate)``; without an ``initializer`` it is a reducer ``(aggregate,
    value)``, and the first value becomes the aggregate. With ``emit_on_close`` only the final results are forwarded,
    after the record that closed them.

    Shape: windowed stream[K, V] -> table[Windowed[K], A]; 1 -> 0..n; key windowed; store: window or session.
    Source: Kafka Streams `TimeWindowedKStream#aggregate`, `SessionWindowedKStream#aggregate`, KIP-825.
    """

    store: str
    windows: Any
    initializer: Initializer | None
    aggregator: Adder
    emit_on_close: bool = False
    send_old: bool = False

    drops_null_values: ClassVar[bool] = False
    row_use: ClassVar[RowUse] = "fold"

    @property
    def traits(self) -> OperatorTraits:
        """Folds records into rows of windows."""
        emit = self.emit_on_close
        return OperatorTraits(self.row_use, self.store, windows=self.windows, emit_on_close=emit, sends_old=True)

    @property
    def waits(self) -> dict[str, int]:
        """How far stream time has to pass a window's end before it closes, in parts (ms)."""
        return {part: getattr(self.windows, part) for part in ("grace_ms", "gap_ms") if hasattr(self.windows, part)}

    def bind_block(self, context: BindContext, get_forward: Callable[[], Forward]) -> Block:
        """Return lines that fold a record, and then forward what has closed if the operator does."""
        store, close = context.store(self.store), f"{{seen}}[0] - {sum(self.waits.values())}"
        emit, forward = self._results(context, store, get_forward())
        fold = f"{{fold}}(key, value, timestamp, headers, {close})"
        lines = f"""\
if key is None{" or value is None" * self.drops_null_values}:
 {{drop}}("null key" if key is None else "null value", key, value, timestamp)
 {{skip}}
if timestamp > {{seen}}[0]: {{seen}}[0] = timestamp
{fold if emit is None else f"if {fold}: {{emit}}({close}, headers)"}"""
        objects = {"drop": context.drop, "seen": context.state_var("stream_time_ms", -1), "emit": emit}
        objects["fold"] = self.bind_fold(store, forward, self.dropping_late(context))
        counts = (self.initializer, self.aggregator) == (zero, count_up)
        return Block(lines, objects=objects, only_reads=counts, ends=True)

    def bind_fold(self, store: Any, forward: Forward | None, late: Late) -> FoldRecord:
        """Return the function that adds a record to its windows, and forwards the changes unless another one does."""
        raise NotImplementedError(f"{type(self).__name__} does not aggregate")

    def dropping_late(self, context: BindContext) -> Late:
        """Return the function that reports a record of a closed window."""
        drop, waits, wait_ms = context.drop, self.waits, sum(self.waits.values())

        def late(key: object, value: object, timestamp: int, start: int, end: int, close_ms: int) -> None:
            window = {"window_start": start, "window_end": end, "close_ms": close_ms}
            drop("late", key, value, timestamp, {**window, **waits, "stream_time_ms": close_ms + wait_ms})

        return late

    def _results(self, context: BindContext, store: Any, forward: Forward) -> tuple[EmitClosed | None, Forward | None]:
        """Return functions to forward closed windows and to forward a change at once; None if the operator need not."""
        windows, of_sessions = self.windows, isinstance(self.windows, SessionWindows)
        if not self.emit_on_close or isinstance(windows, UnlimitedWindows):
            return None, forward if forwards_itself(store, forward, send_old=self.send_old) else None
        step = 1  # a result found by its start or, for a session, by its end is at multiples of it
        if of_sessions:
            find, span = store.find_sessions_by_end, 1
        elif isinstance(windows, SlidingWindows):
            find, span = store.fetch_all, windows.difference_ms + 1
        else:
            find, span, step = store.fetch_all, windows.size_ms, windows.advance_ms
        last = context.state_var(EMITTED, _NEVER)
        forgets = f'store "{self.store}" keeps no times, and results need them'

        def emit(close_ms: int, headers: Headers) -> None:
            earliest = 0 if last[0] == _NEVER else last[0] - span + 1
            latest = close_ms - span
            if latest - latest % step < earliest:
                return
            for key, row in find(earliest, latest):
                aggregate, timestamp = (row, key[2]) if of_sessions else row
                if timestamp < 0:
                    java = f"Timestamp may not be negative. Got: {timestamp}"
                    raise ProcessingError(forgets, hint="use Stores.persistent_timestamped_window_store", java=java)
                forward(key, Change(aggregate), timestamp, headers)
            last[0] = close_ms

        return emit, None
