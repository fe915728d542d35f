"""Rows by key in the order of their positions: an index of any rows, and the rows of window stores with duplicates."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterator, MutableMapping
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


def position_of(start: int, number: int, _: object = None) -> int:
    """Return the position of an entry."""
    return start << SEQUENCE_BITS | number


class RowsByKey(MutableMapping[TimedKey[int] | None, Any]):
    """Maps raw keys to rows, in order of arrival, and finds the rows of a key or of a range of times.

    ``entries`` maps each wire key to its entries, ascending. ``count`` is the number of entries, ``clock`` the row of
    None: the store's clock.
    """

    def __init__(self) -> None:
        self.entries: KeyIndex[Any] = KeyIndex()
        self.count = 0
        self.clock: Any = None

    def __getitem__(self, raw_key: TimedKey[int] | None) -> Any:
        if raw_key is None and self.clock is not None:
            return self.clock
        key, position = raw_key or (None, 0)
        entries, wanted = self.entries.get(key, ()), divmod(position, NUMBERS)
        at = bisect_left(entries, wanted)
        if at == len(entries) or entries[at][:2] != wanted:
            raise KeyError(raw_key)
        return entries[at][2]

    def __setitem__(self, raw_key: TimedKey[int] | None, row: Any) -> None:
        if raw_key is None:
            self.clock = row
        else:
            self.pop(raw_key, None)
            self.entries.add(raw_key[0], (*divmod(raw_key[1], NUMBERS), row))
            self.count += 1

    def __delitem__(self, raw_key: TimedKey[int] | None) -> None:
        if raw_key is None:
            self.clock = None
        else:
            self.entries.remove(raw_key[0], divmod(raw_key[1], NUMBERS))
            self.count -= 1

    def __iter__(self) -> Iterator[TimedKey[int] | None]:
        yield from (None,) if self.clock is not None else ()
        yield from sorted(self._raw_keys(), key=lambda raw_key: raw_key[1] % NUMBERS)

    def __len__(self) -> int:
        return self.count + (self.clock is not None)

    def _raw_keys(self) -> Iterator[TimedKey[int]]:
        return ((key, position_of(*of)) for key in self.entries for of in self.entries[key])

    def positions(self, key: Hashable, _: bytes, from_ms: int) -> list[Any]:
        """Return the positions of a key's rows from a time (ms), ascending."""
        entries = self.entries.get(key, [])
        return [position_of(*entry) for entry in entries[bisect_left(entries, (from_ms,)) :]]

    def keys_between(self, from_ms: int, to_ms: int) -> list[TimedKey[int]]:
        """Return raw keys of a range of times (ms), both ends inclusive."""
        return [raw_key for raw_key in self._raw_keys() if from_ms <= raw_key[1] >> SEQUENCE_BITS <= to_ms]

    def take_before(self, time_ms: int) -> Iterator[Any]:
        """Remove the rows before a time (ms); return an iterator over raw keys and rows."""
        keys = [key for key, entries in self.entries.items() if entries[0][0] < time_ms]
        taken = [(key, self.entries.take_before(key, (time_ms,))) for key in keys]
        self.count -= sum(len(entries) for _, entries in taken)
        return (((key, position_of(*entry)), entry[2]) for key, entries in taken for entry in entries)
