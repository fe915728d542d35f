"""All tasks of an application in one process, and the topics between them.

The order is one and the same everywhere: input records are roots, taken one at a time in the order of a merge of
all partitions by (timestamp, topic, partition, offset); what a root causes on internal topics flows on breadth
first. The layout ``single`` follows Kafka's own test driver instead, down to its accidents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import Any, Literal

from kstreamnb.core.clock import Clock
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.serde import Serde
from kstreamnb.driver.topic_log import TopicLog, convert
from kstreamnb.errors import EngineError
from kstreamnb.runtime.config import Config
from kstreamnb.runtime.events import Event
from kstreamnb.runtime.task import Changelog, GlobalTask, Task
from kstreamnb.runtime.task_plan import TaskPlan, plan_global_task, plan_single_task, plan_tasks
from kstreamnb.topology import Topology
from kstreamnb.topology.nodes import Sink

__all__ = ["Engine", "Layout", "Root"]

Layout = Literal["split", "single"]
Root = tuple[str, int, int, Any, Any, Any]
"""``(topic, partition, timestamp, key, value, headers)``: an input record in the wire form of its reader."""


class Engine:
    """Tasks, logs and offsets.

    Args:
        topology: what to run.
        config: the application's settings.
        partitions: partitions of topics by name; other topics have ``default_partitions``.
        default_partitions: partitions of topics that ``partitions`` does not name.
        layout: "split" for a task per sub-topology and partition, "single" for Kafka's one task.
        clock: the wall clock.
        observe: gets the events of all tasks.
        changelog: what to keep of changelog topics.
    """

    def __init__(
        self,
        topology: Topology,
        config: Config,
        clock: Clock,
        *,
        partitions: Mapping[str, int],
        default_partitions: int = 1,
        layout: Layout = "split",
        observe: Callable[[Event], None] | None = None,
        changelog: Changelog = "names",
    ) -> None:
        self.topology, self.config, self.clock, self.layout = topology, config, clock, layout
        self.logs: dict[str, TopicLog] = {}
        self._offsets: dict[tuple[str, int], int] = {}
        self._default = default_partitions
        self._known = _with_sources(topology, partitions, default_partitions)
        global_plan = plan_global_task(topology, config, self._known)
        self.global_task = None if global_plan is None else GlobalTask(global_plan, clock, observe=observe)
        plans = plan_single_task(topology, config) if layout == "single" else self._plans()
        self.tasks = {
            plan.task_id: Task(plan, clock, self.global_task, observe, changelog=changelog, commit_every_record=True)
            for plan in plans
        }
        self._plan = TaskPlan(topology, (), config=config, partitions=plans[0].partitions if plans else self._known)
        self._routes: dict[str, tuple[Task, ...]] = {}

    def plan(self) -> TaskPlan:
        """A plan of no task: names of topics, counts and serdes."""
        return self._plan

    def readers(self, topic: str) -> tuple[Task, ...]:
        """Tasks that read a topic, by partition; none for a topic that no task reads."""
        found = self._routes.get(topic)
        if found is None:
            reading = [task for task in self.tasks.values() if task.plan.source_of(topic) is not None]
            found = self._routes[topic] = tuple(reading)
        return found

    def reads(self, topic: str) -> bool:
        """Whether records of a topic enter the application."""
        return bool(self.readers(topic)) or self._is_global(topic)

    def reader_serdes(self, topic: str) -> tuple[Serde, Serde] | None:
        """Key and value serde with which a topic is read."""
        tasks = [*self.readers(topic), *([self.global_task] if self.global_task else [])]
        for task in tasks:
            source = task.plan.source_of(topic)
            if source is not None:
                return task.plan.key_serde(source.key_serde), task.plan.value_serde(source.value_serde)
        return None

    def writer_serdes(self, topic: str) -> tuple[Serde, Serde] | None:
        """Key and value serde with which the application writes a topic, where there is one pair."""
        found = {id(serdes): serdes for task in self.tasks.values() if (serdes := task.topic_serdes(topic))}
        pairs = list(found.values())
        return pairs[0] if pairs and all(pair == pairs[0] for pair in pairs) else None

    def count(self, topic: str) -> int:
        """Partitions of a topic."""
        return 1 if self.layout == "single" else self._plan.partitions.get(topic, self._default)

    def feed(self, roots: list[Root]) -> None:
        """Process input records to the end, one after another in the order of the merge."""
        for root in _merged(roots) if len(roots) > 1 else roots:
            self._feed_one(root)

    def feed_at_once(self, topic: str, records: list[TopicRecord]) -> int:
        """Process records in bulk where one task reads them and nothing can come between; gives how many were taken."""
        readers = self.readers(topic)
        if len(readers) != 1 or self.count(topic) != 1 or self.layout == "single" or self._is_global(topic):
            return 0
        task = readers[0]
        written = _written(task)
        if None in written or any(map(self.reads, written)) or max(map(_PARTITION, records)) > 0:
            return 0
        done = 0
        # The first record goes alone: after it the task knows which changelogs are written, and is faster.
        for chunk in (records[:1], records[1:]):
            if not task.takes_records(topic):
                return done
            first = self._offsets.get((topic, 0), 0)
            self._offsets[topic, 0] = first + len(chunk)
            try:
                done += task.run_records(topic, 0, chunk, first)
            finally:
                self._collect(task)
        return done

    def advance(self) -> None:
        """Fire the punctuators that are due by the clock, and let what they cause flow on."""
        for task in self.tasks.values():
            task.punctuate_wall_clock()
            task.commit()
            if self.layout == "single":
                self._settle_single(task)
        if self.layout != "single":
            self._settle(list(self.tasks.values()))

    def commit(self) -> None:
        """Commit every task, and let what its caches held flow on."""
        for task in self.tasks.values():
            task.commit()
        self._settle(list(self.tasks.values()))

    def close(self) -> None:
        """End all tasks."""
        for task in self.tasks.values():
            task.close()
        if self.global_task is not None:
            self.global_task.close()

    def _plans(self) -> tuple[TaskPlan, ...]:
        return plan_tasks(self.topology, self.config, self._known, default_partitions=self._default)

    def _is_global(self, topic: str) -> bool:
        return self.global_task is not None and self.global_task.plan.source_of(topic) is not None

    def _feed_one(self, root: Root) -> None:
        topic, partition, timestamp, key, value, headers = root
        if self.readers(topic):
            task = self._enqueue(topic, partition, timestamp, key, value, headers)
            if self.layout == "single":
                self._settle_single(task)
            else:
                task.run_ready()
                self._settle([task])
        if self._is_global(topic):
            self._feed_global(topic, partition, timestamp, key, value, headers)

    def _reader(self, topic: str, partition: int) -> Task:
        readers = self.readers(topic)
        for task in readers:
            if task.plan.single or task.plan.partition == partition:
                return task
        raise EngineError(f'topic "{topic}" has no partition {partition}')

    def _enqueue(self, topic: str, partition: int, timestamp: int, key: Any, value: Any, headers: Any) -> Task:
        task = self._reader(topic, partition)
        source = task.plan.source_of(topic)
        shared = source.pattern if source is not None and source.pattern and self.layout == "single" else topic
        offset = self._offsets.get((shared, partition), 0)
        self._offsets[shared, partition] = offset + 1
        task.push(topic, partition, [(offset, timestamp, key, value, headers)])
        return task

    def _feed_global(self, topic: str, partition: int, timestamp: int, key: Any, value: Any, headers: Any) -> None:
        assert self.global_task is not None
        offset = self._offsets.get((topic, partition), 0)
        if not self.readers(topic):
            self._offsets[topic, partition] = offset + 1
        self.global_task.run(topic, partition, [(offset, timestamp, key, value, headers)])

    def _settle(self, ran: Iterable[Task]) -> None:
        """Let produced records flow on, breadth first: all that was written at one depth is read at the next."""
        while ran:
            following: dict[str, Task] = {}
            for task in ran:
                for reader in self._collect(task):
                    following[reader.plan.task_id] = reader
            ran = [task for name, task in self.tasks.items() if name in following]
            for task in ran:
                task.run_ready()

    def _settle_single(self, task: Task) -> None:
        """As Kafka's test driver does: one record, then everything it produced is enqueued."""
        self._collect(task)
        try:
            while task.run_ready(1):
                self._collect(task)
        finally:
            self._collect(task)

    def _collect(self, task: Task) -> list[Task]:
        """Log what a task produced and hand it to its readers; gives them."""
        rows = task.drain()
        readers = []
        for row in self._log(task, rows):
            topic = row[0]
            serdes, read_as = task.topic_serdes(topic), self.reader_serdes(topic)
            if serdes is not None and read_as is not None and serdes != read_as:
                key, value = (convert(row[3 + side], serdes[side], read_as[side]) for side in (0, 1))
                row = (*row[:3], key, value, row[5])
            if self.readers(topic):
                readers.append(self._enqueue(*row))
            if self._is_global(topic):
                self._feed_global(*row)
        for record in task.drain_changelog():
            log = self._log_of(record.topic, None)
            if record.timestamp < 0 and record.key is None:
                log.named = True
            else:
                log.rows.append(tuple(record))
        return readers

    def _log(self, task: Task, rows: list[Any]) -> list[Any]:
        """Append rows to the logs of their topics; gives those that someone reads."""
        read = []
        written = dict.fromkeys(row[0] for row in rows[:1] + rows[-1:])
        if len(written) == 1 and len(set(_written(task))) == 1 and self.config.dead_letter_topic is None:
            topic = rows[0][0]
            log = self._log_of(topic, self.writer_serdes(topic))
            if log.serdes is not None and not self.reads(topic):
                log.rows += rows
                return []
        logs: dict[str, TopicLog] = {}
        for row in rows:
            topic = row[0]
            if topic not in logs:
                logs[topic] = self._log_of(topic, self.writer_serdes(topic))
            log = logs[topic]
            if log.serdes is None and (serdes := task.topic_serdes(topic)) is not None:
                row = (*row[:3], convert(row[3], serdes[0], _BYTES), convert(row[4], serdes[1], _BYTES), row[5])
            log.rows.append(row)
            if self.reads(topic):
                read.append(row)
        return read

    def _log_of(self, topic: str, serdes: tuple[Serde, Serde] | None) -> TopicLog:
        log = self.logs.get(topic)
        if log is None:
            log = self.logs[topic] = TopicLog(topic, serdes)
        return log


