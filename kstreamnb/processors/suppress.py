"""Hold a table's changes back: until their window has closed, or for a while."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import BindContext, Forward, Process
from kstreamnb.core.record import Change, Headers
from kstreamnb.errors import ProcessingError

_NO_LIMIT = 2**63 - 1


@dataclass(frozen=True)
class Suppress:
    """Keeps one change for each key in a buffer and forwards it when its time has come.

    The time of a buffered change is that of the first one that was buffered for its key, or with ``window_end`` the
    end of its window. It comes out once stream time has reached that time + ``wait_ms``, ordered by time and key
    bytes, with its own timestamp and headers. When the buffer is over ``max_records`` or ``max_bytes`` the first ones
    come out early (``emit_early``), or the task fails.

    Shape: table[K, V] -> table[K, V]; 1 -> 0..n; key, time and headers of the last buffered change; store: buffer.
    Units: ``wait_ms`` is stream time, which is the greatest timestamp seen here; ``max_bytes`` is an estimate.
    Late: nothing is dropped; with ``drop_tombstones`` deletions end here.
    Source: Kafka Streams `KTable#suppress`, `Suppressed`, KIP-328.
    """

    store: str
    wait_ms: int
    window_end: bool = False
    drop_tombstones: bool = False
    max_records: int | None = None
    max_bytes: int | None = None
    emit_early: bool = True

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        store, wait, window_end = context.store(self.store), self.wait_ms, self.window_end
        seen, put, min_time, metadata = context.cell("stream_time_ms", -1), store.put, store.min_time, context.metadata
        emit_first, enforce = self._bind_emit(context, store, forward), None
        if self.max_records is not None or self.max_bytes is not None:
            enforce = self._bind_enforce(context, store, emit_first)

        def process(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            if timestamp > seen[0]:
                seen[0] = timestamp
            put(key[2] if window_end else timestamp, key, change[0], change[1], timestamp, headers, metadata())
            due_ms, first = seen[0] - wait, min_time()
            while first is not None and first <= due_ms:
                emit_first()
                first = min_time()
            if enforce is not None:
                enforce()

        return process

    def _bind_emit(self, context: BindContext, store: Any, forward: Forward) -> Callable[[], None]:
        """How to forward the first change as the record it was; until that is done it counts as buffered."""
        first, take, resume, drop_tombstones = store.first, store.take, context.resume, self.drop_tombstones

        def emit_first() -> None:
            key, new, old, timestamp, headers, metadata = first()
            if new is not None or not drop_tombstones:
                previous = resume(metadata)
                forward(key, Change(new, old), timestamp, headers)
                resume(previous)
            take()

        return emit_first

    def _bind_enforce(self, context: BindContext, store: Any, emit_first: Callable[[], None]) -> Callable[[], None]:
        """What to do when the buffer is over its limits."""
        count, size_bytes, emit_early, node = store.count, store.size_bytes, self.emit_early, context.node
        most = _NO_LIMIT if self.max_records is None else self.max_records
        most_bytes = _NO_LIMIT if self.max_bytes is None else self.max_bytes

        def enforce() -> None:
            while count() > most or size_bytes() > most_bytes:
                if not emit_early:
                    numbers = f"[{count()}/{most}] records and [{size_bytes()}/{most_bytes}] bytes."
                    raise ProcessingError(
                        f'the buffer of "{node}" is full',
                        detail=f"{count()} of at most {most} records, {size_bytes()} of at most {most_bytes} bytes",
                        hint="allow more records, or let the buffer emit early when it is full",
                        java=f"{node} buffer exceeded its max capacity. Currently {numbers}",
                    )
                emit_first()

        return enforce
