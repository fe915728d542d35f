"""Views of stores for tests: one store over all partitions, with a table for notebooks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias, cast

from kstreamnb.core.formatting import format_time, format_value, pluralize
from kstreamnb.core.record import ValueAndTimestamp
from kstreamnb.core.tables import Tabular
from kstreamnb.state import Store
from kstreamnb.state.query_views import VIEWS, KeyValueView, SessionView, VersionedView, View, WindowView
from kstreamnb.state.query_views import view_of as state_view_of

_SHOWN = 10


class _TabularView(Tabular):
    """A table of a view's first rows."""

    name: str
    header = ("key", "value", "time")

    @property
    def title(self) -> str:
        """The store's name and its number of rows."""
        return f'store "{self.name}": {pluralize(len(self._rows()), "row")}'

    def table(self) -> Iterator[tuple[str, ...]]:
        """Yield the first rows as text."""
        for key, value in self._rows()[:_SHOWN]:
            timed = isinstance(value, ValueAndTimestamp)
            yield (
                format_value(key),
                format_value(value.value if timed else value),
                format_time(value.timestamp) if timed else "",
            )

    def more(self) -> Iterator[str]:
        """Yield the number of rows if not all are shown."""
        rows = len(self._rows())
        return iter([f"{_SHOWN} of {rows:,}"] if rows > _SHOWN else [])

    def _rows(self) -> list[tuple[Any, Any]]:
        """Return all rows; none of a store that can only look up keys."""
        read = getattr(self, "all", None)
        return [] if read is None else list(read())


class DisplayedKeyValueView(_TabularView, KeyValueView):
    """Rows by key, over all partitions."""


class DisplayedWindowView(_TabularView, WindowView):
    """Rows by key and window start, over all partitions."""


class DisplayedSessionView(_TabularView, SessionView):
    """Aggregates by session, over all partitions."""


class DisplayedVersionedView(_TabularView, VersionedView):
    """Rows with their history, over all partitions."""


AnyView: TypeAlias = DisplayedKeyValueView | DisplayedWindowView | DisplayedSessionView | DisplayedVersionedView
"""A view of a store of any kind."""

_SHOWN_AS: dict[type[View], type[AnyView]] = {
    KeyValueView: DisplayedKeyValueView,
    WindowView: DisplayedWindowView,
    SessionView: DisplayedSessionView,
    VersionedView: DisplayedVersionedView,
}


def view_of(name: str, stores: Sequence[Store], *, show_time: bool = False) -> AnyView | None:
    """Return a view of the same store of all tasks; None if its kind has no rows for users.

    Args:
        name: the store.
        stores: the store of each task, by partition.
        show_time: show rows of timestamped stores as `ValueAndTimestamp`.
    """
    displayed = {kind: _SHOWN_AS[view] for kind, view in VIEWS.items()}
    view = state_view_of(name, list(stores), show_time=show_time, views=displayed)
    return cast("AnyView | None", view)
