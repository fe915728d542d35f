"""Stores as a reader sees them: one store for all partitions, in every engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from heapq import merge
from typing import Any, Generic, Literal, TypeAlias, cast

from kstreamnb.core.record import ValueAndTimestamp, Windowed
from kstreamnb.core.time import MAX_TIME_MS, Instant
from kstreamnb.state.store import Rows
from kstreamnb.suggesting import Suggesting
from kstreamnb.type_variables import TypeVar

K = TypeVar("K", default=Any)
V = TypeVar("V", default=Any)

Show = Callable[[Any], Any]
"""Makes what a reader gets of a row."""

Detail: TypeAlias = Literal["values", "times", "headers"]
"""Rows as plain values, also with times (`ValueAndTimestamp`), or with all that the store keeps."""


def detail(*, timestamps: bool, headers: bool) -> Detail:
    """Return how rows are shown; headers include timestamps."""
    return "headers" if headers else "times" if timestamps else "values"


ByWindow: TypeAlias = Iterator[tuple[Windowed[object], V]]
"""Windows with their rows."""


def plain(row: tuple[object, int] | None) -> object:
    """Return the value of a timestamped row."""
    return None if row is None else row[0]


def timestamped(row: tuple[object, int] | None) -> ValueAndTimestamp | None:
    """Return a timestamped row as users see it."""
    return None if row is None else ValueAndTimestamp(*row)


def itself(row: object) -> object:
    """Return a row without a timestamp unchanged."""
    return row


class View(Suggesting, Generic[K, V]):
    """The same store of several tasks, read together; ``stores`` are in the order of their partitions."""

    def __init__(self, name: str, stores: list[Any], show: Show = itself) -> None:
        self.name, self.stores, self._show = name, stores, show

    def partition(self, number: int) -> Any:
        """Return the store of one partition alone.

        Args:
            number: the number of the partition.
        """
        return self.stores[number]

    def _find(self, method: str, *args: object) -> V | None:
        """Return the first row that one of the stores has."""
        rows = (getattr(store, method)(*args) for store in self.stores)
        return next((cast("V", self._show(row)) for row in rows if row is not None), None)

    def _merge(self, method: str, *args: object, reverse: bool = False) -> Iterator[tuple[K, V]]:
        """Merge the rows of all stores in one order: that of each store, by key bytes and then by time."""
        show, rows = self._show, [list(getattr(store, method)(*args)) for store in self.stores]
        merged = rows[0] if len(rows) == 1 else merge(*rows, key=lambda row: self._rank(row[0]), reverse=reverse)
        return Rows([(key, show(row)) for key, row in merged])

    def _rank(self, key: object) -> tuple[object, ...]:
        serde = self.stores[0].spec.key_serde
        if isinstance(key, Windowed):
            return serde.serialize(key.key), key.start, key.end
        return (serde.serialize(key),) if not isinstance(key, int) or serde.name != "time" else (key,)


class ListedView(View[K, V]):
    """A view whose rows can be listed: it has a length, and can be iterated over."""

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return self.all()

    def all(self) -> Iterator[tuple[K, V]]:
        """Return all rows, ascending by key bytes."""
        return self._merge("all")

    def to_dict(self) -> dict[K, V]:
        """Return all rows by their keys."""
        return dict(self.all())


class KeyValueView(ListedView[K, V]):
    """Rows by key, over all partitions."""

    def get(self, key: object) -> V | None:
        """Return the row of a key, or None.

        Args:
            key: the key.
        """
        return self._find("get", key)

    def __getitem__(self, key: object) -> V:
        value = self.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def __contains__(self, key: object) -> bool:
        return self.get(key) is not None

    def __len__(self) -> int:
        return self.approximate_num_entries()

    def reverse_all(self) -> Iterator[tuple[K, V]]:
        """Return all rows, descending by key bytes."""
        return self._merge("reverse_all", reverse=True)

    def range(self, from_key: object, to_key: object) -> Iterator[tuple[K, V]]:
        """Return rows between two keys, both inclusive; None means no bound.

        Args:
            from_key: the lower bound, inclusive. None: no lower bound.
            to_key: the upper bound, inclusive. None: no upper bound.
        """
        return self._merge("range", from_key, to_key)

    def reverse_range(self, from_key: object, to_key: object) -> Iterator[tuple[K, V]]:
        """Return the rows of `range`, descending.

        Args:
            from_key: the lower bound, inclusive. None: no lower bound.
            to_key: the upper bound, inclusive. None: no upper bound.
        """
        return self._merge("reverse_range", from_key, to_key, reverse=True)

    def prefix_scan(self, prefix: object, serialize: Callable[[Any], bytes] | None = None) -> Iterator[tuple[K, V]]:
        """Return rows whose key bytes begin with those of ``prefix``.

        Args:
            prefix: the beginning of the keys.
            serialize: makes the bytes of the prefix. Default: the store's key serde.
        """
        return self._merge("prefix_scan", prefix, serialize)

    def approximate_num_entries(self) -> int:
        """Return the number of rows."""
        return sum(store.approximate_num_entries() for store in self.stores)


class WindowView(ListedView[Windowed[object], V]):
    """Rows by key and window start, over all partitions."""

    def fetch(self, key: object, from_: Instant, to: Instant | None = None) -> V | Iterator[tuple[int, V]] | None:
        """Return the row of one window start or, with two times, ``(start, row)`` of all starts between them.

        Args:
            key: the key.
            from_: the window start, an instant, or the first of several, inclusive.
            to: the last window start, inclusive. Default: only ``from_``, and the result is one row or None.
        """
        return self._find("fetch", key, from_) if to is None else self._of_key("fetch_between", key, from_, to)

    def backward_fetch(self, key: object, from_: Instant, to: Instant) -> Iterator[tuple[int, V]]:
        """Return ``(start, row)`` of all starts between two times, descending.

        Args:
            key: the key.
            from_: the first window start, an instant, inclusive.
            to: the last window start, inclusive.
        """
        return self._of_key("backward_fetch", key, from_, to)

    def fetch_keys(self, from_key: object, to_key: object, from_: Instant, to: Instant) -> ByWindow[V]:
        """Return rows between two keys and two times.

        Args:
            from_key: the lower bound, inclusive. None: no lower bound.
            to_key: the upper bound, inclusive. None: no upper bound.
            from_: the first window start, an instant, inclusive.
            to: the last window start, inclusive.
        """
        return self._merge("fetch_keys", from_key, to_key, from_, to)

    def backward_fetch_keys(self, from_key: object, to_key: object, from_: Instant, to: Instant) -> ByWindow[V]:
        """Return the rows of `fetch_keys`, descending.

        Args:
            from_key: the lower bound, inclusive. None: no lower bound.
            to_key: the upper bound, inclusive. None: no upper bound.
            from_: the first window start, an instant, inclusive.
            to: the last window start, inclusive.
        """
        return self._merge("backward_fetch_keys", from_key, to_key, from_, to, reverse=True)

    def fetch_all(self, from_: Instant, to: Instant) -> ByWindow[V]:
        """Return rows of all keys between two times.

        Args:
            from_: the first window start, an instant, inclusive.
            to: the last window start, inclusive.
        """
        return self._merge("fetch_all", from_, to)

    def backward_fetch_all(self, from_: Instant, to: Instant) -> ByWindow[V]:
        """Return the rows of `fetch_all`, descending.

        Args:
            from_: the first window start, an instant, inclusive.
            to: the last window start, inclusive.
        """
        return self._merge("backward_fetch_all", from_, to, reverse=True)

    def backward_all(self) -> ByWindow[V]:
        """Return all rows, descending."""
        return self._merge("backward_all", reverse=True)

    def _of_key(self, method: str, key: object, from_: Instant, to: Instant) -> Iterator[tuple[int, V]]:
        show = self._show
        rows = [row for store in self.stores for row in getattr(store, method)(key, from_, to)]
        return Rows([(start, show(row)) for start, row in rows])


class SessionView(ListedView[Windowed[object], V]):
    """Aggregates by session, over all partitions."""

    def fetch(self, key: object, to_key: object = ...) -> ByWindow[V]:
        """Return the sessions of a key, or of a range of keys.

        Args:
            key: the key; with ``to_key`` the lower bound, inclusive, and None for no lower bound.
            to_key: the upper bound, inclusive. None: no upper bound. Default: only ``key``.
        """
        return self._merge("fetch", key, to_key)

    def backward_fetch(self, key: object, to_key: object = ...) -> ByWindow[V]:
        """Return the sessions of `fetch`, descending.

        Args:
            key: the key; with ``to_key`` the lower bound, inclusive, and None for no lower bound.
            to_key: the upper bound, inclusive. None: no upper bound. Default: only ``key``.
        """
        return self._merge("backward_fetch", key, to_key, reverse=True)

    def all(self) -> ByWindow[V]:
        """Return sessions of all keys."""
        return self.find_sessions_between(None, None, 0, MAX_TIME_MS)

    def fetch_session(self, key: object, start: Instant, end: Instant) -> V | None:
        """Return the aggregate of one session, or None.

        Args:
            key: the key.
            start: the start of the session.
            end: the end of the session, which is inclusive.
        """
        return self._find("fetch_session", key, start, end)

    def find_sessions(self, key: object, earliest_end: Instant, latest_start: Instant) -> ByWindow[V]:
        """Return the sessions of a key that overlap a time range.

        Args:
            key: the key.
            earliest_end: the earliest end of a session, inclusive.
            latest_start: the latest start of a session, inclusive.
        """
        return self._merge("find_sessions", key, earliest_end, latest_start)

    def backward_find_sessions(self, key: object, earliest_end: Instant, latest_start: Instant) -> ByWindow[V]:
        """Return the sessions of `find_sessions`, descending.

        Args:
            key: the key.
            earliest_end: the earliest end of a session, inclusive.
            latest_start: the latest start of a session, inclusive.
        """
        return self._merge("backward_find_sessions", key, earliest_end, latest_start, reverse=True)

    def find_sessions_between(
        self, from_key: object, to_key: object, earliest_end: Instant, latest_start: Instant
    ) -> ByWindow[V]:
        """Return the sessions of a range of keys that overlap a time range.

        Args:
            from_key: the lower bound, inclusive. None: no lower bound.
            to_key: the upper bound, inclusive. None: no upper bound.
            earliest_end: the earliest end of a session, inclusive.
            latest_start: the latest start of a session, inclusive.
        """
        return self._merge("find_sessions_between", from_key, to_key, earliest_end, latest_start)

    def backward_find_sessions_between(
        self, from_key: object, to_key: object, earliest_end: Instant, latest_start: Instant
    ) -> ByWindow[V]:
        """Return the sessions of `find_sessions_between`, descending.

        Args:
            from_key: the lower bound, inclusive. None: no lower bound.
            to_key: the upper bound, inclusive. None: no upper bound.
            earliest_end: the earliest end of a session, inclusive.
            latest_start: the latest start of a session, inclusive.
        """
        return self._merge("backward_find_sessions_between", from_key, to_key, earliest_end, latest_start, reverse=True)


class VersionedView(View[K, V]):
    """Rows with their history, over all partitions."""

    def get(self, key: object, as_of: Instant | None = None) -> V | None:
        """Return the latest version of a key, or the one valid at a time; None if there is none.

        Args:
            key: the key.
            as_of: the time at which the version was valid, an instant. Default: the latest version.
        """
        return self._find("get", key, as_of)

    def history(
        self, key: object, from_: Instant | None = None, to: Instant | None = None, *, ascending: bool = True
    ) -> Iterator[V]:
        """Return versions of a key that were valid between two times.

        Args:
            key: the key.
            from_: the beginning of the period, an instant. Default: the whole history.
            to: its end. Default: no end.
            ascending: the oldest version first. Default: True.
        """
        return Rows([row for store in self.stores for row in store.history(key, from_, to, ascending=ascending)])


VIEWS: Mapping[str, type[View]] = {
    "key_value": KeyValueView,
    "lru": KeyValueView,
    "window": WindowView,
    "session": SessionView,
    "versioned": VersionedView,
}


def view_of(
    name: str, stores: list[Any], *, show: Detail = "values", views: Mapping[str, type[View]] = VIEWS
) -> View | None:
    """Return a view of stores of one kind, with rows as ``show`` says; None for internal kinds.

    ``views`` are the views to choose from.
    """
    view = views.get(stores[0].spec.kind.removeprefix("timestamped_"))
    if view is None:
        return None
    if show == "headers":
        return view(name, [store.for_user for store in stores])
    return view(name, stores, {"values": plain, "times": timestamped}[show] if stores[0].timestamped else itself)
