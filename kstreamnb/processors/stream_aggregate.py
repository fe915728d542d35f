"""Aggregate a grouped stream: one row for each key, over all time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import BindContext, Forward, Process
from kstreamnb.core.record import Change, Headers
from kstreamnb.processors.aggregators import count_up
from kstreamnb.processors.rows import bind_get, bind_update, forwards_itself, is_versioned

__all__ = ["StreamAggregate", "StreamReduce"]


@dataclass(frozen=True)
class StreamAggregate:
    """Adds each record to its key's aggregate by ``aggregator(key, value, aggregate)`` and forwards the change.

    ``initializer()`` begins an aggregate, and is the old value of its first change. An aggregator that gives None
    deletes the row.

    Shape: grouped stream[K, V] -> table[K, A]; 1 -> 0..1; key and headers kept; time: the later of record and row;
    store: key-value.
    Late: nothing is late; a null key or value is dropped: "null key", "null value".
    Source: Kafka Streams `KGroupedStream#aggregate`, `#count`, `CogroupedKStream#aggregate`.
    """

    store: str
    initializer: Callable[[], Any]
    aggregator: Callable[[Any, Any, Any], Any]
    send_old: bool = False

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        store = context.store(self.store)
        if is_versioned(store) or self.send_old or not forwards_itself(store, forward, send_old=False):
            return self._bind_general(context, forward)
        if self.aggregator is count_up:
            return _bind_count(context, store, forward)
        get, put, drop = store.get, store.put, context.drop
        initializer, aggregator = self.initializer, self.aggregator

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None or value is None:
                drop("null key" if key is None else "null value", key, value, timestamp)
                return
            row = get(key)
            if row is None:
                new = aggregator(key, value, initializer())
            else:
                new = aggregator(key, value, row[0])
                if row[1] > timestamp:
                    timestamp = row[1]
            put(key, None if new is None else (new, timestamp))
            forward(key, Change(new), timestamp, headers)

        return process

    def _bind_general(self, context: BindContext, forward: Forward) -> Process:
        get, drop = bind_get(context.store(self.store)), context.drop
        update = bind_update(context, self.store, forward, send_old=self.send_old)
        initializer, aggregator = self.initializer, self.aggregator

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None or value is None:
                drop("null key" if key is None else "null value", key, value, timestamp)
                return
            row = get(key)
            old = None if row is None else row[0]
            if row is None or old is None:
                old = initializer()
            elif row[1] > timestamp:
                timestamp = row[1]
            update(key, aggregator(key, value, old), old, timestamp, headers)

        return process


def _bind_count(context: BindContext, store: Any, forward: Forward) -> Process:
    """Counting without old values and without a cache: the same with nothing left to call."""
    get, put, drop, make = store.get, store.put, context.drop, tuple.__new__

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None or value is None:
            drop("null key" if key is None else "null value", key, value, timestamp)
            return
        row = get(key)
        if row is None:
            count = 1
        else:
            count, row_time = row
            count += 1
            if row_time > timestamp:
                timestamp = row_time
        put(key, (count, timestamp))
        forward(key, make(Change, (count, None, True)), timestamp, headers)

    return process


@dataclass(frozen=True)
class StreamReduce:
    """Combines the values of each key by ``reducer(aggregate, value)`` and forwards the change.

    The first value is the aggregate as it is. A reducer that gives None deletes the row.

    Shape: grouped stream[K, V] -> table[K, V]; 1 -> 0..1; key and headers kept; time: the later of record and row;
    store: key-value.
    Late: nothing is late; a null key or value is dropped: "null key", "null value".
    Source: Kafka Streams `KGroupedStream#reduce`.
    """

    store: str
    reducer: Callable[[Any, Any], Any]
    send_old: bool = False

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        store = context.store(self.store)
        if is_versioned(store) or self.send_old or not forwards_itself(store, forward, send_old=False):
            return self._bind_general(context, forward)
        get, put, drop, reducer, make = store.get, store.put, context.drop, self.reducer, tuple.__new__

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None or value is None:
                drop("null key" if key is None else "null value", key, value, timestamp)
                return
            row = get(key)
            if row is not None:
                value = reducer(row[0], value)
                if row[1] > timestamp:
                    timestamp = row[1]
            put(key, None if value is None else (value, timestamp))
            forward(key, make(Change, (value, None, True)), timestamp, headers)

        return process

    def _bind_general(self, context: BindContext, forward: Forward) -> Process:
        get, drop, reducer = bind_get(context.store(self.store)), context.drop, self.reducer
        update = bind_update(context, self.store, forward, send_old=self.send_old)

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None or value is None:
                drop("null key" if key is None else "null value", key, value, timestamp)
                return
            row = get(key)
            old = None if row is None else row[0]
            if row is not None and old is not None:
                value = reducer(old, value)
                if row[1] > timestamp:
                    timestamp = row[1]
            update(key, value, old, timestamp, headers)

        return process
