"""Turn the value of each row of a table into another one by a user's transformer, which may keep state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import BindContext, Forward, Process
from kstreamnb.core.processor import ProcessorContext
from kstreamnb.core.record import Headers
from kstreamnb.core.user_processor import start
from kstreamnb.errors import ProcessingError
from kstreamnb.processors.derived_table import bind_derived
from kstreamnb.processors.table_view import DerivedView


def _may_not_forward(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
    java = "ProcessorContext#forward() not supported."
    raise ProcessingError("a transformer of values may not forward records; it returns the new value", java=java)


def _transformer(supplier: Callable[[], Any], context: BindContext) -> Callable[[Any, Any], Any]:
    """A new transformer of the user, initialised, as ``transform(key, value)``."""
    transformer = supplier()
    transform = getattr(transformer, "transform", None)
    if transform is None:
        return transformer  # type: ignore[no-any-return] # a plain function (key, value)
    start(transformer, context, ProcessorContext(context, _may_not_forward))
    return transform  # type: ignore[no-any-return]


@dataclass(frozen=True)
class TableTransformValues:
    """Forwards changes with what a transformer makes of the values; deleted rows are shown to it, too.

    ``supplier()`` makes a transformer for each task: an object with ``transform(key, value)`` and perhaps
    ``init(context)`` and ``close()``, or a function. Without a store the old value is computed anew.

    Shape: table[K, V] -> table[K, V2]; 1 -> 1; key, time and headers kept; store: key-value, or none.
    Source: Kafka Streams `KTable#transformValues`.
    """

    supplier: Callable[[], Any]
    store: str | None = None
    send_old: bool = False

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        transform = _transformer(self.supplier, context)
        return bind_derived(context, forward, transform, store=self.store, send_old=self.send_old)


@dataclass(frozen=True)
class TransformValuesView(DerivedView):
    """The rows of another table as a transformer of its own makes them; it is asked about absent rows as well.

    ``transformer_stores`` are what the transformer uses besides the parent's stores.

    Source: Kafka Streams `KTableTransformValuesGetter`.
    """

    supplier: Callable[[], Any]
    transformer_stores: tuple[str, ...] = ()

    @property
    def stores(self) -> tuple[str, ...]:
        """The parent's stores and the transformer's."""
        return tuple(dict.fromkeys((*self.parent.stores, *self.transformer_stores)))

    def computing(self, context: BindContext) -> Callable[[Any, Any], Any]:
        """What the transformer gives."""
        return _transformer(self.supplier, context)
