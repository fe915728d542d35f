"""Draws a timeline as SVG: lanes over event time, with windows, grace, stream time, late records and joined pairs.

Elements carry the step in which they appear (``data-step``), by which the replay stepper shows and hides them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from kstreamnb.core.formatting import clean, format_interval, format_stream_time, format_time, format_value
from kstreamnb.core.record import unwindowed
from kstreamnb.core.time import MAX_TIME_MS
from kstreamnb.display.axes import Scale, time_label, time_ticks
from kstreamnb.display.canvas import Canvas, fitted
from kstreamnb.replays.analysis.time_chart import Lane, Link, TaskTime, TimeChart, TimedRecord, TimeSpan

_WIDTH, _LEFT, _RIGHT = 860, 116, 24
_ROW, _BAR, _TRACK = 17, 13, 18
_LETTER = 5.0
_WORDS_MOST, _TITLE = 40, 120


def to_time_svg(chart: TimeChart, *, history: bool = False) -> str:
    """Return the timeline as a self-contained SVG element; the same timeline gives the same bytes.

    With ``history``, bars that were deleted later are drawn too, for a page that shows one step at a time.
    """
    return _Drawing(chart, history=history).svg()


def time_scale(chart: TimeChart) -> Scale:
    """Return the scale from event times to pixels of the picture."""
    first, last = chart.span_ms
    margin = (last - first) * 0.015
    return Scale(first - margin, last + margin, _LEFT, _WIDTH - _RIGHT)


class _Drawing(Canvas):
    """One picture while it is drawn: elements are added from top to bottom."""

    style = ""

    def __init__(self, chart: TimeChart, *, history: bool) -> None:
        super().__init__()
        self.chart, self.x, self.y, self.history = chart, time_scale(chart), 22.0, history
        self.ticks = time_ticks(*chart.span_ms)

    def svg(self) -> str:
        """Return the whole picture."""
        chart = self.chart
        for number, task in enumerate(chart.tasks):
            self.task(task, number)
        if not chart.tasks:
            self.text(_LEFT, self.y + 12, "no records")
            self.y += 24
        self.axis()
        self.legend()
        self.parts.insert(0, f'<text class="ks-head" x="6" y="14">{escape(clean(fitted(chart.title, _TITLE)))}</text>')
        return self.framed("time", chart.title, _words(chart), _WIDTH, round(self.y))

    def task(self, task: TaskTime, number: int) -> None:
        """Draw the records of a task by arrival with stream time, then its lanes."""
        self.text(6, self.y + 14, f"task {task.task}", font_weight="bold")
        top = self.y
        if task.stream_times:
            self.arrivals(task)
        else:
            self.y += 20
        for lane in task.lanes:
            self.lane(lane)
        if task.stream_times:
            now = self.x(task.stream_time_ms)
            about = f"stream time at the end: {format_time(task.stream_time_ms)}"
            self.add("line", about, kind="ks-now", x1=now, y1=top, x2=now, y2=self.y, **{"data-now": number})
        self.y += 8

    def arrivals(self, task: TaskTime) -> None:
        """Draw records from top to bottom in order of arrival, and the line of stream time."""
        records = task.records
        height = min(max(9 * len(records), 66), 150)
        self.grid(self.y, height)
        y = Scale(0, max(len(records) - 1, 1), self.y + 7, self.y + height - 7)
        for number, line in enumerate(("by arrival ↓", "stream time now:")):
            self.text(6, self.y + 29 + 13 * number, line)
        self.text(6, self.y + 55, format_time(task.stream_time_ms), kind="ks-now-text")
        seen: int | None = None
        for index, record in enumerate(records):
            now = self.x(record.stream_time_ms)
            before = now if seen is None else self.x(seen)
            if record.stream_time_ms >= 0:
                # a step of the line: it advances when the record arrives, and stays until the next one
                path = f"M{before:g},{y(index):g}H{now:g}V{y(min(index + 1, len(records) - 1)):g}"
                about = f"stream time {format_time(record.stream_time_ms)} after step {record.step}"
                self.add("path", about, record.step, kind="ks-stream", d=path)
                seen = record.stream_time_ms
        for index, record in enumerate(records):
            self.record(record, y(index))
        self.y += height + 4

    def lane(self, lane: Lane) -> None:
        """Draw a lane: its records, then its bars in as few rows as they fit."""
        tracks = range(len(self.chart.tracks))
        spans = lane.spans if self.history else lane.current
        rows = _packed(spans, self.x)
        height = _TRACK * len(tracks) + _ROW * (max(rows, default=-1) + 1) + 3
        self.add("rect", kind="ks-lane", x=0, y=self.y, width=_WIDTH, height=height)
        self.grid(self.y, height)
        self.text(6, self.y + 13, fitted(lane.label, 17))
        top = self.y + _TRACK * len(tracks)
        for row, span in zip(rows, spans, strict=True):
            self.span(span, top + _ROW * row, named=_is_named(lane))
        middle = [self.y + _TRACK * track + _TRACK / 2 for track in tracks]
        for link in lane.links:
            self.link(lane, link, middle)
        for record in lane.records:
            self.delay(record, middle[record.track])
        for record in lane.records:
            self.record(record, middle[record.track])
        self.y += height + 3

    def record(self, record: TimedRecord, y: float) -> None:
        """Draw a record: a dot, a ring on the second side of a join, or a cross if it was dropped."""
        x, about = self.x(record.time_ms), _about_record(record)
        if record.fate == "kept":
            kind = "ks-other-side" if record.track else "ks-dot"
            self.add("circle", about, record.step, kind=kind, cx=x, cy=y, r=3.5)
        elif record.fate == "partly late":
            self.add("circle", about, record.step, kind="ks-partly", cx=x, cy=y, r=4)
        else:
            path = f"M{x - 4:g},{y - 4:g}L{x + 4:g},{y + 4:g}M{x - 4:g},{y + 4:g}L{x + 4:g},{y - 4:g}"
            self.add("path", about, record.step, kind="ks-late", d=path)

    def delay(self, record: TimedRecord, y: float) -> None:
        """Draw a bracket from a record's time to stream time on its arrival."""
        start, end = self.x(record.time_ms), self.x(record.stream_time_ms)
        if end - start > 5:
            kind = "ks-delay" if record.fate == "kept" else "ks-late-delay"
            path = f"M{start:g},{y - 4:g}V{y - 7:g}H{end:g}V{y - 2:g}"
            about = f"arrived at stream time {format_time(record.stream_time_ms)}"
            self.add("path", about, record.step, kind=kind, d=path)

    def span(self, span: TimeSpan, y: float, *, named: bool) -> None:
        """Draw a bar, its grace and the moment that closes it."""
        start, width, about = self.x(span.start_ms), _width(span, self.x), _about_span(span)
        gone = f' data-gone="{span.values[-1][0]}"' if span.values[-1][1] is None else ""
        self.parts.append(f'<g data-step="{span.first_step}"{gone}>')
        self.add("rect", about, kind="ks-window", x=start, y=y, width=round(width, 1), height=_BAR, rx=2)
        if span.closes_ms is not None and self.x(span.closes_ms) > start + width:
            grace = round(self.x(span.closes_ms) - start - width, 1)
            self.add("rect", about, kind="ks-grace", x=round(start + width, 1), y=y, width=grace, height=_BAR)
        shown = _value_text(span, span.values[-1][1], width, named=named)
        if shown or self.history:
            self.text(start + 4, y + 10, shown, kind="ks-value")
        if span.closes_ms is not None and span.closes_ms <= self.chart.span_ms[1]:
            self.closing(span, self.x(span.closes_ms), y + _BAR / 2)
        self.parts.append("</g>")

    def closing(self, span: TimeSpan, x: float, y: float) -> None:
        """Draw a diamond: filled once the window has closed."""
        when = "not yet closed" if span.closed_step is None else f"closed in step {span.closed_step}"
        about = f"closes at stream time {format_time(span.closes_ms or 0)}: {when}"
        path = f"M{x:g},{y - 4.5:g}L{x + 4.5:g},{y:g}L{x:g},{y + 4.5:g}L{x - 4.5:g},{y:g}Z"
        closed = {} if span.closed_step is None else {"data-closed": span.closed_step}
        self.add("path", about, kind="ks-open" if span.closed_step is None else "ks-closed", d=path, **closed)

    def link(self, lane: Lane, link: Link, middle: Sequence[float]) -> None:
        """Draw the line of a pair."""
        one, two = lane.records[link.record], lane.records[link.partner]
        about = f"joined in step {link.step}: {format_time(one.time_ms)} with {format_time(two.time_ms)}"
        path = f"M{self.x(one.time_ms):g},{middle[one.track]:g}L{self.x(two.time_ms):g},{middle[two.track]:g}"
        self.add("path", about, link.step, kind="ks-link", d=path)

    def grid(self, y: float, height: float) -> None:
        """Draw a line at each tick."""
        for tick in self.ticks:
            self.add("line", kind="ks-grid", x1=self.x(tick), y1=y, x2=self.x(tick), y2=y + height)

    def axis(self) -> None:
        """Write the times below the lanes."""
        for tick in self.ticks:
            self.text(self.x(tick), self.y + 10, time_label(tick, self.ticks), text_anchor="middle")
        zoned = "T" in format_time(self.chart.span_ms[1])
        first = format_time(self.chart.span_ms[0])[:10]
        unit = f"event time (UTC), from {first}" if zoned else "event time (ms)"
        self.text((_LEFT + _WIDTH - _RIGHT) / 2, self.y + 24, unit, text_anchor="middle", kind="ks-soft")
        self.y += 32

    def legend(self) -> None:
        """Explain the shapes that are in the picture."""
        x = 6.0
        for shape, text in _legend(self.chart):
            if x + 24 + _LETTER * len(text) > _WIDTH - 6:
                x, self.y = 6.0, self.y + 17
            self.parts.append(f'<g transform="translate({x:g} {self.y:g})">{shape}</g>')
            self.text(x + 24, self.y + 10, text)
            x = round(x + 24 + _LETTER * len(text) + 14, 1)
        self.y += 20


