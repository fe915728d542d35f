"""Checks of the exercises on reprocessing."""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from typing import cast

import kstreamnb as ks
from kstreamnb.course.judging import run_step
from kstreamnb.data_files import rows_of

_MOVEMENTS = rows_of(__package__, "reprocess.tsv")


def _stock(answer: object) -> str:
    moved = cast("Callable[[object, object, object], object]", answer)
    values = ({"type": kind, "qty": int(pieces)} for kind, pieces, *_ in _MOVEMENTS)
    records = [("input", 0, number, number, "shoe", value) for number, value in enumerate(values)]
    sample = ks.Sample.from_records(records)
    stocks = run_step(lambda stream: stream.group_by_key().aggregate(int, moved, store="on-hand"), sample)
    for (*_, expected, what), (_, stock) in zip_longest(_MOVEMENTS, stocks, fillvalue=("", "not reported")):
        if str(stock) != expected:
            return f"{what}, and the stock is {stock}."
    return ""


JUDGES = {"reprocess.1": _stock}
