"""Checks of the exercises on storms."""

from __future__ import annotations

from collections import Counter
from functools import cache

import kstreamnb as ks
from kstreamnb.course.datasets import atlantic_storms
from kstreamnb.course.judging import called, run_step

_HOURS, _KNOTS = 12, 50


@cache
def _observed() -> ks.Sample:
    """Return the seasons 2005, 2007 and 2008, in which Ike rose by just 50 knots, with a key for each storm."""
    seasons = (r for season in (2005, 2007, 2008) for r in atlantic_storms(season, season))
    return ks.Sample.from_records(r._replace(key=f"{r.key} {r.value['season']}", offset=-1) for r in seasons)


@cache
def _explosive() -> dict[str, int]:
    """Return the highest rise of each explosive storm, found by comparing all pairs."""
    span, records = _HOURS * 3_600_000, list(_observed())
    pairs = ((earlier, later) for later in records for earlier in records if later.key == earlier.key)
    close = ((one, other) for one, other in pairs if 0 <= other.timestamp - one.timestamp <= span)
    rises = [(later.key, later.value["wind"] - earlier.value["wind"]) for earlier, later in close]
    return dict(sorted(pair for pair in rises if pair[1] >= _KNOTS))


def _key(answer: object) -> str:
    storms: dict[tuple[object, object], set[str]] = {}
    for r in atlantic_storms():
        storms.setdefault((r.key, r.value["season"]), set()).add(repr(called(answer, r.key, r.value)))
    for (name, season), keys in storms.items():
        if "None" in keys:
            return "the function returns None for some observations: what does it return?"
        if len(keys) > 1:
            return f"the observations of {name} in the season {season} have {len(keys)} keys and not one."
    key, count = Counter(key for keys in storms.values() for key in keys).most_common(1)[0]
    return f"{count} storms have the key {key}: they would be taken for one." if count > 1 else ""


def _warnings(answer: object) -> str:
    warned = Counter(key for key, _ in run_step(answer, _observed(), "observations"))
    missing, wrong = sorted(_explosive().keys() - warned.keys()), sorted(warned.keys() - _explosive().keys(), key=str)
    if missing:
        return f"{missing[0]} rose by {_explosive()[missing[0]]} knots within 12 hours, and is not named."
    if wrong:
        return f"{wrong[0]} is named, but never rose by {_KNOTS} knots within {_HOURS} hours."
    storm, count = warned.most_common(1)[0]
    return f"{storm} is named {count} times: once is enough." if count > 1 else ""


JUDGES = {"storms.1": _key, "storms.2": _warnings}
