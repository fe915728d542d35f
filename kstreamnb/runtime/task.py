"""The task: one partition of one sub-topology at work.

Records and clock ticks go in, produced rows come out; a task does no input or output of its own, and every engine
uses this one class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import length_hint
from typing import Any, Literal

from kstreamnb.core.clock import Clock
from kstreamnb.core.processor import PunctuationType
from kstreamnb.core.serde import Serde
from kstreamnb.core.wire import to_bytes
from kstreamnb.errors import EngineError, ProcessingError
from kstreamnb.runtime.checkpoint import Checkpointed
from kstreamnb.runtime.events import Committed, Produced, Punctuated, StoreWritten
from kstreamnb.runtime.failures import HandledFailure, Places, processing_error, punctuation_error
from kstreamnb.runtime.handlers import ErrorContext, answer_of
from kstreamnb.runtime.lanes import Lane, WireRecord, is_careful, reader_of
from kstreamnb.runtime.priority_queue import PriorityQueue
from kstreamnb.runtime.punctuation import PunctuationQueue, Schedule
from kstreamnb.runtime.scope import NO_RECORD, Observe, Scope, StoreScope
from kstreamnb.runtime.sinks import topic_serdes
from kstreamnb.runtime.stores import make_stores, store_order
from kstreamnb.runtime.task_plan import TaskPlan
from kstreamnb.runtime.wiring import Guard, Wiring
from kstreamnb.state import Store
from kstreamnb.topology.internal_topics import changelog_topic
from kstreamnb.topology.nodes import ProcessorNode, Sink

__all__ = ["Changelog", "GlobalTask", "Task"]

Changelog = Literal["off", "names", "records"]


class Task(Checkpointed):
    """Runs the nodes of a plan over records that are pushed or handed to it.

    Args:
        plan: what to run.
        clock: the engine's wall clock.
        global_state: the task that keeps the global stores, if there are any.
        observe: gets an event for everything that happens; without it nothing of the kind is made.
        track: note changes, so that deltas can be taken.
        changelog: what to note for `drain_changelog`: "off"; "names", the first records of each store, so that it is
            known which topics were written; or all "records".
        commit_every_record: flush caches after each record, as Kafka's test driver does.
    """

    def __init__(
        self,
        plan: TaskPlan,
        clock: Clock,
        global_state: Task | None = None,
        observe: Observe | None = None,
        *,
        track: bool = False,
        changelog: Changelog = "off",
        commit_every_record: bool = False,
    ) -> None:
        self.plan = plan
        self.scope = scope = Scope(plan, clock, observe)
        self.nodes = plan.nodes()
        self.consumed = 0
        self._global_state = global_state
        self._places = Places()
        self._lanes: dict[tuple[str, int], Lane] = {}
        self._ready: PriorityQueue[Lane] = PriorityQueue(_timestamp if plan.single else _place)
        self._waiting: set[int] = set()
        scope.topic_serdes = topic_serdes(plan, self.nodes)
        scope.stores = make_stores(scope, store_order(plan, self.nodes))
        self._note_changes(track=track, changelog=changelog)
        self._flushing = [store for store in scope.stores.values() if type(store).flush is not Store.flush]
        self._commits = commit_every_record
        self._wire()
        self._forget_changes()

    @property
    def global_state(self) -> Task | None:
        """The task that keeps the global stores; it can be exchanged."""
        return self._global_state

    @global_state.setter
    def global_state(self, other: Task | None) -> None:
        if other is not self._global_state:
            self._global_state = other
            self._wire()

    @property
    def stores(self) -> dict[str, Any]:
        """The task's own stores by name."""
        return self.scope.stores

    def topic_serdes(self, topic: str) -> tuple[Serde, Serde] | None:
        """Key and value serde of the rows this task writes to a topic; None where they are all bytes."""
        return self.scope.topic_serdes.get(topic)

    def push(self, topic: str, partition: int, records: Iterable[WireRecord]) -> None:
        """Let records wait in front of the task."""
        lane = self._lane(topic, partition)
        lane.push(topic, records)
        if id(lane) not in self._waiting and lane.fill():
            self._waiting.add(id(lane))
            self._ready.add(lane)

    def run_ready(self, limit: int | None = None) -> int:
        """Process what waits, least (timestamp, topic, partition, offset) first; gives the number of records."""
        done, ready = 0, self._ready
        while len(ready) and (limit is None or done < limit):
            lane = ready.poll()
            other = ready.peek()
            self._waiting.discard(id(lane))
            if other is None and limit is None and lane.plain:
                done += sum(self._process(lane, chunk, None) for chunk in lane.chunks())
            else:
                bound = None if other is None or self.plan.single else other.place
                left = 1 if self.plan.single else None if limit is None else limit - done
                done += self._process(lane, lane.take(bound, left), None)
            if lane.fill():
                self._waiting.add(id(lane))
                ready.add(lane)
        return done

    def run(
        self, topic: str, partition: int, records: Iterable[WireRecord], marks: list[int] | None = None
    ) -> int:
        """Process records now and in this order, past whatever waits; gives their number.

        ``marks`` gets, after each record, the number of rows produced since the last `drain`.
        """
        lane = self._lane(topic, partition)
        if lane.plain:
            return self._process(lane, iter(records), marks)
        if marks is None:
            lane.push(topic, records)
            return self._process(lane, lane.take(None, None), None)
        done = 0
        for record in records:  # one by one: a record that is refused gets its mark too
            marked = len(marks)
            lane.push(topic, (record,))
            done += self._process(lane, lane.take(None, None), marks)
            if len(marks) == marked:
                marks.append(len(self.scope.out))
        return done

    def punctuate_wall_clock(self) -> bool:
        """Fire the punctuators that are due by the clock; says whether any was."""
        scope = self.scope
        return self._punctuate(scope.wall_schedules, scope.clock.now_ms, PunctuationType.WALL_CLOCK_TIME)

    def commit(self) -> None:
        """Flush the caches; what they held flows on through the task."""
        scope = self.scope
        scope.commit_requested[0] = False
        try:
            for store in self._flushing:
                store.flush()
        except Exception as error:
            raise self._failed(error) from _original(error)
        finally:
            scope.stamp[0] = None
        if scope.observe is not None:
            scope.observe(Committed(self.plan.task_id))

    def drain(self) -> list[Any]:
        """Take the rows produced so far: ``(topic, partition, timestamp, key, value, headers)`` in wire form."""
        rows = self.scope.out[:]
        self.scope.out.clear()
        return rows

    def drain_changelog(self) -> list[Produced]:
        """Take the records for the changelog topics noted so far, with bytes as key and value."""
        rows = []
        for store in self.scope.stores.values():
            if store.spec.kind == "internal" and store.changes is not None:
                store.flush()  # buffers note what came or went only now
            if not store.changes:
                continue
            topic = changelog_topic(self.plan.application_id, store.spec)
            if not self.scope.keeps_changelog:
                rows.append(Produced(topic, self.plan.partition, -1, None, None))
                store.changes = None
                continue
            for raw_key, row, timestamp, headers in store.changes:
                key, value = store.changelog_entry(raw_key, row)
                rows.append(Produced(topic, self.plan.partition, timestamp, key, value, headers))
            store.changes.clear()
        return rows

    def counters(self) -> dict[str, Any]:
        """Records consumed and dropped so far, the latter by node and reason."""
        return {"consumed": self.consumed, "dropped": dict(self.scope.dropped)}

    def close(self) -> None:
        """End the task: users' processors are closed, stores are left as they are."""
        closers = self.scope.closers[::-1]
        self.scope.closers.clear()
        for close in closers:
            close()

    def _wire(self) -> None:
        """Bind all nodes anew; stores and cells stay."""
        scope = self.scope
        for schedules in (scope.stream_schedules, scope.wall_schedules):
            schedules.forget()
        scope.global_stores = {} if self._global_state is None else self._global_state.stores
        self._lanes.clear()
        self._wiring = Wiring(scope, self._places, self.nodes, self._guard())
        order = {name: index for index, name in enumerate(self.nodes)}
        for schedules in (scope.stream_schedules, scope.wall_schedules):
            schedules.sort(order)

    def _lane(self, topic: str, partition: int) -> Lane:
        lane = self._lanes.get((topic, partition))
        return self._open(topic, partition) if lane is None else lane

    def _open(self, topic: str, partition: int) -> Lane:
        source = self.plan.source_of(topic)
        if source is None:
            raise EngineError(f'task "{self.plan.task_id}" does not read topic "{topic}"')
        shared = source.pattern if self.plan.single and source.pattern is not None else topic
        lane = self._lanes.get((shared, partition))
        if lane is None:
            scope = self.scope
            careful = is_careful(source, scope)
            entry = (self._wiring.decoded_entry if careful else self._wiring.entry)(source.name)
            lane = self._lanes[shared, partition] = Lane(source.name, topic, partition, entry, scope.cursor)
            if careful:
                time = scope.cell(source.name, f"partition time {shared}-{partition}", -1)
                lane.read_with(reader_of(source, partition, scope, time))
        self._lanes[topic, partition] = lane
        return lane

    def _process(self, lane: Lane, records: Any, marks: list[int] | None) -> int:
        """The inner loop: every record of a lane through the nodes below its source."""
        scope = self.scope
        cursor, process, stream_time, due = scope.cursor, lane.process, scope.stream_time, scope.stream_schedules.due
        cursor[1:] = lane.topic, lane.partition, lane.source, None
        now, after, before, done = stream_time[0], self._after(marks), length_hint(records), 0
        if before == 0 and after is None:
            after = _nothing
        try:
            if after is None:
                for record in records:
                    _, timestamp, key, value, headers = cursor[0] = record
                    if timestamp > now:
                        now = stream_time[0] = timestamp
                    elif timestamp < 0:
                        raise _negative(lane, record)
                    process(key, value, timestamp, headers)
                    if now >= due[0]:
                        self._punctuate(scope.stream_schedules, now, PunctuationType.STREAM_TIME)
                done = before
            else:
                for record in records:
                    done += 1
                    _, timestamp, key, value, headers = cursor[0] = record
                    if timestamp > now:
                        now = stream_time[0] = timestamp
                    elif timestamp < 0:
                        raise _negative(lane, record)
                    process(key, value, timestamp, headers)
                    if now >= due[0]:
                        self._punctuate(scope.stream_schedules, now, PunctuationType.STREAM_TIME)
                    after()
        except Exception as error:
            done = done or before - length_hint(records)
            raise self._failed(error) from _original(error)
        finally:
            self.consumed += done
            cursor[0], cursor[4] = NO_RECORD, None
            scope.stamp[0] = None
        return done

    def _after(self, marks: list[int] | None) -> Callable[[], None] | None:
        """What is to be done after each record, None for nothing."""
        out, commit = self.scope.out, self.commit
        if self._commits and self._has_to_commit():
            if marks is None:
                return commit

            def commit_and_mark() -> None:
                commit()
                marks.append(len(out))

            return commit_and_mark
        return None if marks is None else lambda: marks.append(len(out))

    def _has_to_commit(self) -> bool:
        """Whether a commit after a record changes anything, or is to be seen."""
        return self.scope.observe is not None or any(
            store.spec.cached or store.changes is not None for store in self._flushing
        )

    def _punctuate(self, schedules: PunctuationQueue, now_ms: int, kind: str) -> bool:
        scope = self.scope
        cursor, stamp, resumed = scope.cursor, scope.stamp, scope.resumed
        held = [*cursor], stamp[0], resumed[0]
        cursor[:] = [(-1, now_ms, None, None, ()), None, -1, "", None]
        stamp[0] = resumed[0] = None
        guard = self._guard()

        def run(schedule: Schedule, now_ms: int) -> None:
            cursor[3] = schedule.node
            if scope.observe is not None:
                scope.observe(Punctuated(self.plan.task_id, schedule.node, kind, now_ms))
            try:
                schedule.punctuate(now_ms)
            except ProcessingError as error:
                if error.node:
                    raise
                raise punctuation_error(scope, self._places, schedule.node, error) from error
            except Exception as error:
                if guard is None or isinstance(error, HandledFailure):
                    raise punctuation_error(scope, self._places, schedule.node, error) from _original(error)
                guard(schedule.node, error, None, None)

        try:
            return schedules.fire(now_ms, run)
        finally:
            cursor[:], stamp[0], resumed[0] = held

    def _guard(self) -> Guard | None:
        """What decides about failures in nodes, None where every failure ends the task."""
        config, scope = self.plan.config, self.scope
        if (config.processing_handler, config.production_handler, config.dead_letter_topic) == ("fail", "fail", None):
            return None
        nodes = self.plan.topology.nodes

        def guard(node: str, error: BaseException, key: Any, value: Any) -> None:
            writes = isinstance(nodes[node], Sink)
            handler = config.production_handler if writes else config.processing_handler
            answer = answer_of(handler, self._error_context(node, writes), error, config.dead_letter_topic)
            scope.out.extend(tuple(letter) for letter in answer.dead_letters)
            if answer.action == "fail":
                raise HandledFailure(node, error) from error
            reason = "production error" if writes else "processing error"
            scope.drop(node, reason, key, value, scope.cursor[0][1], {"error": type(error).__name__})

        return guard

    def _error_context(self, node: str, writes: bool) -> ErrorContext:
        scope = self.scope
        record, _, partition, source_name, raw = scope.cursor
        metadata = scope.metadata()
        stage = "punctuation" if metadata.topic is None else "production" if writes else "processing"
        source = self.plan.topology.nodes.get(source_name)
        bytes_of: tuple[bytes | None, bytes | None] = (None, None)
        if metadata.topic is not None and source is not None and not isinstance(source, (ProcessorNode, Sink)):
            wire = raw or record
            bytes_of = (
                to_bytes(self.plan.key_serde(source.key_serde), wire[2]),
                to_bytes(self.plan.value_serde(source.value_serde), wire[3]),
            )
        return ErrorContext(
            stage, node, self.plan.task_id, metadata.topic, partition, metadata.offset, record[1], record[4], *bytes_of
        )

    def _failed(self, error: Exception) -> ProcessingError:
        """The error that the task raises; one that says its node already is taken as it is."""
        if isinstance(error, ProcessingError) and error.node:
            return error
        return processing_error(self.scope, self._places, error)

    def _note_changes(self, *, track: bool, changelog: Changelog) -> None:
        observe, task = self.scope.observe, self.plan.task_id
        self._journals = {} if track else None
        self.scope.keeps_changelog = changelog == "records"
        for name, store in self.scope.stores.items():
            if changelog == "off":
                store.changes = None
            journal: list[Any] | None = None
            if observe is not None:
                journal = _Watched(task, name, observe, keep=track)
            elif track:
                journal = []
            if self._journals is not None and journal is not None:
                self._journals[name] = journal
            store.journal = journal


