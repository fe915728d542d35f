"""Checks of the exercises on hopping windows."""

from __future__ import annotations

from kstreamnb.course.judging import is_number

__all__ = ["JUDGES"]


def _tumbling(answer: object) -> str:
    if not is_number(answer):
        return "give the count as a number."
    if answer == 6:
        return ""
    if answer > 6:
        return f"{answer} is too many: Y3 has six actions in the drawing."
    return f"more than {answer}: windows start at multiples of five seconds; which one contains 56.0 and 58.4?"


def _windows(answer: object) -> str:
    if not is_number(answer):
        return "give the number of windows."
    if answer == 4:
        return ""
    if answer > 4:
        return f"not {answer}: a window that started 12 seconds ago has ended."
    return f"not {answer}: windows start every 3 s and last 10 s; draw them for second 21."


JUDGES = {"hopping.1": _tumbling, "hopping.2": _windows}
