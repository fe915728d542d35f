"""The states of a query and the one table of transitions between them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from enum import Enum, auto

from kstreamnb.data_files import rows_of
from kstreamnb.errors import KStreamError


class State(Enum):
    """A state of a query; ``shown`` is the word for it in `QueryStatus`."""

    CREATED = auto(), "stopped"
    """Never started."""
    STARTING = auto(), "starting"
    """A start is in progress: the checkpoint is repaired, the sink opened, the stream started."""
    LAUNCHED = auto(), "starting"
    """The stream runs and has not finished a batch yet."""
    RUNNING = auto(), "running"
    """The stream has finished a batch, or found no records to read."""
    STOPPING = auto(), "stopping"
    """The user asked for a stop; the batch in progress may still finish."""
    STOPPED = auto(), "stopped"
    """Stopped by the user, or at the end of its input."""
    FAILED = auto(), "failed"
    """Ended by an error; the restart policy may start it again."""
    ABANDONED = auto(), "failed"
    """Failed, and stopped by the user: only the user starts it again."""

    @property
    def shown(self) -> str:
        """The word for the state in `QueryStatus`."""
        return str(self.value[1])


class LifecycleEvent(Enum):
    """Something that happens to a query."""

    START = auto()
    LAUNCH = auto()
    """The stream was started."""
    READY = auto()
    """The stream finished a batch, or found no records to read."""
    STOP = auto()
    HALT = auto()
    """The stream that was to stop has stopped."""
    FAIL = auto()
    END = auto()
    """The stream ended without an error and without a stop."""


class Actor(Enum):
    """A cause of events."""

    USER = auto()
    """Calls `Query.stop`, `Query.restart` or `deploy`."""
    COMPANION = auto()
    """The restart policy, the topic watcher or the topic discovery, each in a thread."""
    STREAM = auto()
    """Spark's stream with its tasks and the sink."""
    QUERY = auto()
    """The query itself, at the end of a start, of a stop or of its stream."""


ACTIVE = frozenset({State.STARTING, State.LAUNCHED, State.RUNNING, State.STOPPING})
"""States in which a stream may be running."""

TRANSITIONS: Mapping[tuple[State, LifecycleEvent], tuple[State, frozenset[Actor]]] = {
    (State[state], LifecycleEvent[event]): (State[target], frozenset(Actor[actor] for actor in actors.split()))
    for states, event, target, actors in rows_of(__package__, "transitions.tsv")
    for state in states.split()
}
"""Next state by state and event, and the actors that may cause it; every other event is ignored."""


class Lifecycle:
    """The current ``state`` of a query, changed by any thread as `TRANSITIONS` allows."""

    def __init__(self) -> None:
        self.state = State.CREATED
        self.last_error: KStreamError | None = None  # the last one that ended a start, also after a restart
        self._lock = threading.RLock()

    @property
    def error(self) -> KStreamError | None:
        """The first error since the last start, in states that show "failed"; None in all others."""
        with self._lock:
            return self.last_error if self.state in (State.FAILED, State.ABANDONED) else None

    def apply(self, event: LifecycleEvent, actor: Actor, error: KStreamError | None = None) -> State | None:
        """Make the transition of an event; returns the state before it, or None if the table does not allow it.

        Args:
            event: the event.
            actor: its cause.
            error: the error of `Event.FAIL`.
        """
        with self._lock:
            before = self.state
            state, actors = TRANSITIONS.get((before, event), (before, frozenset()))
            if actor not in actors:
                return None
            self.state = state
            self.last_error = error if event is LifecycleEvent.FAIL else self.last_error
            return before
