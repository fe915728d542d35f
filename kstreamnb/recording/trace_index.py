"""Where things are in a recording: its steps, and what every store and cell held after each of them.

Nothing is copied for a step. A store's content is found by doing its writes again, or by undoing them, from the
moment that was looked at last, or from the beginning where that is nearer.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import Any

from kstreamnb.recording.trace import NOTHING, Code, Entry, Recording, numbers_of, places_of
from kstreamnb.state import InCache

__all__ = ["BEGINNINGS", "TraceIndex", "row_before"]


BEGINNINGS = {
    "consumed": "record",
    "punctuated": "punctuation",
    "committing": "commit",
    "crashed": "crash",
    "restarted": "restart",
}
"""Kinds of entries that begin a step, and what the step is then called."""


class TraceIndex:
    """A finished recording by steps (numbered from 1) and by states (after so many steps).

    ``starts`` tells where each step begins in the log. ``foreign`` names tasks of other applications in the same log:
    their steps count, and nothing else of theirs is found.
    """

    def __init__(self, recording: Recording, foreign: Collection[str] = ()) -> None:
        self._foreign = frozenset(foreign)
        self.recording, self.log, self.codes = recording, recording.log, recording.codes
        self._entries = numbers_of(self.log, len(self.codes))
        self.starts = array("q", places_of([code.kind in BEGINNINGS for code in self.codes], self._entries))
        self._numbers = {code: number for number, code in enumerate(self.codes)}
        self._places: dict[int, array[int]] = {}
        self._rows: dict[int, _Track] = {}
        self._writes: dict[tuple[str, str], dict[Any, list[int]]] = {}

    def __len__(self) -> int:
        """Number of steps."""
        return len(self.starts)

    def code(self, place: int) -> Code:
        """What the entry at a place is about."""
        return self.codes[self.log[place][0]]

    def step_of(self, place: int) -> int:
        """Number of the step that a place of the log belongs to; 0 before the first."""
        return bisect_right(self.starts, place)

    def end(self, step: int) -> int:
        """Where the log stands after so many steps."""
        return self.starts[step] if step < len(self.starts) else len(self.log)

    def span(self, step: int) -> range:
        """Places of a step in the log."""
        return range(self.starts[step - 1], self.end(step))

    def places(self, number: int) -> array[int]:
        """Where the entries of a code are; found when it is first asked."""
        found = self._places.get(number)
        if found is None:
            wanted = [other == number for other in range(len(self.codes))]
            found = self._places[number] = array("q", places_of(wanted, self._entries))
        return found

    def of_kind(self, kind: str, **about: Any) -> Iterator[tuple[Code, array[int]]]:
        """Codes of a kind, with these task, node or other, and where their entries are."""
        for number, code in enumerate(self.codes):
            mine = code.kind == kind and code.task not in self._foreign
            if mine and all(getattr(code, name) == value for name, value in about.items()):
                yield code, self.places(number)

    def places_of(self, kind: str, **about: Any) -> list[int]:
        """Where all entries of a kind are, in order."""
        found = [places for _, places in self.of_kind(kind, **about)]
        return list(found[0]) if len(found) == 1 else sorted(place for places in found for place in places)

    def entries(self, kind: str, until: int | None = None) -> Iterator[tuple[int, Code, Entry]]:
        """Place, code and entry of all entries of a kind, in order, as far as the log stood after ``until`` steps."""
        end = len(self.log) if until is None else self.end(until)
        for place in self.places_of(kind):
            if place >= end:
                return
            entry = self.log[place]
            yield place, self.codes[entry[0]], entry

    def rows(self, task: str, store: str, step: int) -> dict[Any, Any]:
        """Content of a store in its raw form after so many steps; the caller may change the dict."""
        number = self._numbers.get(Code("written", task, store))
        if number is None:
            return {}
        track = self._rows.get(number)
        if track is None:
            track = self._rows[number] = _Track(self.log, self.places(number))
        return dict(track.at(self.end(step)))

    def writes(self, task: str, store: str) -> dict[Any, list[int]]:
        """Where each row of a store was written, into its cache or past it."""
        found = self._writes.get((task, store))
        if found is None:
            found = self._writes[task, store] = {}
            for place in self.places_of("written", task=task, node=store):
                raw_key = self.log[place][1]
                found.setdefault(raw_key.raw_key if type(raw_key) is InCache else raw_key, []).append(place)
        return found

    def cells(self, task: str, step: int) -> dict[tuple[str, str], Any]:
        """Content of a task's cells after so many steps; stream time is not among them."""
        cells, end = dict(self.recording.cells.get(task, {})), self.end(step)
        for code, places in self.of_kind("cell", task=task):
            until = bisect_left(places, end)
            key = code.node, code.other
            if until:
                cells[key] = self.log[places[until - 1]][2]
            elif places and self.log[places[0]][1] is NOTHING:
                cells.pop(key, None)
        return cells

    def stream_time(self, task: str, step: int) -> int:
        """Stream time of a task after so many steps: the greatest timestamp it has taken, -1 before the first."""
        places, times = self._stream_times.get(task, _NO_TIMES)
        taken = bisect_left(places, self.end(step))
        return times[taken - 1] if taken else -1

    @cached_property
    def _stream_times(self) -> dict[str, tuple[array[int], array[int]]]:
        """For each task where it took records, and its stream time then."""
        found: dict[str, tuple[array[int], array[int]]] = {}
        for place in sorted([*self.places_of("consumed"), *self.places_of("resumed")]):
            code, entry = self.code(place), self.log[place]
            places, times = found.setdefault(code.task, (array("q"), array("q")))
            places.append(place)
            if code.kind == "resumed":
                times.append(entry[1])
            else:
                times.append(max(entry[2], times[-1]) if times else entry[2])
        return found


_NO_TIMES: tuple[array[int], array[int]] = array("q"), array("q")


def row_before(log: Sequence[Entry], writes: Sequence[int], place: int) -> Any:
    """The row that some writes had made when the log stood at a place, in the cache or not; None for no row."""
    cached = True
    for at in reversed(writes[: bisect_left(writes, place)]):
        _, raw_key, _, row = log[at]
        if type(raw_key) is not InCache:
            return row
        if cached and row is not None:
            return row.row
        cached = False  # it has left the cache: what was in it is in the store
    return None


class _Track:
    """The content of one store, moved forward and back along its writes."""

    def __init__(self, log: list[Entry], places: array[int]) -> None:
        self._log, self._places = log, places
        self._done, self._rows = 0, {}  # type: ignore[var-annotated]

    def at(self, end: int) -> dict[Any, Any]:
        """The content when the log was that long."""
        wanted = bisect_left(self._places, end)
        if wanted < self._done // 2:
            self._done, self._rows = 0, {}
        log, places, rows = self._log, self._places, self._rows
        for place in places[self._done : wanted]:
            _set(rows, log[place][1], log[place][3])
        for place in reversed(places[wanted : self._done]):
            _set(rows, log[place][1], log[place][2])
        self._done = wanted
        return rows


def _set(rows: dict[Any, Any], raw_key: Any, row: Any) -> None:
    if row is None:
        rows.pop(raw_key, None)
    else:
        rows[raw_key] = row
