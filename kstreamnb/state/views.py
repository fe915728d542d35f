"""Stores as users see them: `ValueAndTimestamp` rows inside a processor, read-only facades in a driver's hands."""

from __future__ import annotations

from typing import Any

from kstreamnb.core.record import ValueAndTimestamp
from kstreamnb.state.store import Rows, Store

__all__ = ["TimestampedStoreForUser"]


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

        return call


def _named(result: Any) -> Any:
    if type(result) is tuple:
        return ValueAndTimestamp(*result)
    if isinstance(result, Rows):
        show = result._show
        return Rows(result._pairs, lambda raw_key, row: _row(*show(raw_key, row)))
    return result


def _row(key: Any, value: tuple[Any, int]) -> tuple[Any, ValueAndTimestamp]:
    return key, ValueAndTimestamp(*value)
