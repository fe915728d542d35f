"""Many roots at once, sub-topology by sub-topology, with the result of one root after another.

Tasks share nothing but topics. So each may run through everything that all roots bring it before the next one runs,
if it gets its records in the order in which they would have come: by root, depth, writing task and sequence. That is
possible where no sub-topology feeds one before it, no record chooses its topic and no global store changes meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from operator import itemgetter, lt
from typing import TYPE_CHECKING, Any, TypeAlias

from kstreamnb.core.heap import collector_paused
from kstreamnb.errors import EngineError, ProcessingError
from kstreamnb.testdriver.execution.topic_log import convert

if TYPE_CHECKING:  # an engine has waves
    from kstreamnb.testdriver.execution.router import OutputRoute, Root, Router, TopicRoute

__all__ = ["Waves", "task_order"]

Arrival: TypeAlias = tuple[int, int, int, int, str, int, int, Any, Any, Any]
"""``(root, depth, writing task, sequence, topic, partition, timestamp, key, value, headers)``.

The first four tell every one from all others, so that arrivals are sorted as they are.
"""


def task_order(
    written: Sequence[Sequence[Any]], readers: Callable[[str], Mapping[int, int] | None]
) -> list[int] | None:
    """Tasks such that each comes after all that feed it; None where there is no such order.

    ``written`` are the topics of each task, None for one that records choose; ``readers`` gives the tasks that read a
    topic, None where it also goes elsewhere.
    """
    feeds: list[dict[int, None]] = []
    for topics in written:
        read: dict[int, None] = {}
        for topic in topics:
            tasks = None if topic is None else readers(topic)
            if tasks is None:
                return None
            read.update(dict.fromkeys(tasks.values()))
        feeds.append(read)
    waiting = [sum(index in read for read in feeds) for index in range(len(feeds))]
    order = [index for index, count in enumerate(waiting) if count == 0]
    for index in order:
        for reader in feeds[index]:
            waiting[reader] -= 1
            if waiting[reader] == 0:
                order.append(reader)
    return order if len(order) == len(feeds) else None


class Waves:
    """One passage of many roots through all tasks of an engine."""

    def __init__(self, engine: Router, order: list[int]) -> None:
        self._engine, self._order = engine, order
        self._arrivals: list[list[Arrival]] = [[] for _ in order]
        self._rows: dict[str, list[Any]] = {}
        self._end = 1 << 62
        self._steps: list[tuple[tuple[int, int, int, int], int]] = []
        self._error: ProcessingError | None = None

    def run(self, roots: list[Root]) -> None:
        """Process roots that are in order; raises the error of the first one that fails, and keeps those before it."""
        engine = self._engine
        base = len(engine.recorded)
        for number, (topic, partition, timestamp, key, value, headers) in enumerate(roots):
            arrival = (number, 0, -1, 0, topic, partition, timestamp, key, value, headers)
            self._arrivals[_reader(engine, topic, partition)].append(arrival)
        with collector_paused():
            for index in self._order:
                if self._arrivals[index]:
                    self._run_task(index)
        self._put_in_order(base)
        for topic, rows in self._rows.items():
            rows.sort()
            engine.logs[topic].rows += [row[4] for row in rows if row[0] < self._end]
        if self._error is not None:
            raise self._error

    def _run_task(self, index: int) -> None:
        """All that arrived at one task."""
        task = self._engine.order[index]
        arrivals = sorted(self._arrivals[index])
        if self._end < 1 << 62:
            arrivals = [arrival for arrival in arrivals if arrival[0] < self._end]
        arrivals = _by_head(arrivals)
        marks, before = list[int](), len(self._engine.recorded)
        try:
            for topic, partition, records in self._stretches(arrivals):
                task.run(topic, partition, records, marks)
        except ProcessingError as error:
            self._error, self._end = error, arrivals[len(marks)][0]
        recorder = self._engine.recorder
        taken = [] if recorder is None else recorder.taken_since(before)
        for number, (arrival, place) in enumerate(zip(arrivals, taken, strict=False)):
            self._steps.append(((arrival[0], arrival[1], index, number), place))
        self._spread(index, arrivals, marks, task.drain())
        self._engine.log_changes(task)

    def _put_in_order(self, base: int) -> None:
        """Let a recording tell the steps in the order of their roots, not task by task."""
        log = self._engine.recorded
        if len(self._order) > 1 and self._steps:
            starts = [place for _, place in self._steps]
            ends = [*starts[1:], len(log)]
            found = log[base : starts[0]]
            for (key, at), end in sorted(zip(self._steps, ends, strict=True)):
                if key[0] <= self._end:
                    found += log[at:end]
            log[base:] = found

    def _stretches(self, arrivals: list[Arrival]) -> list[tuple[str, int, list[Any]]]:
        """Arrivals with their offsets, cut where the partition changes."""
        found: list[tuple[str, int, list[Any]]] = []
        topic, partition, records, offset = "", -1, list[Any](), 0
        for _, _, _, _, at, place, timestamp, key, value, headers in arrivals:
            if place != partition or at != topic:
                if records:
                    self._engine.offsets[topic, partition] = offset
                topic, partition, records, offset = at, place, [], self._engine.offsets.get((at, place), 0)
                found.append((topic, partition, records))
            records.append((offset, timestamp, key, value, headers))
            offset += 1
        if records:
            self._engine.offsets[topic, partition] = offset
        return found

    def _spread(self, index: int, arrivals: list[Arrival], marks: list[int], rows: list[Any]) -> None:
        """Log what a task wrote and hand it to those who read it, each row with its place in the order."""
        engine, logged, before, sequence = self._engine, self._rows, 0, 0
        outlets: dict[str, tuple[OutputRoute, list[Any], TopicRoute | None, bool]] = {}
        for arrival, mark in zip(arrivals, marks, strict=False):
            if mark == before:
                continue
            root, depth = arrival[0], arrival[1]
            for row in rows[before:mark]:
                topic, partition, timestamp, key, value, headers = row
                if topic not in outlets:
                    outlet = engine.outlet(index, topic)
                    route, written_as = outlet.route, outlet.written_as
                    other = route is not None and written_as is not None and written_as != route.serdes
                    outlets[topic] = outlet, logged.setdefault(topic, []), route, other
                outlet, entries, route, other = outlets[topic]
                entries.append((root, depth, index, sequence, outlet.logged(row)))
                if route is not None:
                    if other and outlet.written_as is not None:
                        key = convert(key, outlet.written_as[0], route.serdes[0])
                        value = convert(value, outlet.written_as[1], route.serdes[1])
                    place = (root, depth + 1, index, sequence, topic, partition, timestamp, key, value, headers)
                    self._arrivals[route.tasks[partition]].append(place)
                sequence += 1
            before = mark


def _reader(engine: Router, topic: str, partition: int) -> int:
    route = engine.route(topic)
    index = None if route is None else route.tasks.get(partition)
    if index is None:
        raise EngineError(f'topic "{topic}" has no partition {partition}')
    return index


def _by_head(arrivals: list[Arrival]) -> list[Arrival]:
    """Arrivals of one root and depth from several partitions as a task takes them: least head first."""
    steps = list(map(itemgetter(0, 1), arrivals))
    if all(map(lt, steps, islice(steps, 1, None))):
        return arrivals
    found: list[Arrival] = []
    start, size = 0, len(arrivals)
    while start < size:
        first, end = arrivals[start], start + 1
        while end < size and arrivals[end][0] == first[0] and arrivals[end][1] == first[1]:
            end += 1
        group = arrivals[start:end]
        lanes: dict[tuple[str, int], list[Arrival]] = {}
        if end - start > 1:
            for arrival in group:
                lanes.setdefault((arrival[4], arrival[5]), []).append(arrival)
        if len(lanes) > 1:
            while lanes:
                lane = min(lanes, key=lambda place: (lanes[place][0][6], place))
                found.append(lanes[lane].pop(0))
                if not lanes[lane]:
                    del lanes[lane]
        else:
            found += group
        start = end
    return found
