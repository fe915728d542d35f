"""Stores as operators use them; `kstreamnb.state` implements them and knows no operator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeAlias

from kstreamnb.core.record import Headers, RecordMetadata, Windowed
from kstreamnb.core.stores import FlushListener, StoreSpec

TimestampedRow: TypeAlias = tuple[object, int]
"""A value and its timestamp (ms)."""


class RowStore(Protocol):
    """A store that keeps a table."""

    @property
    def spec(self) -> StoreSpec:
        """The declaration."""

    def set_flush_listener(self, listener: FlushListener, *, send_old: bool) -> bool:
        """Report flushed changes to ``listener``; return False if the store has no cache."""

    def in_place(self) -> tuple[dict[object, object], list[object]] | None:
        """Return the rows and the state variable with the change listener, if an operator may replace rows directly."""


class WindowStore(RowStore, Protocol):
    """Rows by key and window start; times in ms, both ends of a range inclusive."""

    @property
    def keys(self) -> Any:
        """How keys are found: ``direct`` if a row found under the key itself is the right one."""

    def row_at(self, key: object, start: int) -> TimestampedRow | None:
        """Return the row of one window."""

    def put(self, key: object, row: TimestampedRow | None, start: int) -> None:
        """Keep a row; None deletes it."""

    def rows_between(self, key: object, from_: int, to: int, *, backward: bool = False) -> Iterable[tuple[int, Any]]:
        """Return window starts of a key with their rows, which have a time, ascending unless ``backward``."""


class SessionStore(RowStore, Protocol):
    """Aggregates by session."""

    def rows_between(self, key: object, earliest_end: int, latest_start: int) -> list[tuple[Windowed[object], object]]:
        """Return the sessions of a key that reach into a time range (ms), by end."""

    def put(self, session: Windowed[object], aggregate: object) -> None:
        """Put an aggregate; None deletes it."""

    def remove(self, session: Windowed[object]) -> None:
        """Delete a session."""


class PendingStore(Protocol):
    """Records of a stream join that wait for a partner."""

    def add(self, timestamp: int, is_left: bool, key: object, value: object) -> None:
        """Keep one more record."""

    def discard(self, timestamp: int, is_left: bool, key: object) -> None:
        """Delete the records of a key and time."""

    def entries(self) -> Iterator[tuple[int, bool, object, list[object]]]:
        """Iterate over timestamp, side, key and values, in the order in which they leave."""


class SuppressStore(Protocol):
    """Changes that a suppression holds back."""

    def release(
        self, time: int, *is_full: Callable[[], bool]
    ) -> Iterator[tuple[object, object, object, int, Headers, RecordMetadata | None]]:
        """Yield key, new, old, timestamp, headers and metadata of each change up to a time (ms), then remove it."""

    def count(self) -> int:
        """Return the number of changes."""

    def size_bytes(self) -> int:
        """Return the estimated size of all changes."""
