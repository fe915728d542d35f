"""Stores as users see them: with `ValueAndTimestamp` rows inside a processor, read-only where they are global."""

from __future__ import annotations

from typing import Any

from kstreamnb.core.record import ValueAndTimestamp
from kstreamnb.errors import StateError
from kstreamnb.state.store import Rows, Store

__all__ = ["ReadOnlyStore", "TimestampedStoreForUser"]

_WRITERS = frozenset({"put", "put_if_absent", "put_all", "delete", "remove", "apply", "write", "restore"})


class TimestampedStoreForUser:
    """A timestamped store whose rows are `ValueAndTimestamp`, otherwise the store itself."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not callable(found):
            return found

        def call(*args: Any, **options: Any) -> Any:
            return _named(found(*args, **options))

        self.__dict__[name] = call
        return call


class ReadOnlyStore:
    """A store that can only be read: a global store in the hands of a task that does not own it."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        if name in _WRITERS:
            raise StateError(
                f'store "{self._store.name}" can only be read here',
                hint="a global store is written by the processor that was added with it",
                java="Global store is read only",
            )
        return getattr(self._store, name)


def _named(result: Any) -> Any:
    if type(result) is tuple:
        return ValueAndTimestamp(*result)
    return result.map(_row) if isinstance(result, Rows) else result


def _row(row: tuple[Any, tuple[Any, int]]) -> tuple[Any, ValueAndTimestamp]:
    return row[0], ValueAndTimestamp(*row[1])
