"""Checks of the exercises on consumer groups."""

from __future__ import annotations

import kstreamnb as ks

__all__ = ["JUDGES"]


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


JUDGES = {"groups.2": _timeout}
