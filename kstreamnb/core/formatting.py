"""Formats keys, values, times, counts and lists for sentences."""

from __future__ import annotations

import json
from collections.abc import Iterable

from kstreamnb.core.codec import SerializedValue
from kstreamnb.core.record import Change, Windowed
from kstreamnb.core.time import format_ms
from kstreamnb.masking import INVISIBLE as INVISIBLE
from kstreamnb.masking import clean as clean

EARLY_MS = 10**9  # test data often counts from 0: a time below this reads better as a plain number
_MAX_CHARACTERS, _MAX_WHOLE = 60, 2000
_AS_JSON = json.JSONEncoder(ensure_ascii=False).encode
"""``json.dumps`` would make an encoder for each value, which takes longer than to encode a short one."""


class ShortText(str):
    """A truncated text, with the beginning of the whole for a tooltip."""

    whole: str = ""


def shorten(text: str, most: int = _MAX_CHARACTERS) -> str:
    """Return a text that is longer than ``most`` characters truncated, ending with its length."""
    if len(text) <= most:
        return text
    short = ShortText(f"{text[: most - 1]}… ({len(text)} characters)")
    short.whole = text[:_MAX_WHOLE]
    return short


def representation(value: object) -> str:
    """Return ``repr(value)``; the type of a value that has none, such as a number of 5,000 digits or a deep list.

    Example:
        >>> representation((1, "a")), representation(10**5000)
        ("(1, 'a')", '<int that cannot be shown: ValueError>')
    """
    try:
        return repr(value)
    except Exception as error:  # the class may be the user's, and its method may raise anything
        return f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"


def format_value(value: object) -> str:
    """Return a key or value as short text; long text is truncated and ends with its length.

    Example:
        >>> format_value("shoe"), format_value({"n": 1}), format_value(Windowed("shoe", 0, 10)), format_value(None)
        ('"shoe"', '{"n": 1}', '"shoe" from 0 to 10', 'null')
    """
    if isinstance(value, Windowed):
        # no brackets: whether the end is inclusive depends on the kind of the window, which a key does not have
        return f"{format_value(value.key)} from {format_time(value.start)} to {format_time(value.end)}"
    if isinstance(value, Change):
        new = format_value(value.new)
        return new if value.old is None else f"{new} instead of {format_value(value.old)}"
    if isinstance(value, (set, frozenset)):
        return f"{{{', '.join(sorted(map(format_value, value)))}}}"
    if type(value) is SerializedValue:
        return shorten(f"the bytes {value.hex()}")
    try:
        text = _AS_JSON(value)
    except (TypeError, ValueError, RecursionError):
        text = representation(value)
    return shorten(clean(text))


def format_time(time_ms: int) -> str:
    """Return a time as ISO 8601 text in UTC, or as a plain number of milliseconds near 0."""
    return str(time_ms) if abs(time_ms) < EARLY_MS else format_ms(time_ms)


def format_stream_time(time_ms: int) -> str:
    """Return the stream time of a task, which is negative before its first record."""
    return "not begun" if time_ms < 0 else format_time(time_ms)


def format_interval(start_ms: int, end_ms: int, *, closed: bool = False) -> str:
    """Return a time interval in brackets; ``closed`` includes the end."""
    return f"[{format_time(start_ms)}, {format_time(end_ms)}{']' if closed else ')'}"


def pluralize(count: int, noun: str) -> str:
    """Return a count with its noun in the right number.

    Example:
        >>> pluralize(1, "record"), pluralize(2000, "record"), pluralize(2, "entry")
        ('1 record', '2,000 records', '2 entries')
    """
    if count == 1:
        return f"1 {noun}"
    plural = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeiou" else f"{noun}s"
    return f"{count:,} {plural}"


def shown_of(shown: int, count: int, noun: str) -> str:
    """Return how many of ``count`` things are shown, at most ``shown``: ``10 of 2,000 records`` or ``3 records``."""
    return f"{shown:,} of {pluralize(count, noun)}" if count > shown else pluralize(count, noun)


def join_list(words: Iterable[str], *, most: int = 5) -> str:
    """Join words for a sentence; beyond ``most`` words the rest is counted.

    Example:
        >>> join_list("abc"), join_list("abcd", most=2)
        ('a, b and c', 'a, b and 2 more')
    """
    items = list(words)
    if len(items) > most:
        return f"{', '.join(items[:most])} and {len(items) - most:,} more"
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)
