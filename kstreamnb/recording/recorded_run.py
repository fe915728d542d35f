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

__all__ = ["Place", "RecordedRun", "Waiting"]

Place = tuple[str, int]


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
        self.history = TraceIndex(recording)

    @property
    def steps(self) -> Steps:
        """All steps; not kept, so that a run ends with the last one who looks at it, and its log with it."""
        return Steps(self)

    def owner(self, place: int) -> RecordedRun:
        """The run that an entry of the log belongs to: another one where several applications write one log."""
        return self

    # --- entries as records ---
    def consumed(self, place: int) -> TopicRecord:
        """The record that was taken at a place of the log."""
        _, offset, timestamp, key, value, headers = self.history.log[place]
        topic, partition = self.history.code(place).other
        return TopicRecord(topic, partition, offset, timestamp, shown(key), shown(value), headers)

    def produced(self, place: int) -> TopicRecord:
        """The record that was written to a topic at a place of the log."""
        code = self.history.code(place)
        _, partition, timestamp, key, value, headers = self.history.log[place]
        serdes = self.tasks[code.task].topic_serdes(code.other)
        if serdes is not None:
            key, value = decode(serdes[0], key), decode(serdes[1], value)
        return TopicRecord(code.other, partition, self.offset(place), timestamp, key, value, headers)

    def drops(self, step: int | None = None) -> Iterator[Drop]:
        """Everything that was dropped, or what was in one step."""
        history = self.history
        places = history.places_of("dropped") if step is None else history.span(step)
        for place in places:
            code = history.code(place)
            if code.kind == "dropped":
                number = history.step_of(place)
                _, key, value, timestamp, details = history.log[place]
                content = timestamp, shown(key), shown(value)
                record = self._refused(details, *content) or (self.steps[number - 1].record if number else None)
                yield Drop(number, code.task, code.node, code.other, content[1], content[2], timestamp, details, record)

    @property
    def refused(self) -> int:
        """Number of records that a source refused before any task took them."""
        return sum(
            self._refused(entry[4], entry[3], None, None) is not None for _, _, entry in self.history.entries("dropped")
        )

    def _refused(self, details: Mapping[str, Any], timestamp: int, key: Any, value: Any) -> TopicRecord | None:
        """The record itself where a source refused it: it is part of no step."""
        if "topic" not in details:
            return None
        return TopicRecord(details["topic"], details["partition"], details["offset"], timestamp, key, value)

    # --- topics ---
    @cached_property
    def written(self) -> dict[Place, array[int]]:
        """Where in the log each partition of each topic was written."""
        found: dict[Place, array[int]] = {}
        for place, code, entry in self.history.entries("produced"):
            found.setdefault((code.other, entry[1]), array("q")).append(place)
        return found

    def offset(self, place: int) -> int:
        """Offset of the record that was written at a place."""
        partition = self.history.log[place][1]
        return bisect_left(self.written[self.history.code(place).other, partition], place)

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
        end = len(self.history.log) if until is None else self.history.end(until)
        names = [name for name in self.topics() if topic in (name, self.short(name))]
        places = sorted(
            place for (name, _), found in self.written.items() if name in names for place in found if place < end
        )
        return [self.produced(place) for place in places]

    def unseen(self, topic: str) -> int:
        """Records written to a topic that no reader sees, because they were never committed."""
        return 0

    def find_output(self, topic: str, partition: int, offset: int) -> int:
        """Where in the log a record was written; raises EngineError when there is none."""
        for name in (topic, f"{self.application_id}-{topic}"):
            places = self.written.get((name, partition))
            if places is not None and 0 <= offset < len(places):
                return places[offset]
        known = ", ".join(self.topics()) or "nothing"
        raise EngineError(f"no record {topic}-{partition}@{offset} was written", detail=f"written were {known}")

    def find_input(self, topic: str, partition: int, offset: int) -> list[int]:
        """Where in the log a record was taken, by a task and perhaps into a global store."""
        found = [
            place
            for name in dict.fromkeys((topic, f"{self.application_id}-{topic}"))
            for _, places in self.history.of_kind("consumed", other=(name, partition))
            for place in places
            if self.history.log[place][1] == offset
        ]
        if not found:
            known = ", ".join(dict.fromkeys(str(code.other[0]) for code, _ in self.history.of_kind("consumed")))
            raise EngineError(
                f"no record {topic}-{partition}@{offset} was taken", detail=f"taken were {known or 'none'}"
            )
        return sorted(found)

    # --- links between steps ---
    @cached_property
    def causes(self) -> dict[int, int]:
        """Where a record was taken → where it had been written; records from outside are not in it."""
        found: dict[int, int] = {}
        for code, places in self.history.of_kind("consumed"):
            written = self.written.get(code.other)
            if written is None:
                continue
            if code.other[0] in self.fed:
                found.update(self._matched(places, written))
            else:
                offsets = ((place, self.history.log[place][1]) for place in places)
                found.update({place: written[offset] for place, offset in offsets if offset < len(written)})
        return found

    @cached_property
    def effects(self) -> dict[int, list[int]]:
        """Where a record was written → where it was taken."""
        found: dict[int, list[int]] = {}
        for taken, written in self.causes.items():
            found.setdefault(written, []).append(taken)
        return found

    def _matched(self, taken: array[int], written: array[int]) -> Iterator[tuple[int, int]]:
        """What was taken and what was written, paired in order by timestamp: for a topic fed from outside too."""
        log, at = self.history.log, 0
        for place in taken:
            if at < len(written) and written[at] < place and log[written[at]][2] == log[place][2]:
                yield place, written[at]
                at += 1

    def waiting(self, step: int) -> Iterator[Waiting]:
        """What no task had taken after so many steps: the rest of the input, and what was between tasks."""
        end = self.history.end(step)
        for place, code, _ in self.history.entries("consumed"):
            if place >= end and self.causes.get(place, -1) < end:
                yield Waiting("between tasks" if place in self.causes else "input", code.task, self.consumed(place))
