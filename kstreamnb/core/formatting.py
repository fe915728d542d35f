"""Keys, values and times in sentences and in plain tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from kstreamnb.core.codec import SerializedValue
from kstreamnb.core.record import Change, Windowed
from kstreamnb.core.time import format_duration, format_ms

__all__ = ["aligned", "counted", "duration", "interval", "listed", "said", "when"]

_EARLY_MS = 10**10  # up to here a time reads better as a plain number
_LONGEST = 60


def said(value: Any) -> str:
    """A key or value in few words; a long one is cut, and says so.

    Example:
        >>> said("shoe"), said({"n": 1}), said(Windowed("shoe", 0, 10)), said(None)
        ('"shoe"', '{"n": 1}', '"shoe" in [0, 10)', 'null')
    """
    if isinstance(value, Windowed):
        return f"{said(value.key)} in {interval(value.start, value.end)}"
    if isinstance(value, Change):
        return said(value.new) if value.old is None else f"{said(value.new)} instead of {said(value.old)}"
    if isinstance(value, (set, frozenset)):
        return f"{{{', '.join(sorted(map(said, value)))}}}"
    if type(value) is SerializedValue:
        text = f"the bytes {value.hex()}"
    else:
        try:
            text = json.dumps(value, ensure_ascii=False)
        except (TypeError, ValueError):
            text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}… ({len(text)} characters)"


def when(time_ms: int) -> str:
    """An instant: a plain number near 0, else ISO text in UTC."""
    return str(time_ms) if abs(time_ms) < _EARLY_MS else format_ms(time_ms)


def interval(start: int, end: int, *, closed: bool = False) -> str:
    """A span of time; ``closed`` when the end belongs to it."""
    return f"[{when(start)}, {when(end)}{']' if closed else ')'}"


def duration(span_ms: int) -> str:
    """A number of milliseconds, in units."""
    return format_duration(span_ms)


def counted(number: int, noun: str) -> str:
    """A number and its noun: ``1 record``, ``2,000 records``, ``2 entries``."""
    if number == 1:
        return f"1 {noun}"
    plural = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeiou" else f"{noun}s"
    return f"{number:,} {plural}"


def listed(words: Iterable[str], *, most: int = 5) -> str:
    """Some words in a sentence: ``a, b and c``; of many the first, with how many there are."""
    found = list(words)
    if len(found) > most:
        return f"{', '.join(found[:most])} and {len(found) - most:,} more"
    return " and ".join([", ".join(found[:-1]), found[-1]] if len(found) > 1 else found)


def aligned(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in characters."""
    table = [list(header), *(list(row) for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(header))]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
    return "\n".join([lines[0], "-+-".join("-" * width for width in widths), *lines[1:]])
