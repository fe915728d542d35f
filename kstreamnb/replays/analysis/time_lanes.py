"""Builds the timeline of a run: chooses lanes and records, and adds bars, pairs and stream time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from kstreamnb.core.arguments import at_least
from kstreamnb.core.formatting import format_value
from kstreamnb.core.time import MAX_TIME_MS, Instant, instant_ms
from kstreamnb.errors import EngineError, StateError
from kstreamnb.hints import expect_known
from kstreamnb.recording.recorded_run import RecordedRun
from kstreamnb.replays.analysis.node_flow import is_about
from kstreamnb.replays.analysis.time_chart import Lane, TaskTime, TimeChart
from kstreamnb.replays.analysis.time_sources import Dot, TimeSource, sources_of
from kstreamnb.topology.nodes import grouped

_MOST_RECORDS = 400
_WIDEST = 2  # windows may make the picture at most this many times wider on each side than the records alone


class Lanes(NamedTuple):
    """The part of a run that a timeline shows: lanes by key or task, one key, a span of event time, most lanes."""

    by: Literal["key", "task"] = "key"
    key: object = None
    span_ms: tuple[int, int] | None = None
    most: int = 12

    @classmethod
    def checked(
        cls, by: Literal["key", "task"], key: object, between: tuple[Instant, Instant] | None, most: int
    ) -> Lanes:
        """Return the choice; raise EngineError or ConfigError for one that makes no picture."""
        at_least(1, most, "most")
        if between is None:
            return cls(by, key, None, most)
        start, end = (instant_ms(each, "between") for each in between)
        if end < start:
            raise EngineError(f"between must be (start, end), got {between}", hint="swap the two times")
        return cls(by, key, (start, end), most)

    def takes(self, dot: Dot) -> bool:
        """Return whether a record is part of it."""
        in_time = self.span_ms is None or self.span_ms[0] <= dot.record.time_ms <= self.span_ms[1]
        return in_time and is_about(dot.key, self.key)

    def label(self, dot: Dot) -> str:
        """Return the lane of a record."""
        return f"task {dot.task}" if self.by == "task" else format_value(dot.key)


def time_chart(run: RecordedRun, store: str | None, lanes: Lanes) -> TimeChart:
    """Return the timeline of a store: by default of the first windowed aggregate, join or store, else of the input."""
    if store is not None:
        expect_known("store", [store], run.stores, error=StateError)
    source = next(each for each in sources_of(run) if store in (None, each.name))
    dots = list(source.dots())
    chosen = _chosen(dots, lanes)
    tasks: tuple[TaskTime, ...] = ()
    for task, by_label in chosen.items():
        own = tuple(_lane(source, task, label, each, lanes.span_ms) for label, each in by_label.items())
        tasks += (TaskTime(task, own, _times(dots, task)),)
    drawn = [dot.record.step for by_label in chosen.values() for each in by_label.values() for dot in each]
    if len(drawn) >= _MOST_RECORDS:  # bars of later records would be without their dots
        tasks = tuple(task.until(max(drawn)) for task in tasks)
    total = len({(dot.task, lanes.label(dot)) for dot in dots}), len(dots)
    span_ms = lanes.span_ms or _span_ms(tasks)
    return TimeChart(source.name, source.kind, source.about, tasks, source.tracks, total, span_ms)


def _chosen(dots: Iterable[Dot], lanes: Lanes) -> dict[str, dict[str, list[Dot]]]:
    """Return the records by task and lane; lanes with dropped records come first if not all can be shown."""
    by_lane = grouped(filter(lanes.takes, dots), lambda dot: (dot.task, lanes.label(dot)))
    ranked = sorted(by_lane, key=lambda lane: all(dot.record.fate == "kept" for dot in by_lane[lane]))
    taken = set(ranked[: lanes.most])
    steps = sorted(dot.record.step for lane in taken for dot in by_lane[lane])[:_MOST_RECORDS]
    result: dict[str, dict[str, list[Dot]]] = {}
    for task, label in sorted(taken, key=lambda lane: (lane[0], list(by_lane).index(lane))):
        kept = [dot for dot in by_lane[task, label] if dot.record.step <= steps[-1]]
        result.setdefault(task, {})[label] = kept
    return result


def _lane(source: TimeSource, task: str, label: str, dots: list[Dot], span_ms: tuple[int, int] | None) -> Lane:
    spans = sorted(source.spans(task, dots), key=lambda span: (span.start_ms, span.end_ms))
    if span_ms is not None:
        spans = [span for span in spans if span.start_ms <= span_ms[1] and span.end_ms >= span_ms[0]]
    return Lane(label, tuple(dot.record for dot in dots), tuple(spans), tuple(source.links(task, dots)))


def _times(dots: Iterable[Dot], task: str) -> tuple[tuple[int, int], ...]:
    """Return stream time of a task after each of its records, where it advanced."""
    result: list[tuple[int, int]] = []
    for dot in dots:
        time = dot.record.stream_time_ms
        if dot.task == task and time >= 0 and (not result or time > result[-1][1]):
            result.append((dot.record.step, time))
    return tuple(result)


def _span_ms(tasks: Iterable[TaskTime]) -> tuple[int, int]:
    """Return first and last time of the picture: all records, and windows unless they are much longer."""
    lanes = [lane for task in tasks for lane in task.lanes]
    times = [record.time_ms for lane in lanes for record in lane.records] or [0]
    bounds = [time for lane in lanes for span in lane.spans for time in (span.start_ms, span.end_ms, span.closes_ms)]
    reach = max(times) - min(times)
    sizes = [span.end_ms - span.start_ms for lane in lanes for span in lane.spans if span.end_ms < MAX_TIME_MS]
    reach = _WIDEST * max(reach, *sizes, 1) if sizes else _WIDEST * max(reach, 1)
    near = [time for time in bounds if time is not None and min(times) - reach <= time <= max(times) + reach]
    first, last = min(times + [time for time in near if time >= 0]), max(times + near)
    return first, max(last, first + 1)
