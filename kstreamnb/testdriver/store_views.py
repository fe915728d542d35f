"""Views of stores for tests: one store over all partitions, with a table for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, cast

from kstreamnb.frames import TabularRows
from kstreamnb.state import Store
from kstreamnb.state.query_views import VIEWS, Detail, KeyValueView, SessionView, VersionedView, View, WindowView
from kstreamnb.state.query_views import view_of as state_view_of


class DisplayedKeyValueView(TabularRows, KeyValueView):
    """Rows by key, over all partitions."""


class DisplayedWindowView(TabularRows, WindowView):
    """Rows by key and window start, over all partitions."""


class DisplayedSessionView(TabularRows, SessionView):
    """Aggregates by session, over all partitions."""


class DisplayedVersionedView(TabularRows, VersionedView):
    """Rows with their history, over all partitions."""


AnyView: TypeAlias = DisplayedKeyValueView | DisplayedWindowView | DisplayedSessionView | DisplayedVersionedView
"""A view of a store of any kind."""

_SHOWN_AS: dict[type[View], type[AnyView]] = {
    KeyValueView: DisplayedKeyValueView,
    WindowView: DisplayedWindowView,
    SessionView: DisplayedSessionView,
    VersionedView: DisplayedVersionedView,
}


def view_of(name: str, stores: Sequence[Store], *, show: Detail = "values") -> AnyView | None:
    """Return a view of the same store of all tasks; None if its kind has no rows for users.

    Args:
        name: the store.
        stores: the store of each task, by partition.
        show: "values", "times" for rows of timestamped stores as `ValueAndTimestamp`, or "headers" for rows of stores
            with headers as `ValueTimestampHeaders` or `AggregationWithHeaders`.
    """
    displayed = {kind: _SHOWN_AS[view] for kind, view in VIEWS.items()}
    view = state_view_of(name, list(stores), show=show, views=displayed)
    return cast("AnyView | None", view)
