"""Checks of the exercises on counting."""

from __future__ import annotations

import re

import kstreamnb as ks
from kstreamnb.course.answers import flat
from kstreamnb.course.judging import run_step
from kstreamnb.data_files import text_of

_FOUR = ks.Sample.from_text(text_of(__package__, "count.txt"))


def _updates(answer: object) -> str:
    actual = run_step(lambda stream: stream.group_by_key().count(), _FOUR)
    updates = [(key, int(count)) for key, count in re.findall(r"\b([xy])\W*(\d+)", flat(answer).lower())]
    if not updates:
        return 'give pairs of a key, "x" or "y", and its count, such as [("x", 1)], in their order.'
    if len(updates) != len(actual):
        return f"four records go in, and each changes a count; a list of {len(updates)} is not right."
    for number, (given, real) in enumerate(zip(updates, actual, strict=True), 1):
        if given[0] != real[0]:
            return f"update {number} does not have the key {given[0]!r}: updates come in the order of the records."
        if given[1] != real[1]:
            return f"update {number} is not {given[1]!r}: how many records of {given[0]!r} have come by then?"
    return ""


def _colors(answer: object) -> str:
    updates = run_step(answer, _FOUR)
    if {key for key, _ in updates} != {"red", "blue"}:
        keys = sorted({str(key) for key, _ in updates})
        return f"the keys are {keys}, not the colors: group_by takes a function of key and value."
    counts = [value for _, value in updates]
    return "" if counts == [1, 2, 1, 3] else f"the keys are the colors, but the values are {counts}, not counts."


JUDGES = {"count.1": _updates, "count.2": _colors}
