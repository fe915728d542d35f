"""Durations and instants as users write them, in whole milliseconds, and the wall clock.

The spine never reads the machine's clock: the driver and Spark own a `Clock` and advance it.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from operator import index
from typing import SupportsIndex, TypeAlias

from kstreamnb.errors import ConfigError

Duration: TypeAlias = timedelta | str
"""A `timedelta`, or text such as ``"5m"``, ``"1500ms"`` or ``"1h30m"``."""

Instant: TypeAlias = datetime | str | int
"""An aware `datetime`, ISO text with an offset or Z, or milliseconds since the epoch."""

MAX_TIME_MS = 2**63 - 1
"""The end of time: timestamps have 64 bits."""

_AS_MS = "pass whole milliseconds since the epoch, such as int(time.timestamp() * 1000)"

_UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_PIECE = re.compile(r"(\d+)(ms|[dhms])")
_TEXT = re.compile(r"\s*(-?)((?:\d+(?:ms|[dhms])\s*)+)")
_OTHER_UNIT = re.compile(r"(?<=\d)(ms|[dhs]|m(?!il|o))[a-z]*")
"""A unit in another spelling, such as that of "30min", "1 hour" or Java's "PT1H"; not a month."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


def duration_ms(value: object, what: str = "duration") -> int:
    """Return a duration in milliseconds; ``what`` is its name in errors.

    Example:
        >>> duration_ms("1h30m"), duration_ms(timedelta(seconds=2)), duration_ms("-5s")
        (5400000, 2000, -5000)
    """
    if isinstance(value, timedelta):
        if value % _MS:
            raise ConfigError(f"{what} must be a whole number of milliseconds, got {value}")
        return value // _MS
    if isinstance(value, str) and (match := _TEXT.fullmatch(value)):
        total = sum(int(count) * _UNITS[unit] for count, unit in _PIECE.findall(match[2]))
        if total > MAX_TIME_MS:
            java = f'Invalid value for parameter "{what}" (value was: {value}). It can\'t be converted to milliseconds.'
            raise ConfigError(f"{what} must be at most {MAX_TIME_MS} ms, got {value}", java=java)
        return -total if match[1] else total
    shown = f'"{value}"' if isinstance(value, str) else f'of type "{type(value).__name__}"'
    fact = f"{what} {shown} is not a duration"
    detail = "a duration is a timedelta, or numbers with the units d, h, m, s and ms"
    ours = _OTHER_UNIT.sub(r"\1", re.sub(r"^PT?|\s", "", str(value), flags=re.IGNORECASE).lower())
    near = f'did you mean "{ours}"?' if _TEXT.fullmatch(ours) else 'write for example "5m", "1500ms" or "1h30m"'
    raise ConfigError(fact, detail=detail, hint=near)


def java_long(total_ms: int) -> int:
    """Return a sum of durations as a `long` of Java: negative if it is more than `MAX_TIME_MS`.

    Example:
        >>> java_long(MAX_TIME_MS + 1) == -MAX_TIME_MS - 1
        True
    """
    return (total_ms + 2**63) % 2**64 - 2**63


def time_ms(value: object, what: str) -> int:
    """Return a number as a timestamp in milliseconds; raise ConfigError unless it is whole and has at most 64 bits.

    Example:
        >>> time_ms(7, "time of a record")
        7
    """
    if type(value) is int and ~MAX_TIME_MS <= value <= MAX_TIME_MS:  # Java's Long.MIN_VALUE, too
        return value
    if isinstance(value, SupportsIndex) and type(value) not in (bool, int):  # a number of numpy
        with suppress(TypeError):  # an array has the method, too
            return time_ms(index(value), what)
    raise ConfigError(f"{what} must be a 64-bit integer, got {value!r}", hint=_AS_MS)


def instant_ms(value: object, what: str = "time") -> int:
    """Return an instant in milliseconds since the epoch; ``what`` is its name in errors.

    Example:
        >>> instant_ms("1970-01-01T00:00:01.500Z"), instant_ms("1970-01-01 01:00+01:00"), instant_ms(7)
        (1500, 0, 7)
    """
    if type(value) is int or (isinstance(value, SupportsIndex) and not isinstance(value, bool)):
        return time_ms(value, what)
    moment = value
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value.strip())
        except ValueError as error:
            hint = 'write for example "2026-01-01T09:00Z"'
            raise ConfigError(f'{what} "{value}" is not an instant', detail=str(error), hint=hint) from None
    if not isinstance(moment, datetime):
        kind = "date" if isinstance(moment, date) else type(moment).__name__
        hint = "pass an aware datetime, ISO text or milliseconds since the epoch"
        raise ConfigError(f'{what} of type "{kind}" is not an instant', hint=hint)
    if moment.tzinfo is None:
        detail = "the same text means a different instant in each zone"
        hint = 'add "Z" for UTC or an offset such as "+02:00" to text; tzinfo=UTC to a datetime'
        raise ConfigError(f'{what} "{value}" has no time zone', detail=detail, hint=hint)
    since = moment - _EPOCH
    if since % _MS:
        raise ConfigError(f'{what} must be a whole number of milliseconds, got "{value}"', hint=_AS_MS)
    return since // _MS


def format_ms(timestamp_ms: int) -> str:
    """Return an instant as ISO text in UTC, with milliseconds only if there are some.

    Example:
        >>> format_ms(0), format_ms(1_767_258_000_250)
        ('1970-01-01T00:00:00Z', '2026-01-01T09:00:00.250Z')
    """
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return f"{timestamp_ms} ms"
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds").removesuffix(".000") + "Z"


def format_duration(duration: int) -> str:
    """Return a number of milliseconds as the text that `duration_ms` reads.

    Example:
        >>> format_duration(5_400_000), format_duration(1500), format_duration(0)
        ('1h30m', '1s500ms', '0ms')
    """
    rest, parts = abs(duration), []
    for unit, size in _UNITS.items():
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return ("-" if duration < 0 else "") + ("".join(parts) or "0ms")


@dataclass
class Clock:
    """A wall clock that moves only when it is advanced, and never backwards.

    Units: ``now_ms`` is milliseconds since the epoch.

    Example:
        >>> clock = Clock(1000)
        >>> clock.advance_to(1500)
        >>> clock.now_ms
        1500
    """

    now_ms: int = 0

    def advance_to(self, now_ms: int) -> None:
        """Move to ``now_ms``; raises ConfigError when that is in the past."""
        if now_ms < self.now_ms:
            fact = f"the clock cannot go back from {self.now_ms} ms to {now_ms} ms"
            raise ConfigError(fact, java="Sleep ms cannot be negative.")
        self.now_ms = now_ms
