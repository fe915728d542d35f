"""Run sub-topologies that feed each other as one task: all their tasks in one group, breadth first.

A join of a stream with an aggregate of the same stream is such a cycle: the sub-topology reads a repartition topic that
it writes. Levels cannot separate it, so all its partitions run in one group, and its internal records stay inside.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from operator import itemgetter
from types import FrameType
from typing import Any, TypeAlias

from kstreamnb.core.time import Clock
from kstreamnb.runtime.context.handlers import RecordProduced
from kstreamnb.runtime.context.record_context import Partition
from kstreamnb.runtime.context.task_plan import TaskPlan
from kstreamnb.runtime.task.open_loops import OpenLoops, PartitionRecord
from kstreamnb.runtime.task.task import Counters, StateDelta, StateKey, Task
from kstreamnb.spark.execution.record_merge import Positions, least_heads
from kstreamnb.topology.nodes import grouped


class CyclicTask:
    """Several tasks with the interface of one.

    Records of ``inner`` topics go from member to member. Those of ``hidden`` ones do not leave.

    Attributes:
        depths: for each row of the next `drain`, its depth.
        positions: the next offsets of the topics that it reads; kept with the state by its owner.
    """

    def __init__(
        self,
        plans: Iterable[TaskPlan],
        clock: Clock,
        global_state: Any,
        inner: Collection[str],
        hidden: Collection[str],
        **options: Any,
    ) -> None:
        self._rows: list[Any] = []
        self.members = {plan.task_id: Task(plan, clock, global_state, out=self._rows, **options) for plan in plans}
        self._tasks = [*self.members.values()]
        self.context = self._tasks[0].context
        self._inner, self._hidden = inner, hidden
        self.depths: list[int] = []
        self._out: list[Any] = []
        self.positions: Positions = {}
        self._loops = OpenLoops(self._tasks, self._reader_of, self.positions)

    @property
    def stores(self) -> dict[str, Any]:
        """Stores of all members, by task and name."""
        return {f"{id_}/{name}": s for id_, task in self.members.items() for name, s in task.stores.items()}

    def position(self, frame: FrameType | None) -> tuple[str, str]:
        """Return the node and the record that a member is at; empty texts if none is at work."""
        partition = self._loops.partition
        return self._tasks[self._loops.reader_of(partition)].position(frame) if partition[0] else ("", "")

    def run_roots(self, roots: Iterable[list[tuple[int, PartitionRecord]]], marks: list[int]) -> None:
        """Process the records of each root, given with their depths, and what they cause, breadth first.

        ``marks`` gets, after each root, the number of rows since the last `drain`.
        """
        with self._opened() as loops:
            for records in roots:
                by_depth = grouped(records, itemgetter(0))
                self._run_until_idle(loops, {depth: [record for _, record in own] for depth, own in by_depth.items()})
                marks.append(len(self._out))

    def punctuate_wall_clock(self) -> None:
        """Fire the punctuators that are due by the clock."""
        for task in self._tasks:
            task.punctuate_wall_clock()
        self._pass_on()

    def commit(self) -> None:
        """Flush the caches."""
        for task in self._tasks:
            task.commit()
        self._pass_on()

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

    def counters(self) -> Counters:
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
        keys = ((id_, *key) for id_, task in self.members.items() for key in task.state_keys())
        return [(kind, f"{id_}/{owner}", key) for id_, kind, owner, key in keys]

    def delta_of(self, keys: Iterable[StateKey]) -> StateDelta:
        """Return the present content of some keys as a delta."""
        by_task: dict[str, list[StateKey]] = {}
        for kind, full, key in keys:
            id_, _, owner = full.partition("/")
            by_task.setdefault(id_, []).append((kind, owner, key))
        return _joined({id_: self.members[id_].delta_of(owned) for id_, owned in by_task.items()})

    def _reader_of(self, partition: Partition) -> int:
        topic, number = partition
        plans = (task.plan for task in self._tasks)
        return next(at for at, plan in enumerate(plans) if plan.partition == number and plan.source_of(topic))

    @contextmanager
    def _opened(self) -> Iterator[OpenLoops]:
        self._loops = OpenLoops(self._tasks, self._reader_of, self.positions)
        with self._loops.opened():
            yield self._loops

    def _pass_on(self) -> None:
        """Process what a commit or punctuators have produced."""
        rows = self._take_rows(0)
        with self._opened() as loops:
            self._run_until_idle(loops, {1: rows} if rows else {})

    def _run_until_idle(self, loops: OpenLoops, waiting: dict[int, list[PartitionRecord]]) -> None:
        """Process records with all their consequences, breadth first; others join at their depth."""
        depth = 0
        caused: list[PartitionRecord] = []
        while caused or waiting:
            records = caused + waiting.pop(depth, [])
            order = least_heads(records, loops.reader_of) if len(records) > 1 else range(len(records))
            for at in order:
                loops.process(records[at][0], records[at][1:])
            caused = self._take_rows(depth)
            depth += 1

    def _take_rows(self, depth: int) -> list[PartitionRecord]:
        """Take the rows that members produced: keep those that leave the cycle, and return those that members read."""
        rows = self._rows[:]
        self._rows.clear()
        leaving = [row for row in rows if row[0] not in self._hidden]
        self._out += leaving
        self.depths += [depth] * len(leaving)
        return [(row[:2], row) for row in rows if row[0] in self._inner]


def _joined(deltas: dict[str, StateDelta]) -> StateDelta:
    """Return the deltas of members as one, whose stores and nodes have the member before their names."""
    joined = StateDelta({}, {})
    for id_, delta in deltas.items():
        joined.rows.update({f"{id_}/{name}": rows for name, rows in delta.rows.items()})
        own = delta.state_vars.items()
        joined.state_vars.update({(f"{id_}/{node}", name): state_var for (node, name), state_var in own})
    return joined


AnyTask: TypeAlias = Task | CyclicTask
"""A task (including one that keeps global tables), or the tasks of a cycle."""


def single_tasks(tasks: Iterable[AnyTask]) -> list[Task]:
    """Return the tasks with those of cycles one by one."""
    return [each for task in tasks for each in (task.members.values() if isinstance(task, CyclicTask) else [task])]


def stream_times(tasks: Iterable[AnyTask]) -> dict[str, int]:
    """Return the stream times (ms) of those tasks that have one, by task."""
    times = {task.plan.task_id: task.context.stream_time[0] for task in single_tasks(tasks)}
    return {task_id: time_ms for task_id, time_ms in times.items() if time_ms >= 0}


def state_vars_of(task: AnyTask) -> dict[tuple[str, str], Any]:
    """Return the state variables of a task, or of all members of a cycle, as a delta names them."""
    if isinstance(task, CyclicTask):
        return _joined({id_: StateDelta({}, state_vars_of(each)) for id_, each in task.members.items()}).state_vars
    return {name: content[0] for name, content in task.context.state_vars.items()}
