"""Checks of the exercises on reprocessing."""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from typing import cast

import kstreamnb as ks
from kstreamnb.course.judging import run_step
from kstreamnb.data_files import rows_of

_ROWS = rows_of(__package__, "reprocess.tsv")
_MOVEMENTS = [(kind, int(pieces), int(stock), what) for kind, pieces, stock, what in _ROWS]


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
