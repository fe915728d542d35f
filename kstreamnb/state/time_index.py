"""Where the rows of a window or session store lie in time, and from when on they are gone.

Kafka's persistent stores expire whole segments and refuse puts by segment; its in-memory stores refuse exactly.
Both hide rows older than the retention from every read, so both can forget by segment here.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Any

from kstreamnb.core.stores import StoreSpec

_LEAST_SEGMENT_MS = 60_000
_NO_TIME = -1


class Retention:
    """The times that follow from the observed stream time of one store (all in ms).

    ``visible_from`` is the first time that reads show, ``accepted_from`` the first that puts may have, ``live_from``
    the first that is still held, ``next_expiry`` the observed time at which `live_from` moves next. ``unrecorded``
    says whether changes may be made without noting them anywhere.
    """

    __slots__ = (
        "_clamp_ms", "_exact", "accepted_from", "live_from", "next_expiry", "observed_ms", "retention_ms", "segment_ms",
        "unrecorded", "visible_from",
    )  # fmt: skip

    def __init__(self, spec: StoreSpec, *, clamp_ms: int = 1) -> None:
        self.retention_ms = spec.retention_ms or 0
        self.segment_ms = spec.segment_ms or max(self.retention_ms // 2, _LEAST_SEGMENT_MS)
        self._exact, self._clamp_ms, self.unrecorded = not spec.persistent, clamp_ms, False
        self.observe(_NO_TIME)

    def observe(self, observed_ms: int) -> None:
        """Recompute everything for an observed stream time, be it later or, after an undo, earlier."""
        segment = max((observed_ms - self.retention_ms) // self.segment_ms, 0)
        self.live_from = self.accepted_from = segment * self.segment_ms
        self.next_expiry = (segment + 1) * self.segment_ms + self.retention_ms
        self.advance(observed_ms)

    def advance(self, observed_ms: int) -> None:
        """Recompute what changes before the next segment expires."""
        self.observed_ms = observed_ms
        oldest = observed_ms - self.retention_ms
        self.visible_from = oldest + self._clamp_ms
        if self._exact:
            self.accepted_from = oldest + 1

    def segment(self, time_ms: int) -> int:
        """Number of the segment that a time lies in."""
        return time_ms // self.segment_ms


class TimeIndex:
    """Raw keys by time, for ranges of time and for expiry."""

    def __init__(self) -> None:
        self._times: list[int] = []
        self._at: dict[int, dict[Any, None]] = {}

    def add(self, time_ms: int, raw_key: Any) -> None:
        """A row appeared."""
        bucket = self._at.get(time_ms)
        if bucket is not None:
            bucket[raw_key] = None
            return
        self._at[time_ms] = {raw_key: None}
        if not self._times or time_ms > self._times[-1]:
            self._times.append(time_ms)
        else:
            insort(self._times, time_ms)

    def remove(self, time_ms: int, raw_key: Any) -> None:
        """A row went; one that was never added is ignored."""
        bucket = self._at.get(time_ms)
        if bucket is not None:
            del bucket[raw_key]
            if not bucket:
                del self._at[time_ms]
                del self._times[bisect_left(self._times, time_ms)]

    def __bool__(self) -> bool:
        return bool(self._times)

    def between(self, from_ms: int, to_ms: int) -> Iterator[Any]:
        """Raw keys of a range of time, both ends inclusive, by time and then by insertion."""
        times = self._times
        for time_ms in times[bisect_left(times, from_ms) : bisect_right(times, to_ms)]:
            yield from self._at[time_ms]

    def before(self, time_ms: int) -> list[Any]:
        """Raw keys older than a time."""
        times = self._times
        return [raw_key for old in times[: bisect_left(times, time_ms)] for raw_key in self._at[old]]

    def times(self) -> Iterator[int]:
        """All times, ascending; rows may be removed meanwhile."""
        times, last = self._times, -1
        while (place := bisect_right(times, last)) < len(times):
            last = times[place]
            yield last

    def at(self, time_ms: int) -> list[Any]:
        """Raw keys of a time, by insertion."""
        return list(self._at[time_ms])


class KeyIndex(dict[Any, list[Any]]):
    """The places of each key's rows, ascending; a key without rows is not in it."""

    def add(self, key: Any, place: Any) -> None:
        """A row appeared."""
        places = self.get(key)
        if places is None:
            self[key] = [place]
        elif place > places[-1]:
            places.append(place)
        else:
            insort(places, place)

    def remove(self, key: Any, place: Any) -> None:
        """A row went; one that was never added is ignored."""
        places = self.get(key)
        if places is not None:
            del places[bisect_left(places, place)]
            if not places:
                del self[key]
