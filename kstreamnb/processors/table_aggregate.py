"""Aggregate a regrouped table: take old values out, put new ones in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import BindContext, Forward, Process
from kstreamnb.core.record import Change, Headers
from kstreamnb.errors import ProcessingError
from kstreamnb.processors.rows import bind_get, bind_update

__all__ = ["TableAggregate", "TableReduce"]


def _no_key(operator: str, store: str) -> ProcessingError:
    java = f"Record key for KTable {operator} operator with state {store} should not be null."
    return ProcessingError(f'a change of the grouped table "{store}" has no key', java=java)


@dataclass(frozen=True)
class TableAggregate:
    """Subtracts the old value from its group's aggregate, then adds the new one, and forwards the change.

    ``adder`` and ``subtractor`` are called with ``(key, value, aggregate)``. Nothing is subtracted from a group
    without an aggregate; ``initializer()`` begins one before the first addition.

    Shape: changes[K, V] -> table[K, A]; 1 -> 1; key and headers kept; time: the later of record and row;
    store: key-value.
    Source: Kafka Streams `KGroupedTable#aggregate`, `KGroupedTable#count`.
    """

    store: str
    initializer: Callable[[], Any]
    adder: Callable[[Any, Any, Any], Any]
    subtractor: Callable[[Any, Any, Any], Any]
    send_old: bool = False

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        initializer, adder, subtractor, store = self.initializer, self.adder, self.subtractor, self.store
        get = bind_get(context.store(store))
        update = bind_update(context, store, forward, send_old=self.send_old)

        def process(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            if key is None:
                raise _no_key("aggregate", store)
            row = get(key)
            old = aggregate = None if row is None else row[0]
            time = timestamp
            if change[1] is not None and aggregate is not None:
                aggregate = subtractor(key, change[1], aggregate)
                time = max(timestamp, row[1])  # type: ignore[index] # an aggregate has a row
            if change[0] is not None:
                aggregate = adder(key, change[0], initializer() if aggregate is None else aggregate)
                time = timestamp if row is None else max(timestamp, row[1])
            update(key, aggregate, old, time, headers)

        return process


@dataclass(frozen=True)
class TableReduce:
    """Combines the values of a group: ``subtractor(aggregate, old)`` and then ``adder(aggregate, new)``.

    Nothing is subtracted from a group without an aggregate; its first value is the aggregate as it is.

    Shape: changes[K, V] -> table[K, V]; 1 -> 1; key and headers kept; time: the later of record and row when they
    are combined; store: key-value.
    Source: Kafka Streams `KGroupedTable#reduce`.
    """

    store: str
    adder: Callable[[Any, Any], Any]
    subtractor: Callable[[Any, Any], Any]
    send_old: bool = False

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        adder, subtractor, store = self.adder, self.subtractor, self.store
        get = bind_get(context.store(store))
        update = bind_update(context, store, forward, send_old=self.send_old)

        def process(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            if key is None:
                raise _no_key("reduce", store)
            row = get(key)
            old, row_time = (None, timestamp) if row is None else row
            aggregate, time = old, timestamp
            if change[1] is not None and aggregate is not None:
                aggregate, time = subtractor(aggregate, change[1]), max(timestamp, row_time)
            if change[0] is not None:
                if aggregate is None:
                    aggregate = change[0]
                else:
                    aggregate, time = adder(aggregate, change[0]), max(timestamp, row_time)
            update(key, aggregate, old, time, headers)

        return process
