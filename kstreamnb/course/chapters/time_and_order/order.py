"""Checks of the exercises on the order of processing."""

from __future__ import annotations

import re

from kstreamnb.course.answers import flat

_ORDER = ["b2", "a4", "a1", "b5", "a6"]
_TOPIC_AT = {name[1]: name[0] for name in _ORDER}


def _order(answer: object) -> str:
    named = re.findall(r"([a-z]?)\W*(\d+)", flat(answer).lower())
    given = [f"{topic or _TOPIC_AT.get(time, '')}{time}" for topic, time in named]
    if sorted(given) != sorted(_ORDER):
        return f"the five records are a4, a1, a6, b2 and b5, each once; you have {', '.join(given) or 'none'}."
    for step, (answered, real) in enumerate(zip(given, _ORDER, strict=True)):
        if answered != real:
            so_far = " ".join(_ORDER[:step]) or "nothing"
            return f"step {step + 1} is not {answered}. So far: {so_far}. Which two heads are compared now?"
    return ""


JUDGES = {"order.1": _order}
