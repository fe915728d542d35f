"""Checks of the exercises on flights."""

from __future__ import annotations

from collections import Counter

import kstreamnb as ks
from kstreamnb.course.datasets import new_york_flights
from kstreamnb.course.judging import called

_MOST_SHARE, _MOST_KEYS = 0.4, 0.9
_PARTITIONS = 4


def _key(answer: object) -> str:
    keyed = [(called(answer, r.key, r.value), r) for r in new_york_flights(2000)]
    if any(called(answer, r.key, r.value) != key for key, r in keyed[:100]):
        return "the function gives the same flight another key each time: choose fields of the flight alone."
    if all(key is None for key, _ in keyed):
        return "every key is None, and a record without a key is left out: what does the function return?"
    if any(key is None for key, _ in keyed):
        return "some keys are None, and their records are left out: choose fields that every flight has."
    keys = len({str(key) for key, _ in keyed})
    if keys > _MOST_KEYS * len(keyed):
        return f"{len(keyed):,} flights have {keys:,} keys: nothing is grouped. Choose fields that flights share."
    log = ks.simulation.Log()
    log.create_topic("flights", partitions=_PARTITIONS)
    counts = Counter(log.append("flights", str(key), 0).partition for key, _ in keyed)
    shares = [counts[partition] / len(keyed) for partition in range(_PARTITIONS)]
    text = ", ".join(f"{share:.0%}" for share in shares)
    if min(shares) == 0:
        return f"the partitions have {text} of the records: {keys} keys are not enough for {_PARTITIONS} partitions."
    if max(shares) > _MOST_SHARE:
        return f"the partitions have {text} of the records: one has too much. Add a field that has many values."
    return ""


JUDGES = {"flights.2": _key}
