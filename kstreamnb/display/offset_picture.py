"""Draws partitions as rows of offsets, with what is committed, read, visible and written."""

from __future__ import annotations

from collections.abc import Iterable

from kstreamnb.display.canvas import Canvas
from kstreamnb.display.mime import drawing_of
from kstreamnb.recording.offset_table import OffsetRow, OffsetTable

_LEFT, _CELL, _MOST, _LINE = 128, 26, 22, 13


def to_offset_svg(title: str, rows: Iterable[OffsetRow]) -> str:
    """Return partitions as a self-contained SVG element; of long partitions the last records are drawn."""
    canvas, y, shown = Canvas(), 8.0, list(rows)
    for row in shown:
        y = _partition(canvas, row, y)
    width = _LEFT + _CELL * (_MOST + 1)
    return canvas.framed("offsets", title, "; ".join(row.words() for row in shown), width, round(y + 2))


def _partition(canvas: Canvas, row: OffsetRow, y: float) -> float:
    """Draw one partition from ``y``, and return where the next one begins."""
    first = max(row.start, row.end - _MOST)
    canvas.text(6, y + 15, row.partition, font_weight="bold")
    if row.owner:
        canvas.text(6, y + 28, f"read by {row.owner}")
    if first > 0:
        canvas.text(_LEFT - 16, y + 15, "…")
    for offset in range(first, row.end):
        x = _LEFT + (offset - first) * _CELL
        canvas.add("rect", kind=_kind_of(row, offset), x=x, y=y, width=_CELL - 2, height=22, rx=3)
        canvas.text(x + _CELL / 2 - 1, y + 15, str(offset), kind="ks-number")
    for line, (offset, names) in enumerate(sorted(row.marks.items(), reverse=True)):
        x = _LEFT - 1 + max(0, offset - first) * _CELL
        bottom = y + 26 + _LINE * (line + 1)
        canvas.add("line", kind="ks-mark", x1=x, y1=y - 2, x2=x, y2=bottom)
        before = "← " if offset < first else ""
        canvas.text(x + 4, bottom, f"{before}{', '.join(names)} {offset}")
    return y + 26 + _LINE * max(1, len(row.marks)) + 16


def _kind_of(row: OffsetRow, offset: int) -> str:
    """Return how the record at an offset is painted."""
    if offset >= row.high:
        return "ks-cell ks-hidden"
    if row.committed is not None and offset < row.committed:
        return "ks-committed"
    return "ks-read" if row.position is not None and offset < row.position else "ks-cell"


@drawing_of.register
def _(model: OffsetTable) -> str:
    rows = list(model.offset_rows)
    return to_offset_svg(model.title, rows) if rows else ""
