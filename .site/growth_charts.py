"""Draws the charts of the page on performance: ``python .site/growth_charts.py`` draws every JSON file of curves.

``python -m tests.bench.growth --json notebooks/guide/figures/driver.json`` writes the curves of the test driver.
Both axes are logarithmic, so that a straight diagonal is a cost that grows as the work does.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any, TypeAlias

from kstreamnb.display.axes import Scale
from kstreamnb.display.canvas import Canvas
from kstreamnb.display.style import css

__all__ = ["FIGURES", "drawn"]

Chart: TypeAlias = dict[str, Any]
"""A chart as the programs write it: ``chart``, ``x_label``, ``y_label``, ``series`` of ``name`` and ``points``."""

FIGURES = Path(__file__).parents[1] / "notebooks" / "guide" / "figures"
WIDTH, PLOT, COLUMNS, LEFT, RIGHT, TOP, FOOT, LINE = 440, 190, 2, 62, 20, 30, 44, 17
COLORS = ("#2f81f7", "#a87000", "#2c974b", "#d1242f")
SIGNS = ("M-4,0A4,4 0 1 0 4,0A4,4 0 1 0 -4,0Z", "M-4,-4H4V4H-4Z", "M0,-5L5,4H-5Z", "M0,-5L5,0L0,5L-5,0Z")
"""Shapes of points: a line is known by its shape and color."""

CSS = """
.ks-graph text{font-size:12px} .ks-graph .ks-head{font-size:13px;font-weight:bold}
.ks-graph .ks-grid{stroke:#808080;stroke-opacity:.35} .ks-graph .ks-curve{fill:none;stroke-width:1.8}
"""


def drawn(charts: Sequence[Chart]) -> str:
    """Return charts as one SVG, two in a row; the same curves give the same bytes."""
    canvas, y = Canvas(), 0
    for row in (charts[at : at + COLUMNS] for at in range(0, len(charts), COLUMNS)):
        names = max(len(chart["series"]) for chart in row)
        for column, chart in enumerate(row):
            draw(canvas, chart, column * WIDTH, y, names)
        y += TOP + names * LINE + PLOT + FOOT
    words = "; ".join(map(words_of, charts))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="ks-graph" role="img" aria-label="measured costs" '
        f'width="{COLUMNS * WIDTH}" height="{y}" viewBox="0 0 {COLUMNS * WIDTH} {y}"><title>measured costs</title>'
        f"<desc>{escape(words)}</desc><style>{css()}{CSS.rstrip()}</style>"
        f'<rect class="ks-ground" width="100%" height="100%"/>{"".join(canvas.parts)}</svg>\n'
    )


def words_of(chart: Chart) -> str:
    """Return a chart in words, for readers who do not see it."""
    lines = (
        f"{each['name']} from {quantity(each['points'][0], chart)} to {quantity(each['points'][-1], chart)}"
        for each in chart["series"]
    )
    return f"{chart['chart']}: {', '.join(lines)}"


def quantity(point: Sequence[float], chart: Chart) -> str:
    """Return a point with its units."""
    return f"{point[1]:.3g} {chart['y_label']} for {point[0]:,g} {chart['x_label']}"


def draw(canvas: Canvas, chart: Chart, left: int, top: int, names: int) -> None:
    """Draw a chart below its title and the names of its lines."""
    canvas.text(left + 8, top + 20, chart["chart"], kind="ks-head")
    unit = "s" if chart["y_label"].startswith("seconds") else ""
    canvas.text(left + WIDTH - RIGHT, top + TOP + names * LINE + 6, chart["y_label"], text_anchor="end")
    points = [point for each in chart["series"] for point in each["points"]]
    x_ticks, y_ticks = (decades(point[axis] for point in points) for axis in (0, 1))
    bottom = top + TOP + names * LINE + PLOT
    x = Scale(math.log10(x_ticks[0]), math.log10(x_ticks[-1]), left + LEFT, left + WIDTH - RIGHT)
    y = Scale(math.log10(y_ticks[0]), math.log10(y_ticks[-1]), bottom, bottom - PLOT + 12)
    for tick in y_ticks:
        at = y(math.log10(tick))
        canvas.add("line", kind="ks-grid", x1=left + LEFT, y1=at, x2=left + WIDTH - RIGHT, y2=at)
        canvas.text(left + LEFT - 6, at + 4, label(tick, unit), text_anchor="end")
    for tick in x_ticks:
        canvas.text(x(math.log10(tick)), bottom + 17, label(tick), text_anchor="middle")
    canvas.text(left + WIDTH - RIGHT, bottom + 34, chart["x_label"], text_anchor="end")
    for number, each in enumerate(chart["series"]):
        color, sign = COLORS[number], SIGNS[number]
        places = [(x(math.log10(size)), y(math.log10(cost)), size, cost) for size, cost in each["points"]]
        path = " ".join(f"{right:g},{down:g}" for right, down, _, _ in places)
        canvas.add("polyline", kind="ks-curve", points=path, stroke=color)
        for right, down, size, cost in places:
            about = f"{each['name']}: {quantity((size, cost), chart)}"
            canvas.add("path", about, d=sign, fill=color, transform=f"translate({right:g} {down:g})")
        middle = top + TOP + number * LINE + 5
        canvas.add("path", d=sign, fill=color, transform=f"translate({left + 16} {middle})")
        canvas.text(left + 28, middle + 4, each["name"])


def decades(values: Iterable[float]) -> list[float]:
    """Return the powers of ten that enclose positive values, at least two."""
    logs = [math.log10(value) for value in values]
    low, high = math.floor(min(logs)), math.ceil(max(logs))
    return [10.0**power for power in range(low, max(high, low + 1) + 1)]


def label(value: float, unit: str = "") -> str:
    """Return a power of ten as text, such as 10 k or, with a unit, 100 ms."""
    sizes = ((1e6, "M"), (1e3, "k"), (1, ""), (1e-3, "m"), (1e-6, "µ"))
    for size, letter in sizes if unit else sizes[:2]:
        if value >= size * 0.999:
            return f"{value / size:g} {letter}{unit}"
    return f"{value:g}"


if __name__ == "__main__":
    for path in sorted(FIGURES.glob("*.json")):
        path.with_suffix(".svg").write_text(drawn(json.loads(path.read_text())))
