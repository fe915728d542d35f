"""Checks of the exercises on bad records."""

from __future__ import annotations

from typing import cast

import kstreamnb as ks
from kstreamnb.course.judging import called

__all__ = ["JUDGES"]

_READINGS = (b'{"a": 1, "b": 2}', b"{oops", b'{"a": 1, "b": 0}', b'{"a": 3, "b": 4}')


def _settings(answer: object) -> str:
    if not isinstance(answer, dict):
        return "give the settings as a dict, from name to value."
    builder = ks.StreamsBuilder("answer")
    builder.stream("pairs").map_values(lambda pair: pair["a"] / pair["b"]).to("ratios")
    topic = answer.get("errors.dead.letter.queue.topic.name")
    if not isinstance(topic, str) or not topic:
        return "no dead-letter topic is named, so records that fail would be lost."
    with ks.TopologyTestDriver(builder.build(), cast("dict[str, object]", answer)) as driver:
        pairs = driver.create_input_topic("pairs", value_serde="bytes")
        for number, data in enumerate(_READINGS):
            try:
                pairs.pipe_input("k", data, at=number)
            except ks.KStreamError as error:
                moment = "is not JSON" if number == 1 else "divides by zero"
                return f"the application stops at the record that {moment}: {error}."
        letters = driver.create_output_topic(topic, value_serde="bytes").queue_size()
    return "" if letters == 2 else f"{letters} records are in the topic {topic!r}, not the two that fail."


def _celsius(answer: object) -> str:
    if not callable(answer):
        return "give the function itself, without calling it."
    for reading, expected in (("21.5", 21.5), (3, 3.0), ("-4", -4.0), ("n/a", None), (None, None), ("0", 0.0)):
        try:
            found = called(answer, reading)
        except (TypeError, ValueError) as error:
            return f"the reading {reading!r} still stops the application: {error}."
        if found != expected:
            return f"the reading {reading!r} becomes {found!r}, and not {expected!r}."
    return ""


JUDGES = {"bad.1": _settings, "bad.2": _celsius}
