"""Checks of the exercises on consumer groups."""

from __future__ import annotations

import kstreamnb as ks
from kstreamnb.course.judging import is_number

__all__ = ["JUDGES"]

_PARTITIONS, _MEMBERS = 6, 8


def _idle(answer: object) -> str:
    if not is_number(answer):
        return "give the number of members that have nothing to read."
    if answer == _MEMBERS - _PARTITIONS:
        return ""
    if answer == 0:
        return "two members cannot share a partition: each would have to know what the other has read."
    return f"not {answer}: six partitions go to at most six members; how many are left?"


def _timeout(answer: object) -> str:
    if not isinstance(answer, str):
        return 'give the timeout as text, such as "20s".'
    group = ks.simulation.ConsumerGroup("flights", {"flights": 1}, session_timeout=answer)
    group.join("Anna")
    group.crash("Anna")
    group.advance_wall_clock_time("12s")
    if group.events("timed out"):
        return f"with {answer} the group takes the pause of twelve seconds for a crash."
    group.advance_wall_clock_time("1s")
    if not group.events("timed out"):
        return f"{answer} survives the pause, but a crash is found later than necessary."
    return ""


JUDGES = {"groups.1": _idle, "groups.2": _timeout}
