"""All tasks of an application in one process, and the topics between them.

The order is one and the same everywhere: input records are roots, taken one at a time in the order of a merge of
all partitions by (timestamp, topic, partition, offset); what a root causes on internal topics flows on breadth
first. The layout ``single`` follows Kafka's own test driver instead, down to its accidents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

from kstreamnb.core.codec import encoded
from kstreamnb.core.progress import pieces
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.serde import Serde
from kstreamnb.core.time import Clock
from kstreamnb.errors import EngineError
from kstreamnb.runtime.context.config import Config
from kstreamnb.runtime.context.record_queue import is_careful
from kstreamnb.runtime.context.task_context import Recorder
from kstreamnb.runtime.context.task_plan import TaskPlan, plan_global_task, plan_single_task, plan_tasks
from kstreamnb.runtime.task.task import Changelog, GlobalTask, Task
from kstreamnb.testdriver.execution.batched import Waves, task_order
from kstreamnb.testdriver.execution.interleaved import feed_in_turn, merge_order, partitions_of
from kstreamnb.testdriver.execution.topic_log import TopicLog, convert
from kstreamnb.topology.nodes import Sink, Source
from kstreamnb.topology.topology import Topology

__all__ = ["Router", "Layout", "OutputRoute", "Root", "TopicRoute", "with_sources"]

Layout = Literal["split", "single"]
Root = tuple[str, int, int, Any, Any, Any]
"""``(topic, partition, timestamp, key, value, headers)``: an input record in the wire form of its reader."""

Delivery = tuple[int, str, int, tuple[int, int, Any, Any, Any]]
"""``(index of a task, topic, partition, record)``."""


@dataclass(frozen=True)
class TopicRoute:
    """Where records of a topic go: indexes of tasks by partition, the global task or both; and how they are read.

    ``offsets`` names the counter of offsets: topics of one pattern share it in the layout of Kafka's test driver.
    """

    topic: str
    offsets: str
    tasks: Mapping[int, int]
    is_global: bool
    serdes: tuple[Serde, Serde]


@dataclass(frozen=True)
class OutputRoute:
    """What becomes of rows that a task writes to a topic: ``read_as`` is None where nobody reads them."""

    log: TopicLog
    written_as: tuple[Serde, Serde] | None
    route: TopicRoute | None

    def logged(self, row: Any) -> Any:
        """A row in the form of the log."""
        written_as = self.written_as
        if self.log.serdes is not None or written_as is None:
            return row
        return (*row[:3], convert(row[3], written_as[0], _BYTES), convert(row[4], written_as[1], _BYTES), row[5])


class Router:
    """Tasks, logs and offsets.

    Args:
        topology: what to run.
        config: the application's settings.
        clock: the wall clock.
        partitions: partitions of topics by name; other topics have ``default_partitions``.
        default_partitions: partitions of topics that ``partitions`` does not name.
        layout: "split" for a task per sub-topology and partition, "single" for Kafka's one task.
        recorder: gets everything that happens in the tasks.
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
        recorder: Recorder | None = None,
        changelog: Changelog = "names",
    ) -> None:
        self.topology, self.config, self.clock, self.layout = topology, config, clock, layout
        self.logs: dict[str, TopicLog] = {}
        known = with_sources(topology, partitions, default_partitions)
        global_plan = plan_global_task(topology, config, known)
        self.global_task = None if global_plan is None else GlobalTask(global_plan, clock, recorder=recorder)
        if layout == "single":
            plans = plan_single_task(topology, config)
        else:
            plans = plan_tasks(topology, config, known, default_partitions=default_partitions)
        options: dict[str, Any] = {"changelog": changelog, "commit_every_record": True, "out": []}
        self.tasks = {plan.task_id: Task(plan, clock, self.global_task, recorder, **options) for plan in plans}
        self.order, self.recorder = list(self.tasks.values()), recorder
        self._default = default_partitions
        self._counts = plans[0].partitions if plans else known
        self.offsets: dict[tuple[str, int], int] = {}
        self._routes: dict[str, TopicRoute | None] = {}
        self._outlets: dict[tuple[int, str], OutputRoute] = {}
        self.recorded: list[Any] = [] if recorder is None else recorder.log
        self._in_turn = recorder is not None and (
            not recorder.reorders or any(map(_looks_at_records, self.tasks.values()))
        )
        self._written = [_written(task) for task in self.order]
        self._waves = None if layout == "single" else task_order(self._written, self._fed)

    def plan(self) -> TaskPlan:
        """A plan of no task: names of topics, counts and serdes."""
        return TaskPlan(self.topology, (), config=self.config, partitions=self._counts)

    def route(self, topic: str) -> TopicRoute | None:
        """Where records of a topic go; None for a topic that the application does not read."""
        if topic not in self._routes:
            self._routes[topic] = self._find_route(topic)
        return self._routes[topic]

    def writer_serdes(self, topic: str) -> tuple[Serde, Serde] | None:
        """Key and value serde with which the application writes a topic, where there is one pair."""
        pairs = [serdes for task in self.order if (serdes := task.topic_serdes(topic)) is not None]
        return pairs[0] if pairs and all(pair == pairs[0] for pair in pairs) else None

    def count(self, topic: str) -> int:
        """Partitions of a topic."""
        return 1 if self.layout == "single" else self._counts.get(topic, self._default)

    def feed(self, roots: list[Root]) -> None:
        """Process input records to the end, one after another in the order of the merge."""
        if len(roots) > 1:
            roots = _merged(roots)
        if len(roots) < _FEW or self._waves is None or self._in_turn:
            for piece in pieces(roots, "records"):
                for root in piece:
                    self._feed_one(root)
            return
        batch: list[Root] = []
        for root in roots:
            route = self.route(root[0])
            if route is None or not route.is_global:
                batch.append(root)
                continue
            self._feed_many(batch)
            batch = []
            self._feed_one(root)
        self._feed_many(batch)

    def feed_at_once(
        self, topics: Iterable[str], records: list[TopicRecord], roots: Callable[[list[TopicRecord]], list[Root]]
    ) -> None:
        """Process records of users as they are where nothing can come between two of them, else the roots they make."""
        if not self._stands_alone(topics):
            self.feed(roots(records))
        elif sum(map(self.count, topics)) == 1:
            self._feed_one_partition(next(iter(topics)), records, roots)
        else:
            self._feed_partitions(topics, records, roots)

    def _feed_one_partition(
        self, topic: str, records: list[TopicRecord], roots: Callable[[list[TopicRecord]], list[Root]]
    ) -> None:
        route = self.route(topic)
        assert route is not None
        index, task = route.tasks[0], self.order[route.tasks[0]]
        # The first record goes alone: after it the task knows which changelogs are written, and is faster.
        for part in chain((records[:1],), pieces(records[1:], "records")):
            if not task.takes_records(topic):
                self.feed(roots(part))
                continue
            first = self.offsets.get((topic, 0), 0)
            self.offsets[topic, 0] = first + len(part)
            try:
                task.run(topic, 0, part, first=first)
            finally:
                self.collect(index)

    def _feed_partitions(
        self, topics: Iterable[str], records: list[TopicRecord], roots: Callable[[list[TopicRecord]], list[Root]]
    ) -> None:
        known = {topic: route for topic in topics if (route := self.route(topic)) is not None}
        places = partitions_of(records, {topic: (known[topic].serdes[0], self.count(topic)) for topic in known})
        order = merge_order([record.timestamp for record in records], places)
        if order is not None:
            records, places = [records[at] for at in order], [places[at] for at in order]
        # The first records go alone: after them most tasks know which changelogs are written, and are faster.
        for piece in chain((range(_ENOUGH),), pieces(range(_ENOUGH, len(records)), "records")):
            part = slice(piece.start, piece.stop)
            readers = {place: self.order[known[place[0]].tasks[place[1]]] for place in dict.fromkeys(places[part])}
            if not all(task.takes_records(topic) for (topic, _), task in readers.items()):
                self.feed(roots(records[part]))
                continue
            try:
                feed_in_turn(readers, records[part], places[part], self.offsets)
            finally:
                self._collect_from(list(readers.values()))

    def _collect_from(self, tasks: list[Task]) -> None:
        """Log what tasks produced in turn, which nobody reads."""
        rows, written = self.order[0].drain(), dict[str, int]()
        for index, task in enumerate(self.order):
            if task in tasks:
                written |= dict.fromkeys(self._written[index], index)
                self.log_changes(task)
        for topic, index in written.items():
            mine = rows if len(written) == 1 else [row for row in rows if row[0] == topic]
            self.outlet(index, topic).log.rows += mine

    def advance(self) -> None:
        """Fire the punctuators that are due by the clock, and let what they cause flow on."""
        self._each(Task.punctuate_wall_clock, Task.commit)

    def commit(self) -> None:
        """Commit every task, and let what its caches held flow on."""
        self._each(Task.commit)

    def close(self) -> None:
        """End all tasks."""
        for task in self.order:
            task.close()
        if self.global_task is not None:
            self.global_task.close()

    def _each(self, *work: Callable[[Task], Any]) -> None:
        """Let every task do some things, and then what follows from them."""
        deliveries: list[Delivery] = []
        for index, task in enumerate(self.order):
            for do in work:
                do(task)
            deliveries += self.collect(index)
        self._settle(deliveries)

    def _fed(self, topic: str) -> Mapping[int, int] | None:
        """Tasks that read a topic, by partition; None where it goes into a global store."""
        route = self.route(topic)
        return {} if route is None else None if route.is_global else route.tasks

    def _find_route(self, topic: str) -> TopicRoute | None:
        tasks, found, offsets = {}, None, topic
        for index, task in enumerate(self.order):
            source = task.plan.source_of(topic)
            if source is not None:
                tasks[task.plan.partition], found = index, (task, source)
                if source.pattern is not None and self.layout == "single":
                    offsets = source.pattern
        source = None if self.global_task is None else self.global_task.plan.source_of(topic)
        if self.global_task is not None and source is not None:
            found = (self.global_task, source)
        if found is None:
            return None
        plan, node = found[0].plan, found[1]
        serdes = plan.key_serde(node.key_serde), plan.value_serde(node.value_serde)
        return TopicRoute(topic, offsets, tasks, source is not None, serdes)

    def _stands_alone(self, topics: Any) -> bool:
        """Whether nothing that records of some topics cause is read again, by tasks or into global stores."""
        if self.layout == "single":
            return False
        for topic in topics:
            route = self.route(topic)
            if route is None or route.is_global:
                return False
            written = [name for index in route.tasks.values() for name in self._written[index]]
            for name in dict.fromkeys(written):
                if name is None or self.route(name) is not None or self.writer_serdes(name) is None:
                    return False
        return True

    def _feed_one(self, root: Root) -> None:
        topic, partition, timestamp, key, value, headers = root
        route = self.route(topic)
        assert route is not None
        if route.tasks:
            index, record = self._address(route, partition, timestamp, key, value, headers)
            task = self.order[index]
            try:
                task.run(topic, partition, (record,))
            except BaseException:
                self.collect(index)
                raise
            self._settle(self.collect(index))
        if route.is_global:
            self._feed_global(route, partition, timestamp, key, value, headers)

    def _feed_many(self, roots: list[Root]) -> None:
        for piece in pieces(roots, "records"):
            if piece and self._waves is not None:
                Waves(self, self._waves).run(piece)

    def _address(
        self, route: TopicRoute, partition: int, timestamp: int, key: Any, value: Any, headers: Any
    ) -> tuple[int, tuple[int, int, Any, Any, Any]]:
        """Which task takes a record, and the record with its offset."""
        index = route.tasks.get(partition)
        if index is None:
            raise EngineError(f'topic "{route.topic}" has no partition {partition}')
        place = route.offsets, partition
        offset = self.offsets.get(place, 0)
        self.offsets[place] = offset + 1
        return index, (offset, timestamp, key, value, headers)

    def _feed_global(
        self, route: TopicRoute, partition: int, timestamp: int, key: Any, value: Any, headers: Any
    ) -> None:
        """Let the global stores have a record."""
        assert self.global_task is not None
        place = f"{route.topic} (global)", partition
        offset = self.offsets.get(place, 0)
        self.offsets[place] = offset + 1
        self.global_task.run(route.topic, partition, ((offset, timestamp, key, value, headers),))

    def _settle(self, deliveries: list[Delivery]) -> None:
        """Let produced records flow on: breadth first, or one by one as Kafka's test driver does."""
        while deliveries:
            following: list[Delivery] = []
            if self.layout == "single":
                for index, topic, partition, record in deliveries:
                    self.order[index].push(topic, partition, (record,))
                while self.order[0].run_ready(1):
                    for index, topic, partition, record in self.collect(0):
                        self.order[index].push(topic, partition, (record,))
                return
            by_task: dict[int, list[Delivery]] = {}
            for delivery in deliveries:
                by_task.setdefault(delivery[0], []).append(delivery)
            for index in sorted(by_task):
                task, mine = self.order[index], by_task[index]
                if len(mine) == 1:
                    task.run(mine[0][1], mine[0][2], (mine[0][3],))
                else:
                    for _, topic, partition, record in mine:
                        task.push(topic, partition, (record,))
                    task.run_ready()
                following += self.collect(index)
            deliveries = following

    def collect(self, index: int) -> list[Delivery]:
        """Log what a task produced; gives what other tasks are to read."""
        task = self.order[index]
        deliveries: list[Delivery] = []
        if task.scope.out:
            for row, outlet in self._log(index, task.drain()):
                _, partition, timestamp, key, value, headers = row
                route, written_as = outlet.route, outlet.written_as
                if written_as is not None and written_as != route.serdes:
                    key, value = (convert(row[3 + n], written_as[n], route.serdes[n]) for n in (0, 1))
                if route.tasks:
                    reader, record = self._address(route, partition, timestamp, key, value, headers)
                    deliveries.append((reader, row[0], partition, record))
                if route.is_global:
                    self._feed_global(route, partition, timestamp, key, value, headers)
        self.log_changes(task)
        return deliveries

    def _log(self, index: int, rows: list[Any]) -> list[tuple[Any, Any]]:
        """Append rows of a task to the logs of their topics; gives those that someone reads, with their outlets."""
        fixed = len(rows) > _FEW and set(self._written[index]) == {rows[0][0]}
        if fixed and self.config.dead_letter_topic is None:
            outlet = self.outlet(index, rows[0][0])
            if outlet.route is None and (outlet.log.serdes is not None or outlet.written_as is None):
                outlet.log.rows += rows
                return []
        read = []
        for row in rows:
            outlet = self.outlet(index, row[0])
            outlet.log.rows.append(outlet.logged(row))
            if outlet.route is not None:
                read.append((row, outlet))
        return read

    def outlet(self, index: int, topic: str) -> OutputRoute:
        """What becomes of rows that a task writes to a topic."""
        found = self._outlets.get((index, topic))
        if found is None:
            log = self.logs.setdefault(topic, TopicLog(topic, self.writer_serdes(topic)))
            found = OutputRoute(log, self.order[index].topic_serdes(topic), self.route(topic))
            self._outlets[index, topic] = found
        return found

    def log_changes(self, task: Task) -> None:
        """Log what a task wrote to changelog topics."""
        for record in task.drain_changelog():
            log = self.logs.setdefault(record.topic, TopicLog(record.topic, None))
            if record.timestamp < 0 and record.key is None:
                log.named = True
            else:
                key, value = map(encoded, record[3:5])
                log.rows.append((*record[:3], key, value, record.headers))


