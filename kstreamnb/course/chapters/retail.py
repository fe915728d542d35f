"""Checks of the exercises on the retail inventory."""

from __future__ import annotations

from kstreamnb.course.judging import is_number

__all__ = ["JUDGES"]

_ON_HAND, _LOW = 7, 5


def _most(answer: object) -> str:
    if not is_number(answer):
        return "give the number of apples."
    left = _ON_HAND - answer
    if left < _LOW:
        return f"{answer} leaves {left} on hand, which is fewer than {_LOW}: there is a re-order."
    return "" if left == _LOW else f"{answer} leaves {left} on hand, but more may be sold: when does the rule fire?"


def _careful(answer: object) -> str:
    if not is_number(answer):
        return "give the number of re-orders."
    if answer == 2:
        return ""
    if answer < 2:
        return f"not {answer}: what is orders − shipments after the first delivery, and is that on its way?"
    return f"not {answer}: count the sales after which fewer than five are on hand."


JUDGES = {"retail.1": _most, "retail.2": _careful}
