"""Checks of the exercises on bad records."""

from __future__ import annotations

from reprlib import repr

import kstreamnb as ks
from kstreamnb.course.answers import failure
from kstreamnb.course.judging import called

_PAIRS: tuple[tuple[dict[str, object], str], ...] = (
    ({"a": 1, "b": 2}, "has no fault"),
    ({"a": 1, "b": 0}, "divides by zero"),
    ({"a": 1}, "has no b"),
    ({"a": "one", "b": 2}, "has a word for a number"),
    ({"a": 10**400, "b": 3}, "has a ratio that is too large"),
)


def _handler(answer: object) -> str:
    for pair, what in _PAIRS:
        stopped = _stopped_by(answer, pair)
        bug = "zero" not in what and "no fault" not in what
        if stopped and not bug:
            return f"the application stops at the pair {pair}, which {what}: {stopped}."
        if bug and not stopped:
            return f"the pair {repr(pair)}, which {what}, is skipped silently, so the bug would go unnoticed."
    return ""


def _stopped_by(handler: object, pair: dict[str, object]) -> str:
    """Return why the application stops at a pair, or nothing if it continues."""
    builder = ks.StreamsBuilder("answer")
    builder.stream("pairs").map_values(lambda value: value["a"] / value["b"]).to("ratios")
    settings: dict[str, object] = {"processing.exception.handler": handler}
    with ks.TopologyTestDriver(builder.build(), settings) as driver:
        try:
            driver.create_input_topic("pairs").pipe_input("k", pair, at=0)
        except ks.KStreamError as error:
            return failure(error).rstrip(".")
    return ""


def _celsius(answer: object) -> str:
    for reading, expected in (("21.5", 21.5), (3, 3.0), ("-4", -4.0), ("n/a", None), (None, None), ("0", 0.0)):
        try:
            result = called(answer, reading)
        except (TypeError, ValueError) as error:
            return f"the reading {reading!r} still stops the application: {error}."
        if result != expected:
            return f"the reading {reading!r} becomes {result!r}, and not {expected!r}."
    return ""


JUDGES = {"bad.1": _handler, "bad.2": _celsius}
