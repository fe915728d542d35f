"""The lives of an application: starts, commits, crashes, its end, and what it leaves on its disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

from kstreamnb.core.time import Clock
from kstreamnb.errors import EngineError, StateError
from kstreamnb.runtime.context.config import Config
from kstreamnb.runtime.context.handlers import uncaught_answer
from kstreamnb.simulation.cluster.broker import Broker
from kstreamnb.simulation.cluster.events import ThreadEvent, ThreadEvents
from kstreamnb.simulation.cluster.shadow_task import ShadowTask
from kstreamnb.simulation.cluster.state_check import check_state
from kstreamnb.simulation.cluster.state_directory import StateDirectory
from kstreamnb.simulation.cluster.stream_task import StreamTask
from kstreamnb.simulation.cluster.stream_thread import InjectedCrash, StreamThread
from kstreamnb.simulation.cluster.trace import ClusterTrace
from kstreamnb.topology.partitions import owned_topics
from kstreamnb.topology.topology import Topology

__all__ = ["ApplicationLifecycle", "Status"]

Status = Literal["created", "running", "crashed", "closed"]


class ApplicationLifecycle:
    """What can be done to an application: see `Application` for what can be asked of it."""

    def __init__(
        self,
        topology: Topology,
        config: Config,
        broker: Broker,
        clock: Clock,
        note: Callable[[ThreadEvent], None],
        *,
        default_partitions: int,
        trace: ClusterTrace | None,
        verify: bool,
        start: bool = True,
    ) -> None:
        self.id = config.application_id or topology.name or "app"
        self.topology, self.config = topology, replace(config, application_id=self.id)
        self.status: Status = "created"
        self._broker, self._clock, self._note = broker, clock, note
        self._partitions, self._trace, self._verifies = default_partitions, trace, verify
        self._recorder = None if trace is None else trace.recorder(self.id, topology, self.config)
        self._state_directory, self._events = StateDirectory(), list[ThreadEvent]()
        self._shadow_tasks: dict[str, ShadowTask] = {}
        self._has_shadow_tasks = verify
        self._failed: Any = ()
        self._thread: StreamThread | None = None
        if start:
            self.restart()

    def commit(self) -> None:
        """Commit now, whatever the interval says."""
        self._guarded(StreamThread.commit)

    def crash(self, when: Literal["now", "before_commit", "after_commit"] = "now") -> None:
        """End without a commit: now, or at the next commit, just before or just after it is made.

        What was processed since the last commit is lost: under exactly once what it had written disappears, under
        at least once it stays and will be written again. "after_commit" is before stores are flushed to the disk.
        """
        if when == "now":
            self._crash()
        else:
            self._running_thread().fault = when

    def restart(self, *, strict: bool = True) -> ThreadEvents:
        """Start, or start again: from the committed offsets, with stores restored; gives what was restored.

        ``strict=False`` starts even when topics have got other numbers of partitions than the state was made for.
        """
        if self.status == "running":
            self.close()
        before = len(self._events)
        thread = self._thread = StreamThread(
            self.id,
            self.topology,
            self.config,
            self._broker,
            self._clock,
            self._state_directory,
            self._log_event,
            default_partitions=self._partitions,
            recorder=self._recorder,
            strict=strict,
        )
        self.status = "running"
        if self._has_shadow_tasks and not self._shadow_tasks:
            self._shadow_tasks = {
                task_id: ShadowTask(task.task.plan, self._clock, thread.global_task)
                for task_id, task in thread.tasks.items()
            }
        thread.shadow_tasks = self._shadow_tasks
        return ThreadEvents(self._events[before:])("restored")

    def close(self) -> None:
        """End in order: commit, flush stores to the disk, close processors."""
        if self.status == "running":
            self._guarded(StreamThread.close)
        if self.status == "running":
            self.status = "closed"
            self._log_event("closed", "")

    def flush_stores(self) -> None:
        """Flush stores to the disk, so that a restart need not read the changelog before this point."""
        self._guarded(StreamThread.flush_stores)

    def lose_store(self, name: str | None = None, *, task: str | None = None) -> None:
        """Let the disk lose a store, all of them, or those of one task."""
        self._state_directory.lose(name, task)

    def clean_up(self) -> None:
        """Delete what is on the disk, as Kafka's ``cleanUp()`` does; the next start restores stores from changelogs.

        Raises: EngineError when the application is running.
        """
        if self.status == "running":
            raise EngineError(
                f'application "{self.id}" is running', hint="close it first", java="Cannot clean up while running."
            )
        self.lose_store()

    def reset(self, input_topics: Mapping[str, int] | Iterable[str]) -> None:
        """Begin anew with the next start: at offsets of the input topics, or where these begin, and with empty stores.

        Internal topics are deleted; output topics keep what they have. Input topics that are not named stay where the
        application has come to.

        Raises: EngineError when the application is running, or does not read a topic.
        """
        self.clean_up()
        asked = input_topics if isinstance(input_topics, Mapping) else dict.fromkeys(input_topics, 0)
        read = {topic for source in self.topology.sources() for topic in source.topics}
        for topic in asked:
            if topic not in read:
                raise EngineError(f'application "{self.id}" does not read topic "{topic}"')
        self._broker.forget(self.id, *(owned.name for owned in owned_topics(self.topology, self.id)))
        for topic, offset in asked.items():
            for partition, log in enumerate(self._broker.topics[topic]):
                self._broker.committed[self.id, topic, partition] = min(offset, log.end)
        self._shadow_tasks, self._has_shadow_tasks = {}, False  # they have read all of the input

    # --- for the driver ---
    @property
    def _tasks(self) -> dict[str, StreamTask]:
        """The tasks of the last life, by id."""
        return {} if self._thread is None else self._thread.tasks

    def _run(self, limit: int | None) -> int:
        if self.status != "running":
            return 0
        thread, before = self._thread, sum(task.processed for task in self._tasks.values())
        self._guarded(lambda thread: thread.run(limit))
        now = sum(task.processed for task in self._tasks.values())
        return now - before if self._thread is thread else now

    def _tick(self) -> None:
        if self.status == "running":
            self._guarded(StreamThread.tick)

    def _guarded(self, work: Callable[[StreamThread], Any]) -> None:
        """Let the loop do something; when that fails, the application has crashed, or goes on from its last commit."""
        commits = sum(event.kind == "committed" for event in self._events) if self._verifies else 0
        try:
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
        if self._verifies and sum(event.kind == "committed" for event in self._events) > commits:
            self._check()

    def _continues_after(self, error: Exception) -> bool:
        """Ask the uncaught handler whether another thread is to take over; not for the same record once more."""
        answer, failed = uncaught_answer(self.config.uncaught_handler, error), getattr(error, "coordinates", None)
        self._log_event("failed", "", answer=answer)
        if answer != "replace_thread":
            return False
        if failed == self._failed:
            error.add_note("Hint: every thread that takes over fails on this record; Kafka Streams would never end.")
            return False
        self._failed = failed
        return True

    def _check(self) -> None:
        """S0-09: after a commit stores, changelogs and input are in step."""
        if any(task.needs_commit for task in self._tasks.values()):
            return  # a commit came between records; the next one is looked at
        result = check_state(self._tasks, self._broker, self._shadow_tasks)
        if result.rows:
            raise StateError(f'state of application "{self.id}" is inconsistent after a commit', detail=str(result))

    def _crash(self, at: str = "now") -> None:
        self._running_thread().crash()
        self.status = "crashed"
        if self.config.exactly_once:
            for shadow_task in self._shadow_tasks.values():
                shadow_task.forget()
        else:
            self._shadow_tasks, self._has_shadow_tasks = {}, False  # what is processed again is in the stores twice
        self._log_event("crashed", "", when=at)

    def _running_thread(self) -> StreamThread:
        if self.status != "running" or self._thread is None:
            raise EngineError(f'application "{self.id}" is {self.status}', hint="restart() starts it")
        return self._thread

    def _log_event(self, kind: str, task: str, subject: str = "", /, **numbers: Any) -> None:
        event = ThreadEvent(kind, self.id, task, subject, self._clock.now_ms, numbers)
        self._events.append(event)
        self._note(event)
