"""Checks of the exercises on operations."""

from __future__ import annotations

from kstreamnb.course.judging import called

_CASES = (
    ((900, 0, 500, 60, 8), 2, "900 records arrive per second, nothing waits, and an instance processes 500"),
    ((1000, 0, 500, 60, 8), 2, "1,000 arrive per second, nothing waits, and an instance processes 500"),
    (
        (1500, 130_000, 500, 300, 8),
        4,
        "1,500 arrive, and 130,000 that wait are to be gone in 300 s, at 500 per instance",
    ),
    ((1000, 60_000, 500, 60, 4), 4, "four instances just suffice, and there are four partitions"),
    ((1000, 60_001, 500, 60, 4), None, "more than four instances are needed, but there are four partitions"),
    ((0, 0, 500, 60, 8), 1, "nothing arrives and nothing waits, but somebody must read"),
)


def _instances(answer: object) -> str:
    for arguments, expected, what in _CASES:
        result = called(answer, *arguments)
        if result != expected:
            return f"{what}: {result!r} is not right."
    return ""


JUDGES = {"operations.1": _instances}
