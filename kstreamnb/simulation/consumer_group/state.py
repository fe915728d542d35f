"""Tracks how much of each task's changelog the members have restored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field


@dataclass
class TaskStates:
    """Changelogs of tasks, and how much of them each member has on disk.

    Units: ``rate`` is records per second and task; ``acceptable_lag`` is records.
    """

    sizes: Mapping[str, int]
    rate: int
    acceptable_lag: int
    max_warmups: int
    restored: dict[tuple[str, str], int] = field(default_factory=dict)
    warming: dict[str, str] = field(default_factory=dict)

    def lag(self, member: str, task: str) -> int:
        """Return the number of changelog records that a member has not restored."""
        return self.sizes.get(task, 0) - self.restored.get((member, task), 0)

    def is_ready(self, member: str, task: str) -> bool:
        """Return whether a member may take over a task from a live owner."""
        return self.lag(member, task) <= self.acceptable_lag

    def fill(self, member: str, tasks: Iterable[str]) -> None:
        """Mark tasks as fully restored by a member."""
        for task in tasks:
            self.restored[member, task] = self.sizes.get(task, 0)

    def warm_up(self, wanted: Mapping[str, str]) -> None:
        """Let members warm up for tasks, within the limit."""
        self.warming = dict(list(wanted.items())[: self.max_warmups])

    def advance(self, by_ms: int) -> Iterator[tuple[str, str]]:
        """Advance the clock; yield the member and task of each warm-up that has finished."""
        for task, member in self.warming.items():
            was_ready = self.is_ready(member, task)
            read = self.restored.get((member, task), 0) + self.rate * by_ms // 1000
            self.restored[member, task] = min(read, self.sizes.get(task, 0))
            if not was_ready and self.is_ready(member, task):
                yield member, task

    def restore_ms(self, member: str, task: str) -> int:
        """Return how long (ms) a member restores before it can process a task."""
        return -(-self.lag(member, task) * 1000 // self.rate)
