"""Indexes a recording by steps, and reconstructs stores and state variables after each of them.

Nothing is copied per step. A store's content is computed by redoing or undoing writes from the last position that was
looked at, or from the beginning if that is nearer.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Hashable, Iterator, Sequence
from functools import cached_property
from itertools import chain, compress, count
from operator import itemgetter
from typing import Any, Literal, TypeAlias

from kstreamnb.recording.trace import NOTHING, Code, Entry, Recording
from kstreamnb.state.cache import InCache
from kstreamnb.topology.nodes import grouped

StepKind: TypeAlias = Literal["record", "punctuation", "commit", "crash", "restart"]

_NUMBER = itemgetter(0)

BEGINNINGS: dict[str, StepKind] = {
    "consumed": "record",
    "punctuated": "punctuation",
    "committing": "commit",
    "crashed": "crash",
    "restarted": "restart",
}
"""Kinds of entries that begin a step, and what the step is then called."""


class TraceIndex:
    """A finished recording by steps (numbered from 1) and states (after n steps).

    ``starts`` holds the log position at which each step starts. ``foreign`` names tasks of other applications in the
    same log: their steps are counted, but their entries are skipped.
    """

    def __init__(self, recording: Recording, foreign: Collection[str] = ()) -> None:
        self._foreign = frozenset(foreign)
        self.recording, self.log, self.codes = recording, recording.log, recording.codes
        begins = [code.kind in BEGINNINGS for code in self.codes]
        self.starts = array("q", compress(count(), map(begins.__getitem__, map(_NUMBER, self.log))))
        self._numbers = {code: number for number, code in enumerate(self.codes)}
        self._rows: dict[int, _Track] = {}
        self._writes: dict[tuple[str, str], dict[Hashable, list[int]]] = {}

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self.starts)

    def code(self, position: int) -> Code:
        """Return the code of the entry at a log position."""
        return self.codes[self.log[position][0]]

    def step_of(self, position: int) -> int:
        """Return the number of the step that a log position belongs to; 0 before the first."""
        return bisect_right(self.starts, position)

    def end(self, step: int) -> int:
        """Return the length of the log after ``step`` steps."""
        return self.starts[step] if step < len(self.starts) else len(self.log)

    def span(self, step: int) -> range:
        """Return the log positions of a step."""
        return range(self.starts[step - 1], self.end(step))

    @cached_property
    def _positions(self) -> list[array[int]]:
        """For each code, the log positions of its entries: one pass finds all, however many codes there are."""
        result: list[array[int]] = [array("q") for _ in self.codes]
        notes = [positions.append for positions in result]
        for position, number in enumerate(map(_NUMBER, self.log)):
            notes[number](position)
        return result

    def of_kind(self, kind: str, **about: object) -> Iterator[tuple[Code, array[int]]]:
        """Yield the codes of a kind with this task, node or other, and the positions of their entries."""
        for number, code in enumerate(self.codes):
            wanted = code.kind == kind and code.task not in self._foreign
            if wanted and all(getattr(code, name) == value for name, value in about.items()):
                yield code, self._positions[number]

    def positions_of(self, kind: str, **about: object) -> list[int]:
        """Return the positions of all entries of a kind, in order."""
        result = [positions for _, positions in self.of_kind(kind, **about)]
        return list(result[0]) if len(result) == 1 else sorted(chain.from_iterable(result))

    def entries(self, kind: str) -> Iterator[tuple[int, Code, Entry]]:
        """Yield position, code and entry of all entries of a kind, in order."""
        for position in self.positions_of(kind):
            entry = self.log[position]
            yield position, self.codes[entry[0]], entry

    def rows(self, task: str, store: str, step: int) -> dict[Any, Any]:
        """Return the raw content of a store after ``step`` steps, as a dict that the caller may change."""
        number = self._numbers.get(Code("written", task, store))
        if number is None:
            return {}
        track = self._rows.get(number)
        if track is None:
            track = self._rows[number] = _Track(self.log, self._positions[number])
        return dict(track.at(self.end(step)))

    def writes(self, task: str, store: str) -> dict[Any, list[int]]:
        """Return the log positions at which each row of a store was written, cached or not."""
        if (task, store) not in self._writes:
            positions = self.positions_of("written", task=task, node=store)
            self._writes[task, store] = grouped(positions, lambda position: row_key(self.log[position]))
        return self._writes[task, store]

    def row(self, position: int) -> Any:
        """Return a row that was written, cached or not; `NOTHING` if it only left the cache."""
        _, raw_key, _, row = self.log[position]
        return row if type(raw_key) is not InCache else NOTHING if row is None else row.row

    def state_vars(self, task: str, step: int) -> dict[tuple[str, str], Any]:
        """Return a task's state variables after ``step`` steps, without its stream time."""
        state_vars, end = dict(self.recording.state_vars.get(task, {})), self.end(step)
        for code, positions in self.of_kind("state_var", task=task):
            until = bisect_left(positions, end)
            key = code.node, code.other
            if until:
                state_vars[key] = self.log[positions[until - 1]][2]
            elif positions and self.log[positions[0]][1] is NOTHING:
                state_vars.pop(key, None)
        return state_vars

    def stream_time(self, task: str, step: int) -> int:
        """Return a task's stream time after ``step`` steps: the highest timestamp consumed, -1 before the first."""
        positions, times = self._stream_times.get(task, _NO_TIMES)
        taken = bisect_left(positions, self.end(step))
        return times[taken - 1] if taken else -1

    @cached_property
    def _stream_times(self) -> dict[str, tuple[array[int], array[int]]]:
        """For each task, the positions of consumed records and the stream time at each of them."""
        result: dict[str, tuple[array[int], array[int]]] = {}
        for position in sorted([*self.positions_of("consumed"), *self.positions_of("resumed")]):
            code, entry = self.code(position), self.log[position]
            positions, times = result.setdefault(code.task, (array("q"), array("q")))
            positions.append(position)
            if code.kind == "resumed":
                times.append(entry[1])
            else:
                times.append(max(entry[2], times[-1]) if times else entry[2])
        return result


