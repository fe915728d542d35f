"""Timestamped stores as a user's processor sees them: with `ValueAndTimestamp` rows."""

from __future__ import annotations

from typing import Any

from kstreamnb.core.record import ValueAndTimestamp
from kstreamnb.state.store import Rows, Store


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


def _named(result: Any) -> Any:
    if type(result) is tuple:
        return ValueAndTimestamp(*result)
    return result.map(_row) if isinstance(result, Rows) else result


def _row(row: tuple[Any, tuple[Any, int]]) -> tuple[Any, ValueAndTimestamp]:
    return row[0], ValueAndTimestamp(*row[1])
