"""Runs an application from start to shutdown or crash: polls, records, punctuations and commits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import repeat
from typing import Literal, TypeAlias

from kstreamnb.core.codec import to_bytes
from kstreamnb.errors import EngineError
from kstreamnb.recording import events
from kstreamnb.runtime.context.handlers import RecordProduced
from kstreamnb.runtime.context.record_context import Partition
from kstreamnb.runtime.task.task import StateDelta, Task
from kstreamnb.simulation.cluster.restore import changelog_of, restore_store
from kstreamnb.simulation.cluster.shadow_task import ShadowTask
from kstreamnb.simulation.cluster.stream_task import StreamTask, wire
from kstreamnb.simulation.cluster.thread_context import ThreadContext
from kstreamnb.state.store import Store
from kstreamnb.testdriver.execution.router import Router
from kstreamnb.topology.topology import Topology

Fault: TypeAlias = Literal["before_commit", "after_commit"]

_FLUSHED_AFTER = 10_000  # changelog records between two flushes of a store, as in Kafka


class InjectedCrash(Exception):
    """A crash requested by `Application.crash`."""


class StreamThread:
    """Runs the tasks of an application between start and end.

    Args:
        topology: the topology to run.
        context: the application's settings and surroundings.
        strict: refuse to start if internal topics have unexpected partition counts.
    """

    def __init__(self, topology: Topology, context: ThreadContext, *, strict: bool) -> None:
        config, clock, recorder = context.config, context.cluster.clock, context.recorder
        self.id, self.config, self.broker, self.clock = context.application_id, config, context.cluster.broker, clock
        self.fault: Fault | None = None
        self.shadow_tasks: Mapping[str, ShadowTask] = {}
        self._context, self._recorder, self._log_event = context, recorder, context.log_event
        self._transaction: int | None = None
        self._committed_ms, self._turn = clock.now_ms, 0
        self._loop_rounds, self._rounds_left, self._is_loop_empty = 1, 1, True
        self._flushed: dict[tuple[str, str], int] = {}
        default = context.cluster.default_partitions
        self.router = Router(topology, config, partitions=self.broker.counts(), default_partitions=default)
        for topic, count in self.router.counts.items():
            self._own(topic, count, strict=strict)
        global_plan = self.router.global_plan
        noted = 0 if recorder is None else len(recorder.log)
        self.global_task = None if global_plan is None else Task(global_plan, clock, recorder=recorder)
        self._global_positions: dict[Partition, int] = {}
        if self.global_task is not None:
            self._begin([self.global_task], noted)
            self._fill_global()
        noted = 0 if recorder is None else len(recorder.log)
        tasks = [Task(plan, clock, self.global_task, recorder, changelog="records") for plan in self.router.plans]
        self._own_changelogs(tasks, strict=strict)
        self.tasks = {task.plan.task_id: self._started(task) for task in tasks}
        self._begin(tasks, noted)

    # --- records ---
    def run(self, limit: int | None) -> int:
        """Poll and process until nothing is ready; return the number of records."""
        done = 0
        while limit is None or done < limit:
            polled = self._poll()
            made = self._process(None if limit is None else limit - done)
            done += made
            if not (made or polled):
                break
        return done

    def tick(self) -> None:
        """Handle a clock change: punctuate, and commit if due."""
        self._punctuate(Task.punctuate_wall_clock)
        interval = self.config.commit_interval_ms
        assert interval is not None
        if self.clock.now_ms - self._committed_ms >= interval:
            self.commit()

    def _poll(self) -> int:
        self._fill_global()
        budget = self.config.max_poll_records
        for task in self.tasks.values():
            budget -= task.fetch(budget)
        return self.config.max_poll_records - budget

    def _process(self, limit: int | None) -> int:
        """Process one record of each ready task in turn until none is ready, with punctuations between loops."""
        tasks, done, idle = list(self.tasks.values()), 0, 0
        while idle < len(tasks) and (limit is None or done < limit):
            task = tasks[self._turn % len(tasks)]
            self._turn += 1
            idle += 1
            if task.is_ready(self.clock.now_ms):
                idle, done, self._is_loop_empty = 0, done + 1, False
                self._process_one(task)
            self._rounds_left -= self._turn % len(tasks) == 0
            if not self._rounds_left or idle == len(tasks):
                self._end_loop()
        return done

    def _end_loop(self) -> None:
        """Punctuate; as in Kafka Streams the next loop is half as long after a punctuation, else one round longer."""
        if not self._is_loop_empty:
            fired = self._punctuate(Task.punctuate_stream_time)
            self._loop_rounds = max(self._loop_rounds // 2, 1) if fired else self._loop_rounds + 1
        self._rounds_left, self._is_loop_empty = self._loop_rounds, True

    def _punctuate(self, fire: Callable[[Task], bool]) -> bool:
        """Fire the punctuators of all tasks that are due; return whether there were any."""
        fired = False
        for task in self.tasks.values():
            if fire(task.task):
                fired = task.needs_commit = True
                if task.id in self.shadow_tasks:
                    self.shadow_tasks[task.id].note_punctuation(fire, self.clock.now_ms)
            self._emit(task)
        return fired

    def _process_one(self, task: StreamTask) -> None:
        topic, partition, record = task.process()
        self._log_event("processed", task.id, f"{topic}-{partition}", offset=record[0], timestamp=record[1])
        if task.id in self.shadow_tasks:
            self.shadow_tasks[task.id].note_record(topic, partition, record)
        self._emit(task)
        if task.task.wants_commit:
            self.commit()

    def _fill_global(self) -> None:
        """Load all records of global topics into the global stores."""
        if self.global_task is None:
            return
        for topic, number in [(topic, at) for topic, parts in self.broker.topics.items() for at in range(len(parts))]:
            if self.global_task.plan.source_of(topic) is not None and not self.broker.is_delayed(topic, number):
                start = self._global_positions.get((topic, number), 0)
                partition = self.broker.partition(topic, number)
                result, self._global_positions[topic, number] = partition.read(start, None, self._context.isolation)
                if result:
                    self.global_task.run(topic, number, [wire(record) for record in result])

    def _emit(self, task: StreamTask) -> None:
        """Write the records and store changes that a task produced."""
        positions = self._trace(task)
        rows, changes = task.task.drain(), task.task.drain_changelog()
        if not rows and not changes:
            return
        if self.config.exactly_once and self._transaction is None:
            self._transaction = self.broker.begin()
        for row, position in zip(rows, positions or repeat(-1), strict=False):
            topic, partition, timestamp, key, value, headers = row
            serdes = task.task.topic_serdes(topic)
            if serdes is not None:
                key, value = map(to_bytes, serdes, (key, value))
            self.broker.create(topic, task.task.plan.count(topic))
            offset = self.broker.append(topic, partition, timestamp, (key, value), headers, self._transaction)
            self._log_event("produced", task.id, f"{topic}-{partition}", offset=offset)
            if self._recorder is not None:
                self._recorder.trace.placed[position] = offset, self._transaction
        for change in changes:
            self.broker.append(*change[:3], change[3:5], change.headers, self._transaction)

    def _trace(self, task: StreamTask) -> list[int]:
        """Log events for a task's recorded entries; return the log positions of its produced records."""
        positions: list[int] = []
        if self._recorder is None:
            return positions
        for position, event in self._recorder.news(task.id):
            if isinstance(event, RecordProduced):
                positions.append(position)
            elif isinstance(event, events.Forwarded):
                self._log_event("handed on", task.id, f"{event.node} to {event.child}")
            elif isinstance(event, events.StoreWritten) and event.key is not None:
                self._log_event("stored", task.id, event.store)
            elif isinstance(event, events.Dropped):
                self._log_event("dropped", task.id, event.node, reason=event.reason)
            elif isinstance(event, events.Punctuated):
                self._log_event("punctuated", task.id, event.node, now_ms=event.now_ms)
        return positions

    # --- commits and shutdown ---
    def commit(self) -> None:
        """Flush caches, publish output and commit the input offsets."""
        tasks = [task for task in self.tasks.values() if task.needs_commit or task.task.wants_commit]
        self._committed_ms = self.clock.now_ms
        if not tasks:
            return
        self._loop_rounds = max(self._loop_rounds // 2, 1)
        for task in tasks:
            if self._recorder is not None and not any(store.spec.cached for store in task.task.stores.values()):
                self._recorder.add("committing", task.id, "", None)  # a task with caches says so itself
            task.task.commit()
            self._emit(task)
        self._fail_at("before_commit")
        done: dict[Partition, int] = {}
        for task in tasks:
            for (topic, partition), offset in task.offsets().items():
                self.broker.committed[self.id, topic, partition] = done[topic, partition] = offset
            self.broker.task_states[self.id, task.id] = StateDelta({}, task.task.state_vars())
            task.needs_commit = False
            if task.id in self.shadow_tasks:
                self.shadow_tasks[task.id].commit()
        if self._recorder is not None:
            self._recorder.publish(done)
        self._end_transaction(aborts=False)
        offsets = {f"{topic}-{partition}": offset for (topic, partition), offset in done.items()}
        self._log_event("committed", ", ".join(task.id for task in tasks), **offsets)
        self._fail_at("after_commit")
        for task in () if self.config.exactly_once else tasks:
            self._flush(task, at_least=_FLUSHED_AFTER)

    def flush_stores(self) -> None:
        """Flush every store to the state directory, with the changelog's end offset."""
        for task in self.tasks.values():
            task.task.commit()
            self._emit(task)
            self._flush(task, at_least=0)

    def restore(self, task: Task, store: Store) -> None:
        """Rebuild a store."""
        store.restore({})
        restore_store(task, store, self._context)

    def close(self) -> None:
        """Shut down: commit, flush, close processors."""
        self.commit()
        self.flush_stores()
        for task in self.tasks.values():
            task.task.close()

    def crash(self) -> None:
        """Stop at once: abort the transaction; under exactly-once, discard what tasks flushed since the start, too."""
        if self._recorder is not None:
            self._recorder.add("crashed", "", "", None)
        if self._transaction is not None:
            self._log_event("aborted", "", transaction=self._transaction)
        self._end_transaction(aborts=True)
        for task_id, _ in self._flushed if self.config.exactly_once else ():
            self._context.state_directory.lose(task=task_id)

    def _end_transaction(self, *, aborts: bool) -> None:
        if self._transaction is not None:
            self.broker.end(self._transaction, aborts=aborts)
            if self._recorder is not None:
                self._recorder.end_transaction(self._transaction, aborts=aborts)
            self._transaction = None

    def _fail_at(self, moment: Fault) -> None:
        if self.fault == moment:
            self.fault = None
            raise InjectedCrash(moment)

    def _flush(self, task: StreamTask, at_least: int) -> None:
        for store in task.task.stores.values():
            topic = changelog_of(task.task, store)
            partition = topic or "", task.task.plan.partition
            read = self.broker.committed.get((self.id, *partition), 0)
            end = self.broker.partition(*partition).end if topic is not None and store.spec.logged else read
            if end - self._flushed.get((task.id, store.name), 0) < at_least:
                continue
            if self._context.state_directory.write(task.id, store, end):
                self._flushed[task.id, store.name] = end
                self._log_event("flushed", task.id, store.name, offset=end)

    # --- start ---
    def _begin(self, tasks: Iterable[Task], since: int) -> None:
        """Record the tasks' initial state; their creation started at log length ``since``."""
        if self._recorder is not None:
            self._recorder.begin_run({task.plan.task_id: task for task in tasks}, since=since)

    def _started(self, task: Task) -> StreamTask:
        """Return a task with restored stores, its inputs and positions."""
        plan = task.plan
        topics = [topic for topic, count in self.broker.counts().items() if plan.partition < count]
        inputs = sorted((topic, plan.partition) for topic in topics if plan.source_of(topic) is not None)
        task.context.stream_schedules.hold()
        result = StreamTask(task, inputs, self._context)
        for store in task.stores.values():
            restore_store(task, store, self._context)
        note = self.broker.task_states.get((self.id, plan.task_id))
        if note is not None:
            task.apply_delta(note)
        for partition in result.inputs:
            result.positions[partition] = self.broker.committed.get((self.id, *partition), 0)
        positions = {f"{topic}-{number}": at for (topic, number), at in result.positions.items()}
        self._log_event("started", plan.task_id, "", **positions)
        return result

    def _own(self, topic: str, count: int, *, strict: bool) -> None:
        """Create a topic, or check its partition count."""
        self.broker.create(topic, count)
        actual = len(self.broker.topics[topic])
        if actual == count:
            return
        if strict:
            raise EngineError(
                f'topic "{topic}" has {actual} partitions, but the application needs {count}',
                detail="its records and the state built from them are in the partitions of the old count",
                hint=f"move them with application.repartition({count}), or start over with the reset tool",
                java=f"Existing internal topic {topic} has invalid partitions: expected: {count}; actual: {actual}. "
                "Use 'org.apache.kafka.tools.StreamsResetter' tool to clean up invalid topics before processing.",
            )
        self.broker.add_partitions(topic, max(count, actual))

    def _own_changelogs(self, tasks: list[Task], *, strict: bool) -> None:
        for task in tasks:
            alike = [other for other in tasks if other.plan.subtopologies == task.plan.subtopologies]
            for store in task.stores.values():
                if store.spec.logged:
                    self._own(changelog_of(task, store) or "", len(alike), strict=strict)
