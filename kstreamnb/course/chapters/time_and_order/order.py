"""Checks of the exercises on the order of processing."""

from __future__ import annotations

__all__ = ["JUDGES"]

_ORDER = ["b2", "a4", "a1", "b5", "a6"]


def _order(answer: object) -> str:
    if isinstance(answer, list | tuple):
        answer = " ".join(map(str, answer))
    if not isinstance(answer, str):
        return 'give the names in a text, such as "a1 b2".'
    given = answer.replace(",", " ").split()
    if sorted(given) != sorted(_ORDER):
        return f"the five records are a4, a1, a6, b2 and b5, each once; you have {', '.join(given) or 'none'}."
    for step, (mine, real) in enumerate(zip(given, _ORDER, strict=True)):
        if mine != real:
            so_far = " ".join(_ORDER[:step]) or "nothing"
            return f"step {step + 1} is not {mine}. So far: {so_far}. Which two heads are compared now?"
    return ""


def _idle(answer: object) -> str:
    try:
        wait = int(str(answer).strip().removesuffix("ms"))
    except ValueError:
        return "give the value of max.task.idle.ms, a number of milliseconds."
    if wait < -1:
        return f"{wait} is not a value of this setting: the smallest is -1."
    if wait == -1:
        return "with -1 the task continues at once, and the click is joined with nothing."
    if wait == 0:
        return "0 waits only for records that the broker already has, and the upgrade is not written yet."
    if wait < 400:
        return f"{wait} ms are over before the upgrade arrives, 400 ms after the click."
    return "" if wait <= 60_000 else f"{wait} ms is more than a minute: every quiet topic would stop the task as long."


JUDGES = {"order.1": _order, "order.2": _idle}
