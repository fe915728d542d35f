"""The task: one partition of one sub-topology at work.

Records and clock ticks go in, produced rows come out; a task does no input or output of its own, and every engine
uses this one class.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

from kstreamnb.core.clock import Clock
from kstreamnb.core.processor import PunctuationType
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.serde import Serde
from kstreamnb.errors import EngineError, ProcessingError
from kstreamnb.runtime.checkpoint import Checkpointed
from kstreamnb.runtime.cursor import NO_RECORD, WireRecord
from kstreamnb.runtime.events import Committed, Produced, Punctuated, StoreWritten
from kstreamnb.runtime.failures import HandledFailure, Places, negative_timestamp, processing_error, punctuation_error
from kstreamnb.runtime.guard import guard_of
from kstreamnb.runtime.lanes import Lane, is_careful, reader_of
from kstreamnb.runtime.loops import TOPIC_RECORDS, WIRE_RECORDS, Loop, NegativeTimestamp, collector_paused
from kstreamnb.runtime.priority_queue import PriorityQueue
from kstreamnb.runtime.punctuation import PunctuationQueue, Schedule
from kstreamnb.runtime.scope import Observe, Scope
from kstreamnb.runtime.sinks import topic_serdes
from kstreamnb.runtime.stores import make_stores, store_order
from kstreamnb.runtime.task_plan import TaskPlan
from kstreamnb.runtime.wiring import Wiring
from kstreamnb.state import Store
from kstreamnb.topology.internal_topics import changelog_topic

__all__ = ["Changelog", "GlobalTask", "Task"]

Changelog = Literal["off", "names", "records"]

_CHUNK = 250_000


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
        self._loops: dict[tuple[str, str, bool], Loop] = {}
        self._seen: list[int] = []
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
            try:
                if other is None and limit is None and lane.plain:
                    done += self._in_bulk(lane, lane.rest(), None, None)
                else:
                    bound = None if other is None or self.plan.single else other.place
                    left = 1 if self.plan.single else None if limit is None else limit - done
                    done += self._one_by_one(lane, lane.take(bound, left), None)
            finally:
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
            return self._in_bulk(lane, records if isinstance(records, list) else list(records), None, marks)
        lane.push(topic, records)
        return self._one_by_one(lane, lane.take(None, None), marks)

    def run_records(self, topic: str, partition: int, records: list[TopicRecord], first: int) -> int:
        """The same for records as users have them, whose offsets count from ``first``; only where `takes_records`."""
        return self._in_bulk(self._lane(topic, partition), records, first, None)

    def takes_records(self, topic: str) -> bool:
        """Whether `run_records` can be used: nothing has to be looked at, seen or committed between two records."""
        return self._lane(topic, 0).plain and self._is_fast()

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
        self._loops.clear()
        self._wiring = Wiring(scope, self._places, self.nodes, guard_of(scope))
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
            scope, careful = self.scope, is_careful(source, self.scope)
            entry = self._wiring.entry(source.name, decoded=careful)
            lane = self._lanes[shared, partition] = Lane(source.name, topic, partition, entry, scope.cursor)
            if careful:
                time = scope.cell(source.name, f"partition time {shared}-{partition}", -1)
                lane.read_with(reader_of(source, partition, scope, time))
        self._lanes[topic, partition] = lane
        return lane

    def _is_fast(self) -> bool:
        """Whether records can go through in bulk."""
        return self.scope.observe is None and guard_of(self.scope) is None and not self._has_to_commit()

    def _in_bulk(self, lane: Lane, records: list[Any], first: int | None, marks: list[int] | None) -> int:
        """All records of a plain lane in one loop, if nothing has to happen between them."""
        if not self._is_fast():
            return self._one_by_one(lane, iter(records), marks)
        shape = WIRE_RECORDS if first is None else TOPIC_RECORDS
        loop, seen = self._loop(lane.source, shape, marked=marks is not None), self._seen
        done = 0
        while done < len(records):
            chunk = records if len(records) <= _CHUNK else records[done : done + _CHUNK]
            iterator = iter(chunk)
            offset = None if first is None else first + done
            self.scope.cursor.within(chunk, iterator, lane.topic, lane.partition, lane.source, offset)
            try:
                with collector_paused():
                    now = loop(iterator, self.scope.stream_time[0])
                    if now >= self.scope.stream_schedules.due[0]:
                        self._punctuate_stream(now)
                done += len(chunk)
                self.consumed += len(chunk)
            except Exception as error:
                rest = [*iterator, *records[done + len(chunk) :]]
                self.consumed += len(records) - len(rest)
                if first is None:
                    lane.push(lane.topic, rest)
                raise self._failed(error) from _original(error)
            finally:
                self._leave()
        if marks is not None and records:
            marks += seen[1:]
            marks.append(len(self.scope.out))
            seen.clear()
        return done

    def _loop(self, source: str, shape: str, *, marked: bool) -> Loop:
        loop = self._loops.get((source, shape, marked))
        if loop is None:
            out, see = self.scope.out, self._seen.append
            mark = (lambda: see(len(out))) if marked else None
            loop = self._loops[source, shape, marked] = self._wiring.loop(source, shape, self._punctuate_stream, mark)
        return loop

    def _one_by_one(self, lane: Lane, records: Iterator[WireRecord], marks: list[int] | None) -> int:
        """Records of a lane with all that may happen between them: looks, events, commits."""
        scope, process, done = self.scope, lane.process, 0
        cursor, stream_time, due = scope.cursor, scope.stream_time, scope.stream_schedules.due
        cursor.at(NO_RECORD, lane.topic, lane.partition, lane.source)
        try:
            for record in records:
                done += 1
                cursor.step(record)
                _, timestamp, key, value, headers = record
                if timestamp < 0:
                    raise NegativeTimestamp
                if timestamp > stream_time[0]:
                    stream_time[0] = timestamp
                process(key, value, timestamp, headers)
                if stream_time[0] >= due[0]:
                    self._punctuate_stream(stream_time[0])
                if self._has_to_commit():
                    self.commit()
                if marks is not None:
                    marks.append(len(scope.out))
        except Exception as error:
            raise self._failed(error) from _original(error)
        finally:
            self.consumed += done
            self._leave()
        return done

    def _leave(self) -> None:
        self.scope.cursor.leave()
        self.scope.stamp[0] = None

    def _has_to_commit(self) -> bool:
        """Whether a commit after a record changes anything, or is to be seen."""
        return self._commits and (
            self.scope.observe is not None
            or any(store.spec.cached or store.changes is not None for store in self._flushing)
        )

    def _punctuate_stream(self, now_ms: int) -> None:
        self._punctuate(self.scope.stream_schedules, now_ms, PunctuationType.STREAM_TIME)

    def _punctuate(self, schedules: PunctuationQueue, now_ms: int, kind: str) -> bool:
        scope, guard = self.scope, guard_of(self.scope)
        cursor, stamp, resumed = scope.cursor, scope.stamp, scope.resumed
        held = cursor.hold(), stamp[0], resumed[0]
        stamp[0] = resumed[0] = None

        def run(schedule: Schedule, now_ms: int) -> None:
            cursor.at((-1, now_ms, None, None, ()), None, -1, schedule.node)
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
            cursor.give_back(held[0])
            stamp[0], resumed[0] = held[1:]

    def _failed(self, error: Exception) -> ProcessingError:
        """The error that the task raises; one that says its node already is taken as it is."""
        if isinstance(error, ProcessingError) and error.node:
            return error
        if isinstance(error, NegativeTimestamp):
            return negative_timestamp(self.scope)
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


def _original(error: Exception) -> BaseException | None:
    """What an error is to be raised from: the user's own, not the wrapper of a handler's decision."""
    if isinstance(error, HandledFailure):
        return error.error
    if isinstance(error, NegativeTimestamp):
        return None
    return error.__cause__ if isinstance(error, ProcessingError) and error.node else error
