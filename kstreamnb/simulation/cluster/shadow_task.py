"""Runs committed input a second time, as an independent check of the stores."""

from __future__ import annotations

from typing import Any

from kstreamnb.core.time import Clock
from kstreamnb.runtime.context.task_plan import TaskPlan
from kstreamnb.runtime.task.task import Task


class ShadowTask:
    """Repeats what a task did up to its last commit; the topology's functions run a second time."""

    def __init__(self, plan: TaskPlan, clock: Clock, global_task: Task | None) -> None:
        self._clock = Clock(clock.now_ms)
        self.task = Task(plan, self._clock, global_task)
        self.task.context.stream_schedules.hold()
        self._ahead: list[tuple[str, Any]] = []

    def note(self, kind: str, what: object) -> None:
        """Note a record or punctuation of the task."""
        self._ahead.append((kind, what))

    def commit(self) -> None:
        """Repeat what the task has done since its last commit."""
        for kind, what in self._ahead:
            if kind == "record":
                topic, partition, record = what
                self.task.run(topic, partition, (record,))
            else:
                fire, now_ms = what
                self._clock.advance_to(now_ms)
                fire(self.task)
        self.task.commit()
        self.task.drain()
        self._ahead.clear()

    def forget(self) -> None:
        """Discard uncommitted work."""
        self._ahead.clear()
