"""Turn the value of each row of a table into another one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import BindContext
from kstreamnb.processors.derived_table import Compute, DerivedTable


@dataclass(frozen=True)
class TableMapValues(DerivedTable):
    """Forwards changes with ``mapper(value)``, or ``mapper(key, value)`` when ``with_key``, in place of the values.

    A deleted row is a deleted row: the mapper is not asked. Every update is forwarded, equal results too.

    Shape: table[K, V] -> table[K, V2]; 1 -> 1; key, time and headers kept; store: key-value, or none.
    Source: Kafka Streams `KTable#mapValues`.
    """

    mapper: Callable[..., Any]
    with_key: bool = False
    store: str | None = None
    send_old: bool = False

    def computing(self, context: BindContext) -> Compute:
        """The mapped value; no value stays no value."""
        mapper = self.mapper
        if self.with_key:
            return lambda key, value: None if value is None else mapper(key, value)
        return lambda key, value: None if value is None else mapper(value)
