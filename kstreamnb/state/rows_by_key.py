"""Rows by key in the order of their positions: an index of any rows, and the rows of joins and sessions in memory."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Hashable, ItemsView, Iterable, Iterator, MutableMapping
from typing import Any, Generic, TypeAlias, TypeVar

P = TypeVar("P", bound=Any)
"""The type of a position: a number, or a pair of times."""

SEQUENCE_BITS = 31
"""Lowest bits of a position that number the rows of a store."""
NUMBERS = 1 << SEQUENCE_BITS

TimedKey: TypeAlias = tuple[Hashable, P]
"""A raw key: the wire form of the key, and the position of one of its rows."""

NumberedRow: TypeAlias = tuple[int, int, Any]
"""Window start, number and row."""


class KeyIndex(dict[Hashable, list[P]], Generic[P]):
    """The positions of each key's rows, ascending; a key without rows is not in it."""

    def add(self, key: Hashable, position: P) -> None:
        """Add a row to the index."""
        insort(self.setdefault(key, []), position)

    def remove(self, key: Hashable, position: Any) -> None:
        """Remove a row; one that was never added is ignored."""
        positions = self.get(key)
        if positions is not None:
            del positions[bisect_left(positions, position)]
            if not positions:
                del self[key]

    def take_before(self, key: Hashable, position: Any) -> list[P]:
        """Remove the rows of a key that are before a position, and return their positions."""
        end = bisect_left(positions := self[key], position)
        taken = positions[:end]
        del positions[:end]
        if not positions:
            del self[key]
        return taken


class TimeIndex(dict[int, dict[Hashable, None]]):
    """Raw keys by time, for ranges of time and for expiry."""

    def __init__(self) -> None:
        super().__init__()
        self._times: list[int] = []

    def add(self, time_ms: int, raw_key: Hashable) -> None:
        """Add a row to the index."""
        if time_ms not in self:
            self[time_ms] = {}
            insort(self._times, time_ms)
        self[time_ms][raw_key] = None

    def remove(self, time_ms: int, raw_key: Hashable) -> None:
        """Remove a row; one that was never added is ignored."""
        bucket = self.get(time_ms)
        if bucket is not None:
            del bucket[raw_key]
            if not bucket:
                del self[time_ms]
                del self._times[bisect_left(self._times, time_ms)]

    def drop_before(self, time_ms: int) -> None:
        """Remove the rows before a time."""
        end = bisect_left(self._times, time_ms)
        for gone in self._times[:end]:
            del self[gone]
        del self._times[:end]

    def between(self, from_ms: int, to_ms: int) -> Iterator[Any]:
        """Yield raw keys of a range of time, both ends inclusive, by time and then by insertion."""
        for time_ms in self.times_between(from_ms, to_ms):
            yield from self[time_ms]

    def times_between(self, from_ms: int, to_ms: int) -> list[int]:
        """Return the times of a range, both ends inclusive, ascending."""
        return self._times[bisect_left(self._times, from_ms) : bisect_right(self._times, to_ms)]

    def times(self) -> Iterator[int]:
        """Yield all times, ascending; rows may be removed meanwhile."""
        times, last = self._times, -1
        while (position := bisect_right(times, last)) < len(times):
            last = times[position]
            yield last


def position_of(start: int, number: int, _: object = None) -> int:
    """Return the position of an entry."""
    return start << SEQUENCE_BITS | number


class RowsWithClock(MutableMapping[Any, Any]):
    """Rows by raw key; that of None, the store's clock, is the attribute ``clock``.

    Subclasses have ``read(raw_key)``, ``write(raw_key, row)`` and ``read_all()`` for all others. A row of None is none.
    """

    clock: Any = None
    read: Callable[[Any], Any]
    write: Callable[[Any, Any], Any]
    read_all: Callable[[], Iterable[tuple[Any, Any]]]

    def __getitem__(self, raw_key: Any) -> Any:
        row = self.clock if raw_key is None else self.read(raw_key)
        if row is None:
            raise KeyError(raw_key)
        return row

    def __setitem__(self, raw_key: Any, row: Any) -> None:
        if raw_key is None:
            self.clock = row
        else:
            self.write(raw_key, row)

    def __delitem__(self, raw_key: Any) -> None:
        self[raw_key] = None

    def __iter__(self) -> Iterator[Any]:
        yield from () if self.clock is None else (None,)
        yield from [raw_key for raw_key, _ in self.read_all()]

    def __len__(self) -> int:
        return sum(1 for _ in self)


