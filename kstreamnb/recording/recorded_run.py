"""A finished run: its history with what is needed to read it (tasks, serdes, names), and how steps hang together.

A record that a task wrote to a topic and another task took from there links two steps; so the whole run is a graph.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Literal, NamedTuple

from kstreamnb.core.codec import decode
from kstreamnb.core.record import TopicRecord
from kstreamnb.errors import EngineError
from kstreamnb.recording.steps import Drop, Steps
from kstreamnb.recording.trace import Recording, shown
from kstreamnb.recording.trace_index import TraceIndex
from kstreamnb.runtime.context.config import Config
from kstreamnb.runtime.task.task import Task
from kstreamnb.topology.topology import Topology

__all__ = ["RecordedRun", "Waiting"]


class Waiting(NamedTuple):
    """A record that no task had taken yet; ``where`` is "input" or "between tasks"."""

    where: Literal["input", "between tasks"]
    task: str
    record: TopicRecord


class RecordedRun:
    """History, tasks and topology of a run.

    Args:
        topology: what ran.
        config: its settings.
        recording: what happened.
        tasks: the tasks by id, the one of global stores as "global".
        partitions: partitions of topics that are known.
        fed: topics that got records from outside.
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
        """All steps; not kept, so that a run ends with the last one who looks at it, and its log with it."""
        return Steps(self)

    def owner(self, position: int) -> RecordedRun:
        """The run that an entry of the log belongs to: another one where several applications write one log."""
        return self

    # --- entries as records ---
    def consumed(self, position: int) -> TopicRecord:
        """The record that was taken at a place of the log."""
        _, offset, timestamp, key, value, headers = self.index.log[position]
        topic, partition = self.index.code(position).other
        return TopicRecord(topic, partition, offset, timestamp, shown(key), shown(value), headers)

    def produced(self, position: int) -> TopicRecord:
        """The record that was written to a topic at a place of the log."""
        code = self.index.code(position)
        _, partition, timestamp, key, value, headers = self.index.log[position]
        serdes = self.tasks[code.task].topic_serdes(code.other)
        if serdes is not None:
            key, value = decode(serdes[0], key), decode(serdes[1], value)
        return TopicRecord(code.other, partition, self.offset(position), timestamp, key, value, headers)

    def drops(self, step: int | None = None) -> Iterator[Drop]:
        """Everything that was dropped, or what was in one step."""
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
        """Number of records that a source refused before any task took them."""
        return sum(
            self._refused(entry[4], entry[3], None, None) is not None for _, _, entry in self.index.entries("dropped")
        )

    def _refused(self, details: Mapping[str, Any], timestamp: int, key: Any, value: Any) -> TopicRecord | None:
        """The record itself where a source refused it: it is part of no step."""
        if "topic" not in details:
            return None
        return TopicRecord(details["topic"], details["partition"], details["offset"], timestamp, key, value)

    # --- topics ---
    @cached_property
    def written(self) -> dict[tuple[str, int], array[int]]:
        """Where in the log each partition of each topic was written."""
        result: dict[tuple[str, int], array[int]] = {}
        for position, code, entry in self.index.entries("produced"):
            result.setdefault((code.other, entry[1]), array("q")).append(position)
        return result

    def offset(self, position: int) -> int:
        """Offset of the record that was written at a place."""
        partition = self.index.log[position][1]
        return bisect_left(self.written[self.index.code(position).other, partition], position)

    def topics(self) -> list[str]:
        """Topics that were written, in the order of their names."""
        return sorted({topic for topic, _ in self.written})

    def short(self, topic: str) -> str:
        """A topic's name in the topology: internal ones without the application's id."""
        name = topic.removeprefix(f"{self.application_id}-")
        return name if name in self.topology.internal_topics else topic

    @property
    def application_id(self) -> str:
        """The application's id."""
        return next(iter(self.tasks.values())).plan.application_id

    def output(self, topic: str, until: int | None = None) -> list[TopicRecord]:
        """Records written to a topic (by its name in Kafka or in the topology), in order, after so many steps."""
        end = len(self.index.log) if until is None else self.index.end(until)
        names = [name for name in self.topics() if topic in (name, self.short(name))]
        positions = sorted(
            position
            for (name, _), result in self.written.items()
            if name in names
            for position in result
            if position < end
        )
        return [self.produced(position) for position in positions]

    def unseen(self, topic: str) -> int:
        """Records written to a topic that no reader sees, because they were never committed."""
        return 0

    def find_output(self, topic: str, partition: int, offset: int) -> int:
        """Where in the log a record was written; raises EngineError when there is none."""
        for name in (topic, f"{self.application_id}-{topic}"):
            positions = self.written.get((name, partition))
            if positions is not None and 0 <= offset < len(positions):
                return positions[offset]
        known = ", ".join(self.topics()) or "nothing"
        raise EngineError(f"no record {topic}-{partition}@{offset} was written", detail=f"written were {known}")

    def find_input(self, topic: str, partition: int, offset: int) -> list[int]:
        """Where in the log a record was taken, by a task and perhaps into a global store."""
        result = [
            position
            for name in dict.fromkeys((topic, f"{self.application_id}-{topic}"))
            for _, positions in self.index.of_kind("consumed", other=(name, partition))
            for position in positions
            if self.index.log[position][1] == offset
        ]
        if not result:
            known = ", ".join(dict.fromkeys(str(code.other[0]) for code, _ in self.index.of_kind("consumed")))
            raise EngineError(
                f"no record {topic}-{partition}@{offset} was taken", detail=f"taken were {known or 'none'}"
            )
        return sorted(result)

    # --- links between steps ---
    @cached_property
    def causes(self) -> dict[int, int]:
        """Where a record was taken → where it had been written; records from outside are not in it."""
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
        """Where a record was written → where it was taken."""
        result: dict[int, list[int]] = {}
        for taken, written in self.causes.items():
            result.setdefault(written, []).append(taken)
        return result

    def _matched(self, taken: array[int], written: array[int]) -> Iterator[tuple[int, int]]:
        """What was taken and what was written, paired in order by timestamp: for a topic fed from outside too."""
        log, at = self.index.log, 0
        for position in taken:
            if at < len(written) and written[at] < position and log[written[at]][2] == log[position][2]:
                yield position, written[at]
                at += 1

    def waiting(self, step: int) -> Iterator[Waiting]:
        """What no task had taken after so many steps: the rest of the input, and what was between tasks."""
        end = self.index.end(step)
        for position, code, _ in self.index.entries("consumed"):
            if position >= end and self.causes.get(position, -1) < end:
                yield Waiting(
                    "between tasks" if position in self.causes else "input", code.task, self.consumed(position)
                )