class GlobalTask(Task):
    """Keeps the global stores: every record of their topics goes into them at once, whatever its partition."""


class _Watched(list[Any]):
    """A journal that tells an observer of every entry."""

    def __init__(self, task: str, store: str, observe: Observe, *, keep: bool) -> None:
        super().__init__()
        self._about, self._observe, self._keep = (task, store), observe, keep

    def append(self, entry: Any) -> None:
        """Tell of an entry, and keep it where deltas are made of it."""
        self._observe(StoreWritten(*self._about, *entry))
        if self._keep:
            super().append(entry)


def _place(lane: Lane) -> tuple[int, str, int, int]:
    return lane.place


def _timestamp(lane: Lane) -> int:
    return lane.timestamp


def _nothing() -> None:
    """After a record that is merely counted."""


def _original(error: Exception) -> BaseException | None:
    """What an error is to be raised from: the user's own, not the wrapper of a handler's decision."""
    if isinstance(error, HandledFailure):
        return error.error
    return error.__cause__ if isinstance(error, ProcessingError) and error.node else error


def _negative(lane: Lane, record: WireRecord) -> ProcessingError:
    error = ProcessingError(
        f'a record of topic "{lane.topic}" has the negative timestamp {record[1]}',
        detail=f"partition {lane.partition}, offset {record[0]}",
        hint="choose another timestamp extractor for the topic",
        java="has invalid (negative) timestamp.",
    )
    error.node = lane.source
    error.coordinates = (lane.topic, lane.partition, record[0], record[1])
    return error
