"""Rows in the byte order of their serialised keys, sorted only when someone iterates."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from itertools import islice
from typing import Any

_FEW = 8


class KeyOrder:
    """The sorted keys of a dict that tells about its deletions and keeps its order of insertion.

    New keys are the last of the dict; so a view catches up by looking at its tail. Of any other mapping the keys are
    sorted anew each time.
    """

    def __init__(self, raw: Any, to_bytes: Callable[[Any], bytes]) -> None:
        self._raw, self._to_bytes, self._is_dict = raw, to_bytes, type(raw) is dict
        self._sorted: list[tuple[bytes, Any]] = []
        self._removed: set[Any] = set()

    def forget(self, raw_key: Any) -> None:
        """Must be called when a key leaves the dict."""
        if self._sorted:
            self._removed.add(raw_key)

    def entries(self) -> list[tuple[bytes, Any]]:
        """``(key bytes, raw key)`` of all rows, ascending; not to be changed by the caller."""
        if not self._is_dict:
            return sorted(((self._to_bytes(key), key) for key in self._raw), key=_first)
        if self._removed:
            self._sorted = [entry for entry in self._sorted if entry[1] not in self._removed]
            self._removed.clear()
        known = self._sorted
        missing = len(self._raw) - len(known)
        if missing:
            fresh = [(self._to_bytes(key), key) for key in islice(reversed(self._raw), missing)]
            if missing <= _FEW and known:
                for entry in fresh:
                    insort(known, entry, key=_first)
            else:
                known.extend(fresh)
                known.sort(key=_first)
        return known

    def between(self, least: bytes | None, most: bytes | None) -> list[Any]:
        """Raw keys whose bytes lie within both bounds, which are inclusive; None is open."""
        known = self.entries()
        low = 0 if least is None else bisect_left(known, least, key=_first)
        high = len(known) if most is None else bisect_right(known, most, key=_first)
        return [raw_key for _, raw_key in known[low:high]]

    def starting_with(self, prefix: bytes) -> list[Any]:
        """Raw keys whose bytes start with a prefix."""
        known = self.entries()
        found = []
        for data, raw_key in islice(known, bisect_left(known, prefix, key=_first), None):
            if not data.startswith(prefix):
                break
            found.append(raw_key)
        return found


def _first(entry: tuple[bytes, Any]) -> bytes:
    return entry[0]
