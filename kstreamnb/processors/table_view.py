"""Looking up the current row of a table, whether or not a store keeps just these rows.

A view is asked by joins and by operators that need old values. It goes up the tables until it finds a store, and
computes on the way back what each table does to a row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from kstreamnb.core.operator import BindContext, TableView
from kstreamnb.core.record import Windowed
from kstreamnb.processors.rows import GetRow, bind_get

GetAsOf: TypeAlias = Callable[[Any, int], tuple[Any, int] | None]
"""``get(key, as_of_ms)`` gives ``(value, timestamp)``, or None where there was no row."""

NO_ROW = (None, -1)
"""Stands for the row of a key that has none."""


@dataclass(frozen=True)
class StoreView:
    """The rows of a timestamped or versioned key-value store.

    Source: Kafka Streams `KTableSourceValueGetterSupplier`, `KTableMaterializedValueGetterSupplier`.
    """

    store: str
    versioned: bool = False

    @property
    def stores(self) -> tuple[str, ...]:
        """The one store."""
        return (self.store,)

    def bind(self, context: BindContext) -> GetRow:
        """The latest row of a key."""
        return bind_get(context.store(self.store))

    def bind_as_of(self, context: BindContext) -> GetAsOf:
        """The row of a key that was valid at a time; raises TypeError without versions."""
        if not self.versioned:
            raise TypeError(f"{type(self).__name__} has no history to look a row up as of a time")
        return context.store(self.store).row  # type: ignore[no-any-return]


@dataclass(frozen=True)
class WindowStoreView(StoreView):
    """The rows of a windowed aggregate, by windowed key.

    Source: Kafka Streams `KStreamWindowAggregateValueGetter`.
    """

    def bind(self, context: BindContext) -> GetRow:
        """The row of a windowed key."""
        fetch = context.store(self.store).fetch

        def get(key: Windowed) -> tuple[Any, int] | None:
            row: tuple[Any, int] | None = fetch(key[0], key[1])
            return row

        return get


@dataclass(frozen=True)
class SessionStoreView(StoreView):
    """The rows of a session aggregate, by windowed key; the time of a row is the session's end.

    Source: Kafka Streams `KTableSessionWindowValueGetter`.
    """

    def bind(self, context: BindContext) -> GetRow:
        """The aggregate of a session."""
        fetch_session = context.store(self.store).fetch_session

        def get(key: Windowed) -> tuple[Any, int] | None:
            aggregate = fetch_session(*key)
            return None if aggregate is None else (aggregate, key[2])

        return get


@dataclass(frozen=True)
class SuppressView:
    """The rows that have come out of a suppression: what its buffer holds back is shown as it was before.

    Source: Kafka Streams `KTableSuppressValueGetter`.
    """

    parent: TableView
    store: str

    @property
    def stores(self) -> tuple[str, ...]:
        """The buffer and the parent's stores."""
        return tuple(dict.fromkeys((self.store, *self.parent.stores)))

    @property
    def versioned(self) -> bool:
        """As the parent."""
        return self.parent.versioned

    def bind(self, context: BindContext) -> GetRow:
        """The value before the buffered change, of unknown time (-1), else the parent's row."""
        prior, get_parent = context.store(self.store).prior, self.parent.bind(context)

        def get(key: Any) -> tuple[Any, int] | None:
            is_buffered, value = prior(key)
            if not is_buffered:
                return get_parent(key)
            return None if value is None else (value, -1)

        return get

    def bind_as_of(self, context: BindContext) -> GetAsOf:
        """The parent's row."""
        return self.parent.bind_as_of(context)
