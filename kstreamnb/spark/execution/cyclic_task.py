"""Run sub-topologies that feed each other as one task: all their tasks in one group, breadth first.

A join of a stream with an aggregate of the same stream is such a cycle: the sub-topology reads a repartition topic that
it writes. Levels cannot separate it, so all its partitions run in one group, and its internal records stay inside.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from types import FrameType
from typing import Any

from kstreamnb.core.time import Clock
from kstreamnb.runtime.context.handlers import RecordProduced
from kstreamnb.runtime.context.task_plan import TaskPlan
from kstreamnb.runtime.task.task import StateDelta, StateKey, Task
from kstreamnb.spark.execution.record_merge import PartitionKey, Positions, Taken


class CyclicTask:
    """Several tasks with the interface of one; records of ``hidden`` topics do not leave it.

    Attributes:
        depths: for each row of the next `drain`, its depth.
        positions: the next offsets of the topics that it reads; kept with the state by its owner.
    """

    def __init__(
        self, plans: Iterable[TaskPlan], clock: Clock, global_state: Any, hidden: frozenset[str], **options: Any
    ) -> None:
        self.members = {plan.task_id: Task(plan, clock, global_state, **options) for plan in plans}
        self.context = next(iter(self.members.values())).context
        self.hidden = hidden
        self.depths: list[int] = []
        self._out: list[Any] = []
        self.positions: Positions = {}
        self._readers: dict[tuple[str, int], Task | None] = {}

    @property
    def stores(self) -> dict[str, Any]:
        """Stores of all members, by task and name."""
        return {f"{id_}/{name}": s for id_, task in self.members.items() for name, s in task.stores.items()}

    @property
    def global_state(self) -> Any:
        """The task that keeps the global stores."""
        return next(iter(self.members.values())).global_state

    @global_state.setter
    def global_state(self, other: Any) -> None:
        for task in self.members.values():
            task.global_state = other

    def position(self, frame: FrameType | None) -> tuple[str, str]:
        """Return the node and the record that a member is at; empty texts if none is at work."""
        positions = (task.position(frame) for task in self.members.values())
        return next((position for position in positions if position[1]), ("", ""))

    def run_root(self, arrivals: Iterable[tuple[int, PartitionKey, Taken, bool]]) -> None:
        """Process one root's records breadth first, each as (depth, partition, record, whether its offset is known)."""
        waiting: dict[int, list[tuple[PartitionKey, Taken, bool]]] = {}
        for depth, partition_key, record, counted in arrivals:
            waiting.setdefault(depth, []).append((partition_key, record, counted))
        self._run_until_idle([], waiting)

    def punctuate_wall_clock(self) -> bool:
        """Fire the punctuators that are due by the clock."""
        fired = [task.punctuate_wall_clock() for task in self.members.values()]
        self._run_until_idle(list(self.members.values()))
        return any(fired)

    def commit(self) -> None:
        """Flush the caches."""
        for task in self.members.values():
            task.commit()
        self._run_until_idle(list(self.members.values()))

    def drain(self) -> list[Any]:
        """Remove and return the rows that left the cycle."""
        rows, self._out = self._out, []
        return rows

    def drain_changelog(self) -> list[RecordProduced]:
        """Remove and return the records for the changelog topics of all members."""
        return [record for task in self.members.values() for record in task.drain_changelog()]

    def take_depths(self) -> list[int]:
        """Remove and return the depths of the rows that `drain` returned."""
        depths, self.depths = self.depths, []
        return depths

    @property
    def produced(self) -> int:
        """Rows since the last `drain`."""
        return len(self._out)

    def counters(self) -> dict[str, Any]:
        """Return the records consumed and dropped by all members."""
        counters = [task.counters() for task in self.members.values()]
        dropped = sum((Counter(each["dropped"]) for each in counters), Counter())
        return {"consumed": sum(each["consumed"] for each in counters), "dropped": dict(dropped)}

    def take_delta(self) -> StateDelta:
        """Return the changes of all members since the last delta."""
        return _joined({id_: task.take_delta() for id_, task in self.members.items()})

    def apply_delta(self, delta: StateDelta) -> None:
        """Apply a delta, or a part of a compaction."""
        parts: defaultdict[str, StateDelta] = defaultdict(lambda: StateDelta({}, {}))
        for full, rows in delta.rows.items():
            id_, _, name = full.partition("/")
            parts[id_].rows[name] = rows
        for (full, name), state_var in delta.state_vars.items():
            id_, _, node = full.partition("/")
            parts[id_].state_vars[node, name] = state_var
        for id_, part in parts.items():
            self.members[id_].apply_delta(part)

    def state_keys(self) -> list[StateKey]:
        """Return the keys of everything that the members remember."""
        return [
            (kind, f"{id_}/{owner}", key)
            for id_, task in self.members.items()
            for kind, owner, key in task.state_keys()
        ]

    def delta_of(self, keys: Iterable[StateKey]) -> StateDelta:
        """Return the present content of some keys as a delta."""
        by_task: dict[str, list[StateKey]] = {}
        for kind, full, key in keys:
            id_, _, owner = full.partition("/")
            by_task.setdefault(id_, []).append((kind, owner, key))
        return _joined({id_: self.members[id_].delta_of(owned) for id_, owned in by_task.items()})

    def _reader(self, topic: str, partition: int) -> Task | None:
        partition_key = (topic, partition)
        if partition_key not in self._readers:
            reading = (task for task in self.members.values() if task.plan.source_of(topic) is not None)
            self._readers[partition_key] = next((task for task in reading if task.plan.partition == partition), None)
        return self._readers[partition_key]

    def _run_until_idle(
        self, ran: list[Task], waiting: dict[int, list[tuple[PartitionKey, Taken, bool]]] | None = None
    ) -> None:
        """Pass records on breadth first until none is left; records from outside join at their depth."""
        waiting = waiting or {}
        depth = -1 if waiting else 0
        while ran or waiting:
            following = self._collect(ran, depth)
            depth += 1
            for partition_key, record, counted in waiting.pop(depth, ()):
                following.add(self._push(partition_key, record, counted=counted))
            ran = [task for id_, task in self.members.items() if id_ in following]
            for task in ran:
                task.run_ready()

    def _collect(self, ran: list[Task], depth: int) -> set[str]:
        """Pass on what some members produced; returns the members that have input now."""
        following = set()
        for task in ran:
            for row in task.drain():
                topic, partition, *record = row
                if self._reader(topic, partition) is not None:
                    following.add(self._push((topic, partition), (0, *record), counted=False))
                if topic not in self.hidden:
                    self._out.append(row)
                    self.depths.append(depth)
        return following

    def _push(self, partition_key: PartitionKey, record: Any, *, counted: bool) -> str:
        reader = self._reader(*partition_key)
        if reader is None:
            raise LookupError(f"no task of the cycle reads {partition_key[0]}-{partition_key[1]}")
        if not counted:
            offset = self.positions.get(partition_key, 0)
            self.positions[partition_key] = offset + 1
            record = (offset, *record[1:])
        reader.push(partition_key[0], partition_key[1], [record])
        return reader.plan.task_id


def _joined(deltas: dict[str, StateDelta]) -> StateDelta:
    """Return the deltas of members as one, whose stores and nodes have the member before their names."""
    joined = StateDelta({}, {})
    for id_, delta in deltas.items():
        joined.rows.update({f"{id_}/{name}": rows for name, rows in delta.rows.items()})
        joined.state_vars.update(
            {(f"{id_}/{node}", name): state_var for (node, name), state_var in delta.state_vars.items()}
        )
    return joined


def single_tasks(tasks: Iterable[Task | CyclicTask]) -> list[Task]:
    """Return the tasks with those of cycles one by one."""
    return [each for task in tasks for each in (task.members.values() if isinstance(task, CyclicTask) else [task])]


def state_vars_of(task: Task | CyclicTask) -> dict[tuple[str, str], Any]:
    """Return the state variables of a task, or of all members of a cycle, as a delta names them."""
    if isinstance(task, CyclicTask):
        return _joined({id_: StateDelta({}, state_vars_of(each)) for id_, each in task.members.items()}).state_vars
    return {name: content[0] for name, content in task.context.state_vars.items()}
