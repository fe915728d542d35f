"""Aggregate a regrouped table: take old values out, put new ones in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import BindContext, Forward, Process
from kstreamnb.core.record import Change, Headers
from kstreamnb.errors import ProcessingError
from kstreamnb.processors.aggregators import Adder, Initializer, folding
from kstreamnb.processors.rows import bind_get, bind_update


@dataclass(frozen=True)
class TableAggregate:
    """Subtracts the old value from its group's aggregate, then adds the new one, and forwards the change.

    ``adder`` and ``subtractor`` are called with ``(key, value, aggregate)``. Nothing is subtracted from a group
    without an aggregate; ``initializer()`` begins one before the first addition. Without an initializer both are
    reducers ``(aggregate, value)``, and the first value is the aggregate as it is.

    Shape: changes[K, V] -> table[K, A]; 1 -> 1; key and headers kept; time: the later of record and row;
    store: key-value.
    Source: Kafka Streams `KGroupedTable#aggregate`, `#reduce`, `#count`.
    """

    store: str
    initializer: Initializer | None
    adder: Adder
    subtractor: Adder
    send_old: bool = False

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        initializer, adder = folding(self.initializer, self.adder)
        _, subtractor = folding(self.initializer, self.subtractor)
        get = bind_get(context.store(self.store))
        update = bind_update(context, self.store, forward, send_old=self.send_old)

        def process(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            if key is None:
                raise self._no_key()
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

    def _no_key(self) -> ProcessingError:
        word = "reduce" if self.initializer is None else "aggregate"
        java = f"Record key for KTable {word} operator with state {self.store} should not be null."
        return ProcessingError(f'a change of the grouped table "{self.store}" has no key', java=java)
