"""An application in a cluster driver: its tasks, stores and events."""

from __future__ import annotations

from typing import Any

from kstreamnb.core.arguments import check_arguments
from kstreamnb.core.formatting import pluralize
from kstreamnb.core.serde import Serde
from kstreamnb.errors import EngineError, StateError
from kstreamnb.hints import unknown
from kstreamnb.replays.replay import Replay
from kstreamnb.simulation.cluster.events import ThreadEvents
from kstreamnb.simulation.cluster.lifecycle import ApplicationLifecycle
from kstreamnb.simulation.cluster.recorded_run import cluster_runs
from kstreamnb.simulation.cluster.repartitioning import move_state
from kstreamnb.simulation.cluster.state_check import check_state
from kstreamnb.state.query_views import detail
from kstreamnb.testdriver.execution.state_consistency import StateCheck
from kstreamnb.testdriver.store_views import view_of


class Application(ApplicationLifecycle):
    """One application: tasks that commit together.

    Attributes:
        id: the application id: name of its group and prefix of its internal topics.
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
          task 0_0: reads orders-0 at offset 1; keeps orders-by-item
    """

    def __repr__(self) -> str:
        return f'<application "{self.id}", {self.status}, {pluralize(len(self._tasks), "task")}>'

    def __str__(self) -> str:
        """Return the status, and each task with its partitions, next offsets and stores."""
        if self.status != "running":
            return f'application "{self.id}": {self.status}\n  tasks: not assigned{" yet" * (self.status == "created")}'
        lines = [f'application "{self.id}": running']
        for task_id, task in self._tasks.items():
            reads = (f"{topic}-{number} at offset {at}" for (topic, number), at in task.offsets().items())
            keeps = f"; keeps {', '.join(task.task.stores)}" if task.task.stores else ""
            lines.append(f"  task {task_id}: reads {', '.join(reads)}{keeps}")
        return "\n".join(lines)

    @property
    def events(self) -> ThreadEvents:
        """Events of this application."""
        return ThreadEvents(self._events)

    @property
    def committed(self) -> dict[str, int]:
        """Committed offset per input partition: where processing resumes after a crash."""
        own = {key[1:]: offset for key, offset in self._broker.committed.items() if key[0] == self.id}
        return {f"{topic}-{partition}": offset for (topic, partition), offset in own.items()}

    def store(self, name: str, *, timestamps: bool = False, headers: bool = False) -> Any:
        """Return a view of a store over all tasks.

        Args:
            name: name of the store.
            timestamps: rows of timestamped stores are `ValueAndTimestamp` instead of plain values. Default: False.
            headers: rows of stores with headers are `ValueTimestampHeaders` or `AggregationWithHeaders`.
                Default: False.

        Raises: StateError if no store has this name.
        """
        check_arguments(Application.store, locals())
        thread = self._running_thread()
        tasks = [*(each.task for each in thread.tasks.values()), thread.global_task]
        result = [task.stores[name] for task in tasks if task is not None and name in task.stores]
        if not result:
            raise unknown("store", name, self.topology.stores, error=StateError)
        view = view_of(name, result, show=detail(timestamps=timestamps, headers=headers))
        return result[0] if view is None else view  # an empty view is false

    def replay(self) -> Replay:
        """Return everything this application has done, across all its restarts, as a replay.

        Steps are records, punctuations, commits, crashes and restarts, including those of other applications, so all
        replays number the steps alike; traces and provenance cross applications. The outputs of a step are what a
        ``read_committed`` consumer had seen by then.

        Raises: EngineError if the driver was created with ``trace=False``.
        """
        trace = self._cluster.trace
        if trace is None:
            raise EngineError("nothing was recorded", hint="create the driver with ClusterDriver(…, trace=True)")
        return Replay(cluster_runs(trace, self._broker)[self.id])

    def verify_state(self) -> StateCheck:
        """Compare every store with its changelog, row by row.

        Raises: EngineError if the application does not run.
        """
        return check_state(self._running_thread().tasks, self._broker, {})

    def rebuild(self, name: str) -> None:
        """Discard a store and restore it from its changelog.

        Args:
            name: name of the store.

        Raises: EngineError if the application does not run.
        """
        check_arguments(Application.rebuild, locals())
        thread = self._running_thread()
        self._context.state_directory.lose(name)
        for task in thread.tasks.values():
            if name in task.task.stores:
                thread.restore(task.task, task.task.stores[name])

    def repartition(self, partitions: int) -> int:
        """Move the state of a stopped application to another number of partitions; return the number of rows moved.

        Each row goes to the partition of its key, like new input records.

        Args:
            partitions: new number of partitions, at least 1.

        Raises: EngineError if the application runs.
        """
        check_arguments(Application.repartition, locals())
        if self.status == "running":
            raise EngineError(f'application "{self.id}" is running', hint="close it first")
        tasks = [task.task for task in self._tasks.values()]
        self._context.state_directory.lose()
        self._shadow_tasks = None
        return move_state(tasks, partitions, self._broker, self._clock, self._log_event)

    def metrics(self) -> dict[str, dict[str, int]]:
        """Return metrics under Kafka's names, by task."""
        tasks = self._tasks
        dropped = {task_id: sum(task.task.counters()["dropped"].values()) for task_id, task in tasks.items()}
        return {
            "process-total": {task_id: task.processed for task_id, task in tasks.items()},
            "enforced-processing-total": {task_id: task.enforced for task_id, task in tasks.items()},
            "dropped-records-total": dropped,
        }

    def read_serdes(self, topic: str) -> tuple[Serde, Serde] | None:
        """Return the serdes with which a topic is read; None if it is not.

        Args:
            topic: name of the topic.
        """
        route = None if self._thread is None else self._thread.router.route(topic)
        return None if route is None else route.serdes

    def written_serdes(self, topic: str) -> tuple[Serde, Serde] | None:
        """Return the serdes with which a topic is written; None if it is not.

        Args:
            topic: name of the topic.
        """
        return None if self._thread is None else self._thread.router.output_serdes(topic)
