"""A task with what a stream thread knows about it: how far it has fetched, what it waits for, what it may not fetch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from kstreamnb.core.codec import encoded
from kstreamnb.runtime.context.config import Config
from kstreamnb.runtime.context.record_context import WireRecord
from kstreamnb.runtime.task.task import Task
from kstreamnb.simulation.cluster.broker import Broker, Isolation, LogRecord

__all__ = ["Place", "Say", "StreamTask", "wire"]

Place: TypeAlias = tuple[str, int]
"""Topic and partition."""


class Say(Protocol):
    """Notes events."""

    def __call__(self, kind: str, task: str, place: str = "", /, **numbers: Any) -> None:
        """Note one: its kind, the task's id, and the partition, store or node."""


class StreamTask:
    """One task, its buffers and its deadlines.

    Args:
        task: what processes the records.
        inputs: the partitions it reads.
        config: the application's settings.
        broker: where it fetches.
        isolation: what it may see there.
        say: notes events.
    """

    def __init__(
        self, task: Task, inputs: Sequence[Place], config: Config, broker: Broker, isolation: Isolation, say: Say
    ) -> None:
        self.task, self.inputs, self.id = task, tuple(inputs), task.plan.task_id
        self.positions: dict[Place, int] = {}
        self.needs_commit = False
        self.processed = self.enforced = 0
        self._config, self._broker, self._isolation, self._say = config, broker, isolation, say
        self._paused: dict[Place, None] = {}
        self._deadlines: dict[Place, int] = {}
        self._waits_for = ""

    def fetch(self, budget: int) -> int:
        """Take records from the broker into the buffers, at most so many; gives their number."""
        taken = 0
        for place in self.inputs:
            if place in self._paused or self._broker.is_delayed(*place) or taken >= budget:
                continue
            start = self.positions[place]
            found, self.positions[place] = self._broker.partition(*place).read(start, budget - taken, self._isolation)
            if not found:
                continue
            taken += len(found)
            self.task.push(*place, [wire(record) for record in found])
            self._say("polled", self.id, _said(place), records=len(found), from_offset=found[0].offset)
            waiting, limit = len(self.task.lane(*place)), self._config.buffered_records_per_partition
            if waiting > limit:
                self._paused[place] = None
                self._say("paused", self.id, _said(place), buffered=waiting, limit=limit)
        return taken

    def is_ready(self, now_ms: int) -> bool:
        """Whether a record may be processed: all partitions have one, or need not be waited for any longer."""
        buffered = [place for place in self.inputs if self.task.lane(*place).fill()]
        if self._config.max_task_idle_ms < 0 or not buffered:
            return bool(buffered)
        late: list[Place] = []
        for place in self.inputs:
            if place in buffered:
                self._deadlines.pop(place, None)
                continue
            lag = self._broker.lag(*place, self.positions[place], self._isolation)
            if lag != 0:
                self._deadlines.pop(place, None)
                self._idle(place, lag="unknown" if lag is None else lag)
                return False
            deadline = self._deadlines.setdefault(place, now_ms + self._config.max_task_idle_ms)
            if now_ms < deadline:
                self._idle(place, lag=0, until_ms=deadline)
                return False
            late.append(place)
        self._waits_for = ""
        if late:
            self.enforced += 1
            if self._config.max_task_idle_ms:
                self._say("enforced", self.id, ", ".join(map(_said, late)), total=self.enforced)
        return True

    def process(self) -> tuple[str, int, WireRecord]:
        """Process the record whose turn it is, and say which it was."""
        lane = self.task.first_lane
        assert lane is not None
        chosen = lane.arrived()
        self.task.run_ready(1)
        self.processed += 1
        self.needs_commit = True
        for place in list(self._paused):
            waiting = len(self.task.lane(*place))
            if waiting <= self._config.buffered_records_per_partition:
                del self._paused[place]
                self._say("resumed", self.id, _said(place), buffered=waiting)
        return chosen[0], lane.partition, chosen[1]

    def offsets(self) -> Mapping[Place, int]:
        """For each partition the first offset that has not been processed."""
        found = {}
        for place in self.inputs:
            lane = self.task.lane(*place)
            found[place] = lane.arrived()[1][0] if lane.fill() else self.positions[place]
        return found

    def _idle(self, place: Place, **numbers: Any) -> None:
        """Say once that the task waits."""
        about = f"{place} {numbers}"
        if about != self._waits_for:
            self._waits_for = about
            self._say("idling", self.id, _said(place), **numbers)


def wire(record: LogRecord) -> WireRecord:
    """A record of a topic as tasks take it."""
    key, value = encoded(record.key), encoded(record.value)
    return record.offset, record.timestamp, key, value, record.headers


def _said(place: Place) -> str:
    return f"{place[0]}-{place[1]}"
