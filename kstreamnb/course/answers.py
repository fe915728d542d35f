"""Checks of answers that a chapter declares in its TOML file: numbers, words, letters and lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias, cast

Judge: TypeAlias = Callable[[object], str]
"""Takes an answer and returns the reason why it is wrong, empty for a right one."""


class Refused(Exception):
    """Ends a check with the reason why an answer is wrong."""


_NO_FUNCTION = "give the function itself, without calling it."


def declared(entry: Mapping[str, object]) -> Judge | None:
    """Return the check that an exercise declares by its ``form``; None if its module has the check.

    ``answer`` is the right answer. ``reasons`` are texts by wrong answer; for numbers also ``less``, ``more`` and
    ``other``, for lists ``length`` and ``other``; ``{answer}`` in them is the answer given.
    """
    check = _FORMS.get(str(entry.get("form")))
    return check and partial(check, right=entry["answer"], reasons=cast("Mapping[str, str]", entry["reasons"]))


def function_only(judge: Judge) -> Judge:
    """Return a check that refuses what cannot be called."""
    return lambda answer: judge(answer) if callable(answer) else _NO_FUNCTION


def _number(answer: object, *, right: float, reasons: Mapping[str, str]) -> str:
    if not isinstance(answer, int | float) or isinstance(answer, bool):
        return "give the answer as a number."
    if answer == right:
        return ""
    side = reasons.get("less" if answer < right else "more", reasons.get("other", ""))
    return reasons.get(str(answer), side).format(answer=answer)


def _word(answer: object, *, right: str, reasons: Mapping[str, str]) -> str:
    words = sorted({right, *reasons})
    if answer not in words:
        return f"choose one of {', '.join(words)}, as text."
    return reasons.get(str(answer), "")


def _list(answer: object, *, right: list[object], reasons: Mapping[str, str]) -> str:
    if not isinstance(answer, list | tuple):
        return "give the values as a list, such as [1, 2]."
    reason = "" if list(answer) == right else "other" if len(answer) == len(right) else "length"
    return reason and reasons[reason].format(answer=answer)


def _letters(answer: object, *, right: str, reasons: Mapping[str, str]) -> str:
    """Return the reason of the first letter that is too many, or of the first missing."""
    if not isinstance(answer, str | list | tuple | set | frozenset):
        return "give the letters in a list."
    given = {str(letter).strip().lower() for letter in answer} - {"", ","}
    unknown = sorted(given - reasons.keys())
    if unknown:
        return f"there is no {unknown[0]}: the letters are {min(reasons)} to {max(reasons)}."
    wrong = [*sorted(given - set(right)), *sorted(set(right) - given)]
    return reasons[wrong[0]] if wrong else ""


_FORMS: Mapping[str, Callable[..., str]] = {"number": _number, "word": _word, "list": _list, "letters": _letters}
