"""`TaskGroup`: all tasks of an application in one process, the logs of their topics, and the steps between tasks."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, TypeAlias

from kstreamnb.core.codec import encoded
from kstreamnb.core.serde import Serde
from kstreamnb.core.time import Clock
from kstreamnb.errors import ProcessingError
from kstreamnb.runtime.context.record_context import Partition, WireRecord
from kstreamnb.runtime.context.task_context import Recorder
from kstreamnb.runtime.task.open_loops import ReaderOf
from kstreamnb.runtime.task.task import Changelog, Task
from kstreamnb.testdriver.execution.input_batch import least_head_order
from kstreamnb.testdriver.execution.router import Router
from kstreamnb.testdriver.execution.serializer import InputRecord, TopicRoute
from kstreamnb.testdriver.execution.topic_log import OutputRow, TopicLog, convert
from kstreamnb.topology.nodes import grouped

_topic = itemgetter(0)
ReadAs: TypeAlias = tuple[Serde | None, Serde | None] | None
"""Serdes of keys and values, None for bytes; None if nothing is converted."""

ProcessRows: TypeAlias = Callable[[list[OutputRow]], list[OutputRow]]
"""Processes rows of one partition; returns the rows that they caused, for any tasks."""


@dataclass(frozen=True)
class OutputRoute:
    """The route of rows that a task writes to a topic.

    Attributes:
        log: the log of the topic.
        written_as: serdes of the rows; None if they are bytes.
        route: the readers of the topic, if there are any.
    """

    log: TopicLog
    written_as: tuple[Serde, Serde] | None
    route: TopicRoute | None

    @cached_property
    def log_as(self) -> ReadAs:
        """The serdes of rows in the log; None if rows are logged as they are written."""
        return None if self.written_as is None or self.log.serdes is not None else (None, None)

    @cached_property
    def log_all(self) -> Callable[[list[OutputRow]], None] | None:
        """Logs rows, if they are logged as they are written and read so by tasks, if at all; else None."""
        changes = self.log_as or (self.route is not None and (self.read_as or self.route.is_global))
        return None if changes else self.log.rows.extend

    @cached_property
    def read_as(self) -> ReadAs:
        """The serdes of rows that the readers expect; None if they take rows as they are written."""
        return None if self.route is None or self.written_as in (None, self.route.serdes) else self.route.serdes

    def converted(self, row: OutputRow, read_as: ReadAs) -> OutputRow:
        """Return a row in the form of the log or of the readers."""
        if read_as is None or self.written_as is None:
            return row
        topic, partition, timestamp, key, value, headers = row
        key, value = (convert(*each) for each in zip((key, value), self.written_as, read_as, strict=True))
        return topic, partition, timestamp, key, value, headers


class TaskGroup:
    """Running tasks, the logs of the topics that they write, and the offsets of the partitions that they read.

    Args:
        router: where records go.
        clock: the wall clock.
        recorder: gets all events of the tasks.
        changelog: what to keep of changelog topics.

    Attributes:
        by_id: the tasks by task id.
        order: the tasks by the index that routes use.
        reader_of: returns the index of the task that reads a partition.
        global_task: the task that fills the global stores, if there are any.
        logs: logs by topic.
        most_rows: the maximum number of records of a topic that is written and read, so that a loop can be ended.
        offsets: the next offset of each partition.
        rows: what tasks have produced; they share it, and it is taken before tasks that read it run.
        recorded: the entries of the recorder.
    """

    def __init__(self, router: Router, clock: Clock, recorder: Recorder | None, changelog: Changelog) -> None:
        self.router = router
        self.reader_of: ReaderOf = cache(lambda partition: router.reader(partition[0]).tasks[partition[1]])
        global_plan = router.global_plan
        self.global_task = None if global_plan is None else Task(global_plan, clock, recorder=recorder)
        rows = self.rows = list[OutputRow]()
        options: dict[str, Any] = {"changelog": changelog, "commit_every_record": True, "out": rows, "in_process": True}
        self.order = [Task(plan, clock, self.global_task, recorder, **options) for plan in router.plans]
        self.by_id = {task.plan.task_id: task for task in self.order}
        self.logs: dict[str, TopicLog] = {}
        self.most_rows = sys.maxsize
        self.offsets: dict[Partition, int] = {}
        self.recorder = recorder
        self.recorded: list[tuple[Any, ...]] = [] if recorder is None else recorder.log
        self._outputs: list[dict[str, OutputRoute]] = [{} for _ in self.order]

    def numbered(self, row: InputRecord) -> WireRecord:
        """Return a row as a record with the next offset of its partition."""
        partition = self.router.reader(row[0]).offsets, row[1]
        offset = self.offsets.get(partition, 0)
        self.offsets[partition] = offset + 1
        return offset, *row[2:]

    def feed_global(self, row: InputRecord) -> None:
        """Put a record into the global stores."""
        assert self.global_task is not None
        self.global_task.run(row[0], row[1], (self.numbered(row),))

    def log_rows(self, index: int) -> list[OutputRow]:
        """Log what a task wrote and feed the global stores; return what tasks have to read, as they expect it."""
        read, rows, outputs, plan = [], self.rows, self._outputs[index], self.order[index].plan
        try:
            output = outputs.get(topic := rows[0][0])
            log_all = None if output is None or self.most_rows < sys.maxsize else output.log_all
            if output and log_all and (len(rows) == 1 or [*map(_topic, rows)].count(topic) == len(rows)):
                log_all(rows)
                return [] if output.route is None else rows[:]
            for row in rows:
                output = outputs.get(row[0]) or self.output(index, row[0])
                logged, route, log_as, read_as = output.log.rows, output.route, output.log_as, output.read_as
                logged.append(row if log_as is None else output.converted(row, log_as))
                if route is not None:
                    if len(logged) > self.most_rows and row[0] not in map(plan.topic, plan.topology.internal_topics):
                        raise self._endless(row[0], route)
                    row = row if read_as is None else output.converted(row, read_as)
                    if route.tasks:
                        read.append(row)
                    if route.is_global:
                        self.feed_global(row)
        finally:
            self.rows.clear()
        return read

    def _endless(self, topic: str, route: TopicRoute) -> ProcessingError:
        """Return the error about a loop; it names a node, so that no task adds its own."""
        fact = f'topic "{topic}" is written and read in a loop, which has not ended after {self.most_rows:,} records'
        node = next(source.name for source in self.router.topology.sources() if source.reads(topic))
        hint = "end it with a filter on what changes from round to round, such as a count of tries"
        return ProcessingError(fact, node=node, hint=hint, origin=route.origin)

    def output(self, index: int, topic: str) -> OutputRoute:
        """Return what becomes of rows that a task writes to a topic."""
        output = self._outputs[index].get(topic)
        if output is None:
            router = self.router
            log = self.logs.setdefault(topic, TopicLog(topic, router.writer_serdes(topic)))
            output = OutputRoute(log, router.task_serdes(index, topic), router.route(topic))
            self._outputs[index][topic] = output
        return output

    def collect(self, index: int) -> list[OutputRow]:
        """Log what a task wrote, feed the global stores, and return what tasks have to read."""
        read = self.log_rows(index) if self.rows else []
        self.log_changes(self.order[index])
        return read

    def run(self, rows: list[OutputRow]) -> list[OutputRow]:
        """Process rows of one partition, and return what tasks have to read; output before an error is logged."""
        topic, partition = rows[0][0], rows[0][1]
        route = self.router.reader(topic)
        if route.is_global:
            for row in rows:
                self.feed_global(row)
        if not route.tasks:
            return []
        index = route.tasks[partition]
        try:
            self.order[index].run(topic, partition, [self.numbered(row) for row in rows])
        except BaseException:
            for row in self.collect(index):
                self.numbered(row)
            raise
        return self.collect(index)

    def settle(self, rows: list[OutputRow], process: ProcessRows | None = None) -> None:
        """Process rows and their consequences: breadth first, or as Kafka's test driver does.

        Args:
            rows: rows that tasks have to read.
            process: processes those of one partition. Default: `run`.
        """
        if process is None and self.router.layout == "single":
            self._queue(0, rows)
            while rows and self.order[0].run_ready(1):
                self._queue(0, self.collect(0))
            return
        if process is None and self.router.merges_written:
            while rows:
                by_task = grouped(rows, lambda row: self.reader_of(row[:2]))
                rows = [*chain.from_iterable(self._merge(index, by_task[index]) for index in sorted(by_task))]
            return
        process = process or self.run
        while rows:
            parts, rows = deque(self._in_order(rows) if len(rows) > 1 else [rows]), []
            try:
                while parts:
                    rows += process(parts.popleft())
            except BaseException:
                for row in chain(rows, *parts):
                    self.numbered(row)  # no task reads it, but it has its offset in the log
                raise

    def _merge(self, index: int, rows: list[OutputRow]) -> list[OutputRow]:
        """Process rows that one task reads in order of the times that extractors give; return what tasks have to read.

        One at a time, because the next one may read global stores that it changes.
        """
        caused = list[OutputRow]()
        self._queue(index, rows)
        try:
            while self.order[index].run_ready(1):
                caused += self.collect(index)
        finally:
            caused += self.collect(index)  # dead letters, and what was written before an error
        return caused

    def _in_order(self, rows: list[OutputRow]) -> list[list[OutputRow]]:
        """Sort records that one record caused: by the task that reads them, then in the order in which it takes them.

        Return a list for each run of records of one partition; or for each record, if the next one may read global
        stores that it changes.
        """
        partitions = [row[:2] for row in rows]
        if partitions.count(partitions[0]) < len(rows):
            readers = [*map(self.reader_of, partitions)]
            groups = groupby(sorted(range(len(rows)), key=readers.__getitem__), readers.__getitem__)
            rows = [rows[at] for _, same in groups for at in least_head_order(list(same), rows, partitions)]
        elif self.global_task is None:
            return [rows]
        if self.global_task is not None:
            return [[row] for row in rows]
        return [list(same) for _, same in groupby(rows, itemgetter(0, 1))]

    def take_rows(self) -> list[OutputRow]:
        """Take what tasks have produced."""
        rows, self.rows[:] = self.rows[:], []
        return rows

    def log_changes(self, task: Task) -> None:
        """Log what a task wrote to changelog topics."""
        for record in task.drain_changelog():
            log = self.logs.setdefault(record.topic, TopicLog(record.topic, None))
            if record.timestamp < 0 and record.key is None:
                log.named = True
            else:
                log.rows.append((*record[:3], encoded(record.key), encoded(record.value), record.headers))

    def advance(self) -> None:
        """Fire the punctuators that are due by the wall clock, and process their consequences."""
        self._each(Task.punctuate_wall_clock, Task.commit)

    def commit(self) -> None:
        """Commit every task, and process what its caches held."""
        self._each(Task.commit)

    def close(self) -> None:
        """Close all tasks."""
        for task in self.order:
            task.close()
        if self.global_task is not None:
            self.global_task.close()

    def _each(self, *actions: Callable[[Task], object]) -> None:
        rows = list[OutputRow]()
        for index, task in enumerate(self.order):
            for act in actions:
                act(task)
            rows += self.collect(index)
        self.settle(rows)

    def _queue(self, index: int, rows: list[OutputRow]) -> None:
        """Queue rows for a task, which chooses the next one itself."""
        for row in rows:
            self.order[index].push(row[0], row[1], (self.numbered(row),))
