"""Bundles the parts that all applications share, and those that the threads and tasks of one application share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from kstreamnb.core.time import Clock
from kstreamnb.runtime.context.config import Config
from kstreamnb.simulation.cluster.broker import Broker, Isolation
from kstreamnb.simulation.cluster.events import ThreadEvent
from kstreamnb.simulation.cluster.state_directory import StateDirectory
from kstreamnb.simulation.cluster.trace import ApplicationRecorder, ClusterTrace


class EventLog(Protocol):
    """Records an event."""

    def __call__(self, kind: str, task: str, subject: str = "", /, **numbers: object) -> None:
        """Record one event: its kind, the task's id, and the partition, store or node."""


@dataclass(frozen=True)
class Cluster:
    """The parts of a cluster driver that its applications share.

    Attributes:
        broker: the topics.
        clock: the simulated wall clock, in epoch milliseconds.
        default_partitions: number of partitions of topics that are created automatically.
        trace: recorder of the steps, or None.
        verifies: whether a shadow task runs beside each task, and their stores are compared.
        events: all events, in order.
    """

    broker: Broker
    clock: Clock
    default_partitions: int
    trace: ClusterTrace | None
    verifies: bool
    events: list[ThreadEvent] = field(default_factory=list)


@dataclass(frozen=True)
class ThreadContext:
    """An application's settings and surroundings.

    Attributes:
        cluster: the parts that all applications share.
        application_id: the group, and the prefix of internal topics.
        config: the application's settings.
        log_event: records an event.
        recorder: records what happens within tasks; None to record nothing.
        state_directory: flushed stores.
    """

    cluster: Cluster
    application_id: str
    config: Config
    log_event: EventLog
    recorder: ApplicationRecorder | None
    state_directory: StateDirectory = field(default_factory=StateDirectory)

    @property
    def isolation(self) -> Isolation:
        """Which records the application's consumers see."""
        return "read_committed" if self.config.exactly_once else "read_uncommitted"
