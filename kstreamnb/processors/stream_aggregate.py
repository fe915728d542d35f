"""Aggregate a grouped stream: one row for each key, over all time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import BindContext, Forward, FusedStep, Process
from kstreamnb.core.record import Headers
from kstreamnb.processors.aggregators import Adder, Initializer, folding
from kstreamnb.processors.fused_fold import Fold, fold_by_key, is_simple
from kstreamnb.processors.rows import bind_get, bind_update


@dataclass(frozen=True)
class StreamAggregate:
    """Adds each record to its key's aggregate by ``aggregator(key, value, aggregate)`` and forwards the change.

    ``initializer()`` begins an aggregate, and is the old value of its first change. Without one ``aggregator`` is a
    reducer ``(aggregate, value)``, and the first value is the aggregate as it is. None deletes the row.

    Shape: grouped stream[K, V] -> table[K, A]; 1 -> 0..1; key and headers kept; time: the later of record and row;
    store: key-value.
    Late: nothing is late; a null key or value is dropped: "null key", "null value".
    Source: Kafka Streams `KGroupedStream#aggregate`, `#reduce`, `#count`, `CogroupedKStream#aggregate`.
    """

    store: str
    initializer: Initializer | None
    aggregator: Adder
    send_old: bool = False

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        get, drop = bind_get(context.store(self.store)), context.drop
        update = bind_update(context, self.store, forward, send_old=self.send_old)
        initializer, aggregator = folding(self.initializer, self.aggregator)

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

    def fuse(self, context: BindContext, *, new_only: bool) -> FusedStep | None:
        """The same as lines of a fused chain, on a simple store."""
        store = context.store(self.store)
        fold = Fold(self.initializer, self.aggregator, new_only)
        return fold_by_key(context, store, fold) if is_simple(store, send_old=self.send_old) else None
