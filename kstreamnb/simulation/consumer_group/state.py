"""State that lies with the members: how much of a task's changelog each has read, and who is reading on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

__all__ = ["TaskStates"]


@dataclass
class TaskStates:
    """Changelogs of tasks, and what of them lies on each member's disk.

    Units: ``rate`` is records a second that a member restores of one task; ``acceptable_lag`` is records.
    """

    sizes: Mapping[str, int]
    rate: int
    acceptable_lag: int
    max_warmups: int
    restored: dict[tuple[str, str], int] = field(default_factory=dict)
    warming: dict[str, str] = field(default_factory=dict)

    def lag(self, member: str, task: str) -> int:
        """Records of the task's changelog that a member has not read."""
        return self.sizes.get(task, 0) - self.restored.get((member, task), 0)

    def is_ready(self, member: str, task: str) -> bool:
        """Whether a member may take a task over from one that works on it."""
        return self.lag(member, task) <= self.acceptable_lag

    def fill(self, member: str, tasks: Iterable[str]) -> None:
        """A member has all of some tasks: it works on them, or stands by."""
        for task in tasks:
            self.restored[member, task] = self.sizes.get(task, 0)

    def warm_up(self, wanted: Mapping[str, str]) -> None:
        """Let members read ahead for tasks they shall have, as many at once as may be."""
        self.warming = dict(list(wanted.items())[: self.max_warmups])

    def advance(self, by_ms: int) -> list[tuple[str, str]]:
        """Let time pass; gives the member and task of each warm-up that became ready."""
        ready = []
        for task, member in self.warming.items():
            was_ready = self.is_ready(member, task)
            read = self.restored.get((member, task), 0) + self.rate * by_ms // 1000
            self.restored[member, task] = min(read, self.sizes.get(task, 0))
            if not was_ready and self.is_ready(member, task):
                ready.append((member, task))
        return ready

    def restore_ms(self, member: str, task: str) -> int:
        """How long a member restores before it can work on a task."""
        return -(-self.lag(member, task) * 1000 // self.rate)
