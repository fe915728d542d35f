"""Runs committed input a second time, as an independent check of the stores."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kstreamnb.core.time import Clock
from kstreamnb.runtime.context.record_context import WireRecord
from kstreamnb.runtime.context.task_plan import TaskPlan
from kstreamnb.runtime.task.task import Task


class ShadowTask:
    """Repeats what a task did up to its last commit; the topology's functions run a second time."""

    def __init__(self, plan: TaskPlan, clock: Clock, global_task: Task | None) -> None:
        self._clock = Clock(clock.now_ms)
        self.task = Task(plan, self._clock, global_task)
        self.task.context.stream_schedules.hold()
        self._ahead: list[Callable[[], object]] = []

    def note_record(self, topic: str, partition: int, record: WireRecord) -> None:
        """Note a record that the task has processed."""
        self._ahead.append(partial(self.task.run, topic, partition, (record,)))

    def note_punctuation(self, fire: Callable[[Task], bool], now_ms: int) -> None:
        """Note a call of punctuators, and the time of the wall clock then."""
        self._ahead += [partial(self._clock.advance_to, now_ms), partial(fire, self.task)]

    def commit(self) -> None:
        """Repeat what the task has done since its last commit."""
        for repeat in self._ahead:
            repeat()
        self.task.commit()
        self.task.drain()
        self._ahead.clear()

    def forget(self) -> None:
        """Discard uncommitted work."""
        self._ahead.clear()
