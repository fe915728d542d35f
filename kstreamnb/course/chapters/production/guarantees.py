"""Checks of the exercises on guarantees."""

from __future__ import annotations

import re

from kstreamnb.course.answers import flat

_SETTINGS = re.compile(r"(acks|replicas)[^\w-]*(all|-?\w+)")


def _durable(answer: object) -> str:
    if "built-in function all" in flat(answer):
        return 'write "all" in quotes: without them it is a function of Python.'
    settings = dict(_SETTINGS.findall(flat(answer).lower()))
    if len(settings) != 2:
        return 'give both settings, such as {"acks": "1", "min.insync.replicas": 1}.'
    acks, needed = settings["acks"], settings["replicas"]
    if acks not in ("all", "-1"):
        return f"with acks={acks} a record is acknowledged before a second replica has it."
    if needed not in ("1", "2", "3"):
        return "min.insync.replicas is 1, 2 or 3 here."
    if needed == "1":
        return "with 1, a leader that is alone acknowledges records, and they are lost with it."
    return "" if needed == "2" else "with 3, a single broker that fails stops all writes."


JUDGES = {"guarantees.1": _durable}
