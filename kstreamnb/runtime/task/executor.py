"""Executes a task: runs queued records, punctuations and commits through its compiled nodes.

Where nothing has to happen between two records they go through in bulk, by a loop made for their source; else one by
one. Whatever fails comes out as an error that says on which node and which record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

from kstreamnb.core.extractors import negative_timestamp
from kstreamnb.core.heap import collector_paused
from kstreamnb.core.processor import PunctuationType
from kstreamnb.errors import EngineError, ProcessingError
from kstreamnb.runtime.codegen.error_location import (
    ErrorLocations,
    HandledFailure,
    guard_of,
    is_interruption,
    original,
    processing_error,
    punctuation_error,
)
from kstreamnb.runtime.codegen.event_lines import end_lines
from kstreamnb.runtime.codegen.function_builder import FunctionBuilder
from kstreamnb.runtime.codegen.record_loop import INTERLEAVED, TOPIC_RECORDS, WIRE_RECORDS, Loop, NegativeTimestamp
from kstreamnb.runtime.codegen.task_compiler import TaskCompiler
from kstreamnb.runtime.context.punctuation import PunctuationQueue, Schedule
from kstreamnb.runtime.context.record_context import NO_RECORD, Batch, Partition, WireRecord
from kstreamnb.runtime.context.record_queue import RecordQueue, is_careful, reader_of
from kstreamnb.runtime.context.task_context import CellWatch, TaskContext
from kstreamnb.state import Store

_FEW, _CHUNK = 8, 250_000


class Executor:
    """Bound nodes, and the ways to set them to work; ``consumed`` counts the records taken."""

    def __init__(self, scope: TaskContext, nodes: tuple[str, ...], *, commit_every_record: bool) -> None:
        self.scope, self.nodes = scope, nodes
        self.consumed = 0
        self._commits = commit_every_record
        self._flushing = [store for store in scope.stores.values() if type(store).flush is not Store.flush]
        self._seen: list[int] = []
        self._first = [0]

    def wire(self) -> None:
        """Bind all nodes, or bind them again; stores and state variables stay."""
        scope = self.scope
        for schedules in (scope.stream_schedules, scope.wall_schedules):
            schedules.forget()
        self._places = ErrorLocations()
        self._lanes: dict[tuple[str, int], RecordQueue] = {}
        self._loops: dict[tuple[tuple[str, str, int], str, bool], Loop] = {}
        self._guard, recorder = guard_of(scope), scope.recorder
        self._cells: CellWatch | None = None
        self._wiring = TaskCompiler(scope, self._places, self.nodes, self._guard)
        order = {name: index for index, name in enumerate(self.nodes)}
        for schedules in (scope.stream_schedules, scope.wall_schedules):
            schedules.sort(order)
        if recorder is not None:
            self._cells = recorder.watch(scope.plan.task_id, scope.cells)

    def lane(self, topic: str, partition: int) -> RecordQueue:
        """The lane in front of a partition."""
        lane = self._lanes.get((topic, partition))
        return self._open(topic, partition) if lane is None else lane

    def is_fast(self) -> bool:
        """Return whether records can be processed in bulk: nothing is observed, caught or committed between them."""
        return self._guard is None and not self._has_to_flush()

    def bulk(self, lane: RecordQueue, records: list[Any], first: int | None, marks: list[int] | None) -> int:
        """All records of a plain lane, in one loop if possible; ``first`` is the offset of a list of topic records."""
        if (len(records) <= _FEW and first is None) or not self.is_fast():
            return self.steps(lane, iter(records), marks)
        shape = WIRE_RECORDS if first is None else TOPIC_RECORDS
        loop, done, marked = self._loop(lane, shape, marked=marks is not None), 0, self._seen
        while done < len(records):
            chunk = records if len(records) <= _CHUNK else records[done : done + _CHUNK]
            try:
                start = None if first is None else first + done
                batch = Batch(chunk, lane.topic, lane.partition, lane.source, start)
                self._bulk(loop, batch, start)
            except ProcessingError:
                rest = [*batch.iterator, *records[done + len(chunk) :]]
                self.consumed += len(records) - done - len(rest)
                if marks is not None:
                    marks += marked[1:]
                elif first is None:
                    lane.push(lane.topic, rest)
                marked.clear()
                raise
            done += len(chunk)
            self.consumed += len(chunk)
        if marks is not None and records:
            # The loop marks at its head: how far the output was when the record before had been processed.
            marks += [*marked[1:], len(self.scope.out)]
            marked.clear()
        return done

    @contextmanager
    def interleave(
        self, batch: Batch, first: Mapping[Partition, int]
    ) -> Iterator[dict[Partition, Callable[[Any], None]]]:
        """For each partition what takes its next topic record, in turn with other tasks; only if records can be taken.

        ``batch`` holds the records of all tasks; ``first`` are the offsets from which this task's partitions count.
        """
        scope, turns = self.scope, dict[Partition, Any]()
        scope.cursor.within(batch)
        for place, self._first[0] in first.items():
            turns[place] = self._loop(self.lane(*place), INTERLEAVED)(None, scope.stream_time[0])
            next(turns[place])
        try:
            yield {place: turn.send for place, turn in turns.items()}
        except BaseException as error:
            if batch.place_of(batch.index())[:2] not in turns:  # another task has failed
                raise
            self._fail(error)
        finally:
            for place, turn in turns.items():
                turn.close()
                self.consumed += batch.taken(*place)
            self._leave()

    def steps(self, lane: RecordQueue, records: Iterator[WireRecord], marks: list[int] | None) -> int:
        """Records of a lane one by one, with all that may happen between them: looks, events, commits."""
        scope, process, before = self.scope, lane.process, self.consumed
        cursor, stream_time, due = scope.cursor, scope.stream_time, scope.stream_schedules.due
        cursor.at(NO_RECORD, lane.topic, lane.partition, lane.source)
        try:
            for record in records:
                self.consumed += 1
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
                elif self._cells is not None:
                    self._cells()
                if marks is not None:
                    marks.append(len(scope.out))
        except BaseException as error:
            self._fail(error)
        finally:
            self._leave()
        return self.consumed - before

    def punctuate_wall_clock(self) -> bool:
        """Fire the punctuators that are due by the clock; says whether any was."""
        scope = self.scope
        return self._punctuate(scope.wall_schedules, scope.clock.now_ms, PunctuationType.WALL_CLOCK_TIME)

    def commit(self) -> None:
        """Flush the caches; what they held flows on."""
        scope = self.scope
        scope.commit_requested[0] = False
        if any(store.spec.cached for store in self._flushing):
            self._note("committing")
        try:
            for store in self._flushing:
                store.flush()
        except BaseException as error:
            self._fail(error, f"topology-test-driver Failed to flush cache of store {store.name}")
        finally:
            scope.stamp[0] = None
        self._note("committed")

    def generated_source(self) -> str:
        """Return the source of all functions that were generated so far; loops are when they are first used."""
        return self._places.source()

    def _open(self, topic: str, partition: int) -> RecordQueue:
        scope = self.scope
        plan, source = scope.plan, scope.plan.source_of(topic)
        if source is None:
            raise EngineError(f'task "{plan.task_id}" does not read topic "{topic}"')
        shared = source.pattern if plan.single and source.pattern is not None else topic
        lane = self._lanes.get((shared, partition))
        if lane is None:
            careful = is_careful(source, scope)
            entry = self._wiring.entry(source.name, decoded=careful)
            lane = self._lanes[shared, partition] = RecordQueue(source.name, topic, partition, entry, scope.cursor)
            if careful:
                time = scope.cell(source.name, f"partition time {shared}-{partition}", -1)
                lane.read_with(reader_of(source, partition, scope, time))
        self._lanes[topic, partition] = lane
        return lane

    def _bulk(self, loop: Loop, batch: Batch, first: int | None) -> None:
        scope = self.scope
        self._first[0] = first or 0
        scope.cursor.within(batch)
        try:
            with collector_paused():
                now = loop(batch.iterator, scope.stream_time[0])
                if now >= scope.stream_schedules.due[0]:
                    self._punctuate_stream(now)
        except BaseException as error:
            self._fail(error)
        finally:
            self._leave()

    def _loop(self, lane: RecordQueue, shape: str, *, marked: bool = False) -> Loop:
        place = lane.source, lane.topic, lane.partition
        loop = self._loops.get((place, shape, marked))
        if loop is None:
            marks = (self._seen, self.scope.out) if marked else None
            lines = None if self.scope.recorder is None else self._end_lines
            loop = self._wiring.loop(lane, shape, self._punctuate_stream, marks, lines, self._first)
            self._loops[place, shape, marked] = loop
        return loop

    def _has_to_commit(self) -> bool:
        """Whether a commit after a record changes anything, or is to be seen."""
        return self._commits and (self.scope.recorder is not None or self._has_to_flush())

    def _has_to_flush(self) -> bool:
        """Whether a commit after each record changes anything."""
        return self._commits and any(store.spec.cached or store.changes is not None for store in self._flushing)

    def _end_lines(self, builder: FunctionBuilder) -> list[str]:
        """Return the lines for the end of a record."""
        recorder, watch, scope = self.scope.recorder, self._cells, self.scope
        if recorder is None or watch is None:
            return []
        return end_lines(builder, recorder, watch, scope.cells, scope.plan.task_id if self._commits else "")

    def _leave(self) -> None:
        self.scope.cursor.leave()
        self.scope.stamp[0] = None

    def _punctuate_stream(self, now_ms: int) -> None:
        self._punctuate(self.scope.stream_schedules, now_ms, PunctuationType.STREAM_TIME)

    def _punctuate(self, schedules: PunctuationQueue, now_ms: int, kind: str) -> bool:
        scope, guard = self.scope, self._guard
        cursor, stamp, resumed = scope.cursor, scope.stamp, scope.resumed
        held = cursor.hold(), stamp[0], resumed[0]
        stamp[0] = resumed[0] = None

        def run(schedule: Schedule, now_ms: int) -> None:
            cursor.at((-1, now_ms, None, None, ()), None, -1, schedule.node)
            self._note("punctuated", schedule.node, kind, now_ms)
            try:
                schedule.punctuate(now_ms)
            except BaseException as error:
                if is_interruption(error) or (isinstance(error, ProcessingError) and error.node):
                    raise
                if guard is None or not isinstance(error, Exception) or isinstance(error, HandledFailure):
                    raise punctuation_error(scope, self._places, schedule.node, error) from original(error)
                guard(schedule.node, error, None, None, now_ms, ())

        try:
            return schedules.fire(now_ms, run)
        finally:
            cursor.give_back(held[0])
            stamp[0], resumed[0] = held[1:]

    def _note(self, kind: str, node: str = "", other: Any = None, *rest: Any) -> None:
        """Note the end of what went before, and what begins or is done now."""
        if self._cells is not None and self.scope.recorder is not None:
            self._cells()
            self.scope.recorder.add(kind, self.scope.plan.task_id, node, other, *rest)

    def _fail(self, error: BaseException, java: str | None = None) -> NoReturn:
        """Raise the error of the task; an error that has its node already, and an interruption, as they are."""
        if is_interruption(error) or (isinstance(error, ProcessingError) and error.node):
            raise error
        if isinstance(error, NegativeTimestamp):
            cursor = self.scope.cursor
            place = str(cursor.topic), cursor.partition, *cursor.record()[:2]
            raise negative_timestamp(*place, node=cursor.source) from None
        raise processing_error(self.scope, self._places, error, java) from original(error)
