"""Runs a topology in a random order: when partitions deliver and which task works next is drawn from a seed.

All orders are possible on a cluster: each partition delivers in order, a task takes the smallest head of its queues,
and its output can be fetched afterwards.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from random import Random
from typing import Any

from kstreamnb.core.formatting import pluralize
from kstreamnb.testdriver.execution.serializer import InputRecord
from kstreamnb.testdriver.execution.task_group import TaskGroup

_SIZES = (1, 1, 1, 2, 3, 8, 50, 1_000_000)


@dataclass(frozen=True)
class Move:
    """One delivery of a partition, or one turn of a task."""

    kind: str
    where: str
    records: int

    def __str__(self) -> str:
        done = "delivers" if self.kind == "deliver" else "processes"
        return f"{self.where} {done} {pluralize(self.records, 'record')}"


class RandomSchedule:
    """Runs input records through tasks; ``moves`` collects the order.

    ``patient``: tasks wait for partitions that may still get records, as with a long ``max_task_idle``.
    """

    def __init__(
        self, tasks: TaskGroup, roots: list[InputRecord], random: Random, moves: list[Move], *, patient: bool
    ) -> None:
        self._moves = moves
        self._tasks, self._random, self._patient = tasks, random, patient
        self._coming: dict[tuple[str, int], deque[Any]] = {}
        self._inputs: dict[int, dict[tuple[str, int], None]] = {}
        for topic, partition, *record in roots:
            route = tasks.router.reader(topic)
            coming = self._coming.setdefault((topic, partition), deque())
            coming.append((len(coming), *record))
            if not route.is_global:
                self._inputs.setdefault(route.tasks[partition], {})[topic, partition] = None

    def run(self) -> None:
        """Run until nothing is left."""
        while True:
            deliveries = [source for source, records in self._coming.items() if records]
            ready = [index for index in range(len(self._tasks.order)) if self._is_ready(index, hurried=False)]
            if not deliveries and not ready:
                ready = [index for index in range(len(self._tasks.order)) if self._is_ready(index, hurried=True)]
                if not ready:
                    return
            chosen = self._random.randrange(len(deliveries) + len(ready))
            size = self._random.choice(_SIZES)
            if chosen < len(deliveries):
                self._deliver(deliveries[chosen], size)
            else:
                self._work(ready[chosen - len(deliveries)], size)

    def _deliver(self, source: tuple[str, int], size: int) -> None:
        tasks, records = self._tasks, self._coming[source]
        route = tasks.router.reader(source[0])
        taken = [records.popleft() for _ in range(min(size, len(records)))]
        if route.is_global:
            for record in taken:
                tasks.feed_global((*source, *record[1:]))
        else:
            tasks.order[route.tasks[source[1]]].push(*source, taken)
        self._moves.append(Move("deliver", f"{source[0]}-{source[1]}", len(taken)))

    def _work(self, index: int, size: int) -> None:
        task = self._tasks.order[index]
        done = task.run_ready(1 if self._patient else size)
        self._moves.append(Move("process", f"task {task.plan.task_id}", done))
        for row in self._tasks.collect(index):
            source = row[:2]
            if source not in self._coming:
                self._coming[source] = deque()
                self._inputs.setdefault(self._tasks.reader_of(source), {})[source] = None
            self._coming[source].append(self._tasks.numbered(row))

    def _is_ready(self, index: int, *, hurried: bool) -> bool:
        task = self._tasks.order[index]
        waiting = [source for source in self._inputs.get(index, ()) if task.queue_of(*source).fill()]
        if not self._patient or hurried or not waiting:
            return bool(waiting)
        return all(source in waiting or not self._coming[source] for source in self._inputs[index])