_NO_TIMES: tuple[array[int], array[int]] = array("q"), array("q")


def last_in_step(index: TraceIndex, positions: Sequence[int], position: int) -> int | None:
    """Return the last of these log positions up to a position, if it belongs to the same step; None otherwise."""
    at = bisect_right(positions, position) - 1
    return positions[at] if at >= 0 and index.step_of(positions[at]) == index.step_of(position) else None


def row_key(written: Entry) -> Hashable:
    """Return the key of a row that was written, cached or not."""
    raw_key: Hashable = written[1]
    return raw_key.raw_key if type(raw_key) is InCache else raw_key


def row_before(log: Sequence[Entry], writes: Sequence[int], position: int) -> Any:
    """Return a row, cached or not, as of a log position; None for no row. *writes* are the positions of its writes."""
    cached = True
    for at in reversed(writes[: bisect_left(writes, position)]):
        _, raw_key, _, row = log[at]
        if type(raw_key) is not InCache:
            return row
        if cached and row is not None:
            return row.row
        cached = False  # removed from the cache: its content is in the store
    return None


class _Track:
    """The content of one store, moved forwards and backwards along its writes."""

    def __init__(self, log: list[Entry], positions: array[int]) -> None:
        self._log, self._positions = log, positions
        self._done, self._rows = 0, dict[Hashable, object]()

    def at(self, end: int) -> dict[Hashable, object]:
        """Return the content at a log length."""
        wanted = bisect_left(self._positions, end)
        done, rows = (0, {}) if wanted < self._done // 2 else (self._done, self._rows)
        self._done, self._rows = 0, {}  # an interrupt leaves no rows of a position between
        log, positions = self._log, self._positions
        for position in positions[done:wanted]:
            _set(rows, log[position][1], log[position][3])
        for position in reversed(positions[wanted:done]):
            _set(rows, log[position][1], log[position][2])
        self._done, self._rows = wanted, rows
        return rows


def _set(rows: dict[Hashable, object], raw_key: Hashable, row: object) -> None:
    if row is None:
        rows.pop(raw_key, None)
    else:
        rows[raw_key] = row