def _value_text(span: TimeSpan, value: str | None, width: float, *, named: bool) -> str:
    """Return a bar's value, with its key if the lane holds several, cut to the width of the bar."""
    if not value:
        return ""
    text, room = f"{format_value(unwindowed(span.key))}: {value}" if named else value, int((width - 4) / _LETTER)
    return text if len(text) <= room else f"{text[: room - 1]}…" if room > 3 else ""


def time_facts(chart: TimeChart, step: int) -> dict[str, object]:
    """Return what changes from step to step in the picture with its history: values of bars, and stream time by task.

    Values are in the order of the bars; stream time is a position in the picture, None before the first record.
    """
    x = time_scale(chart)
    bars = [(span, _is_named(lane)) for lane in chart.lanes for span in lane.spans]
    values = [_value_text(span, span.value_at(step), _width(span, x), named=named) for span, named in bars]
    times = [task.stream_time_ms for task in chart.at(step).tasks]
    now = [None if time < 0 else x(time) for time in times]
    return {"values": values, "now": now, "times": list(map(format_stream_time, times))}


def _is_named(lane: Lane) -> bool:
    return lane.label.startswith("task ")


def _width(span: TimeSpan, x: Scale) -> float:
    return max(x(span.end_ms) - x(span.start_ms), 3)


