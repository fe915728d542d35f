"""Converts the cells of data frames to values that JSON can hold: the same for samples and for `run`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from math import floor
from typing import Any
from uuid import UUID

from kstreamnb.core.record import Windowed
from kstreamnb.core.time import format_ms
from kstreamnb.errors import ConfigError

_KEPT = (str, bool, int, bytes, UUID, Windowed)
_MISSING = ("NaTType", "NAType")  # by name: pandas is optional, and its NaT claims to be a datetime
_TEXTS = ("Period", "Interval")


def _unchanged(value: object) -> object:
    return value


def plain_value(value: object, other: Callable[[object], Any] = _unchanged) -> Any:
    """Return a frame's value as JSON can hold it; ``other`` gets a value of a type that is not known.

    Times, decimals, periods and intervals become text, durations seconds, arrays lists, and NaN None.

    Example:
        >>> plain_value({"price": Decimal("1.50"), "wait": timedelta(minutes=1), "rate": float("nan")})
        {'price': '1.50', 'wait': 60.0, 'rate': None}
    """
    kind = type(value).__name__
    if value is None or isinstance(value, _KEPT):
        return value
    if kind in _MISSING:
        return None
    if isinstance(value, float):
        return None if value != value else value
    if isinstance(value, datetime):
        return value.isoformat() if value.tzinfo is None else format_ms(aware_ms(value))
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal) or kind in _TEXTS:
        return str(value)
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, Mapping):
        return {str(name): plain_value(item, other) for name, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain_value(item, other) for item in value]
    return _numpy_value(value, other) if type(value).__module__.startswith("numpy") else other(value)


def _numpy_value(value: Any, other: Callable[[object], Any]) -> Any:
    if value.ndim:
        return [plain_value(item, other) for item in value]
    if value.dtype.kind in "mM":  # as nanoseconds they would become whole numbers
        value = value.astype(f"{value.dtype.kind}8[us]")
    item = value.item()
    return other(value) if type(item) is type(value) else plain_value(item, other)


def aware_ms(instant: datetime) -> int:
    """Return a datetime with a zone as whole milliseconds since the epoch, rounded down."""
    return floor(instant.timestamp()) * 1000 + instant.microsecond // 1000


def pandas_values(series: Any, other: Callable[[object], Any] = _unchanged) -> list[Any]:
    """Return the cells of a pandas column as JSON can hold them; numbers without gaps by a fast path."""
    if series.dtype.kind in "iub" and not hasattr(series.dtype, "na_value"):
        numbers: list[Any] = series.tolist()
        return numbers
    if series.dtype.kind == "f" and not hasattr(series.dtype, "na_value"):
        return [None if value != value else value for value in series.tolist()]
    return [plain_value(value, other) for value in without_gaps(series)]


def without_gaps(series: Any) -> list[Any]:
    """Return the cells of a pandas column as Python objects, with None for missing values."""
    objects = series.astype(object)
    values: list[Any] = objects.where(series.notna(), None).tolist()
    return values


def expect_text_name(name: object) -> None:
    """Raise ConfigError for a column whose name is not text: values have texts as names."""
    if not isinstance(name, str):
        raise ConfigError(
            f"column {name!r} has a name that is not text", hint="rename it: frame.columns = frame.columns.map(str)"
        )
