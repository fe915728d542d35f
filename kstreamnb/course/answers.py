"""Checks of answers that a chapter declares in its TOML file: numbers, words, letters and lists.

An answer is right by its meaning: numbers are equal in any type, as text and with their unit; words in any spelling.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import partial
from typing import TypeAlias, cast

from kstreamnb.core.arguments import expect
from kstreamnb.errors import KStreamError
from kstreamnb.hints import expect_known

Judge: TypeAlias = Callable[[object], str]
"""Takes an answer and returns the reason why it is wrong, empty for a right one."""


class Refused(Exception):
    """Ends a check with the reason why an answer is wrong."""


def failure(error: BaseException) -> str:
    """Return the error that the code of an answer raised, with its hint if kstreamnb raised it."""
    cause = error.__cause__ or error
    hint = str(getattr(cause, "hint", None) or "")
    return f"{type(cause).__name__}: {cause}." + (hint and f" Hint: {hint}" + ("" if hint[-1] in ".?…" else "."))


_NOT = "{answer} is not the answer."
_NO_FUNCTION = "give the function or class itself, without calling it."
_NUMBER = re.compile(r"(?:at (?:least|most) )?([-+]?(?:\d{1,3}(?:[,_]\d{3})+|\d+)(?:\.\d*)?)[a-z\s-]*")
_PIECE = re.compile(r"([-+]?\d+(?:\.\d+)?)\s*(ms|mil|s|m|h|d)[a-z]*(?:\s*(?:,|and\b))?\s*")
_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours"}
_LENGTHS = {"ms": 1, "mil": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def flat(answer: object) -> str:
    """Return an answer as text: the parts of lists, tuples, sets and dicts with spaces between them.

    Example:
        >>> flat([("x", 1), {"y": 2}]), flat(4.0)
        ('x 1 y 2', '4.0')
    """
    parts = answer.items() if isinstance(answer, Mapping) else answer
    if isinstance(parts, Iterable) and not isinstance(parts, str | bytes):
        return " ".join(map(flat, parts))
    return str(parts)


def number_of(answer: object, unit: str = "") -> float | None:
    """Return an answer as a number, also from text with a noun; None if it is not a number.

    Args:
        answer: what was answered.
        unit: a unit of time, in which durations are returned; a number without a unit has this one. Default: "".

    Example:
        >>> number_of(4), number_of("1,000 records"), number_of("four"), number_of(True)
        (4.0, 1000.0, None, None)
        >>> number_of("1 h 30 min", "m"), number_of(timedelta(seconds=2), "ms"), number_of(6, "h")
        (90.0, 2000.0, 6.0)
    """
    text = flat(answer).strip().lower()
    if isinstance(answer, timedelta):
        text = f"{answer / timedelta(milliseconds=1):f} ms"
    if unit and text and not _PIECE.sub("", text):
        return round(sum(float(count) * _LENGTHS[each] for count, each in _PIECE.findall(text)) / _LENGTHS[unit], 6)
    match = _NUMBER.fullmatch(text)
    return float(re.sub("[,_]", "", match[1])) if match else None


def numbers_in(answer: object, unit: str = "") -> list[float]:
    """Return the numbers of a list, a tuple, a text, …; what is not a number is left out.

    Example:
        >>> numbers_in([("B3", 1), ("B3", 2)]), numbers_in("[1, 2]")
        ([1.0, 2.0], [1.0, 2.0])
    """
    numbers = (number_of(part, unit) for part in re.split(r"[^\w.+-]+", flat(answer)))
    return [number for number in numbers if number is not None]


def declared(entry: Mapping[str, object]) -> Judge | None:
    """Return the check that an exercise declares by its ``form``; None if its module has the check.

    ``answer`` is the right answer; for numbers a list of two is the smallest and the largest that are right, and
    ``unit`` a unit of time; for words ``also`` lists other names of the right one. ``reasons`` are texts by wrong
    answer; for numbers also ``less``, ``more`` and ``other``, for lists ``length`` and ``other``; ``{answer}`` in them
    is the answer given. Letters are the right ones and those that have a reason.
    """
    check = FORMS.get(str(entry.get("form"))) if "answer" in entry else None
    options = {name: entry[name] for name in _OPTIONS.get(str(entry.get("form")), ()) if name in entry}
    reasons = cast("Mapping[str, str]", entry.get("reasons", {}))
    return check and partial(check, right=entry["answer"], reasons=reasons, **options)


def check_entry(name: str, entry: Mapping[str, object]) -> None:
    """Raise KStreamError for an unknown form or unit, or an answer of a type that the form does not take."""
    form = str(entry.get("form", ""))
    expect_known(f'form of exercise "{name}"', [form] if form else [], (*FORMS, "function"), error=KStreamError)
    options = [option for option in ("unit", "also") if option in entry]
    expect_known(f'field of exercise "{name}" with form "{form}"', options, _OPTIONS.get(form, ()), error=KStreamError)
    expect_known(f'unit of exercise "{name}"', {entry.get("unit", "s")}, _UNITS, error=KStreamError)
    if "answer" in entry and (kind := _ANSWERS.get(form)):
        expect(entry["answer"], kind, f'answer of exercise "{name}"')


def function_only(judge: Judge) -> Judge:
    """Return a check that refuses what cannot be called."""
    return lambda answer: judge(answer) if callable(answer) else _NO_FUNCTION


def _number(answer: object, *, right: float | list[float], reasons: Mapping[str, str], unit: str = "") -> str:
    number = number_of(answer, unit)
    if number is None:
        duration = f'give a duration with its unit, such as "7m30s", or a number of {_UNITS.get(unit)}.'
        return duration if unit else "give the answer as a number."
    least, most = right if isinstance(right, list) else (right, right)
    if least <= number <= most:
        return ""
    side = reasons.get("less" if number < least else "more", reasons.get("other", _NOT))
    return _about(answer, reasons.get(f"{number:g}", side))


def _word(answer: object, *, right: str, reasons: Mapping[str, str], also: Iterable[str] = ()) -> str:
    named = {_folded(word): reason for word, reason in reasons.items()} | {_folded(word): "" for word in (right, *also)}
    choose = f"choose one of {', '.join(sorted((right, *reasons)))}, as text." if reasons else _about(answer, _NOT)
    return named.get(_folded(flat(answer)).removesuffix("join"), choose)


def _folded(text: str) -> str:
    """Return only the letters and digits, in lower case."""
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _list(answer: object, *, right: list[object], reasons: Mapping[str, str]) -> str:
    numbers = numbers_in(answer)
    if not numbers:
        return "give the values as a list, such as [1, 2]."
    reason = "" if numbers == right else "other" if len(numbers) == len(right) else "length"
    return reason and _about(answer, reasons.get(reason, _NOT))


def _letters(answer: object, *, right: str, reasons: Mapping[str, str]) -> str:
    """Return the reason for the first letter that does not belong, or for the first missing one."""
    if isinstance(answer, Mapping):
        answer = [letter for letter, chosen in answer.items() if chosen]
    reasons, right = {letter.lower(): reason for letter, reason in reasons.items()}, right.lower()
    text = flat(answer or "").lower()
    given = set(text if text.isalpha() else re.findall(r"\b[a-z]\b", text))
    if text and not given:
        return "give the letters in a list."
    letters = reasons.keys() | set(right)
    unknown = sorted(given - letters)
    if unknown:
        return f'letter "{unknown[0]}" does not exist: the letters are {min(letters)} to {max(letters)}.'
    wrong = [*sorted(given - set(right)), *sorted(set(right) - given)]
    return _about(answer, reasons.get(wrong[0], _NOT)) if wrong else ""


def _about(answer: object, reason: str) -> str:
    """Return a reason with the answer put in; other braces stay, such as those of a dict in code."""
    return reason.replace("{answer}", str(answer))


FORMS: Mapping[str, Callable[..., str]] = {"number": _number, "word": _word, "list": _list, "letters": _letters}
_OPTIONS = {"number": ("unit",), "word": ("also",)}
_ANSWERS = {"number": int | float | list, "word": str, "list": list, "letters": str}
