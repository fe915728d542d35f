"""Turn the value of each row of a table into another one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import BindContext, Forward, Process
from kstreamnb.processors.derived_table import bind_derived


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
        compute = mapping(self.mapper, with_key=self.with_key)
        return bind_derived(context, forward, compute, store=self.store, send_old=self.send_old)
