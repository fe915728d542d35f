"""Turn the value of each row of a table into another one by a user's transformer, which may keep state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import BindContext
from kstreamnb.core.processor import ProcessorContext, start
from kstreamnb.core.record import Headers
from kstreamnb.errors import ProcessingError
from kstreamnb.processors.derived_table import Compute, DerivedTable


def _may_not_forward(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
    java = "ProcessorContext#forward() not supported."
    raise ProcessingError("a transformer of values may not forward records; it returns the new value", java=java)


@dataclass(frozen=True)
class TableTransformValues(DerivedTable):
    """Forwards changes with what a transformer makes of the values; deleted rows are shown to it, too.

    ``supplier()`` makes a transformer for each task: an object with ``transform(key, value)`` and perhaps
    ``init(context)`` and ``close()``, or a function. Without a store the old value is computed anew.

    Shape: table[K, V] -> table[K, V2]; 1 -> 1; key, time and headers kept; store: key-value, or none.
    Source: Kafka Streams `KTable#transformValues`.
    """

    supplier: Callable[[], Any]
    store: str | None = None
    send_old: bool = False

    def computing(self, context: BindContext) -> Compute:
        """What a new transformer of the user gives, which is initialised here."""
        transformer = self.supplier()
        transform = getattr(transformer, "transform", None)
        if transform is None:
            return transformer  # type: ignore[no-any-return] # a plain function (key, value)
        start(transformer, context, ProcessorContext(context, _may_not_forward))
        return transform  # type: ignore[no-any-return]