def _packed(spans: Sequence[TimeSpan], x: Scale) -> list[int]:
    """Return a row for each bar so that bars in a row do not overlap; spans are ordered by start."""
    ends: list[float] = []
    rows = []
    for span in spans:
        start, end = x(span.start_ms), x(span.closes_ms or span.end_ms) + 2
        row = next((number for number, until in enumerate(ends) if until <= start), len(ends))
        ends[row : row + 1] = [max(end, start + 6)]
        rows.append(row)
    return rows


def _about_record(record: TimedRecord) -> str:
    became = "" if record.fate == "kept" else f"; {record.fate}: {record.reason}"
    content = f"key {format_value(record.key)}, value {format_value(record.value)}, time {format_time(record.time_ms)}"
    return f"step {record.step}: {content}{became}"


def _about_span(span: TimeSpan) -> str:
    key = unwindowed(span.key)
    interval = format_interval(span.start_ms, span.end_ms, closed=span.inclusive)
    if span.end_ms >= MAX_TIME_MS:
        interval = f"from {format_time(span.start_ms)} to the end"
    value = span.values[-1][1]
    closes = "" if span.closes_ms is None else f"; closes at stream time {format_time(span.closes_ms)}"
    return f"{format_value(key)} {interval}{f': {value}' if value else ''}{closes}"


