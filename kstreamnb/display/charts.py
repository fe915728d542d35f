"""Draws charts as one SVG: bars by name and lines over time, with axes, units and tooltips; no script."""

from __future__ import annotations

from html import escape

from kstreamnb.charts import Bars, Charted, Charts, Lines
from kstreamnb.core.formatting import clean, format_time
from kstreamnb.display.axes import Scale, number_ticks, time_label, time_ticks
from kstreamnb.display.canvas import Canvas, fitted
from kstreamnb.display.mime import data_of

_WIDTH, _HEIGHT, _COLUMNS = 410, 158, 2
_TOP, _FOOT, _SIDE, _NAMES = 26, 30, 14, 104
_LONGEST = 17  # letters of a name beside its bar
_TITLE = 68  # letters of a title above its chart
_MOST_BARS = 8
_NOTE = 15
_SHORTEST_MS = 10_000  # one point alone still has an axis


def to_charts_svg(charts: Charts) -> str:
    """Return charts as a self-contained SVG element; the same charts give the same bytes."""
    canvas, columns = Canvas(), min(_COLUMNS, max(1, len(charts.each)))
    above = 22 + _NOTE * len(charts.notes)
    for number, note in enumerate(charts.notes):
        canvas.text(6, 32 + _NOTE * number, fitted(note, 2 * _TITLE))
    for number, chart in enumerate(charts.each):
        row, column = divmod(number, columns)
        left, top = column * _WIDTH, above + row * _HEIGHT
        canvas.text(left + 6, top + 16, fitted(f"{chart.title} ({chart.unit})", _TITLE), font_weight="bold")
        if isinstance(chart, Bars):
            _bars(canvas, chart, left, top)
        else:
            _lines(canvas, chart, left, top)
    rows = -(-len(charts.each) // columns)
    width, height = columns * _WIDTH, above + rows * _HEIGHT + 4
    title = escape(clean(fitted(charts.title, 2 * _TITLE - 20)))
    canvas.parts.insert(0, f'<text class="ks-head" x="6" y="15">{title}</text>')
    return canvas.framed("charts", charts.title, "; ".join(map(str, charts.each)), width, height)


def _bars(canvas: Canvas, chart: Bars, left: float, top: float) -> None:
    """Draw horizontal bars, each with its name and value; the first ones if not all fit."""
    shown = chart.rows if len(chart.rows) <= _MOST_BARS else chart.rows[: _MOST_BARS - 1]
    ticks = number_ticks(max((value for _, value in chart.rows), default=0))
    x = Scale(0, ticks[-1], left + _NAMES, left + _WIDTH - 52)
    bottom = top + _HEIGHT - _FOOT
    step = (bottom - top - _TOP) / _MOST_BARS
    for tick in ticks:
        canvas.add("line", kind="ks-grid", x1=x(tick), y1=top + _TOP, x2=x(tick), y2=bottom)
        canvas.text(x(tick), bottom + 12, _short(tick, ticks[-1]), text_anchor="middle")
    for number, (name, value) in enumerate(shown):
        y = round(top + _TOP + number * step, 1)
        width = round(x(value) - x(0), 1)
        about = f"{name}: {value:,g} {chart.unit}"
        canvas.add("rect", about, kind="ks-bars", x=x(0), y=y + 1.5, width=width, height=round(step - 3, 1))
        canvas.text(x(0) - 5, y + step - 3.5, fitted(name, _LONGEST), text_anchor="end")
        canvas.text(x(value) + 4, y + step - 3.5, f"{value:,g}" if value < 1e6 else _short(value, value))
    if len(shown) < len(chart.rows):
        canvas.text(x(0) - 5, bottom - 3.5, f"and {len(chart.rows) - len(shown):,} more", text_anchor="end")


def _lines(canvas: Canvas, chart: Lines, left: float, top: float) -> None:
    """Draw a line over time with a tooltip at each point."""
    times, values = [time for time, _ in chart.points], [value for _, value in chart.points]
    bottom, start = top + _HEIGHT - _FOOT, left + 52
    if not chart.points:
        canvas.text(start, top + _TOP + 20, "nothing yet")
        return
    end = max(times[-1], times[0] + _SHORTEST_MS)
    ticks, hours = number_ticks(max(values)), time_ticks(times[0], end, most=5)
    x = Scale(times[0], end, start, left + _WIDTH - _SIDE - 10)
    y = Scale(0, ticks[-1], bottom, top + _TOP)
    for tick in ticks:
        canvas.add("line", kind="ks-grid", x1=start, y1=y(tick), x2=left + _WIDTH - _SIDE - 10, y2=y(tick))
        canvas.text(start - 5, y(tick) + 3.5, _short(tick, ticks[-1]), text_anchor="end")
    for tick in hours:
        canvas.text(x(tick), bottom + 15, time_label(tick, hours), text_anchor="middle")
    zone = "time (UTC)" if "T" in format_time(times[-1]) else "time (ms)"
    canvas.text((start + left + _WIDTH) / 2, bottom + 27, zone, text_anchor="middle")
    path = " ".join(f"{x(time):g},{y(value):g}" for time, value in chart.points)
    canvas.add("polyline", kind="ks-curve", points=path)
    for time, value in chart.points:
        about = f"{format_time(time)}: {value:,g} {chart.unit}"
        canvas.add("circle", about, kind="ks-point", cx=x(time), cy=y(value), r=2.4)


def _short(value: float, highest: float) -> str:
    """Return the label of a tick: in thousands if the highest one is ten thousand or more ("5k", "10k"), and so on."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value and highest >= 10 * size:
            return f"{value / size:,.3g}{letter}"
    return f"{value:,g}"


data_of.register(Charted, lambda model: {"text/plain": str(model), "image/svg+xml": to_charts_svg(model.charts)})
