"""Aggregate a grouped stream in sessions: records that follow each other closely enough."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import BindContext, Forward, Process
from kstreamnb.core.record import Change, Headers, Windowed
from kstreamnb.core.windows import SessionWindows
from kstreamnb.processors.aggregators import Adder, Initializer, folding, merging
from kstreamnb.processors.emit_on_close import bind_results, dropping_late


@dataclass(frozen=True)
class SessionAggregate:
    """Adds each record to the session it belongs to, and makes one session of all that it connects.

    The sessions that are merged are deleted first, oldest first. ``merger(key, left, right)`` joins their aggregates
    with a new one from ``initializer()``; then ``aggregator(key, value, aggregate)`` adds the record, null values
    included. Without an ``initializer`` a reducer ``(aggregate, value)`` does both. With ``emit_on_close`` only the
    final results are forwarded.

    Shape: session-windowed stream[K, V] -> table[Windowed[K], A]; 1 -> 0..n; key windowed; headers none; time: the
    session's end; store: session.
    Units: a session ``[start, end]`` holds records at most ``gap`` ms apart, both ends being timestamps of records.
    Late: a record whose session, merged, ended before stream time - grace - gap is dropped: "late". So is a null key.
    Source: Kafka Streams `SessionWindowedKStream#aggregate`, `#count`, `#reduce`, KIP-825.
    """

    store: str
    windows: SessionWindows
    initializer: Initializer | None
    aggregator: Adder
    merger: Callable[[Any, Any, Any], Any] | None = None
    emit_on_close: bool = False
    send_old: bool = False

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        store = context.store(self.store)
        results = {"emit_on_close": self.emit_on_close, "send_old": self.send_old}
        emit, forward_now = bind_results(context, store, self.windows, forward, **results)
        gap, grace = self.windows.gap_ms, self.windows.grace_ms
        drop, late, seen = context.drop, dropping_late(context, grace, gap), context.cell("stream_time_ms", -1)
        find_sessions, merger = store.find_sessions, merging(self.merger, self.aggregator)
        initializer, aggregator = folding(self.initializer, self.aggregator)
        add = self._bind_add(store, aggregator, forward_now)

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                drop("null key", key, value, timestamp)
                return
            if timestamp > seen[0]:
                seen[0] = timestamp
            close_ms = seen[0] - gap - grace
            start = end = timestamp
            aggregate, merged = initializer(), []
            for session, other in find_sessions(key, timestamp - gap, timestamp + gap):
                merged.append((session, other))
                aggregate = merger(key, aggregate, other)
                start, end = min(start, session[1]), max(end, session[2])
            if end < close_ms:
                late(key, value, timestamp, start, end, seen[0])
            else:
                add(value, aggregate, merged if start != end else (), Windowed(key, start, end))
            emit(close_ms, headers)

        return process

    def _bind_add(
        self, store: Any, aggregator: Callable[[Any, Any, Any], Any], forward: Forward | None
    ) -> Callable[[Any, Any, Any, Windowed], None]:
        """How to replace the merged sessions by one with the record in it."""
        put, remove, send_old = store.put, store.remove, self.send_old

        def add(value: Any, aggregate: Any, merged: Any, session: Windowed) -> None:
            for old_session, old in merged:
                remove(old_session)
                if forward is not None:
                    forward(old_session, Change(None, old if send_old else None), old_session[2], ())
            aggregate = aggregator(session[0], value, aggregate)
            put(session, aggregate)
            if forward is not None:
                forward(session, Change(aggregate), session[2], ())

        return add
