"""Records all applications of a cluster driver in one log, including commits, crashes and restarts.

The log spans restarts. State that a restart changed is recorded as the writes of a separate step, so that any state
can be rebuilt from the writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kstreamnb.recording.events import Event
from kstreamnb.recording.read_tracking import stores_to_watch
from kstreamnb.recording.trace import NOTHING, STREAM_TIME, Code, Entry, Recording
from kstreamnb.runtime.context.config import Config
from kstreamnb.runtime.context.record_context import Partition
from kstreamnb.runtime.context.task_context import StateVarWatch
from kstreamnb.runtime.task.task import Task
from kstreamnb.topology.topology import Topology


class ClusterTrace:
    """One log of all applications, and the broker's records and transactions in it.

    Attributes:
        log: entries of all applications.
        codes: the meaning of their numbers, with tasks as ``application/task``.
        owners: the application of each code.
        placed: log position of a written record → its offset and transaction.
        arrived: topic, partition and offset of outside records → log length at their arrival.
        ended: transaction → log length at its end, and whether it was aborted.
        recorders: the recorder of each application.
    """

    def __init__(self) -> None:
        self.log: list[Entry] = []
        self.codes: list[Code] = []
        self.owners: list[str] = []
        self.placed: dict[int, tuple[int, int | None]] = {}
        self.arrived: dict[tuple[str, int, int], int] = {}
        self.ended: dict[int, tuple[int, bool]] = {}
        self.recorders: dict[str, ApplicationRecorder] = {}

    def recorder(self, application: str, topology: Topology, config: Config) -> ApplicationRecorder:
        """Return an application's recorder, the same across restarts."""
        return self.recorders.setdefault(application, ApplicationRecorder(self, application, topology, config))


class ApplicationRecorder(Recording):
    """Records one application into the shared log, under its name."""

    def __init__(self, trace: ClusterTrace, application: str, topology: Topology, config: Config) -> None:
        super().__init__(stores_to_watch(topology))
        self.log, self.codes = trace.log, trace.codes
        self.trace, self.application = trace, application
        self.topology, self.config = topology, config
        self.tasks: dict[str, Task] = {}
        self._watching: dict[str, StateVarWatch] = {}
        self._taken_up = 0

    def number(self, kind: str, task: str, node: str = "", other: object = None) -> int:
        """Return the number of a code of this application."""
        number = super().number(kind, f"{self.application}/{task}", node, other)
        if len(self.trace.owners) < len(self.codes):
            self.trace.owners.append(self.application)
        return number

    def watch(self, task: str, state_vars: Mapping[tuple[str, str], list[Any]]) -> StateVarWatch:
        """Track state variables; their initial content stays that of the first start."""
        first = self.state_vars.get(task)
        self._watching[task] = result = super().watch(task, state_vars)
        if first is not None:
            self.state_vars[task] = first
        return result

    def begin_run(self, tasks: Mapping[str, Task], *, since: int) -> None:
        """Record the tasks' initial state; after a restart, in place of the entries that their creation recorded."""
        if any(task_id in self.tasks for task_id in tasks):
            del self.log[since:]
            self.add("restarted", "", "", None)
            for task_id, task in tasks.items():
                self._restored(task_id, self.tasks.get(task_id), task)
        self.tasks |= tasks

    def _restored(self, task_id: str, before: Task | None, task: Task) -> None:
        """Record how a task differs from before the restart."""
        for name, store in task.stores.items():
            number = self.number("written", task_id, name)
            old = {} if before is None else before.stores[name].snapshot()
            new = store.snapshot()
            rows = ((key, old.get(key), new.get(key)) for key in {**old, **new})
            self.log += [(number, *row) for row in rows if row[1] != row[2]]
        known = {} if before is None else before.context.state_vars
        for key, state_var in task.context.state_vars.items():
            old = known[key][0] if key in known else NOTHING
            if key != STREAM_TIME and old != state_var[0]:
                self.log.append((self.number("state_var", task_id, *key), old, state_var[0]))
        self.add("resumed", task_id, "", None, task.context.stream_time[0])
        kept = len(self.log)
        self._watching[task_id]()  # already recorded before the crash
        del self.log[kept:]

    def news(self, task: str) -> Iterator[tuple[int, Event]]:
        """Yield positions and events that a task recorded since the last call for any task."""
        start, self._taken_up = self._taken_up, len(self.log)
        name = f"{self.application}/{task}"
        for at in range(start, len(self.log)):
            if self.codes[self.log[at][0]].task == name:
                yield at, self.event(self.log[at])

    def end_transaction(self, transaction: int, *, aborts: bool) -> None:
        """Record that a transaction's records have become visible, or never will."""
        self.trace.ended[transaction] = len(self.log), aborts

    def publish(self, offsets: Mapping[Partition, int]) -> None:
        """Record a commit: the next offset of each input partition."""
        self.add("published", "", "", None, dict(offsets))