_PARTITION = itemgetter(1)
_BYTES: Any = object()  # equal to no serde: converting to it always gives bytes


def _with_sources(topology: Topology, partitions: Mapping[str, int], default: int) -> dict[str, int]:
    """Counts of the user's topics: the given ones, and the default for other topics that are read."""
    named = {topic: default for source in topology.sources() for topic in source.topics}
    known = {topic: count for topic, count in named.items() if topic not in topology.internal_topics}
    return {**known, **partitions}


def _written(task: Task) -> list[Any]:
    """Topics that a task writes to; None stands for one that each record chooses."""
    sinks = [node for name in task.nodes if isinstance(node := task.plan.topology.nodes[name], Sink)]
    return [task.plan.topic(sink.topic) if isinstance(sink.topic, str) else None for sink in sinks]


def _merged(roots: list[Root]) -> list[Root]:
    """Roots in the order of a merge of all partitions by (timestamp, topic, partition), each partition in its own."""
    if all(roots[index][2] <= roots[index + 1][2] for index in range(len(roots) - 1)):
        times = [root[2] for root in roots]
    else:
        latest: dict[tuple[str, int], int] = {}
        times = []
        for root in roots:
            place = root[0], root[1]
            latest[place] = max(latest.get(place, root[2]), root[2])
            times.append(latest[place])
    order = sorted(range(len(roots)), key=lambda index: (times[index], roots[index][0], roots[index][1], index))
    return [roots[index] for index in order]
