"""Aggregate a grouped stream in windows aligned to the epoch, tumbling or hopping, or in one without an end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import BindContext, Forward, FusedStep, Process
from kstreamnb.core.record import Change, Headers, Windowed
from kstreamnb.core.windows import TimeWindows, UnlimitedWindows
from kstreamnb.processors.aggregators import Adder, Initializer, folding
from kstreamnb.processors.emit_on_close import bind_results, dropping_late
from kstreamnb.processors.fused_fold import Fold, fold_by_window, is_simple


@dataclass(frozen=True)
class WindowAggregate:
    """Adds each record to the aggregate of its key in every window it is in, earliest first.

    ``aggregator`` is called with ``(key, value, aggregate)``, null values included; one that gives None deletes the
    row. Without an ``initializer`` it is a reducer ``(aggregate, value)`` and the first value is the aggregate. With
    ``emit_on_close`` only the final results are forwarded, after the record that closed them.

    Shape: windowed stream[K, V] -> table[Windowed[K], A]; 1 -> 0..n; key windowed; headers kept; time: the later of
    record and row; store: window.
    Units: windows are ``[start, start + size)`` in ms of stream time, which is the greatest timestamp seen here.
    Late: a window that ended at or before stream time - grace takes no more records: "late". A null key is dropped.
    Source: Kafka Streams `TimeWindowedKStream#aggregate`, `#count`, KIP-328, KIP-825.
    """

    store: str
    windows: TimeWindows | UnlimitedWindows
    initializer: Initializer | None
    aggregator: Adder
    emit_on_close: bool = False
    send_old: bool = False

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        store, windows = context.store(self.store), self.windows
        results = {"emit_on_close": self.emit_on_close, "send_old": self.send_old}
        emit, forward_now = bind_results(context, store, windows, forward, **results)
        add = self._bind_add(store, forward_now)
        windows_for, size, grace = windows.windows_for, windows.size_ms, windows.grace_ms
        drop, late, seen = context.drop, dropping_late(context, grace), context.cell("stream_time_ms", -1)
        last_end = 2**63 - 1

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                drop("null key", key, value, timestamp)
                return
            if timestamp > seen[0]:
                seen[0] = timestamp
            close_ms = seen[0] - grace
            for start in windows_for(timestamp):
                end = min(start + size, last_end)
                if end > close_ms:
                    add(key, value, timestamp, headers, start, end)
                else:
                    late(key, value, timestamp, start, end, seen[0])
            emit(close_ms, headers)

        return process

    def fuse(self, context: BindContext, *, new_only: bool) -> FusedStep | None:
        """The same as lines of a fused chain: for tumbling windows on a simple store that outlasts them."""
        store, windows = context.store(self.store), self.windows
        if self.emit_on_close or not is_simple(store, send_old=self.send_old):
            return None
        if not isinstance(windows, TimeWindows) or windows.advance_ms != windows.size_ms:
            return None
        size, grace = windows.size_ms, windows.grace_ms
        if (store.spec.retention_ms or 0) < size + grace:
            return None
        late, fold = dropping_late(context, grace), Fold(self.initializer, self.aggregator, new_only)
        return fold_by_window(context, store, fold, size=size, grace=grace, late=late)

    def _bind_add(self, store: Any, forward: Forward | None) -> Callable[[Any, Any, int, Headers, int, int], None]:
        """How to add a record to one open window, and to forward the change unless someone else does."""
        fetch, put, send_old = store.fetch, store.put, self.send_old
        initializer, aggregator = folding(self.initializer, self.aggregator)

        def add(key: Any, value: Any, timestamp: int, headers: Headers, start: int, end: int) -> None:
            row = fetch(key, start)
            if row is None:
                old = initializer()
            else:
                old, row_time = row
                if row_time > timestamp:
                    timestamp = row_time
            new = aggregator(key, value, old)
            put(key, None if new is None else (new, timestamp), start)
            if forward is not None:
                forward(Windowed(key, start, end), Change(new, old if send_old else None), timestamp, headers)

        return add