def _legend(chart: TimeChart) -> Iterator[tuple[str, str]]:
    """Yield the shapes that are in the picture with what they mean."""
    records = chart.records
    spans = [span for lane in chart.lanes for span in lane.current]
    ring = '<circle class="ks-other-side" cx="9" cy="6" r="3.5"/>'
    dot = '<circle class="ks-dot" cx="9" cy="6" r="3.5"/>'
    if len(chart.tracks) > 1:
        yield dot, chart.tracks[0]
        yield ring, chart.tracks[1]
    else:
        yield dot, "record"
    fates = {record.fate for record in records}
    if fates & {"late", "dropped"}:
        yield '<path class="ks-late" d="M5,2L13,10M5,10L13,2"/>', "dropped" if "dropped" in fates else "late: dropped"
    if "partly late" in fates:
        yield '<circle class="ks-partly" cx="9" cy="6" r="4"/>', "late for some of its windows"
    if any(record.stream_time_ms > record.time_ms for record in records):
        yield '<path class="ks-delay" d="M1,10V4H17V9"/>', "to stream time on arrival"
    if spans:
        words = {"windows": "window", "join": "looks for partners", "rows": "row", "input": ""}
        yield f'<rect class="ks-window" x="0" y="0" width="18" height="{_BAR}" rx="2"/>', words[chart.kind]
    if any(span.closes_ms is not None and span.closes_ms > span.end_ms for span in spans):
        yield f'<rect class="ks-grace" x="0" y="0" width="18" height="{_BAR}"/>', "grace"
    for kind, closed in (("ks-closed", True), ("ks-open", False)):
        if any(span.closes_ms is not None and (span.closed_step is not None) is closed for span in spans):
            yield f'<path class="{kind}" d="M9,1.5L13.5,6L9,10.5L4.5,6Z"/>', "closed" if closed else "will close"
    if any(lane.links for lane in chart.lanes):
        yield '<path class="ks-link" d="M0,11L18,1"/>', "joined"
    if any(task.stream_times for task in chart.tasks):
        yield '<path class="ks-stream" d="M0,2H9V11H18"/>', "stream time"


def _words(chart: TimeChart) -> str:
    """Return the picture in words, for screen readers."""
    rows = [" ".join(f"{name} {cell}," for name, cell in zip(chart.header, row, strict=True)) for row in chart.table()]
    more = f" and {len(rows) - _WORDS_MOST} more rows" if len(rows) > _WORDS_MOST else ""
    facts = [row.rstrip(",") for row in rows[:_WORDS_MOST]]
    return f"{chart.title}. {'; '.join(facts)}{more}. {'; '.join(chart.more())}."
