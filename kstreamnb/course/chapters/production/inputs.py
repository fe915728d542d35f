"""Checks of the exercises on logs, metrics and changes."""

from __future__ import annotations

from copy import deepcopy

from kstreamnb.course.judging import called

_ANN = {"name": "Ann", "active": True}
_GONE = {"name": "Ann", "active": False}
_BEN = {"name": "Ben"}
_CHANGES = (
    ({"op": "c", "before": None, "after": _ANN}, _ANN, "a new customer"),
    ({"op": "d", "before": _ANN, "after": None}, None, "a deleted row"),
    (None, None, "a tombstone"),
    ({"op": "u", "before": _ANN, "after": _GONE}, None, "an inactive customer"),
    ({"op": "u", "before": _GONE, "after": _ANN}, _ANN, "a customer made active again"),
    ({"op": "r", "before": None, "after": _BEN}, _BEN, 'a row from before the shop had the field "active"'),
)


def _row(answer: object) -> str:
    for change, expected, what in _CHANGES:
        try:
            result = called(answer, deepcopy(change))
        except (TypeError, LookupError, AttributeError) as error:
            return f"{what} stops the application: {type(error).__name__}: {error}."
        if result != expected:
            return f"{what} gives {result!r}, and not {expected!r}."
    return ""


JUDGES = {"inputs.1": _row}
