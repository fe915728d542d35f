"""An application in a cluster driver: what it runs, and what can be asked of it."""

from __future__ import annotations

from typing import Any

from kstreamnb.core.formatting import pluralize
from kstreamnb.core.serde import Serde
from kstreamnb.errors import EngineError, StateError
from kstreamnb.replays.replay import Replay
from kstreamnb.simulation.cluster.events import ThreadEvents
from kstreamnb.simulation.cluster.lifecycle import ApplicationLifecycle
from kstreamnb.simulation.cluster.recorded_run import cluster_runs
from kstreamnb.simulation.cluster.repartitioning import move_state
from kstreamnb.simulation.cluster.state_check import check_state
from kstreamnb.testdriver.execution.state_consistency import StateCheck
from kstreamnb.testdriver.store_views import view_of

__all__ = ["Application"]


class Application(ApplicationLifecycle):
    """One application: a group of tasks that commits together.

    Attributes:
        id: the application's id: the name of its group, and the prefix of its internal topics.
        status: "created", "running", "crashed" or "closed".

    Example:
        >>> from kstreamnb import StreamsBuilder
        >>> from kstreamnb.simulation import ClusterDriver
        >>> builder = StreamsBuilder("shop")
        >>> builder.stream("orders").group_by_key().count(store="orders-by-item").to_stream().to("counts")
        >>> driver = ClusterDriver(builder.build(), {"processing_guarantee": "exactly_once_v2"})
        >>> driver.create_input_topic("orders").pipe_input("shoe", 1, at=0)
        >>> driver.run_ready()
        1
        >>> driver.application.crash()
        >>> [event.numbers["records"] for event in driver.application.restart()], driver.run_ready()
        ([0], 1)
        >>> driver.application.commit()
        >>> driver.application.store("orders-by-item")["shoe"], driver.application.committed
        (1, {'orders-0': 1})
        >>> print(driver.application)
        application "shop": running
          task 0_0: reads orders-0 from 1 on; keeps orders-by-item
    """

    def __repr__(self) -> str:
        return f'<application "{self.id}", {self.status}, {pluralize(len(self._tasks), "task")}>'

    def __str__(self) -> str:
        """What runs where, now: the state, and every task with its partitions, the next offsets, and its stores."""
        if self.status != "running":
            return f'application "{self.id}": {self.status}\n  tasks: not assigned{" yet" * (self.status == "created")}'
        lines = [f'application "{self.id}": running']
        for task_id, task in self._tasks.items():
            reads = (f"{topic}-{number} from {at} on" for (topic, number), at in task.offsets().items())
            keeps = f"; keeps {', '.join(task.task.stores)}" if task.task.stores else ""
            lines.append(f"  task {task_id}: reads {', '.join(reads)}{keeps}")
        return "\n".join(lines)

    @property
    def events(self) -> ThreadEvents:
        """What has happened to this application."""
        return ThreadEvents(self._events)

    @property
    def committed(self) -> dict[str, int]:
        """For each input partition the offset from which it would go on after a crash."""
        own = {key[1:]: offset for key, offset in self._broker.committed.items() if key[0] == self.id}
        return {f"{topic}-{partition}": offset for (topic, partition), offset in own.items()}

    def store(self, name: str) -> Any:
        """A view of a store over all tasks; raises StateError when there is none of that name."""
        thread = self._running_thread()
        result = [task.task.stores[name] for task in thread.tasks.values() if name in task.task.stores]
        task = thread.global_task
        result += [task.stores[name]] if task is not None and name in task.stores else []
        if not result:
            raise StateError(f'there is no store "{name}"', hint=f"there are {', '.join(self.topology.stores)}")
        view = view_of(name, result)
        return result[0] if view is None else view  # an empty view is false

    def replay(self) -> Replay:
        """What this application has done so far, through all its lives, to be walked through and asked about.

        Steps are records, punctuations, commits, crashes and restarts, those of other applications too, so that the
        replays of all applications count alike; journeys and lineages go from application to application. Outputs
        are what a reader of committed records has seen by then.

        Raises: EngineError when the driver was made with ``trace=False``.
        """
        if self._trace is None:
            raise EngineError("nothing was recorded", hint="make the driver with ClusterDriver(…, trace=True)")
        return Replay(cluster_runs(self._trace, self._broker)[self.id])

    def verify_state(self) -> StateCheck:
        """Compare every store with what its changelog makes, row by row."""
        return check_state(self._running_thread().tasks, self._broker, {})

    def rebuild(self, name: str) -> None:
        """Throw a store away and make it anew from its changelog."""
        thread = self._running_thread()
        self._state_directory.lose(name)
        for task in thread.tasks.values():
            store = task.task.stores.get(name)
            if store is not None:
                thread.restore(task.task, store)

    def repartition(self, partitions: int) -> int:
        """Move the state of an ended application to another number of partitions; gives the rows that moved.

        Every row goes where its key belongs among so many partitions, as the input's new records do.
        """
        if self.status == "running":
            raise EngineError(f'application "{self.id}" is running', hint="close it first")
        tasks = [task.task for task in self._tasks.values()]
        self._state_directory.lose()
        self._shadow_tasks, self._has_shadow_tasks = {}, False
        return move_state(tasks, partitions, self._broker, self._clock, self._log_event)

    def metrics(self) -> dict[str, dict[str, int]]:
        """Metrics under Kafka's names, by task."""
        tasks = self._tasks
        return {
            "process-total": {task_id: task.processed for task_id, task in tasks.items()},
            "enforced-processing-total": {task_id: task.enforced for task_id, task in tasks.items()},
            "dropped-records-total": {
                task_id: sum(task.task.counters()["dropped"].values()) for task_id, task in tasks.items()
            },
        }

    def _read_serdes(self, topic: str) -> tuple[Serde, Serde] | None:
        """With which serdes a topic is read."""
        plans = [task.task.plan for task in self._tasks.values()]
        plans += [self._thread.global_task.plan] if self._thread and self._thread.global_task else []
        for plan in plans:
            source = plan.source_of(topic)
            if source is not None:
                return plan.key_serde(source.key_serde), plan.value_serde(source.value_serde)
        return None

    def _written_serdes(self, topic: str) -> tuple[Serde, Serde] | None:
        """With which serdes a topic is written."""
        result = (task.task.topic_serdes(topic) for task in self._tasks.values())
        return next((serdes for serdes in result if serdes is not None), None)
