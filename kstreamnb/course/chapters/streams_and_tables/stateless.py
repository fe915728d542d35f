"""Checks of the exercises on stateless steps."""

from __future__ import annotations

import kstreamnb as ks
from kstreamnb.course.datasets import new_york_flights
from kstreamnb.course.judging import run_step
from kstreamnb.data_files import text_of

_LINES = ks.Sample.from_text(text_of(__package__, "stateless.txt"))
_WORDS = [("a", word) for word in ("the", "duck", "and", "a", "duck")] + [("b", "the"), ("b", "stream")]


def _cancelled(answer: object) -> str:
    flights = new_york_flights(2000)
    expected = [f"{r.value['carrier']}{r.value['flight']}" for r in flights if r.value["delay"] is None]
    values = [value for _, value in run_step(answer, flights, "flights")]
    if len(values) != len(expected):
        return f"{len(values):,} records come out; {len(expected)} of the 2,000 flights were cancelled."
    if values != expected:
        return f"the number of records is right, but the first value is {values[0]!r} and not {expected[0]!r}."
    return ""


def _words(answer: object) -> str:
    words = run_step(answer, _LINES, "lines")
    if words == _WORDS:
        return ""
    if [value for _, value in words] == [word for _, word in _WORDS]:
        keys = sorted({str(key) for key, _ in words})
        return f"the words are right, but their keys are {keys}, not those of the lines."
    if len(words) != len(_WORDS):
        return f"two lines with {len(_WORDS)} words give {len(words)} records."
    number = next(at for at, (word, right) in enumerate(zip(words, _WORDS, strict=True)) if word != right)
    return f"record {number + 1} is {words[number]}, and not {_WORDS[number]}."


JUDGES = {"stateless.1": _cancelled, "stateless.2": _words}
