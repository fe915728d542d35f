"""Checks of the exercises on reprocessing."""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from typing import cast

import kstreamnb as ks
from kstreamnb.course.judging import run_step

_MOVEMENTS = (
    ("in", 5, 5, "5 pieces came in"),
    ("out", 2, 3, "2 of 5 pieces went out"),
    ("return", 1, 4, "1 piece came back to 3"),
    ("count", 7, 7, "somebody counted 7 pieces where the application believed in 4"),
    ("out", 3, 4, "3 pieces went out after 7 were counted"),
    ("count", 0, 0, "somebody counted an empty shelf"),
    ("in", 6, 6, "6 pieces came to an empty shelf"),
)


def _stock(answer: object) -> str:
    moved = cast("Callable[[object, object, object], object]", answer)
    records = [("input", 0, n, n, "shoe", {"type": move[0], "qty": move[1]}) for n, move in enumerate(_MOVEMENTS)]
    sample = ks.Sample.from_records(records)
    stocks = run_step(lambda stream: stream.group_by_key().aggregate(int, moved, store="on-hand"), sample)
    for (*_, expected, what), (_, stock) in zip_longest(_MOVEMENTS, stocks, fillvalue=("", "not reported")):
        if stock != expected:
            return f"{what}, and the stock is {stock}."
    return ""


JUDGES = {"reprocess.1": _stock}
