"""Checks of the exercises on guarantees."""

from __future__ import annotations

from kstreamnb.course.judging import is_number

__all__ = ["JUDGES"]

_SETTINGS = {"acks", "min.insync.replicas"}


def _durable(answer: object) -> str:
    if not isinstance(answer, dict) or set(answer) != _SETTINGS:
        return 'give both settings, such as {"acks": "1", "min.insync.replicas": 1}.'
    acks, needed = str(answer["acks"]), answer["min.insync.replicas"]
    if acks not in ("all", "-1"):
        return f"with acks={acks} a record is acknowledged before a second replica has it."
    if not is_number(needed) or not 1 <= needed <= 3:
        return "min.insync.replicas is 1, 2 or 3 here."
    if needed == 1:
        return "with 1, a leader that is alone acknowledges records, and they are lost with it."
    return "" if needed == 2 else "with 3, a single broker that fails stops all writes."


JUDGES = {"guarantees.1": _durable}
