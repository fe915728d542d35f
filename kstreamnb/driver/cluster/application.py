"""An application in a cluster driver: what it runs, and what can be done to it and asked of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from kstreamnb.core.serde import Serde
from kstreamnb.core.time import Clock
from kstreamnb.driver.cluster.broker import Broker
from kstreamnb.driver.cluster.chronicle import Chronicle
from kstreamnb.driver.cluster.cluster_run import runs_of
from kstreamnb.driver.cluster.disk import Disk
from kstreamnb.driver.cluster.loop import InjectedCrash, Loop
from kstreamnb.driver.cluster.loop_events import LoopEvent, LoopEvents
from kstreamnb.driver.cluster.moving import move_state
from kstreamnb.driver.cluster.state_check import check_state
from kstreamnb.driver.cluster.twin import Twin
from kstreamnb.driver.replay import Replay
from kstreamnb.driver.state_check import StateCheck
from kstreamnb.driver.store_views import view_of
from kstreamnb.driver.wording import counted
from kstreamnb.errors import EngineError, StateError
from kstreamnb.runtime.config import Config
from kstreamnb.runtime.handlers import uncaught_answer
from kstreamnb.topology.topology import Topology

__all__ = ["Application"]

Status = Literal["running", "crashed", "closed"]


class Application:
    """One application: a group of tasks that commits together.

    Attributes:
        id: the application's id: the name of its group, and the prefix of its internal topics.
        status: "running", "crashed" or "closed".

    Example:
        >>> from kstreamnb import ClusterDriver, StreamsBuilder
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
    """

    def __init__(
        self,
        topology: Topology,
        config: Config,
        broker: Broker,
        clock: Clock,
        note: Callable[[LoopEvent], None],
        *,
        default_partitions: int,
        chronicle: Chronicle | None,
        verify: bool,
    ) -> None:
        self.id = config.application_id or topology.name or "app"
        self.topology, self.config = topology, replace(config, application_id=self.id)
        self.status: Status = "closed"
        self._broker, self._clock, self._note = broker, clock, note
        self._partitions, self._chronicle, self._verifies = default_partitions, chronicle, verify
        self._part = None if chronicle is None else chronicle.part(self.id, topology, self.config)
        self._disk, self._events = Disk(), list[LoopEvent]()
        self._twins: dict[str, Twin] = {}
        self._has_twins = verify
        self._failed: Any = ()
        self.restart()

    def __repr__(self) -> str:
        return f'<application "{self.id}", {self.status}, {counted(len(self._loop.tasks), "task")}>'

    @property
    def events(self) -> LoopEvents:
        """What has happened to this application."""
        return LoopEvents(self._events)

    @property
    def committed(self) -> dict[str, int]:
        """For each input partition the offset from which it would go on after a crash."""
        mine = {place[1:]: offset for place, offset in self._broker.committed.items() if place[0] == self.id}
        return {f"{topic}-{partition}": offset for (topic, partition), offset in mine.items()}

    def store(self, name: str) -> Any:
        """A view of a store over all tasks; raises StateError when there is none of that name."""
        found = [task.task.stores[name] for task in self._alive().tasks.values() if name in task.task.stores]
        task = self._loop.global_task
        found += [task.stores[name]] if task is not None and name in task.stores else []
        if not found:
            raise StateError(f'there is no store "{name}"', hint=f"there are {', '.join(self.topology.stores)}")
        view = view_of(name, found)
        return found[0] if view is None else view  # an empty view is false

    def replay(self) -> Replay:
        """What this application has done so far, through all its lives, to be walked through and asked about.

        Steps are records, punctuations, commits, crashes and restarts, those of other applications too, so that the
        replays of all applications count alike; journeys and lineages go from application to application. Outputs
        are what a reader of committed records has seen by then.

        Raises: EngineError when the driver was made with ``trace=False``.
        """
        if self._chronicle is None:
            raise EngineError("nothing was recorded", hint="make the driver with ClusterDriver(…, trace=True)")
        return Replay(runs_of(self._chronicle, self._broker)[self.id])

    def commit(self) -> None:
        """Commit now, whatever the interval says."""
        self._guarded(Loop.commit)

    def crash(self, when: Literal["now", "before_commit", "after_commit"] = "now") -> None:
        """End without a commit: now, or at the next commit, just before or just after it is made.

        What was processed since the last commit is lost: under exactly once what it had written disappears, under
        at least once it stays and will be written again. "after_commit" is before stores are flushed to the disk.
        """
        if when == "now":
            self._die()
        else:
            self._alive().fault = when

    def restart(self, *, strict: bool = True) -> LoopEvents:
        """Start, or start again: from the committed offsets, with stores restored; gives what was restored.

        ``strict=False`` starts even when topics have got other numbers of partitions than the state was made for.
        """
        if self.status == "running":
            self.close()
        before = len(self._events)
        self._loop = Loop(
            self.id,
            self.topology,
            self.config,
            self._broker,
            self._clock,
            self._disk,
            self._say,
            default_partitions=self._partitions,
            part=self._part,
            strict=strict,
        )
        self.status = "running"
        if self._has_twins and not self._twins:
            self._twins = {
                task_id: Twin(task.task.plan, self._clock, self._loop.global_task)
                for task_id, task in self._loop.tasks.items()
            }
        self._loop.twins = self._twins
        return LoopEvents(self._events[before:])("restored")

    def close(self) -> None:
        """End in order: commit, flush stores to the disk, close processors."""
        if self.status == "running":
            self._guarded(Loop.close)
        if self.status == "running":
            self.status = "closed"
            self._say("closed", "")

    def flush_stores(self) -> None:
        """Flush stores to the disk, so that a restart need not read the changelog before this point."""
        self._guarded(Loop.flush_stores)

    def lose_store(self, name: str | None = None, *, task: str | None = None) -> None:
        """Let the disk lose a store, all of them, or those of one task."""
        self._disk.lose(name, task)

    def verify_state(self) -> StateCheck:
        """Compare every store with what its changelog makes, row by row."""
        return check_state(self._alive().tasks, self._broker, {})

    def rebuild(self, name: str) -> None:
        """Throw a store away and make it anew from its changelog."""
        self._disk.lose(name)
        for task in self._alive().tasks.values():
            store = task.task.stores.get(name)
            if store is not None:
                self._loop.restore(task.task, store)

    def repartition(self, partitions: int) -> int:
        """Move the state of an ended application to another number of partitions; gives the rows that moved.

        Every row goes where its key belongs among so many partitions, as the input's new records do.
        """
        if self.status == "running":
            raise EngineError(f'application "{self.id}" is running', hint="close it first")
        tasks = [task.task for task in self._loop.tasks.values()]
        self._disk.lose()
        self._twins, self._has_twins = {}, False
        return move_state(tasks, partitions, self._broker, self._clock, self._say)

    def metrics(self) -> dict[str, dict[str, int]]:
        """Metrics under Kafka's names, by task."""
        tasks = self._loop.tasks
        return {
            "process-total": {task_id: task.processed for task_id, task in tasks.items()},
            "enforced-processing-total": {task_id: task.enforced for task_id, task in tasks.items()},
            "dropped-records-total": {
                task_id: sum(task.task.counters()["dropped"].values()) for task_id, task in tasks.items()
            },
        }

    # --- for the driver ---
    def _run(self, limit: int | None) -> int:
        if self.status != "running":
            return 0
        loop, before = self._loop, sum(task.processed for task in self._loop.tasks.values())
        self._guarded(lambda loop: loop.run(limit))
        now = sum(task.processed for task in self._loop.tasks.values())
        return now - before if self._loop is loop else now

    def _tick(self) -> None:
        if self.status == "running":
            self._guarded(Loop.tick)

    def _read_serdes(self, topic: str) -> tuple[Serde, Serde] | None:
        """With which serdes a topic is read."""
        plans = [task.task.plan for task in self._loop.tasks.values()]
        plans += [] if self._loop.global_task is None else [self._loop.global_task.plan]
        for plan in plans:
            source = plan.source_of(topic)
            if source is not None:
                return plan.key_serde(source.key_serde), plan.value_serde(source.value_serde)
        return None

    def _written_serdes(self, topic: str) -> tuple[Serde, Serde] | None:
        """With which serdes a topic is written."""
        found = (task.task.topic_serdes(topic) for task in self._loop.tasks.values())
        return next((serdes for serdes in found if serdes is not None), None)

    def _guarded(self, work: Callable[[Loop], Any]) -> None:
        """Let the loop do something; when that fails, the application has crashed, or goes on from its last commit."""
        commits = sum(event.kind == "committed" for event in self._events) if self._verifies else 0
        try:
            work(self._alive())
        except InjectedCrash as crash:
            self._die(at=str(crash))
            return
        except Exception as error:
            self._die()
            if not self._goes_on_after(error):
                raise
            self.restart()
            self._guarded(work)
            return
        if self._verifies and sum(event.kind == "committed" for event in self._events) > commits:
            self._check()

    def _goes_on_after(self, error: Exception) -> bool:
        """Ask the uncaught handler whether another thread is to take over; not for the same record once more."""
        answer, failed = uncaught_answer(self.config.uncaught_handler, error), getattr(error, "coordinates", None)
        self._say("failed", "", answer=answer)
        if answer != "replace_thread":
            return False
        if failed == self._failed:
            error.add_note("Hint: every thread that takes over fails on this record; Kafka Streams would never end.")
            return False
        self._failed = failed
        return True

    def _check(self) -> None:
        """S0-09: after a commit stores, changelogs and input are in step."""
        if any(task.needs_commit for task in self._loop.tasks.values()):
            return  # a commit came between records; the next one is looked at
        found = check_state(self._loop.tasks, self._broker, self._twins)
        if found.rows:
            raise StateError(f'state of application "{self.id}" is inconsistent after a commit', detail=str(found))

    def _die(self, at: str = "now") -> None:
        self._alive().die()
        self.status = "crashed"
        if self.config.exactly_once:
            for twin in self._twins.values():
                twin.forget()
        else:
            self._twins, self._has_twins = {}, False  # what is processed again is in the stores twice
        self._say("crashed", "", when=at)

    def _alive(self) -> Loop:
        if self.status != "running":
            raise EngineError(f'application "{self.id}" is {self.status}', hint="restart() starts it again")
        return self._loop

    def _say(self, kind: str, task: str, place: str = "", /, **numbers: Any) -> None:
        event = LoopEvent(kind, self.id, task, place, self._clock.now_ms, numbers)
        self._events.append(event)
        self._note(event)
