"""Check of the exercise on the keys of a window store."""

from __future__ import annotations

from kstreamnb.course.judging import called

_WINDOWS = (("temp", 1_790_000_055_000), ("sensor-17", 0), ("a", 1_790_000_000_000), ("Köln", 86_400_000))


def _window(answer: object) -> str:
    for key, start in _WINDOWS:
        result = called(answer, key.encode() + start.to_bytes(8, "big") + bytes(4))
        if not isinstance(result, tuple | list) or len(result) != 2:
            return f"the function returns {result!r}: return the key and the beginning of the window."
        if result[0] != key:
            return f"the key is {result[0]!r} for the bytes of {key!r}: which bytes do not belong to it?"
        if result[1] != start:
            return f"the window of {key!r} begins at {start}, and not at {result[1]!r}."
    return ""


JUDGES = {"takeover.1": _window}
