"""Checks of the exercises on one application for seven boxes."""

from __future__ import annotations

from typing import cast

from kstreamnb.course.answers import numbers_in
from kstreamnb.course.judging import called

_GERMANY = (("paid", 3000), ("cancelled", 9000), ("paid", 5000), ("paid", 4000))
"""State and cents of the orders that count in Germany, in their order."""


def _france(answer: object) -> str:
    row = numbers_in([answer.get("orders"), answer.get("cents")] if isinstance(answer, dict) else answer)
    if len(row) != 2:
        return 'give a row of the store, such as {"orders": 1, "cents": 4000}.'
    orders, cents = row if isinstance(answer, dict) else sorted(row)
    if orders != 2:
        return f"not {orders:g} orders: count those of c2 that came while its row in `customers` said FR."
    return "" if cents == 6000 else "the number of orders is right; add up the cents of just those."


def _most(answer: object) -> str:
    row: object = {"orders": 0, "cents": 0}
    for state, cents in _GERMANY:
        row = called(answer, "DE", {"state": state, "cents": cents, "country": "DE"}, row)
        if not isinstance(row, dict):
            return f"the function returns {row!r}: it must return the new row."
    totals = cast("dict[str, object]", row)
    if "most" not in totals:
        return f'the row of Germany is {totals}: it has no "most" yet.'
    if (totals.get("orders"), totals.get("cents"), totals["most"]) == (3, 12_000, 5000):
        return ""
    counted = "three orders count, of 3000, 5000 and 4000 cents; that of 9000 is cancelled"
    return f"the row of Germany is {totals}; {counted}."


JUDGES = {"boxes.1": _france, "boxes.2": _most}
