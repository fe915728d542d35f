"""Places the title of a box in its top line, at the first position that no edge crosses.

Graphviz reserves a line for the title at the top of a box, but draws edges and their counts across it. `pad_title`
makes that line wide enough for a title beside an edge in the middle; `place_title` moves the title clear of edges.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from xml.etree import ElementTree

_SVG = "{http://www.w3.org/2000/svg}"
_LETTER, _SPACE = 5.4, 3.05  # widths at the size of a title, the letter's with some to spare for other fonts
_INSIDE, _CLEAR = 8.0, 5.0
_ABOVE, _BELOW = 10.0, 4.0
_STEPS = 16

Point = tuple[float, float]
Span = tuple[float, float]


def pad_title(title: str) -> list[str]:
    """Return the lines of a title, padded so that its box has room for it on one side of the middle."""
    lines = title.replace(" (", "\n(").split("\n")
    longest = max(map(len, lines))
    room = round((_LETTER * longest + _INSIDE + 2 * _CLEAR) / _SPACE)
    return [line + " " * room if len(line) == longest else line for line in lines]


def place_title(drawing: ElementTree.Element, box: ElementTree.Element, lines: Sequence[ElementTree.Element]) -> None:
    """Strip the padding from a title and move it clear of edges; left-aligned if no position is free."""
    for line in lines:
        line.text = (line.text or "").rstrip()
    corners = [x for path in box.findall(f"{_SVG}path") for x, _ in _points(path.get("d") or "")]
    left, right = min(corners, default=0.0) + _INSIDE, max(corners, default=0.0) - _INSIDE
    width = _LETTER * max(len(line.text or "") for line in lines)
    heights = [float(line.get("y") or 0) for line in lines]
    x = _free(left, right, width, _taken(drawing, min(heights) - _ABOVE, max(heights) + _BELOW))
    for line in lines:
        line.set("text-anchor", "start")
        line.set("x", f"{left if x is None else x:.2f}")


def _free(left: float, right: float, width: float, taken: Iterable[Span]) -> float | None:
    """Return the smallest x at which ``width`` fits between two bounds and clear of the taken intervals."""
    x = left
    for start, end in sorted(taken):
        if x + width <= min(start - _CLEAR, right):
            return x
        x = max(x, end + _CLEAR)
    return x if x + width <= right else None


def _taken(drawing: ElementTree.Element, top: float, bottom: float) -> Iterator[Span]:
    """Yield the horizontal interval of each edge, arrow and label between two heights."""
    for edge in drawing.iter(f"{_SVG}g"):
        if not (edge.get("id") or "").startswith("edge-"):
            continue
        lines = [_line(_points(path.get("d") or "")) for path in edge.iter(f"{_SVG}path")]
        lines += [_points(arrow.get("points") or "") for arrow in edge.iter(f"{_SVG}polygon")]
        for (x, y), (next_x, next_y) in (pair for line in lines for pair in pairwise(line)):
            if min(y, next_y) <= bottom and max(y, next_y) >= top:
                yield min(x, next_x), max(x, next_x)
        for label in edge.iter(f"{_SVG}text"):
            x, y, half = float(label.get("x") or 0), float(label.get("y") or 0), _LETTER * len(label.text or "") / 2
            if top <= y <= bottom + _ABOVE:
                yield x - half, x + half


def _points(text: str) -> list[Point]:
    """Return the points of a path or polygon."""
    return [(float(x), float(y)) for x, y in re.findall(r"(-?[\d.]+),(-?[\d.]+)", text)]


def _line(points: list[Point]) -> list[Point]:
    """Return points on the Bézier curves that make up an edge."""
    line = points[:1]
    for at in range(0, len(points) - 3, 3):
        start, first, second, end = points[at : at + 4]
        for step in range(1, _STEPS + 1):
            t = step / _STEPS
            weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
            near = tuple(zip(weights, (start, first, second, end), strict=True))
            line.append((sum(w * x for w, (x, _) in near), sum(w * y for w, (_, y) in near)))
    return line
