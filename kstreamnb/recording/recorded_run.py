"""Combines a finished recording with the tasks, serdes and names needed to read it.

A record that one task wrote and another consumed links two steps, so a run is a graph of steps.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Literal, NamedTuple

from kstreamnb.core.codec import decode
from kstreamnb.core.operator import Details
from kstreamnb.core.record import TopicRecord
from kstreamnb.errors import EngineError, SerdeError
from kstreamnb.recording.steps import Drop, Steps
from kstreamnb.recording.trace import Recording, shown
from kstreamnb.recording.trace_index import TraceIndex
from kstreamnb.runtime.codegen.sinks import sink_serdes
from kstreamnb.runtime.context.config import Config
from kstreamnb.runtime.task.task import Task
from kstreamnb.topology.nodes import grouped
from kstreamnb.topology.topology import Topology


class Waiting(NamedTuple):
    """A record that no task had consumed yet, from the "input" or "between tasks"."""

    where: Literal["input", "between tasks"]
    task: str
    record: TopicRecord


class RecordedRun:
    """A finished run: recording, tasks and topology.

    Args:
        topology: the topology that ran.
        config: its settings.
        recording: the recorded entries.
        tasks: the tasks by id; the task of global stores is called "global".
        partitions: partition counts of known topics.
        fed: topics that received records from outside.
    """

    def __init__(
        self,
        topology: Topology,
        config: Config,
        recording: Recording,
        tasks: Mapping[str, Task],
        partitions: Mapping[str, int],
        fed: Iterable[str] = (),
    ) -> None:
        self.topology, self.config, self.tasks, self.partitions = topology, config, dict(tasks), dict(partitions)
        self.fed = frozenset(fed)
        self.index = TraceIndex(recording)

    @property
    def steps(self) -> Steps:
        """Return all steps. They are not cached, so that a run and its log can be garbage-collected."""
        return Steps(self)

    @property
    def stores(self) -> tuple[str, ...]:
        """Names of the stores of all tasks."""
        return tuple(dict.fromkeys(name for task in self.tasks.values() for name in task.stores))

    def owner(self, position: int) -> RecordedRun:
        """Return the run that a log entry belongs to: another one if several applications share the log."""
        return self

    # --- entries as records ---
    def consumed(self, position: int) -> TopicRecord:
        """Return the record that was consumed at a log position."""
        _, offset, timestamp, key, value, headers = self.index.log[position]
        topic, partition = self.index.code(position).other
        return TopicRecord(topic, partition, offset, timestamp, shown(key), shown(value), headers)

    def produced(self, position: int) -> TopicRecord:
        """Return the record that was written to a topic at a log position."""
        code = self.index.code(position)
        _, partition, timestamp, key, value, headers = self.index.log[position]
        task = self.tasks[code.task]
        serdes = task.topic_serdes(code.other) or sink_serdes(task.plan, code.other)
        if serdes is not None:
            with suppress(SerdeError):  # a handler may have sent a dead letter there, which stays bytes
                key, value = decode(serdes[0], key), decode(serdes[1], value)
        return TopicRecord(code.other, partition, self.offset(position), timestamp, key, value, headers)

    def drops(self, step: int | None = None) -> Iterator[Drop]:
        """Yield all drops, or those of one step."""
        index = self.index
        positions = index.positions_of("dropped") if step is None else index.span(step)
        for position in positions:
            code = index.code(position)
            if code.kind == "dropped":
                number = index.step_of(position)
                _, key, value, timestamp, details = index.log[position]
                content = timestamp, shown(key), shown(value)
                record = self._refused(details, *content) or (self.steps[number - 1].record if number else None)
                yield Drop(number, code.task, code.node, code.other, content[1], content[2], timestamp, details, record)

    @property
    def refused(self) -> int:
        """Return the number of records that sources dropped before any task consumed them."""
        return sum("topic" in entry[4] for _, _, entry in self.index.entries("dropped"))

    def _refused(self, details: Details, timestamp: int, key: object, value: object) -> TopicRecord | None:
        """Return the record that a source dropped, which belongs to no step; None for any other drop."""
        if "topic" not in details:
            return None
        return TopicRecord(details["topic"], details["partition"], details["offset"], timestamp, key, value)

    # --- topics ---
    @cached_property
    def written(self) -> dict[tuple[str, int], array[int]]:
        """Log positions of the records written to each partition."""
        result: dict[tuple[str, int], array[int]] = {}
        for position, code, entry in self.index.entries("produced"):
            result.setdefault((code.other, entry[1]), array("q")).append(position)
        return result

    def offset(self, position: int) -> int:
        """Return the offset of the record that was written at a log position."""
        return bisect_left(self.written[self.index.code(position).other, self.index.log[position][1]], position)

    def topics(self) -> list[str]:
        """Return the names of topics that were written, sorted."""
        return sorted({topic for topic, _ in self.written})

    def short(self, topic: str) -> str:
        """Return a topic's name in the topology: internal names without the application id."""
        name = topic.removeprefix(f"{self.application_id}-")
        return name if name in self.topology.internal_topics else topic

    @property
    def application_id(self) -> str:
        """The application's id."""
        return next(iter(self.tasks.values())).plan.application_id

    def output_positions(self, topic: str, until: int | None = None) -> list[int]:
        """Return log positions of the records written to a topic (by its Kafka or topology name), in order, up to
        ``until`` steps; `produced` decodes one.
        """
        end = len(self.index.log) if until is None else self.index.end(until)
        of_topic = (positions for (name, _), positions in self.written.items() if topic in (name, self.short(name)))
        return sorted(position for positions in of_topic for position in positions if position < end)

    def unseen(self, topic: str) -> int:
        """Return the number of records that no reader sees because they were never committed."""
        return 0

    def find_output(self, topic: str, partition: int, offset: int) -> int:
        """Return the log position at which a record was written; raise EngineError if there is none."""
        for name in (topic, f"{self.application_id}-{topic}"):
            if (position := self._written_at(name, partition, offset)) is not None:
                return position
        known = ", ".join(self.topics()) or "nothing"
        raise EngineError(f"no record {topic}-{partition}@{offset} was written", detail=f"written: {known}")

    def _written_at(self, topic: str, partition: int, offset: int) -> int | None:
        """Return the log position at which a record was written to a topic (by its Kafka name); None if none was."""
        positions = self.written.get((topic, partition), ())
        return positions[offset] if 0 <= offset < len(positions) else None

    def find_input(self, topic: str, partition: int, offset: int) -> list[int]:
        """Return the log positions at which a record was consumed: by a task, and possibly into a global store."""
        names = dict.fromkeys((topic, f"{self.application_id}-{topic}"))
        came = (positions for name in names for _, positions in self.index.of_kind("consumed", other=(name, partition)))
        result = [position for positions in came for position in positions if self.index.log[position][1] == offset]
        if not result:
            known = ", ".join(dict.fromkeys(str(code.other[0]) for code, _ in self.index.of_kind("consumed")))
            fact = f"no record {topic}-{partition}@{offset} was consumed"
            raise EngineError(fact, detail=f"consumed: {known or 'none'}")
        return sorted(result)

    # --- links between steps ---
    @cached_property
    def causes(self) -> dict[int, int]:
        """Log positions of consumed records, mapped to where they were written; input from outside is not included."""
        result: dict[int, int] = {}
        for code, positions in self.index.of_kind("consumed"):
            written = self.written.get(code.other)
            if written is None:
                continue
            if code.other[0] in self.fed:
                result.update(self._matched(positions, written))
            else:
                offsets = ((position, self.index.log[position][1]) for position in positions)
                result.update({position: written[offset] for position, offset in offsets if offset < len(written)})
        return result

    @cached_property
    def effects(self) -> dict[int, list[int]]:
        """Log positions of written records, mapped to where they were consumed."""
        return grouped(self.causes, self.causes.__getitem__)

    def _matched(self, taken: array[int], written: array[int]) -> Iterator[tuple[int, int]]:
        """Pair consumed with written records in order by timestamp, for a topic that is also fed from outside."""
        log, at = self.index.log, 0
        for position in taken:
            if at < len(written) and written[at] < position and log[written[at]][2] == log[position][2]:
                yield position, written[at]
                at += 1

    @cached_property
    def taken(self) -> tuple[array[int], array[int], array[int]] | None:
        """Log positions of all consumed records, of those that a task had written, and where they were written.

        None for a run whose records may be consumed twice.
        """
        between = array("q", sorted(self.causes))
        return array("q", self.index.positions_of("consumed")), between, array("q", sorted(self.causes.values()))

    def waiting(self, step: int) -> Iterator[Waiting]:
        """Yield records that no task had consumed after ``step`` steps: input, and records between tasks."""
        end, taken = self.index.end(step), self.index.positions_of("consumed")
        for at in range(bisect_left(taken, end), len(taken)):
            position = taken[at]
            if self.causes.get(position, -1) < end:
                where: Literal["input", "between tasks"] = "between tasks" if position in self.causes else "input"
                yield Waiting(where, self.index.code(position).task, self.consumed(position))

    @cached_property
    def sunk(self) -> dict[tuple[str, str], array[int]]:
        """Log positions of written records by sink and topic: a "produced" entry follows the hop to its sink."""
        codes, log = self.index.codes, self.index.log
        names: dict[str, str] = {}
        result: dict[tuple[str, str], array[int]] = {}
        for position, code, _ in self.index.entries("produced"):
            before = position - 1
            while codes[log[before][0]].kind == "produced":
                before -= 1
            sink = codes[log[before][0]]
            if sink.kind == "forwarded":
                if code.other not in names:
                    names[code.other] = self.short(code.other)
                result.setdefault((sink.other, names[code.other]), array("q")).append(position)
        return result
