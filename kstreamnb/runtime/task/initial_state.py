"""State with which tasks start, such as that of an application that runs elsewhere."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from kstreamnb.errors import ConfigError
from kstreamnb.runtime.task.task import Task

TaskRows: TypeAlias = Mapping[str, Mapping[Hashable | None, Any]]
"""Raw rows by store."""


@dataclass(frozen=True)
class InitialState:
    """Rows of stores and stream times (ms), by task id."""

    tasks: Mapping[str, TaskRows] = field(repr=False)
    stream_times: Mapping[str, int] = field(repr=False)

    def give_to(self, tasks: Iterable[Task]) -> None:
        """Set the state of tasks that have processed nothing; a recorder sees the rows before its first step.

        Raises:
            ConfigError: the state belongs to a task or store that this topology lacks, or to other partitions.
        """
        known = {task.plan.task_id: task for task in tasks}
        for task_id, stores in self.tasks.items():
            task = known.get(task_id)
            if task is None or stores.keys() - task.stores.keys():
                fact = f'the state belongs to a task "{task_id}" with {", ".join(sorted(stores)) or "no stores"}'
                hint = "give the topology that wrote it, and the partitions that its topics have"
                raise ConfigError(fact, detail=f"tasks here are {', '.join(known)}", hint=hint)
            for name, rows in stores.items():
                task.stores[name].begin_with(rows)
            task.context.stream_time[0] = max(task.context.stream_time[0], self.stream_times.get(task_id, -1))
