"""Turn the value of each row of a table into another one by a user's transformer, which may keep state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import BindContext, Forward, Process, TableView
from kstreamnb.core.record import Change, Headers
from kstreamnb.core.user_processor import TaskProcessorContext
from kstreamnb.errors import ProcessingError
from kstreamnb.processors.rows import bind_get, bind_update
from kstreamnb.processors.table_view import GetAsOf, GetRow

__all__ = ["TableTransformValues", "TransformValuesView"]


def _may_not_forward(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
    java = "ProcessorContext#forward() not supported."
    raise ProcessingError("a transformer of values may not forward records; it returns the new value", java=java)


def _transformer(supplier: Callable[[], Any], context: BindContext) -> Callable[[Any, Any], Any]:
    """A new transformer of the user, initialised, as ``transform(key, value)``."""
    transformer = supplier()
    transform = getattr(transformer, "transform", None)
    if transform is None:
        return transformer  # type: ignore[no-any-return] # a plain function (key, value)
    init, close = getattr(transformer, "init", None), getattr(transformer, "close", None)
    if init is not None:
        init(TaskProcessorContext(context, _may_not_forward))
    if close is not None:
        context.on_close(close)
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
        transform, send_old = _transformer(self.supplier, context), self.send_old
        if self.store is None:

            def process(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
                new = transform(key, change[0])
                old = transform(key, change[1]) if send_old else None
                forward(key, Change(new, old, change[2]), timestamp, headers)

            return process
        return self._bind_stored(context, forward, transform, self.store)

    def _bind_stored(
        self, context: BindContext, forward: Forward, transform: Callable[[Any, Any], Any], store: str
    ) -> Process:
        send_old, get = self.send_old, bind_get(context.store(store))
        update = bind_update(context, store, forward, send_old=send_old)

        def process(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            new, row = transform(key, change[0]), get(key) if send_old else None
            update(key, new, None if row is None else row[0], timestamp, headers)

        return process


@dataclass(frozen=True)
class TransformValuesView:
    """The rows of another table as a transformer of its own makes them; it is asked about absent rows as well.

    ``transformer_stores`` are what the transformer uses besides the parent's stores.

    Source: Kafka Streams `KTableTransformValuesGetter`.
    """

    parent: TableView
    supplier: Callable[[], Any]
    transformer_stores: tuple[str, ...] = ()

    @property
    def stores(self) -> tuple[str, ...]:
        """The parent's stores and the transformer's."""
        return tuple(dict.fromkeys((*self.parent.stores, *self.transformer_stores)))

    @property
    def versioned(self) -> bool:
        """As the parent."""
        return self.parent.versioned

    def bind(self, context: BindContext) -> GetRow:
        """The parent's row transformed."""
        get_parent, transform = self.parent.bind(context), _transformer(self.supplier, context)

        def get(key: Any) -> tuple[Any, int] | None:
            value, timestamp = get_parent(key) or _NO_ROW
            value = transform(key, value)
            return None if value is None else (value, timestamp)

        return get

    def bind_as_of(self, context: BindContext) -> GetAsOf:
        """The parent's row at a time, transformed."""
        get_parent, transform = self.parent.bind_as_of(context), _transformer(self.supplier, context)

        def get(key: Any, as_of_ms: int) -> tuple[Any, int] | None:
            value, timestamp = get_parent(key, as_of_ms) or _NO_ROW
            value = transform(key, value)
            return None if value is None else (value, timestamp)

        return get


_NO_ROW = (None, -1)
