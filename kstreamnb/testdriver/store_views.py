"""Views of stores for tests: one store over all partitions, with a table for notebooks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, cast

from kstreamnb.core.codec import encoder, key_partitioner
from kstreamnb.core.record import Windowed
from kstreamnb.core.time import Instant, instant_ms
from kstreamnb.errors import StateError
from kstreamnb.frames import TabularRows
from kstreamnb.state.query_views import VIEWS, Detail, KeyValueView, SessionView, VersionedView, View, WindowView, plain
from kstreamnb.state.query_views import view_of as state_view_of
from kstreamnb.state.store import Store

StoreChange: TypeAlias = Callable[[Sequence[Any]], None]
"""Changes a store, given as the store of each partition."""

_NO_TIME = -1


class Writable:
    """Lets a test write rows, as Kafka's test driver does; ``apply`` is set for the stores of such a driver."""

    apply: Callable[[StoreChange], object] | None = None

    def _put(self, owner: object, key: object, value: object, *time: int) -> None:
        """Put a row into the store of the partition that ``owner`` chooses."""
        if self.apply is None:
            raise StateError("this store can only be read", hint="a test can write the stores of a TopologyTestDriver")
        row = (value, _NO_TIME) if value is not None and getattr(self, "_show", None) is plain else value

        def change(stores: Sequence[Any]) -> None:
            serde = stores[0].context.key_serde(stores[0].spec.key_serde)
            store = stores[key_partitioner(serde, len(stores))(encoder(serde)(owner))]
            store = store.for_user if hasattr(row, "headers") else store
            store.put(key, row, *time)

        self.apply(change)


class DisplayedKeyValueView(TabularRows, Writable, KeyValueView):
    """Rows by key, over all partitions."""

    _noun = "key-value store"

    def put(self, key: object, value: object) -> None:
        """Keep a row; None removes it.

        Args:
            key: the key.
            value: the value; a plain value of a timestamped store gets the time -1, as in Kafka Streams.
        """
        self._put(key, key, value)

    def put_all(self, entries: Iterable[tuple[object, object]]) -> None:
        """Keep several rows.

        Args:
            entries: pairs of a key and a value.
        """
        for key, value in entries:
            self.put(key, value)

    def delete(self, key: object) -> object:
        """Remove a row and return it; None if there was none.

        Args:
            key: the key.
        """
        row = self.get(key)
        self.put(key, None)
        return row


class DisplayedWindowView(TabularRows, Writable, WindowView):
    """Rows by key and window start, over all partitions."""

    _noun = "window store"

    def put(self, key: object, value: object, window_start: Instant) -> None:
        """Keep a row; None removes it.

        Args:
            key: the key.
            value: the value.
            window_start: the start of the window, an instant.
        """
        self._put(key, key, value, instant_ms(window_start, "start of a window"))


class DisplayedSessionView(TabularRows, Writable, SessionView):
    """Aggregates by session, over all partitions."""

    _noun = "session store"

    def put(self, session: Windowed[object], aggregate: object) -> None:
        """Keep an aggregate; None removes it.

        Args:
            session: the key with start and end of the session.
            aggregate: its aggregate.
        """
        self._put(session.key, session, aggregate)


class DisplayedVersionedView(TabularRows, Writable, VersionedView):
    """Rows with their history, over all partitions."""

    _noun = "versioned store"

    def put(self, key: object, value: object, timestamp: Instant) -> None:
        """Add a version; None ends the version before it.

        Args:
            key: the key.
            value: the value.
            timestamp: the time from which it is valid, an instant.
        """
        self._put(key, key, value, instant_ms(timestamp, "time of a version"))


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
    return cast("AnyView | None", state_view_of(name, list(stores), show=show, views=displayed))
