"""Represents one step of a run: a record, a punctuation or a commit, with everything it caused in its task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

from kstreamnb.core.formatting import format_time, pluralize
from kstreamnb.core.operator import Details
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.tables import Tabular
from kstreamnb.recording.event_table import event_row
from kstreamnb.recording.events import Event, Forwarded, Punctuated, StoreWritten
from kstreamnb.recording.record_text import describe_content, record_id
from kstreamnb.recording.trace_index import BEGINNINGS, StepKind
from kstreamnb.suggesting import Suggesting

if TYPE_CHECKING:  # a run makes steps
    from kstreamnb.recording.recorded_run import RecordedRun


@dataclass(frozen=True)
class Drop:
    """A record that a node or store dropped.

    ``record`` is the input record being processed, or None; ``details`` hold the numbers that explain the drop.
    """

    step: int
    task: str
    node: str
    reason: str
    key: object
    value: object
    timestamp: int
    details: Details
    record: TopicRecord | None = None


@dataclass(frozen=True, repr=False)
class Step(Tabular, Suggesting):
    """One step of a run. ``number`` counts from 1; ``replay.at(number)`` is the state after this step.

    ``node`` is the source that consumed the record, or the punctuated node.
    """

    number: int
    kind: StepKind
    task: str
    node: str
    _run: RecordedRun = field(repr=False, compare=False)

    header = ("what", "where", "to", "key", "value", "time")

    @property
    def events(self) -> tuple[Event, ...]:
        """All events of the step in order: consumed, forwarded, read, written, produced, dropped, committed."""
        return self._events()

    @property
    def elsewhere(self) -> bool:
        """Return True if another application made the step, so that its nodes are not in this run's topology."""
        return "/" in self.task

    @property
    def record(self) -> TopicRecord | None:
        """The record that was consumed; None for other kinds of steps."""
        return self._run.consumed(self._run.index.starts[self.number - 1]) if self.kind == "record" else None

    @property
    def forwarded(self) -> tuple[Forwarded, ...]:
        """The records forwarded along each edge, in order."""
        return self._events("forwarded")

    @property
    def writes(self) -> tuple[StoreWritten, ...]:
        """Store changes in raw form; `Replay.diff` shows them as rows."""
        return self._events("written")

    @property
    def produced(self) -> tuple[TopicRecord, ...]:
        """Records written to topics."""
        index = self._run.index
        return tuple(self._run.produced(at) for at in index.span(self.number) if index.code(at).kind == "produced")

    @property
    def dropped(self) -> tuple[Drop, ...]:
        """Records that were dropped."""
        return tuple(self._run.drops(self.number))

    def _events(self, kind: str | None = None) -> tuple[Any, ...]:
        """Return the events of one kind of entry, or of all: only these are decoded."""
        index = self._run.index
        positions = (at for at in index.span(self.number) if kind in (None, index.code(at).kind))
        return tuple(index.recording.event(index.log[at]) for at in positions)

    @property
    def title(self) -> str:
        """Describe the step in one line."""
        if self.kind in ("commit", "crash", "restart"):
            return f"step {self.number}: {self.kind}{f' of {_whose(self.task)}' if self.task else ''}"
        first = self.events[0]
        if isinstance(first, Punctuated):
            at = f"{first.kind.replace('_', ' ')} {format_time(first.now_ms)}"
            return f'step {self.number}: punctuation of "{self.node}" in task {self.task} at {at}'
        record = self.record
        assert record is not None
        content = describe_content(record.key, record.value, record.timestamp)
        return f"step {self.number}: {record_id(record)} ({content}) through task {self.task}"

    def table(self) -> Iterator[tuple[str, ...]]:
        """Yield all events of the step as text."""
        return (event_row(self._run, position) for position in self._run.index.span(self.number))

    def summary(self) -> str:
        """Count what the step caused."""
        writes = sum(event.key is not None for event in self.writes)
        hops, records, drops = map(len, (self.forwarded, self.produced, self.dropped))
        parts = (hops, "hop"), (writes, "store write"), (records, "record"), (drops, "drop")
        return ", ".join(pluralize(number, noun) for number, noun in parts if number) or "nothing came of it"


def _whose(task: str) -> str:
    """Return a task or, if the name ends with a slash, an application as text."""
    return f'application "{task[:-1]}"' if task.endswith("/") else f"task {task}"


class Steps(Sequence[Step]):
    """All steps of a run, built on demand; index 0 is step 1."""

    def __init__(self, run: RecordedRun) -> None:
        self._run = run

    def __len__(self) -> int:
        return len(self._run.index)

    @overload
    def __getitem__(self, index: int) -> Step: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Step]: ...
    def __getitem__(self, index: int | slice) -> Step | Sequence[Step]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        number = range(len(self))[index] + 1
        code = self._run.index.code(self._run.index.starts[number - 1])
        kind = BEGINNINGS[code.kind]
        return Step(number, kind, code.task, code.node, self._run.owner(self._run.index.starts[number - 1]))

    def __repr__(self) -> str:
        return f"<{pluralize(len(self), 'step')}>"
