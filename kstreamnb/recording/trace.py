"""Stores what happened inside tasks as one flat list: cheap to append to, compact enough for every hop of a long run.

Each entry is a tuple that starts with a small number; its `Code` holds the names, so that they are stored once.
Mutable values are copied when they are recorded. Events (`driver.events`) are built from entries on demand.
"""

from __future__ import annotations

import marshal
import pickle
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import starmap
from types import NoneType
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from kstreamnb.core.codec import CopiedValue, SerializedValue, encode
from kstreamnb.core.record import Change, Windowed
from kstreamnb.core.serdes import Serdes
from kstreamnb.recording import events
from kstreamnb.recording.events import Event
from kstreamnb.recording.read_tracking import watch_reads
from kstreamnb.runtime.context.handlers import RecordProduced
from kstreamnb.runtime.context.task_context import StateVarWatch
from kstreamnb.state.store import ChangeListener, Journal, JournalEntry, Store

Entry: TypeAlias = tuple[Any, ...]

ATOMS: frozenset[type] = frozenset({int, str, float, bool, bytes, NoneType, SerializedValue, UUID})
"""Types of values that never change."""


class _Nothing:
    """Marks a state variable that did not exist yet."""

    def __repr__(self) -> str:
        return "nothing"


NOTHING = _Nothing()


class Kept(bytes):
    """A serialized copy of a mutable value."""

    __slots__ = ()


def keep(value: Any) -> object:
    """Return a value that cannot change any more: itself if it is immutable, otherwise a serialized copy."""
    kind = type(value)
    if kind in ATOMS:
        return value
    if kind is Change:
        new, old, is_latest = value
        return value if type(new) in ATOMS and type(old) in ATOMS else Change(keep(new), keep(old), is_latest)
    if kind is Windowed:
        return value if type(value[0]) in ATOMS else Windowed(keep(value[0]), value[1], value[2])
    try:
        return Kept(marshal.dumps(value))
    except ValueError:  # not only Python's own plain types
        return _pickled(value)


def _pickled(value: Any) -> object:
    """Return a serialized copy; a value that cannot be copied is returned as it is and may show later changes."""
    try:
        return Kept(b"p" + pickle.dumps(value, protocol=5))
    except (pickle.PicklingError, AttributeError, TypeError, ValueError, RecursionError):
        return value


def shown(value: Any) -> Any:
    """Return the recorded value; a fresh copy if it is mutable."""
    kind = type(value)
    if kind is Kept:
        return pickle.loads(value[1:]) if value[:1] == b"p" else marshal.loads(value)
    if kind is Change:
        return Change(shown(value[0]), shown(value[1]), value[2])
    if kind is Windowed:
        return Windowed(shown(value[0]), value[1], value[2])
    return value


class Code(NamedTuple):
    """The names that an entry refers to; its kind determines the fields after the number.

    | kind | node | other | the entry after its number |
    |---|---|---|---|
    | consumed | source | (topic, partition) | offset, timestamp, key, value, headers |
    | forwarded | parent | child | key, value, timestamp, headers |
    | read | store | | raw key |
    | written | store | | raw key, old row, new row |
    | produced | | topic | partition, timestamp, wire key, wire value, headers |
    | dropped | node | reason | key, value, timestamp, details |
    | state_var | node | name | old, new |
    | punctuated | node | kind of clock | now |
    | committing, committed | | | |

    A step starts with an entry "consumed", "punctuated" or "committing".
    """

    kind: str
    task: str
    node: str = ""
    other: Any = None  # a name, a topic and partition, or nothing: the kind decides


