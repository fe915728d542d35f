"""Sub-topologies that feed each other in a circle, run as one: all their tasks in one group, breadth first.

A join of a stream with what was grouped from the same stream is such a circle: the sub-topology reads a repartition
topic that it writes. Levels cannot cut it, so all its partitions run in one place; what goes around stays inside.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import Any

from kstreamnb.core.time import Clock
from kstreamnb.runtime.context.task_plan import TaskPlan
from kstreamnb.runtime.task.task import EMPTY_DELTA, Task
from kstreamnb.spark.execution.record_merge import Place, Taken

__all__ = ["CyclicTask"]


class CyclicTask:
    """Several tasks behind the face of one; ``hidden`` topics go around and are seen by nobody else.

    Attributes:
        depths: for each row of the next `drain`, its depth.
    """

    def __init__(
        self, plans: Iterable[TaskPlan], clock: Clock, global_state: Any, hidden: frozenset[str], **options: Any
    ) -> None:
        self.members = {plan.task_id: Task(plan, clock, global_state, **options) for plan in plans}
        self.scope = next(iter(self.members.values())).scope
        self.hidden = hidden
        self.depths: list[int] = []
        self._out: list[Any] = []
        self._positions: dict[tuple[str, int], int] = {}
        self._taken: dict[tuple[str, int], int] = {}
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

    def run_root(self, arrivals: Iterable[tuple[int, Place, Taken, bool]]) -> None:
        """Process what one root has sent here, (depth, place, record, whether its offset is known), breadth first."""
        waiting: dict[int, list[tuple[Place, Taken, bool]]] = {}
        for depth, place, record, counted in arrivals:
            waiting.setdefault(depth, []).append((place, record, counted))
        self._settle([], waiting)

    def punctuate_wall_clock(self) -> bool:
        """Fire the punctuators that are due by the clock."""
        fired = [task.punctuate_wall_clock() for task in self.members.values()]
        self._settle(list(self.members.values()))
        return any(fired)

    def commit(self) -> None:
        """Flush the caches."""
        for task in self.members.values():
            task.commit()
        self._settle(list(self.members.values()))

    def drain(self) -> list[Any]:
        """Take the rows that left the circle."""
        rows, self._out = self._out, []
        return rows

    def take_depths(self) -> list[int]:
        """Take the depths of the rows that `drain` gave."""
        depths, self.depths = self.depths, []
        return depths

    @property
    def produced(self) -> int:
        """Rows since the last `drain`."""
        return len(self._out)

    def counters(self) -> dict[str, Any]:
        """Records consumed and dropped by all members."""
        counted = [task.counters() for task in self.members.values()]
        dropped: dict[Any, int] = {}
        for each in counted:
            for where, count in each["dropped"].items():
                dropped[where] = dropped.get(where, 0) + count
        return {"consumed": sum(each["consumed"] for each in counted), "dropped": dropped}

    def take_delta(self) -> bytes:
        """What changed in any member."""
        deltas = {id_: task.take_delta() for id_, task in self.members.items()}
        changed = {id_: delta for id_, delta in deltas.items() if delta != EMPTY_DELTA}
        if not changed and self._positions == self._taken:
            return EMPTY_DELTA
        self._taken = dict(self._positions)
        return pickle.dumps((changed, self._taken), 5)

    def apply_delta(self, data: bytes) -> None:
        """Take up a delta or a part."""
        if data == EMPTY_DELTA:
            return
        changed, positions = pickle.loads(data)
        for id_, delta in changed.items():
            self.members[id_].apply_delta(delta)
        if positions is not None:
            self._positions, self._taken = dict(positions), dict(positions)

    def state_keys(self) -> list[Any]:
        """Keys of everything that the members remember."""
        return [(id_, key) for id_, task in self.members.items() for key in task.state_keys()]

    def delta_of(self, keys: Iterable[Any]) -> bytes:
        """The present content of some keys, as a delta."""
        by_task: dict[str, list[Any]] = {}
        for id_, key in keys:
            by_task.setdefault(id_, []).append(key)
        parts = {id_: self.members[id_].delta_of(mine) for id_, mine in by_task.items()}
        return pickle.dumps((parts, dict(self._positions)), 5)

    def _reader(self, topic: str, partition: int) -> Task | None:
        place = (topic, partition)
        if place not in self._readers:
            reading = (task for task in self.members.values() if task.plan.source_of(topic) is not None)
            self._readers[place] = next((task for task in reading if task.plan.partition == partition), None)
        return self._readers[place]

    def _settle(self, ran: list[Task], waiting: dict[int, list[tuple[Place, Taken, bool]]] | None = None) -> None:
        """Let records go around, breadth first, until nothing moves; what comes from outside joins at its depth."""
        waiting = waiting or {}
        depth = -1 if waiting else 0
        while ran or waiting:
            following = self._collect(ran, depth)
            depth += 1
            for place, record, counted in waiting.pop(depth, ()):
                following.add(self._push(place, record, counted=counted))
            ran = [task for id_, task in self.members.items() if id_ in following]
            for task in ran:
                task.run_ready()

    def _collect(self, ran: list[Task], depth: int) -> set[str]:
        """Hand on what some members produced; gives the members that have something to do now."""
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

    def _push(self, place: Place, record: Any, *, counted: bool) -> str:
        reader = self._reader(*place)
        if reader is None:
            raise LookupError(f"no task of the circle reads {place[0]}-{place[1]}")
        if not counted:
            offset = self._positions.get(place, 0)
            self._positions[place] = offset + 1
            record = (offset, *record[1:])
        reader.push(*place, [record])
        return reader.plan.task_id
