"""Draws partitions as rows of offsets, with what is committed, read, visible and written."""

from __future__ import annotations

from collections.abc import Iterable

from kstreamnb.display.canvas import Canvas, fitted
from kstreamnb.display.mime import drawing_of
from kstreamnb.recording.offset_table import OffsetRow, OffsetTable

_LEFT, _CELL, _MOST, _LINE = 128, 26, 22, 13
_LETTER, _LONGEST = 5.5, 48


def to_offset_svg(title: str, rows: Iterable[OffsetRow]) -> str:
    """Return partitions as a self-contained SVG element; of long partitions the last records are drawn."""
    canvas, y, shown = Canvas(), 8.0, list(rows)
    longest = max((len(text) for row in shown for text in _labels(row)), default=0)
    left = max(_LEFT, round(_LETTER * longest) + 22)
    ends = [left + _CELL * at + _LETTER * len(text) + 10 for row in shown for at, text in _marks(row)]
    for row in shown:
        y = _partition(canvas, row, left, y)
    width = round(max(left + _CELL * (_MOST + 1), *ends))
    return canvas.framed("offsets", title, "; ".join(row.words() for row in shown), width, round(y + 2))


def _labels(row: OffsetRow) -> list[str]:
    """Return the texts beside a partition."""
    return [fitted(text, _LONGEST) for text in (row.partition, f"read by {row.owner}" if row.owner else "") if text]


def _first(row: OffsetRow) -> int:
    return max(row.start, row.end - _MOST)


def _marks(row: OffsetRow) -> list[tuple[int, str]]:
    """Return the cell before which each mark is drawn, and its text; the last one first."""
    first, marks = _first(row), sorted(row.marks.items(), reverse=True)
    texts = (f"{'← ' if offset < first else ''}{', '.join(names)} {offset}" for offset, names in marks)
    return [(max(0, offset - first), text) for (offset, _), text in zip(marks, texts, strict=True)]


def _partition(canvas: Canvas, row: OffsetRow, left: int, y: float) -> float:
    """Draw one partition from ``y``, its records from ``left``, and return where the next one begins."""
    first = _first(row)
    for line, text in enumerate(_labels(row)):
        canvas.text(6, y + 15 + _LINE * line, text, **({} if line else {"font_weight": "bold"}))
    if first > 0:
        canvas.text(left - 16, y + 15, "…")
    for offset in range(first, row.end):
        x = left + (offset - first) * _CELL
        canvas.add("rect", kind=_kind_of(row, offset), x=x, y=y, width=_CELL - 2, height=22, rx=3)
        canvas.text(x + _CELL / 2 - 1, y + 15, str(offset), kind="ks-number")
    for line, (at, text) in enumerate(_marks(row)):
        x, bottom = left - 1 + at * _CELL, y + 26 + _LINE * (line + 1)
        canvas.add("line", kind="ks-mark", x1=x, y1=y - 2, x2=x, y2=bottom)
        canvas.text(x + 4, bottom, text)
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
