"""Scales, ticks and labels of axes for pictures over time or numbers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from math import ceil

from kstreamnb.core.formatting import format_time
from kstreamnb.core.time import MAX_TIME_MS

_MOST_NUMBERS = 4  # on an axis, beside 0
_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
_STEPS = (
    *(unit * ten for ten in (1, 10, 100) for unit in (1, 2, 5)),
    *(_SECOND * count for count in (1, 2, 5, 10, 15, 30)),
    *(_MINUTE * count for count in (1, 2, 5, 10, 15, 30)),
    *(_HOUR * count for count in (1, 2, 3, 6, 12)),
    *(_DAY * count for count in (1, 2, 7, 14, 28, 91, 182, 364)),
)


@dataclass(frozen=True)
class Scale:
    """Maps numbers from ``low`` to ``high`` to pixels from ``start`` to ``end``; others are cut off at the edge."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the pixel of a number, with one decimal.

        Example:
            >>> Scale(0, 10, 100, 200)(2.5), Scale(0, 10, 100, 200)(99)
            (125.0, 200.0)
        """
        inside = min(max(value, self.low), self.high)
        return round(self.start + (inside - self.low) / ((self.high - self.low) or 1) * (self.end - self.start), 1)


def time_ticks(first_ms: int, last_ms: int, most: int = 8) -> list[int]:
    """Return round times between two times, at most ``most``.

    Example:
        >>> time_ticks(0, 27_000)
        [0, 5000, 10000, 15000, 20000, 25000]
    """
    span = last_ms - first_ms
    step = next((step for step in _STEPS if span // step < most), max(span // most, 1))
    return list(range(-(-first_ms // step) * step, last_ms + 1, step))


def number_ticks(high: float) -> list[float]:
    """Return round numbers from 0 to at least ``high``.

    Example:
        >>> number_ticks(37), number_ticks(0)
        ([0, 10, 20, 30, 40], [0, 1])
    """
    steps = (digit * 10**zeros for zeros in count() for digit in (1, 2, 5))
    step = next(step for step in steps if high <= _MOST_NUMBERS * step)
    return [step * number for number in range(max(1, ceil(high / step)) + 1)]


def time_label(time_ms: int, others: list[int]) -> str:
    """Return the label of a tick: only what differs between the ticks, and the date where a day begins.

    Example:
        >>> time_label(5000, [0, 5000]), time_label(1_767_258_060_000, [1_767_258_000_000, 1_767_258_060_000])
        ('5000', '09:01')
    """
    text = format_time(time_ms)
    if "T" not in text or time_ms >= MAX_TIME_MS:
        return text
    date, clock = text.rstrip("Z").split("T")
    if all(each % _DAY == 0 for each in others):
        return date
    if time_ms % _DAY == 0:
        return date[5:]
    return clock[:5] if all(each % _MINUTE == 0 for each in others) else clock
