"""Checks of the exercises on ten-minute sales."""

from __future__ import annotations

from kstreamnb.course.answers import flat, number_of

_STREAM_TIMES = ("09:01", "09:09", "09:11", "09:11", "09:14:59.999", "09:15", "09:15", "09:15", "09:21", "09:21")


def _closing(answer: object) -> str:
    if flat(answer).strip().lower().startswith(("none", "no sale", "nothing", "never")):
        return ""
    sale = number_of(answer)
    if sale is None or sale not in range(1, len(_STREAM_TIMES) + 1):
        return "give the number of the sale in order of arrival, 1 to 10, or None."
    return (
        f"sale {sale:g} does not let it out: stream time is {_STREAM_TIMES[int(sale) - 1]} then, "
        "and with 11m1ms of grace the window closes at 09:21:00.001."
    )


JUDGES = {"sales.2": _closing}
