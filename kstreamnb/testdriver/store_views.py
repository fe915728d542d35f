"""Stores as a test sees them, with a display."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kstreamnb.core.formatting import format_time, format_value, pluralize
from kstreamnb.core.record import ValueAndTimestamp
from kstreamnb.core.tables import Tabular
from kstreamnb.state.query_views import VIEWS
from kstreamnb.state.query_views import KeyValueView as ReadKeyValueView
from kstreamnb.state.query_views import SessionView as ReadSessionView
from kstreamnb.state.query_views import VersionedView as ReadVersionedView
from kstreamnb.state.query_views import WindowView as ReadWindowView
from kstreamnb.state.query_views import view_of as read_view_of

__all__ = ["KeyValueView", "SessionView", "VersionedView", "WindowView", "view_of"]

_SHOWN = 10


class _Shown(Tabular):
    """What every view shows of its rows."""

    name: str
    header = ("key", "value", "time")

    @property
    def title(self) -> str:
        """The store's name and its number of rows."""
        return f'store "{self.name}": {pluralize(len(self._rows()), "row")}'

    def table(self) -> Iterator[tuple[str, ...]]:
        """The first rows in words."""
        for key, value in self._rows()[:_SHOWN]:
            timed = isinstance(value, ValueAndTimestamp)
            yield (
                format_value(key),
                format_value(value.value if timed else value),
                format_time(value.timestamp) if timed else "",
            )

    def more(self) -> Iterator[str]:
        """How many rows there are when not all are shown."""
        rows = len(self._rows())
        return iter([f"{_SHOWN} of {rows:,}"] if rows > _SHOWN else [])

    def _rows(self) -> list[tuple[Any, Any]]:
        """All rows; a store that can only be asked for a key shows none."""
        read = getattr(self, "all", None)
        return [] if read is None else list(read())


class KeyValueView(_Shown, ReadKeyValueView):
    """Rows by key, over all partitions."""


class WindowView(_Shown, ReadWindowView):
    """Rows by key and window start, over all partitions."""


class SessionView(_Shown, ReadSessionView):
    """Aggregates by session, over all partitions."""


class VersionedView(_Shown, ReadVersionedView):
    """Rows with their history, over all partitions."""


_SHOWN_AS: dict[Any, Any] = {
    ReadKeyValueView: KeyValueView,
    ReadWindowView: WindowView,
    ReadSessionView: SessionView,
    ReadVersionedView: VersionedView,
}


def view_of(name: str, stores: list[Any], *, show_time: bool = False) -> Any:
    """A view of stores of one kind; None where their kind is not for users."""
    chosen = {kind: _SHOWN_AS[view] for kind, view in VIEWS.items()}
    return read_view_of(name, stores, show_time=show_time, views=chosen)
