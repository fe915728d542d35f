"""Defines the events of an application's threads: polls, records, pauses, commits, crashes, restores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kstreamnb.core.formatting import format_time
from kstreamnb.recording.timeline import Timeline

_SHOWN = 200


@dataclass(frozen=True)
class ThreadEvent:
    """One event.

    Attributes:
        kind: "polled", "processed", "handed on", "stored", "produced", "punctuated", "idling", "enforced", "paused",
            "resumed", "committed", "flushed", "aborted", "crashed", "failed", "restored", "started", "refused" or
            "closed".
        application: the application's id.
        task: the task's id; "" for all tasks.
        subject: the partition, store or node.
        at_ms: the wall-clock time.
        numbers: further numbers by name.
    """

    kind: str
    application: str
    task: str
    subject: str
    at_ms: int
    numbers: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        numbers = ", ".join(f"{name}={value}" for name, value in self.numbers.items())
        where = " ".join(word for word in (self.task, self.subject) if word)
        return f"{format_time(self.at_ms)} {self.application} {self.kind} {where}{f': {numbers}' if numbers else ''}"


class ThreadEvents(Timeline[ThreadEvent]):
    """Events in order; ``events("committed")`` selects events by kind."""

    header = ("clock", "application", "what", "task", "where", "numbers")

    def table(self) -> Iterator[tuple[str, ...]]:
        """Yield the last events as text."""
        for event in self._items[-_SHOWN:]:
            numbers = ", ".join(f"{name}={value}" for name, value in event.numbers.items())
            yield format_time(event.at_ms), event.application, event.kind, event.task, event.subject, numbers

    def more(self) -> Iterator[str]:
        """Count the events that are not shown."""
        if len(self) > _SHOWN:
            yield f"the last {_SHOWN} of {len(self):,} are shown"
