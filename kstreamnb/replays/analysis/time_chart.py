"""Models a run over event time: lanes of records, windows with their grace, stream time and joined pairs.

`kstreamnb.replays.analysis.time_lanes` builds the model, `kstreamnb.display.time_picture` draws it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

from kstreamnb.core.formatting import format_interval, format_time, format_value, join_list, shown_of
from kstreamnb.core.record import Windowed, unwindowed
from kstreamnb.core.tables import Tabular
from kstreamnb.core.time import MAX_TIME_MS
from kstreamnb.topology.labels import store_label

ChartKind: TypeAlias = Literal["windows", "join", "rows", "input"]
"""Contents of the lanes: windows of an aggregate, two sides of a join, rows of a store, or input records alone."""

Fate: TypeAlias = Literal["kept", "partly late", "late", "dropped"]
"""How a record ended: "partly late" is late for some of its windows only."""


class TimedRecord(NamedTuple):
    """A record at a node: its event time, and stream time of the task after its arrival (ms)."""

    step: int
    track: int
    key: object
    value: object
    time_ms: int
    stream_time_ms: int
    fate: Fate = "kept"
    reason: str = ""


class TimeSpan(NamedTuple):
    """A bar: a window, the life of a row, or the span of time in which a record looks for partners.

    ``closes_ms`` is the stream time that closes a window, None if nothing closes it; ``closed_step`` the step that did.
    ``values`` holds each value as text with the step that wrote it; None for a deletion. ``inclusive``: the end is
    part of the window, as in sessions and sliding windows.
    """

    key: object
    start_ms: int
    end_ms: int
    closes_ms: int | None
    closed_step: int | None
    values: tuple[tuple[int, str | None], ...]
    inclusive: bool = False

    @property
    def first_step(self) -> int:
        """The step in which the bar appears."""
        return self.values[0][0]

    def value_at(self, step: int) -> str | None:
        """Return the value after a number of steps; None if there is none.

        Args:
            step: how many steps the run has made.
        """
        at = bisect_right(self.values, step, key=lambda value: value[0])
        return self.values[at - 1][1] if at else None


class Link(NamedTuple):
    """A joined pair: indexes into the records of a lane, and the step that joined them."""

    record: int
    partner: int
    step: int


@dataclass(frozen=True)
class Lane:
    """A key's (or a task's) records and bars."""

    label: str
    records: tuple[TimedRecord, ...]
    spans: tuple[TimeSpan, ...] = ()
    links: tuple[Link, ...] = ()

    @property
    def current(self) -> list[TimeSpan]:
        """The bars that were not deleted; sessions that were merged into another one are deleted."""
        return [span for span in self.spans if span.values[-1][1] is not None]

    def until(self, step: int) -> Lane:
        """Return the lane as it was after a number of steps.

        Args:
            step: how many steps the run has made.
        """
        spans = tuple(
            span._replace(values=tuple(value for value in span.values if value[0] <= step))._replace(
                closed_step=None if span.closed_step is None or span.closed_step > step else span.closed_step
            )
            for span in self.spans
            if span.first_step <= step
        )
        links = tuple(link for link in self.links if link.step <= step)
        return Lane(self.label, tuple(record for record in self.records if record.step <= step), spans, links)


@dataclass(frozen=True)
class TaskTime:
    """The lanes of one task, and its stream time: pairs of a step and the time (ms) after it."""

    task: str
    lanes: tuple[Lane, ...]
    stream_times: tuple[tuple[int, int], ...]

    @property
    def stream_time_ms(self) -> int:
        """Stream time at the end; -1 before the first record."""
        return self.stream_times[-1][1] if self.stream_times else -1

    @property
    def records(self) -> list[TimedRecord]:
        """The records of all lanes, in order of arrival."""
        return sorted((record for lane in self.lanes for record in lane.records), key=lambda record: record.step)

    def until(self, step: int) -> TaskTime:
        """Return the task as it was after a number of steps.

        Args:
            step: how many steps the run has made.
        """
        times = tuple(each for each in self.stream_times if each[0] <= step)
        return TaskTime(self.task, tuple(lane.until(step) for lane in self.lanes), times)


@dataclass(frozen=True, repr=False)
class TimeChart(Tabular):
    """A run over event time, as a picture, a table and text.

    Attributes:
        name: the store, or "" for the input.
        kind: contents of the lanes.
        about: the windows or the join in words.
        tasks: the lanes by task, because stream time belongs to a task.
        tracks: names of the two sides of a join.
        total: number of lanes and of records in the whole run.
        span_ms: first and last time (ms) of the picture.
    """

    name: str
    kind: ChartKind
    about: str
    tasks: tuple[TaskTime, ...]
    tracks: tuple[str, ...]
    total: tuple[int, int]
    span_ms: tuple[int, int]

    def at(self, step: int) -> TimeChart:
        """Return the chart as it was after ``step`` steps, on the same scale.

        Args:
            step: how many steps the run has made.
        """
        return replace(self, tasks=tuple(task.until(step) for task in self.tasks))

    @property
    def lanes(self) -> list[Lane]:
        """All lanes."""
        return [lane for task in self.tasks for lane in task.lanes]

    @property
    def records(self) -> list[TimedRecord]:
        """All records, in order of arrival."""
        return sorted((record for task in self.tasks for record in task.records), key=lambda record: record.step)

    @property
    def header(self) -> tuple[str, ...]:
        """Names of the columns."""
        return _HEADERS[self.kind]

    @property
    def title(self) -> str:
        """Name the store and its windows, and count what is shown."""
        lanes, records = self.lanes, self.records
        what = f'timeline of store "{self.name}"' if self.name else "timeline of the input"
        if self.kind == "join" and store_label(self.name) != self.name:
            what = f"timeline of the join of {join_list(self.tracks)}"
        about = f" ({self.about})" if self.about else ""
        noun = "task" if lanes and lanes[0].label.startswith("task ") else "key"
        counts = [shown_of(len(lanes), self.total[0], noun), shown_of(len(records), self.total[1], "record")]
        for fate in ("late", "partly late", "dropped"):
            number = sum(record.fate == fate for record in records)
            counts += [f"{number:,} {fate}"] if number else []
        return f"{what}{about}: {', '.join(counts)}"

    def table(self) -> Iterator[tuple[str, ...]]:
        """Yield the facts of the picture as text."""
        for task in self.tasks:
            for lane in task.lanes:
                yield from (_ROWS[self.kind])(self, task, lane)

    def more(self) -> Iterator[str]:
        """Yield stream time by task, and every record that was dropped."""
        for task in self.tasks:
            if task.stream_times:
                yield f"stream time of task {task.task} ends at {format_time(task.stream_time_ms)}"
        for record in self.records:
            if record.fate != "kept":
                subject = f"key {format_value(record.key)} at {format_time(record.time_ms)}"
                yield f"{record.fate} in step {record.step}: {subject}, {record.reason}"


_Cells: TypeAlias = tuple[str, ...]
_HEADERS: dict[ChartKind, _Cells] = {
    "windows": ("task", "key", "window", "records at", "closes at", "closed in", "value"),
    "join": ("task", "key", "side", "record at", "step", "joined with"),
    "rows": ("task", "key", "from", "until", "value"),
    "input": ("task", "key", "records at"),
}


def _times(records: list[TimedRecord]) -> str:
    return join_list(map(format_time, sorted(record.time_ms for record in records)), most=8) or "none"


def _window_rows(chart: TimeChart, task: TaskTime, lane: Lane) -> Iterator[_Cells]:
    for span in lane.current:
        inside = [record for record in lane.records if _holds(span, record)]
        closes = "never" if span.closes_ms is None else format_time(span.closes_ms)
        closed = "open" if span.closed_step is None else f"step {span.closed_step}"
        key, window = unwindowed(span.key), format_interval(span.start_ms, span.end_ms, closed=span.inclusive)
        yield task.task, format_value(key), window, _times(inside), closes, closed, span.values[-1][1] or "null"


def _holds(span: TimeSpan, record: TimedRecord) -> bool:
    """Return whether a record is part of a window, which was still open on its arrival."""
    same_key = not isinstance(span.key, Windowed) or span.key.key == record.key
    in_time = record.fate != "dropped" and (span.closes_ms is None or record.stream_time_ms < span.closes_ms)
    return same_key and in_time and span.start_ms <= record.time_ms < span.end_ms + span.inclusive


def _join_rows(chart: TimeChart, task: TaskTime, lane: Lane) -> Iterator[_Cells]:
    partners: dict[int, list[int]] = {}
    for link in lane.links:
        partners.setdefault(link.record, []).append(link.partner)
        partners.setdefault(link.partner, []).append(link.record)
    for index, record in enumerate(lane.records):
        other = [lane.records[at] for at in partners.get(index, [])]
        side = chart.tracks[record.track]
        yield task.task, lane.label, side, format_time(record.time_ms), str(record.step), _times(other)


def _store_rows(chart: TimeChart, task: TaskTime, lane: Lane) -> Iterator[_Cells]:
    for span in lane.current:
        until = "now" if span.end_ms >= MAX_TIME_MS else format_time(span.end_ms)
        yield task.task, format_value(span.key), format_time(span.start_ms), until, span.values[-1][1] or "null"


def _input_rows(chart: TimeChart, task: TaskTime, lane: Lane) -> Iterator[_Cells]:
    yield task.task, lane.label, _times(list(lane.records))


_ROWS = {"windows": _window_rows, "join": _join_rows, "rows": _store_rows, "input": _input_rows}
