"""The sorted keys of a dict, for range queries."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, MutableMapping
from itertools import islice
from operator import itemgetter
from sys import getsizeof
from typing import Any

_FEW = 64  # up to this number, changed keys are found one by one; for more, going through all keys is cheaper
_first = itemgetter(0)


class KeyOrder:
    """The sorted keys of a dict that reports its deletions and keeps its order of insertion.

    New keys are at the end of the dict; so a view catches up by reading its tail. Of any other mapping the keys are
    sorted again each time.
    """

    def __init__(self, raw: MutableMapping[Hashable, Any], to_bytes: Callable[[Hashable], bytes]) -> None:
        self._raw, self._to_bytes, self._is_dict = raw, to_bytes, type(raw) is dict
        self._sorted: list[tuple[bytes, Hashable]] = []
        self._removed: dict[Hashable, None] = {}

    def forget(self, raw_key: Hashable) -> None:
        """Must be called when a key leaves the dict."""
        if self._sorted:
            self._removed[raw_key] = None

    def entries(self) -> list[tuple[bytes, Hashable]]:
        """Return ``(key bytes, raw key)`` of all rows, ascending; callers must not change it."""
        if not self._is_dict:
            return sorted(((self._to_bytes(key), key) for key in self._raw), key=_first)
        known, removed = self._sorted, self._removed
        if len(removed) > _FEW:
            known[:] = [entry for entry in known if entry[1] not in removed]
        for key in removed if len(removed) <= _FEW else ():
            at = bisect_left(known, data := self._to_bytes(key), key=_first)
            del known[at : at + known[at : at + 1].count((data, key))]  # a key that came and left again is not there
        removed.clear()
        missing = len(self._raw) - len(known)
        if missing:
            fresh = [(self._to_bytes(key), key) for key in islice(reversed(self._raw), missing)]
            if missing <= _FEW:
                for entry in fresh:
                    insort(known, entry, key=_first)
            else:
                known.extend(fresh)
                known.sort(key=_first)
        return known

    def memory_bytes(self) -> int:
        """Return an estimate of the memory that the sorted keys take, in bytes; the keys are the dict's."""
        first = self._sorted[:1]
        return sum(getsizeof(self._sorted) + len(self._sorted) * (getsizeof(e) + getsizeof(e[0])) for e in first)

    def between(self, least: bytes, end: bytes | None) -> list[Hashable]:
        """Return raw keys whose bytes are at least the first bound and less than the second; None is open."""
        known = self.entries()
        high = len(known) if end is None else bisect_left(known, end, key=_first)
        return [raw_key for _, raw_key in known[bisect_left(known, least, key=_first) : high]]
