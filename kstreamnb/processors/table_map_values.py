"""Turn the value of each row of a table into another one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import BindContext, Forward, Process
from kstreamnb.core.record import Change, Headers
from kstreamnb.processors.rows import bind_get, bind_update

__all__ = ["TableMapValues", "mapping"]


def mapping(mapper: Callable[..., Any], *, with_key: bool) -> Callable[[Any, Any], Any]:
    """``compute(key, value)`` applies the mapper; no value stays no value."""
    if with_key:

        def compute(key: Any, value: Any) -> Any:
            return None if value is None else mapper(key, value)

    else:

        def compute(key: Any, value: Any) -> Any:
            return None if value is None else mapper(value)

    return compute


@dataclass(frozen=True)
class TableMapValues:
    """Forwards changes with ``mapper(value)``, or ``mapper(key, value)`` when ``with_key``, in place of the values.

    A deleted row is a deleted row: the mapper is not asked. Every update is forwarded, equal results too.

    Shape: table[K, V] -> table[K, V2]; 1 -> 1; key, time and headers kept; store: key-value, or none.
    Source: Kafka Streams `KTable#mapValues`.
    """

    mapper: Callable[..., Any]
    with_key: bool = False
    store: str | None = None
    send_old: bool = False

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        compute, send_old = mapping(self.mapper, with_key=self.with_key), self.send_old
        if self.store is None:

            def process(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
                old = compute(key, change[1]) if send_old else None
                forward(key, Change(compute(key, change[0]), old, change[2]), timestamp, headers)

            return process
        return self._bind_stored(context, forward, compute, self.store)

    def _bind_stored(
        self, context: BindContext, forward: Forward, compute: Callable[[Any, Any], Any], store: str
    ) -> Process:
        send_old, get = self.send_old, bind_get(context.store(store))
        update = bind_update(context, store, forward, send_old=send_old)

        def process(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            new, row = compute(key, change[0]), get(key) if send_old else None
            update(key, new, None if row is None else row[0], timestamp, headers)

        return process
