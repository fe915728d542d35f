"""Schedules punctuators by Kafka's rules for stream time and wall-clock time.

A schedule is due at a time; when it fires, every period that passed meanwhile counts as one. Due schedules fire in
the order of their due times, each at most once a check. The due time is a state variable of the node, so that snapshots
and deltas of a task include it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from kstreamnb.core.operator import Punctuate
from kstreamnb.core.processor import PunctuationType
from kstreamnb.errors import ConfigError

T = TypeVar("T")


class PriorityQueue(list[T]):
    """Items by the least ``key(item)``, the first one at 0; keys may change only while their item is outside."""

    def __init__(self, key: Callable[[T], Any]) -> None:
        super().__init__()
        self._key = key

    def peek(self) -> T | None:
        """Return the first item, or None."""
        return self[0] if self else None

    def add(self, item: T) -> None:
        """Insert an item."""
        at, key, item_key = len(self), self._key, self._key(item)
        self.append(item)
        while at > 0 and item_key < key(self[parent := (at - 1) >> 1]):
            self[at] = self[parent]
            at = parent
        self[at] = item

    def poll(self) -> T:
        """Take the first item out; raises IndexError when there is none."""
        first, last = self[0], self.pop()
        if not self:
            return first
        at, size, key, last_key = 0, len(self), self._key, self._key(last)
        while (child := 2 * at + 1) < size:
            if child + 1 < size and key(self[child]) > key(self[child + 1]):
                child += 1
            if last_key <= key(self[child]):
                break
            self[at] = self[child]
            at = child
        self[at] = last
        return first


NEVER = 1 << 62
"""A due time that no clock reaches."""


class Schedule:
    """One punctuator of one node; ``state_var[0]`` is the time it is due at, None once it is cancelled."""

    def __init__(self, node: str, interval_ms: int, punctuate: Punctuate, state_var: list[Any]) -> None:
        self.node, self.interval_ms, self.punctuate, self.state_var = node, interval_ms, punctuate, state_var
        self.due_ms = NEVER if state_var[0] is None else state_var[0]
        self.order = 0

    @property
    def cancelled(self) -> bool:
        """True once the schedule was cancelled."""
        return self.state_var[0] is None

    def cancel(self) -> None:
        """Stop firing."""
        self.state_var[0] = None

    def advance(self, now_ms: int) -> None:
        """Set the next due time after firing at ``now_ms``: periods that were missed collapse into one."""
        periods = (now_ms - self.due_ms) // self.interval_ms + 1
        self.state_var[0] = self.due_ms = self.due_ms + periods * self.interval_ms


class PunctuationQueue:
    """Schedules of one clock; ``due[0]`` is the earliest due time, which tasks compare for each record."""

    def __init__(self, *, heap_order: bool) -> None:
        self.due, self._held = [NEVER], False
        key: Callable[[Schedule], Any] = (lambda s: s.due_ms) if heap_order else (lambda s: (s.due_ms, s.order))
        self._queue: PriorityQueue[Schedule] = PriorityQueue(key)
        self._schedules: list[Schedule] = []

    def add(self, schedule: Schedule) -> None:
        """Add a schedule."""
        schedule.order = len(self._schedules)
        self._schedules.append(schedule)
        self._queue.add(schedule)
        self._look()

    def nodes(self) -> list[str]:
        """Return the node of each schedule that was not cancelled."""
        return [schedule.node for schedule in self._schedules if not schedule.cancelled]

    def hold(self) -> None:
        """Run punctuators only by `fire`: no due time is shown to tasks."""
        self._held = True
        self._look()

    def forget(self) -> None:
        """Remove all schedules."""
        self._schedules.clear()
        self.rebuild()

    def rebuild(self) -> None:
        """Read the due times again after state variables were restored."""
        self._queue.clear()
        for schedule in self._schedules:
            if not schedule.cancelled:
                schedule.due_ms = schedule.state_var[0]
                self._queue.add(schedule)
        self._look()

    def fire(self, now_ms: int, run: Callable[[Schedule, int], None]) -> bool:
        """Run the punctuators due at ``now_ms``; return whether there were any."""
        queue, fired = self._queue, False
        while (first := queue.peek()) is not None and first.due_ms <= now_ms:
            schedule = queue.poll()
            if schedule.cancelled:
                continue
            run(schedule, now_ms)
            fired = True
            if not schedule.cancelled:
                schedule.advance(now_ms)
                queue.add(schedule)
        self._look()
        return fired

    def _look(self) -> None:
        first = self._queue.peek()
        self.due[0] = NEVER if first is None or self._held else first.due_ms


def first_due(interval_ms: int, kind: str, start_ms: int | None, now_ms: int) -> int:
    """Return when a new schedule fires first; ``now_ms`` is the time of its clock.

    At ``start_ms`` or, if that has passed, at the next ``start_ms + k * interval_ms``. Without a start, stream time: at
    once, so the next record fires it; wall clock: one interval from now.
    """
    if kind not in (PunctuationType.STREAM_TIME, PunctuationType.WALL_CLOCK_TIME):
        raise ConfigError(f'unknown punctuation type "{kind}"', hint='pass "stream_time" or "wall_clock_time"')
    if interval_ms < 1:
        java = "The minimum supported scheduling interval is 1 millisecond."
        raise ConfigError(f"interval of a punctuator must be at least 1 ms, got {interval_ms} ms", java=java)
    if start_ms is not None and start_ms < 0:
        java = "The minimum supported start time is Instant.EPOCH."
        raise ConfigError(f"start of a punctuator must not be before the epoch, got {start_ms} ms", java=java)
    if start_ms is None:
        return 0 if kind == PunctuationType.STREAM_TIME else now_ms + interval_ms
    if start_ms >= now_ms:
        return start_ms
    return start_ms + ((now_ms - start_ms) // interval_ms + 1) * interval_ms
