"""Checks of the exercises on ten-minute sales."""

from __future__ import annotations

import kstreamnb as ks

__all__ = ["JUDGES"]

_SALES = ks.Sample.from_text("""
topic | key  | value | time
sales | shoe | 1     | 2026-01-01T09:01Z
sales | shoe | 1     | 2026-01-01T09:09Z
sales | shoe | 1     | 2026-01-01T09:11Z
sales | shoe | 1     | 2026-01-01T09:08Z
sales | shoe | 1     | 2026-01-01T09:14:59.999Z
sales | shoe | 1     | 2026-01-01T09:15Z
sales | shoe | 1     | 2026-01-01T09:09:59Z
sales | shoe | 1     | 2026-01-01T09:12Z
sales | shoe | 1     | 2026-01-01T09:21Z
sales | shoe | 1     | 2026-01-01T09:03Z
""")
_STREAM_TIMES = ("09:01", "09:09", "09:11", "09:11", "09:14:59.999", "09:15", "09:15", "09:15", "09:21", "09:21")


def _grace(answer: object) -> str:
    if not isinstance(answer, str):
        return 'give a duration as text, such as "7m30s".'
    windows = ks.TimeWindows.of(size="10m", grace=answer)
    builder = ks.StreamsBuilder("sales")
    builder.stream("sales").group_by_key().windowed_by(windows).count()
    if ks.replay(builder.build(), _SALES).drops:
        return f"with a grace of {answer} the window 09:00–09:10 closes before the sale of 09:03 arrives."
    if windows.grace_ms > 660_001:
        return f"{answer} keeps the sale, but a shorter grace is enough: when exactly is a window closed?"
    return ""


def _closing(answer: object) -> str:
    if answer is None:
        return ""
    if not isinstance(answer, int) or isinstance(answer, bool) or not 1 <= answer <= len(_SALES):
        return "give the number of the sale in order of arrival, 1 to 10, or None."
    return (
        f"sale {answer} does not let it out: stream time is {_STREAM_TIMES[answer - 1]} then, "
        "and with 11m1ms of grace the window closes at 09:21:00.001."
    )


JUDGES = {"sales.1": _grace, "sales.2": _closing}
