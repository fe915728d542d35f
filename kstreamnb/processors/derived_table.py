"""Tables made of another table's rows: the operator, and the look-up of a row where none is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from kstreamnb.core.operator import BindContext, Forward, Process, TableView
from kstreamnb.core.record import Change, Headers
from kstreamnb.processors.rows import GetRow, bind_get, bind_update
from kstreamnb.processors.table_view import NO_ROW, GetAsOf

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
