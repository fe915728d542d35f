"""Bundles an application's settings and surroundings, which are the same across its restarts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from kstreamnb.core.time import Clock
from kstreamnb.runtime.context.config import Config
from kstreamnb.simulation.cluster.broker import Broker, Isolation
from kstreamnb.simulation.cluster.state_directory import StateDirectory
from kstreamnb.simulation.cluster.trace import ApplicationRecorder


class EventLog(Protocol):
    """Records an event."""

    def __call__(self, kind: str, task: str, subject: str = "", /, **numbers: object) -> None:
        """Record one event: its kind, the task's id, and the partition, store or node."""


@dataclass(frozen=True)
class ThreadContext:
    """An application's settings and surroundings.

    Attributes:
        application_id: the group, and the prefix of internal topics.
        config: the application's settings.
        broker: the topics.
        clock: the wall clock.
        log_event: records an event.
        default_partitions: partition count of topics that do not exist yet.
        recorder: records what happens within tasks; None for nothing.
        state_directory: flushed stores.
    """

    application_id: str
    config: Config
    broker: Broker
    clock: Clock
    log_event: EventLog
    default_partitions: int
    recorder: ApplicationRecorder | None
    state_directory: StateDirectory = field(default_factory=StateDirectory)

    @property
    def isolation(self) -> Isolation:
        """Which records the application's consumers see."""
        return "read_committed" if self.config.exactly_once else "read_uncommitted"
