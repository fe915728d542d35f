"""Manages the lifecycle of an application: starts, commits, crashes, shutdown, and its state directory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from threading import RLock
from typing import Literal

from kstreamnb.core.arguments import at_least, check_arguments, expect_number, expect_texts
from kstreamnb.errors import EngineError, StateError
from kstreamnb.runtime.context.config import Config
from kstreamnb.runtime.context.handlers import uncaught_answer
from kstreamnb.simulation.cluster.events import ThreadEvent, ThreadEvents
from kstreamnb.simulation.cluster.shadow_task import ShadowTask
from kstreamnb.simulation.cluster.state_check import check_state
from kstreamnb.simulation.cluster.stream_task import StreamTask
from kstreamnb.simulation.cluster.stream_thread import InjectedCrash, StreamThread
from kstreamnb.simulation.cluster.thread_context import Cluster, ThreadContext
from kstreamnb.topology.partitions import owned_topics
from kstreamnb.topology.topology import Topology

Status = Literal["created", "running", "crashed", "closed"]


class ApplicationLifecycle:
    """Operations on an application; see `Application` for queries.

    Args:
        topology: the topology to run.
        config: the application's settings.
        cluster: the parts that all applications share.
        start: start the application now. Default: True.

    Attributes:
        lock: held while records are processed and stores change; hold it to read stores in another thread.
    """

    def __init__(self, topology: Topology, config: Config, cluster: Cluster, *, start: bool = True) -> None:
        self.id = config.application_id or topology.name or "app"
        self.topology, self.config = topology, replace(config, application_id=self.id)
        self.status: Status = "created"
        self.lock = RLock()
        self._cluster, self._broker, self._clock = cluster, cluster.broker, cluster.clock
        self._events = list[ThreadEvent]()
        recorder = None if cluster.trace is None else cluster.trace.recorder(self.id, topology, self.config)
        self._context = ThreadContext(cluster, self.id, self.config, self._log_event, recorder)
        self._shadow_tasks: dict[str, ShadowTask] | None = {} if cluster.verifies else None
        self._failed: object = ()
        self._thread: StreamThread | None = None
        if start:
            self.restart()

    def commit(self) -> None:
        """Commit now, regardless of the commit interval."""
        self._guarded(StreamThread.commit)

    def crash(self, when: Literal["now", "before_commit", "after_commit"] = "now") -> None:
        """Stop without a commit: now, or at the next commit, just before or just after it.

        Work since the last commit is lost: under exactly-once its output is aborted, under at-least-once it stays and
        is written again. "after_commit" crashes before stores are flushed to the state directory.

        Args:
            when: "now", "before_commit" or "after_commit". Default: "now".

        Raises: EngineError if the application does not run.
        """
        check_arguments(ApplicationLifecycle.crash, locals())
        if when == "now":
            self._crash()
        else:
            self._running_thread().fault = when

    def restart(self, *, strict: bool = True, topology: Topology | None = None) -> ThreadEvents:
        """Start or restart from the committed offsets with stores restored; return the restore events.

        Args:
            strict: refuse to start if partition counts differ from those the state was built for. Default: True.
            topology: new code, which continues with the stores and offsets of the old. Default: the same code.

        Raises: EngineError if the description of the new code differs from that of the old.
        """
        check_arguments(ApplicationLifecycle.restart, locals())
        with self.lock:
            return self._restart(strict, topology)

    def _restart(self, strict: bool, topology: Topology | None) -> ThreadEvents:
        if topology is not None:
            self._take_code(topology)
        if self.status == "running":
            self.close()
        before = len(self._events)
        thread = self._thread = StreamThread(self.topology, self._context, strict=strict)
        self.status = "running"
        if self._shadow_tasks == {}:
            plans = ((task_id, task.task.plan) for task_id, task in thread.tasks.items())
            self._shadow_tasks = {task_id: ShadowTask(plan, self._clock, thread.global_task) for task_id, plan in plans}
        thread.shadow_tasks = self._shadow_tasks or {}
        return ThreadEvents(self._events[before:])("restored")

    def close(self) -> None:
        """Shut down: commit, flush stores, close processors."""
        if self.status == "running":
            self._guarded(StreamThread.close)
        if self.status == "running":
            self.status = "closed"
            self._log_event("closed", "")

    def flush_stores(self) -> None:
        """Flush stores to the state directory, so that a restart need not read the changelog up to here."""
        self._guarded(StreamThread.flush_stores)

    def lose_store(self, name: str | None = None, *, task: str | None = None) -> None:
        """Delete a store from the state directory: one, all of them, or those of one task.

        Args:
            name: name of the store. Default: all stores.
            task: id of the task, such as "0_1". Default: all tasks.
        """
        self._context.state_directory.lose(name, task)

    def clean_up(self) -> None:
        """Delete the state directory, as Kafka's ``cleanUp()`` does; the next start restores stores from changelogs.

        Raises: EngineError if the application is running.
        """
        if self.status == "running":
            fact = f'application "{self.id}" is running'
            raise EngineError(fact, hint="close it first", java="Cannot clean up while running.")
        self.lose_store()

    def reset(self, input_topics: Mapping[str, int] | Iterable[str]) -> None:
        """Reset: the next start reads the input topics from these offsets (default 0), with empty stores.

        Internal topics are deleted; output topics keep their records. Input topics that are not named keep their
        committed offsets.

        Args:
            input_topics: names of input topics, or their start offsets by name; each offset counts for all partitions.

        Raises: EngineError if the application is running, or does not read a topic.
        """
        if not isinstance(input_topics, Mapping):
            input_topics = dict.fromkeys(expect_texts(input_topics, "input topics"), 0)
        self.clean_up()
        read = {topic for source in self.topology.sources() for topic in source.topics}
        for topic, offset in input_topics.items():
            expect_number(offset, "offset")
            at_least(0, offset, "offset")
            if topic not in read:
                raise EngineError(f'application "{self.id}" does not read topic "{topic}"')
        self._broker.forget(self.id, *(owned.name for owned in owned_topics(self.topology, self.id)))
        for topic, offset in input_topics.items():
            for partition, log in enumerate(self._broker.topics[topic]):
                self._broker.committed[self.id, topic, partition] = min(offset, log.end)
        self._shadow_tasks = None  # they have processed all of the input

    def _take_code(self, topology: Topology) -> None:
        if str(topology.describe()) != str(self.topology.describe()):
            fact = f'the new code of application "{self.id}" has a different topology'
            hint = "compare them with ks.testing.diff, or add the new one as another application"
            raise EngineError(fact, detail="its stores and offsets belong to the nodes of the old one", hint=hint)
        self.topology = topology
        self._shadow_tasks = None  # the old code made what is in the stores

    # --- work ---
    @property
    def _tasks(self) -> dict[str, StreamTask]:
        """The tasks of the latest thread, by id."""
        return {} if self._thread is None else self._thread.tasks

    def run_ready(self, limit: int | None = None) -> int:
        """Process records of this application alone, and return how many; `ClusterDriver.run_ready` runs them all.

        Args:
            limit: maximum number of records. Default: None, all that are ready.
        """
        check_arguments(ApplicationLifecycle.run_ready, locals())
        if self.status != "running":
            return 0
        thread, before = self._thread, sum(task.processed for task in self._tasks.values())
        self._guarded(lambda thread: thread.run(limit))
        now = sum(task.processed for task in self._tasks.values())
        return now - before if self._thread is thread else now

    def tick(self) -> None:
        """Run wall-clock punctuators that are due, and commit if the commit interval is over."""
        if self.status == "running":
            self._guarded(StreamThread.tick)

    def _guarded(self, work: Callable[[StreamThread], object]) -> None:
        """Run *work* on the thread; if it fails, crash or restart as the uncaught handler decides."""
        before = len(self._events)
        try:
            with self.lock:
                work(self._running_thread())
        except InjectedCrash as crash:
            self._crash(at=str(crash))
            return
        except Exception as error:
            self._crash()
            if not self._continues_after(error):
                raise
            self.restart()
            self._guarded(work)
            return
        if self._cluster.verifies and any(event.kind == "committed" for event in self._events[before:]):
            self._check()

    def _continues_after(self, error: Exception) -> bool:
        """Ask the uncaught handler whether another thread takes over; never twice for the same record."""
        answer, failed = uncaught_answer(self.config.uncaught_handler, error), getattr(error, "coordinates", None)
        self._log_event("failed", "", answer=answer)
        if answer != "replace_thread":
            return False
        if failed == self._failed:
            hint = "fix the function: every replacement thread fails on this record. Kafka Streams retries for ever."
            error.add_note(f"Hint: {hint}")
            return False
        self._failed = failed
        return True

    def _check(self) -> None:
        """Check that stores, changelogs and input are consistent after a commit."""
        if any(task.needs_commit for task in self._tasks.values()):
            return  # a commit between records; the next one is checked
        result = check_state(self._tasks, self._broker, self._shadow_tasks or {})
        if result.rows:
            raise StateError(f'state of application "{self.id}" is inconsistent after a commit', detail=str(result))

    def _crash(self, at: str = "now") -> None:
        self._running_thread().crash()
        self.status = "crashed"
        if self.config.exactly_once:
            for shadow_task in (self._shadow_tasks or {}).values():
                shadow_task.forget()
        else:
            self._shadow_tasks = None  # reprocessed records count twice
        self._log_event("crashed", "", when=at)

    def _running_thread(self) -> StreamThread:
        if self.status != "running" or self._thread is None:
            raise EngineError(f'application "{self.id}" is {self.status}', hint="start it with restart()")
        return self._thread

    def _log_event(self, kind: str, task: str, subject: str = "", /, **numbers: object) -> None:
        event = ThreadEvent(kind, self.id, task, subject, self._clock.now_ms, numbers)
        self._events.append(event)
        self._cluster.events.append(event)