class Recording:
    """Everything that happened, in order: entries in ``log``, and the meaning of their numbers in ``codes``.

    ``state_vars`` holds the content of each task's state variables before the first step. Reads are recorded for the
    stores that ``looked_up`` names. Tasks see it as a `runtime.context.task_context.Recorder`.
    """

    atoms: frozenset[type] = ATOMS

    def __init__(self, looked_up: Collection[str] = ()) -> None:
        self.looked_up = looked_up
        self.log: list[Entry] = []
        self.codes: list[Code] = []
        self.state_vars: dict[str, dict[tuple[str, str], object]] = {}
        self.keep: Callable[[object], object] = keep
        self._numbers: dict[Code, int] = {}

    @classmethod
    def of(cls, observe: Recording | Callable[[Event], None] | None) -> Recording | None:
        """Return a recording unchanged, or one that passes each event to a function and keeps nothing."""
        if observe is None or isinstance(observe, Recording):
            return observe
        result = cls()
        result.log, result.keep = _Teller(result, observe), lambda value: value
        return result

    def handed_over(self) -> Recording:
        """Move the entries to a recording that no task refers to: tasks are cycles and would keep it alive."""
        result = Recording(self.looked_up)
        result.log, result.codes, result.state_vars = self.log[:], self.codes, self.state_vars
        self.log.clear()
        return result

    @property
    def reorders(self) -> bool:
        """Return True if steps may arrive task by task, to be sorted at the end."""
        return type(self.log) is list

    def number(self, kind: str, task: str, node: str = "", other: object = None) -> int:
        """Return the number of a code; a new one if the code is unknown."""
        code = Code(kind, task, node, other)
        result = self._numbers.get(code)
        if result is None:
            result = self._numbers[code] = len(self.codes)
            self.codes.append(code)
        return result

    def add(self, kind: str, task: str, node: str, other: object, *rest: object) -> None:
        """Append one entry."""
        self.log.append((self.number(kind, task, node, other), *rest))

    def journal(self, task: str, store: Store) -> Journal:
        """Return a change log for a store."""
        append = self.log.append
        if store.name in self.looked_up:
            read = self.number("read", task, store.name)
            watch_reads(store, lambda raw_key: append((read, raw_key)))
        return _StoreJournal(self.number("written", task, store.name), self.log)

    def watch(self, task: str, state_vars: Mapping[tuple[str, str], list[object]]) -> StateVarWatch:
        """Return a function that records the state variables that changed since its last call."""
        return _StateVarWatch(self, task, state_vars)

    def event(self, entry: Entry) -> Event:
        """Return an entry as an event, with the values as they were."""
        code = self.codes[entry[0]]
        if code.kind == "produced":
            return _produced(code, entry)
        event, names = _EVENTS[code.kind]
        other = code.other if isinstance(code.other, tuple) else (code.other,)
        return event(*(code.task, code.node, *other)[:names], *map(shown, entry[1:]))


class _Teller(list[Entry]):
    """A log that keeps nothing and passes each entry to an observer."""

    def __init__(self, recording: Recording, observe: Callable[[Event], None]) -> None:
        super().__init__()
        self._recording, self._observe = recording, observe

    def append(self, entry: Entry) -> None:
        """Pass one entry to the observer."""
        self._observe(self._recording.event(entry))


class _StoreJournal:
    """A store's change log that writes each change into the recording."""

    def __init__(self, number: int, log: list[Entry]) -> None:
        note = log.append
        self.record: ChangeListener = lambda raw_key, old, row: note((number, raw_key, old, row))

    def append(self, entry: JournalEntry) -> None:
        """Record one change."""
        self.record(*entry)

    def extend(self, entries: Iterable[JournalEntry]) -> None:
        """Record changes one after the other."""
        deque(starmap(self.record, entries), maxlen=0)


class _StateVarWatch:
    """Records a task's changed state variables on each call; stream time is derived from the records."""

    def __init__(self, recording: Recording, task: str, state_vars: Mapping[tuple[str, str], list[object]]) -> None:
        self._recording, self._task, self._state_vars = recording, task, state_vars
        recording.state_vars[task] = {key: state_var[0] for key, state_var in state_vars.items() if key != STREAM_TIME}
        self.watched: list[list[Any]] = []
        self._keys = {STREAM_TIME}
        self._note = recording.log.append
        self._known = 0
        self._watch(recording.state_vars[task])

    def __call__(self) -> None:
        """Record what has changed."""
        if len(self._state_vars) != self._known:
            self._watch({})
        for watched in self.watched:
            content, old = watched[0][0], watched[1]
            if content is not old and (old is NOTHING or content != old):
                self._note((watched[2], old, content))
                watched[1] = content

    def _watch(self, contents: Mapping[tuple[str, str], object]) -> None:
        """Start to track new state variables, each with its number and its last recorded content."""
        self._known = len(self._state_vars)
        for key, state_var in self._state_vars.items():
            if key not in self._keys:
                self._keys.add(key)
                number = self._recording.number("state_var", self._task, *key)
                self.watched.append([state_var, contents.get(key, NOTHING), number])


STREAM_TIME = ("", "stream_time_ms")


def _produced(code: Code, entry: Entry) -> Event:
    _, partition, timestamp, key, value, headers = entry
    wire = encode(Serdes.json(), value) if type(value) is CopiedValue else value
    return RecordProduced(code.other, partition, timestamp, key, wire, headers)


_EVENTS: dict[str, tuple[Callable[..., Event], int]] = {
    "consumed": (events.RecordConsumed, 4),
    "forwarded": (events.Forwarded, 3),
    "read": (events.StoreRead, 2),
    "written": (events.StoreWritten, 2),
    "dropped": (events.Dropped, 3),
    "state_var": (events.StateVarChanged, 3),
    "punctuated": (events.Punctuated, 3),
    "committing": (events.Committing, 1),
    "committed": (events.Committed, 1),
    "published": (events.Published, 0),
    "crashed": (events.Crashed, 0),
    "restarted": (events.Restarted, 0),
    "resumed": (events.Resumed, 1),
}
"""The event of each kind of entry, and how many of its fields are names of the code; the rest is the entry itself."""