class RowsByKey(RowsWithClock):
    """Maps raw keys to rows, and finds the rows of a key or of a range of times.

    ``entries`` maps each wire key to its entries, ascending: both parts of a position, and the row. Positions are
    numbers, and rows are in order of arrival; or, for ``sessions``, positions are pairs, and rows are in their order.
    ``count`` is the number of entries. ``times`` finds sessions by their ends, from the first range query on.
    """

    def __init__(self, *, sessions: bool = False) -> None:
        self.entries: KeyIndex[Any] = KeyIndex()
        self.times, self.count = TimeIndex(), 0
        self._sessions = sessions

    def __len__(self) -> int:
        return self.count + (self.clock is not None)

    def items(self) -> ItemsView[Any, Any]:
        """Return raw keys and rows, without a search for each."""
        return dict([*(() if self.clock is None else ((None, self.clock),)), *self.read_all()]).items()

    def _find(self, raw_key: TimedKey[Any]) -> tuple[Any, tuple[int, int], list[Any], int]:
        """Return a row or None, the parts of its position, the entries of its key, and the row's index among them."""
        key, position = raw_key
        parts, entries = position if self._sessions else divmod(position, NUMBERS), self.entries.get(key, [])
        at = bisect_left(entries, parts)
        found = at < len(entries) and entries[at][:2] == parts
        return entries[at][2] if found else None, parts, entries, at

    def read(self, raw_key: TimedKey[Any]) -> Any:
        """Return a row, or None."""
        return self._find(raw_key)[0]

    def write(self, raw_key: TimedKey[Any], row: Any) -> Any:
        """Put a row, or for None remove it; return the one that was there, or None."""
        old, parts, entries, at = self._find(raw_key)
        entries[at : at + (old is not None)] = [] if row is None else [(*parts, row)]
        self.count += (change := (row is not None) - (old is not None))
        if change and self.times:
            (self.times.add if change > 0 else self.times.remove)(parts[0], raw_key)
        if entries:
            self.entries[raw_key[0]] = entries
        elif old is not None:
            del self.entries[raw_key[0]]
        return old

    def read_all(self) -> list[tuple[TimedKey[Any], Any]]:
        """Return raw keys and rows."""
        rows = [((key, self._position_of(entry)), entry[2]) for key in self.entries for entry in self.entries[key]]
        return sorted(rows, key=lambda row: row[0][1] if self._sessions else row[0][1] % NUMBERS)

    def _position_of(self, entry: Any) -> Any:
        return entry[:2] if self._sessions else position_of(*entry)

    def positions(self, key: Hashable, _: bytes, from_ms: int) -> list[Any]:
        """Return the positions of a key's rows from a time (ms), ascending."""
        entries = self.entries.get(key, [])
        return list(map(self._position_of, entries[bisect_left(entries, (from_ms,)) :]))

    def keys_between(self, from_ms: int, to_ms: int) -> list[TimedKey[Any]]:
        """Return raw keys of a range of times (ms), both ends inclusive; sessions by their ends."""
        if self._sessions:
            for raw_key, _ in () if self.times else self.read_all():
                self.times.add(raw_key[1][0], raw_key)
            return list(self.times.between(from_ms, to_ms))
        found = ((key, entry) for key in self.entries for entry in self.entries[key] if from_ms <= entry[0] <= to_ms)
        return [(key, self._position_of(entry)) for key, entry in found]

    def take_before(self, time_ms: int) -> Iterator[Any]:
        """Remove the rows before a time (ms); return an iterator over raw keys and rows."""
        keys = [key for key, entries in self.entries.items() if entries[0][0] < time_ms]
        taken = [(key, self.entries.take_before(key, (time_ms,))) for key in keys]
        self.count -= sum(len(entries) for _, entries in taken)
        self.times.drop_before(time_ms)
        return (((key, self._position_of(entry)), entry[2]) for key, entries in taken for entry in entries)