_FEW, _ENOUGH = 4, 64
_BYTES: Any = object()  # equal to no serde: converting to it always gives bytes


def with_sources(topology: Topology, partitions: Mapping[str, int], default: int) -> dict[str, int]:
    """Counts of the user's topics: the given ones, and the default for other topics that are read."""
    named = {topic: default for source in topology.sources() for topic in source.topics}
    known = {topic: count for topic, count in named.items() if topic not in topology.internal_topics}
    return {**known, **partitions}


def _looks_at_records(task: Task) -> bool:
    """Whether a task may refuse records before it takes them."""
    sources = [node for name in task.nodes if isinstance(node := task.plan.topology.nodes[name], Source)]
    return any(is_careful(source, task.scope) for source in sources)


def _written(task: Task) -> list[Any]:
    """Topics that a task writes to; None stands for one that each record chooses."""
    sinks = [node for name in task.nodes if isinstance(node := task.plan.topology.nodes[name], Sink)]
    return [task.plan.topic(sink.topic) if isinstance(sink.topic, str) else None for sink in sinks]


def _merged(roots: list[Root]) -> list[Root]:
    """Roots in the order of a merge of all partitions by (timestamp, topic, partition), each partition in its own."""
    order = merge_order([root[2] for root in roots], [root[:2] for root in roots])
    return roots if order is None else [roots[at] for at in order]
