"""Tables made row by row of another table: filtered, mapped, transformed; and the view of rows that no store keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from kstreamnb.core.operator import BindContext, Forward, Process, TableView
from kstreamnb.core.processor import ProcessorContext, start
from kstreamnb.core.record import Change, Headers
from kstreamnb.errors import ProcessingError
from kstreamnb.processors.tables import NO_ROW, GetAsOf, GetRow, bind_get, bind_update

Compute: TypeAlias = Callable[[Any, Any], Any]
"""``compute(key, value)``: what is made of a row's value; None for no row, on both ways."""


class DerivedTable:
    """An operator that makes each row's value of another table's; subclasses are frozen and say by `computing` what.

    New values are made of new ones and old values of old ones; where the rows are kept in ``store``, the old value
    comes from there.

    Shape: table[K, V] -> table[K, V2]; 1 -> 0..1; key, time and headers kept; store: key-value, or none.
    Source: Kafka Streams `KTableFilter`, `KTableMapValues`, `KTableTransformValues`; differences: none.
    """

    store: str | None
    send_old: bool

    @property
    def skips(self) -> bool:
        """Whether a change from nothing to nothing ends here."""
        return False

    def computing(self, context: BindContext) -> Compute:
        """``compute(key, value)`` in one task."""
        raise NotImplementedError(f"{type(self).__name__} makes nothing of a value")

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        compute, send_old, skips = self.computing(context), self.send_old, self.skips
        if self.store is None:

            def derive(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
                new = compute(key, change[0])
                old = compute(key, change[1]) if send_old else None
                if not skips or new is not None or old is not None:
                    forward(key, Change(new, old, change[2]), timestamp, headers)

            return derive

        get = bind_get(context.store(self.store))
        update = bind_update(context, self.store, forward, send_old=send_old)

        def derive_row(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            new, row = compute(key, change[0]), get(key) if send_old else None
            old = None if row is None else row[0]
            if not skips or new is not None or old is not None:
                update(key, new, old, timestamp, headers)

        return derive_row


@dataclass(frozen=True)
class DerivedView:
    """The rows of another table, each with what an operator makes of its value; no value is no row.

    Source: Kafka Streams `KTableFilterValueGetter`, `KTableMapValuesValueGetter`, `KTableTransformValuesGetter`.
    """

    parent: TableView
    operator: DerivedTable

    @property
    def stores(self) -> tuple[str, ...]:
        """The parent's stores."""
        return self.parent.stores

    @property
    def versioned(self) -> bool:
        """As the parent."""
        return self.parent.versioned

    def bind(self, context: BindContext) -> GetRow:
        """The row made of the parent's."""
        get_parent, compute = self.parent.bind(context), self.operator.computing(context)

        def get(key: Any) -> tuple[Any, int] | None:
            value, timestamp = get_parent(key) or NO_ROW
            value = compute(key, value)
            return None if value is None else (value, timestamp)

        return get

    def bind_as_of(self, context: BindContext) -> GetAsOf:
        """The row made of what the parent's was at a time."""
        get_parent, compute = self.parent.bind_as_of(context), self.operator.computing(context)

        def get(key: Any, as_of_ms: int) -> tuple[Any, int] | None:
            value, timestamp = get_parent(key, as_of_ms) or NO_ROW
            value = compute(key, value)
            return None if value is None else (value, timestamp)

        return get


@dataclass(frozen=True)
class TableFilter(DerivedTable):
    """Forwards changes with the values for which ``predicate(key, value)`` does not hold taken away.

    A row that is no longer kept is deleted downstream. With ``send_old`` nothing is forwarded when neither the
    old nor the new value is kept; without it every miss is a tombstone, even of a key that was never seen. So it is
    with a ``versioned`` parent, where an old value need not be what downstream has.

    Shape: table[K, V] -> table[K, V]; 1 -> 0..1; key, time and headers kept; store: key-value, or none.
    Source: Kafka Streams `KTable#filter`, `KTable#filterNot`.
    """

    predicate: Callable[[Any, Any], Any]
    negate: bool = False
    store: str | None = None
    send_old: bool = False
    versioned: bool = False

    @property
    def skips(self) -> bool:
        """Whether downstream has nothing to delete where neither value is kept."""
        return self.send_old and not self.versioned

    def computing(self, context: BindContext) -> Compute:
        """The value when its row stays; no value is not asked about."""
        predicate, negate = self.predicate, self.negate

        def keep(key: Any, value: Any) -> Any:
            return None if value is None or bool(predicate(key, value)) == negate else value

        return keep


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
