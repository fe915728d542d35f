"""Checks of the exercises on joins with tables and global tables."""

from __future__ import annotations

__all__ = ["JUDGES"]


def _counts(answer: object) -> str:
    if not isinstance(answer, list | tuple):
        return "give the values as a list, such as [1, 2]."
    if len(answer) != 4:
        return f"{len(answer)} results are not right: how many updates do the two tables get together?"
    if list(answer) == [1, 2, 0, 0]:
        return ""
    return "the number of results is right. What does unless_verified return once there is a row on the right?"


def _global(answer: object) -> str:
    if not isinstance(answer, list | tuple):
        return "give the values as a list, such as [1, 2]."
    if len(answer) != 3:
        return f"{len(answer)} results are not right: does an update of a global table give a result?"
    if list(answer) == [1, 2, 0]:
        return ""
    return "the number of results is right. Which of the actions finds a row in the global table?"


JUDGES = {"captcha.1": _counts, "captcha.2": _global}
