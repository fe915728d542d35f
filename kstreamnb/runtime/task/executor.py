"""Executes a task: runs queued records, punctuations and commits through its compiled nodes.

If nothing has to happen between two records, they are processed in bulk, by a loop generated for their source; else one
by one. Errors name the node and the record.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

from kstreamnb.core.extractors import negative_timestamp
from kstreamnb.core.heap import collector_paused
from kstreamnb.core.processor import PunctuationType
from kstreamnb.errors import EngineError, ProcessingError
from kstreamnb.runtime.codegen.error_location import ErrorLocations, is_interruption, processing_error
from kstreamnb.runtime.codegen.event_lines import end_lines
from kstreamnb.runtime.codegen.function_builder import FunctionBuilder
from kstreamnb.runtime.codegen.record_loop import ROWS, TOPIC_RECORDS, WIRE_RECORDS, Loop, NegativeTimestamp
from kstreamnb.runtime.codegen.task_compiler import TaskCompiler
from kstreamnb.runtime.context.punctuation import PunctuationQueue, Schedule
from kstreamnb.runtime.context.record_context import NO_RECORD, Batch, Partition, WireRecord
from kstreamnb.runtime.context.record_queue import RecordQueue, is_careful, reader_of
from kstreamnb.runtime.context.task_context import TaskContext
from kstreamnb.state.store import Store

_FEW, _CHUNK, _WIRE = 8, 250_000, 5


class Executor:
    """Runs bound nodes; ``consumed`` counts the records processed."""

    def __init__(self, context: TaskContext, nodes: tuple[str, ...], *, commit_every_record: bool) -> None:
        self.context, self.nodes = context, nodes
        self.consumed = 0
        self._commits = commit_every_record
        self._flushing = [store for store in context.stores.values() if type(store).flush is not Store.flush]
        self.marks = list[int]()

    def bind(self) -> None:
        """Bind all nodes, for the first time or again; stores and state variables stay."""
        context, nodes = self.context, self.nodes
        for schedules in (context.stream_schedules, context.wall_schedules):
            schedules.forget()
        self.locations = ErrorLocations()
        self._queues: dict[tuple[str, int], RecordQueue] = {}
        self.loops: dict[Hashable, Loop | None] = {}
        self.compiler, recorder = TaskCompiler(context, self.locations, nodes, self.punctuate_until), context.recorder
        self._watch = None if recorder is None else recorder.watch(context.plan.task_id, context.state_vars)

    def position(self, frame: FrameType | None) -> tuple[str, str]:
        """Return where the task is, for another thread: the node at work and ``topic-partition@offset``, or empty text.

        Args:
            frame: the innermost frame of the thread that runs the task.
        """
        current = self.context.record_context
        node, topic = self.locations.at_work(frame) or current.source, current.topic
        return node, "" if topic is None else f"{topic}-{current.partition}@{current.record()[0]}"

    def queue_of(self, topic: str, partition: int) -> RecordQueue:
        """Return the queue of a partition."""
        queue = self._queues.get((topic, partition))
        return self._open(topic, partition) if queue is None else queue

    def is_fast(self) -> bool:
        """Return whether records can be processed in bulk: nothing is observed, caught or committed between them."""
        return self.compiler.guard is None and not self._has_to_flush()

    def process_in_bulk(self, queue: RecordQueue, records: list[WireRecord], marks: list[int] | None = None) -> int:
        """Process records of a plain queue, in one loop if possible; return their number.

        ``marks`` gets, after each record, the number of rows produced.
        """
        if len(records) <= _FEW or not self.is_fast():
            return self.process_each(queue, iter(records), marks)
        for begin in range(0, len(records), _CHUNK):
            chunk = records if len(records) <= _CHUNK else records[begin : begin + _CHUNK]
            batch = Batch(chunk, queue.topic, queue.partition, queue.source, None)
            before = list[int]()
            try:
                self.run_batch(queue.topic, queue.partition, batch, 0, None if marks is None else before)
                before.append(len(self.context.out))
            except ProcessingError:
                if marks is None:
                    queue.push(queue.topic, [*batch.iterator, *records[begin + len(chunk) :]])
                raise
            finally:
                if marks is not None:
                    marks += before[1:]  # what a record has produced is known before the next one
        return len(records)

    def run_batch(self, topic: str, partition: int, batch: Batch, first: int, marks: list[int] | None) -> None:
        """Process topic records or rows of one partition in one loop; they must be processable in bulk.

        Args:
            topic: the topic.
            partition: the partition.
            batch: the records.
            first: the offset of the first record.
            marks: gets the number of rows before each record.
        """
        loop = self._loop_of(self.queue_of(topic, partition), _shape(batch), first, marked=marks is not None)
        try:
            with self.in_turn(batch, (topic, partition)), collector_paused():
                loop(batch.iterator)
        finally:
            if marks is not None:
                marks += self.marks
            self.marks.clear()

    @contextmanager
    def in_turn(self, batch: Batch, partition: Partition, *, counts: bool = True) -> Iterator[None]:
        """Process records of a partition in the block, in turn with others, and count them if it ``counts``."""
        self.context.record_context.set_batch(batch)
        try:
            yield
        except BaseException as error:
            if batch.position_of(batch.index())[:2] not in self._queues:  # another task has failed
                raise
            self._fail(error)
        finally:
            self.consumed += batch.taken(*partition) if counts else 0
            self._end_records()

    @contextmanager
    def interleave(self, batch: Batch, partition: Partition, first: int) -> Iterator[Loop]:
        """Yield a function that processes the next records of a partition, given as an iterable, in turn with others.

        ``batch`` holds the records of all partitions; ``first`` is the offset of the partition's first one.
        """
        queue = self.queue_of(*partition)
        is_fast = queue.plain and self.is_fast()

        def process(records: Iterable[Any]) -> None:
            for record in records:
                offset = batch.position_of(batch.index())[3]
                queue.push(partition[0], (record if offset is None else (offset, *record[-4:]),))
                self.process_each(queue, queue.take(None, None))

        loop = self._loop_of(queue, _shape(batch), first) if is_fast else process
        with self.in_turn(batch, partition, counts=is_fast):
            yield loop

    def process_each(self, queue: RecordQueue, records: Iterator[WireRecord], marks: list[int] | None = None) -> int:
        """Process records of a queue one by one, with punctuations, events and commits between them."""
        context, process, before = self.context, queue.process, self.consumed
        record_context, stream_time, due = context.record_context, context.stream_time, context.stream_schedules.due
        record_context.set(NO_RECORD, queue.topic, queue.partition, queue.source)
        try:
            for record in records:
                self.consumed += 1
                record_context.advance(record)
                _, timestamp, key, value, headers = record
                if timestamp < 0:
                    raise NegativeTimestamp
                if timestamp > stream_time[0]:
                    stream_time[0] = timestamp
                process(key, value, timestamp, headers)
                if stream_time[0] >= due[0]:
                    self.punctuate_until(stream_time[0])
                if self._commits and (context.recorder is not None or self._has_to_flush()):
                    self.commit()
                elif self._watch is not None:
                    self._watch()
                if marks is not None:
                    marks.append(len(context.out))
        except BaseException as error:
            self._fail(error)
        finally:
            self._end_records()
        return self.consumed - before

    def punctuate_wall_clock(self) -> bool:
        """Fire the punctuators that are due by the clock; return whether there were any."""
        return self._punctuate(self.context.wall_schedules, self.context.clock.now_ms, PunctuationType.WALL_CLOCK_TIME)

    def commit(self) -> None:
        """Flush the caches; their rows continue through the task."""
        context = self.context
        context.commit_requested[0] = False
        if any(store.spec.cached for store in self._flushing):
            self._note("committing")
        try:
            for store in self._flushing:
                store.flush()
        except BaseException as error:
            self._fail(error, f"topology-test-driver Failed to flush cache of store {store.name}")
        finally:
            context.stamp[0] = None
        self._note("committed")

    def _open(self, topic: str, partition: int) -> RecordQueue:
        context = self.context
        plan, source = context.plan, context.plan.source_of(topic)
        if source is None:
            raise EngineError(f'task "{plan.task_id}" does not read topic "{topic}"')
        shared = source.pattern if plan.single and source.pattern is not None else topic
        queue = self._queues.get((shared, partition))
        if queue is None:
            careful = is_careful(source, context)
            entry = self.compiler.entry(source.name, decoded=careful)
            queue = RecordQueue(source.name, topic, partition, entry, context.record_context)
            self._queues[shared, partition] = queue
            if careful:
                time = context.state_var(source.name, f"partition time {shared}-{partition}", -1)
                queue.read = reader_of(source, partition, context, time)
        self._queues[topic, partition] = queue
        return queue

    def _loop_of(self, queue: RecordQueue, shape: str, first: int, *, marked: bool = False) -> Loop:
        """Return the loop for records of a shape, the next of which has the offset ``first``."""
        key = (queue.source, queue.topic, queue.partition), shape, marked
        self.compiler.first[queue][0] = first - 1
        loop = self.loops.get(key)
        if loop is None:
            marks, lines = self.marks if marked else None, None if self.context.recorder is None else self._end_lines
            builder = self.compiler.loop(queue, shape, marks, lines, queue.partition)
            loop = self.loops[key] = builder.compile(self.locations)
        return loop

    def _has_to_flush(self) -> bool:
        """Return whether a commit after each record changes anything."""
        return self._commits and any(store.spec.cached or store.changes is not None for store in self._flushing)

    def _end_lines(self, builder: FunctionBuilder) -> list[str]:
        """Return the lines for the end of a record."""
        recorder, watch, context = self.context.recorder, self._watch, self.context
        if recorder is None or watch is None:
            return []
        return end_lines(builder, recorder, watch, context.state_vars, context.plan.task_id if self._commits else "")

    def _end_records(self) -> None:
        self.context.record_context.clear()
        self.context.stamp[0] = None

    def punctuate_until(self, now_ms: int) -> bool:
        """Fire the punctuators that are due by this stream time; return whether there were any."""
        return self._punctuate(self.context.stream_schedules, now_ms, PunctuationType.STREAM_TIME)

    def _punctuate(self, schedules: PunctuationQueue, now_ms: int, kind: str) -> bool:
        context, guard = self.context, self.compiler.guard
        record_context, stamp, resumed = context.record_context, context.stamp, context.resumed
        saved = record_context.save(), stamp[0], resumed[0]
        stamp[0] = resumed[0] = None

        def run(schedule: Schedule, now_ms: int) -> None:
            record_context.set((-1, now_ms, None, None, ()), None, -1, schedule.node)
            self._note("punctuated", schedule.node, kind, now_ms)
            try:
                if guard is None:
                    schedule.punctuate(now_ms)
                else:
                    guard(schedule.node, lambda *_: schedule.punctuate(now_ms))(None, None, now_ms, ())
            except BaseException as error:
                self._fail(error)

        try:
            return schedules.fire(now_ms, run)
        finally:
            record_context.restore(saved[0])
            stamp[0], resumed[0] = saved[1:]

    def _note(self, kind: str, node: str = "", other: object = None, *rest: object) -> None:
        """Record changes of state variables so far, then an event."""
        if self._watch is not None and self.context.recorder is not None:
            self._watch()
            self.context.recorder.add(kind, self.context.plan.task_id, node, other, *rest)

    def _fail(self, error: BaseException, java: str | None = None) -> NoReturn:
        """Raise the error of the task; interruptions, and errors that name a node, are raised unchanged."""
        if is_interruption(error) or (isinstance(error, ProcessingError) and error.node):
            raise error
        if isinstance(error, NegativeTimestamp):
            record_context = self.context.record_context
            position = str(record_context.topic), record_context.partition, *record_context.record()[:2]
            raise negative_timestamp(*position, node=record_context.source) from None
        raise processing_error(self.context, self.locations, error, java)


def _shape(batch: Batch) -> str:
    """Return the shape of the records of a batch."""
    first = batch.records[0]
    return TOPIC_RECORDS if type(first) is not tuple else WIRE_RECORDS if len(first) == _WIRE else ROWS
