"""Checks of the exercises on flights."""

from __future__ import annotations

from collections import Counter
from functools import cache

import kstreamnb as ks
from kstreamnb.course.datasets import new_york_flights
from kstreamnb.course.judging import called

__all__ = ["JUDGES"]

_GRACES = ("30m", "1h", "2h", "3h", "6h")
_MOST_SHARE = 0.4
_PARTITIONS = 4


@cache
def _lost(grace: str) -> tuple[int, int]:
    """Return how many departures are dropped with a grace, and how many there are."""
    builder = ks.StreamsBuilder("hourly")
    departed = builder.stream("flights").filter(lambda _, flight: flight["delay"] is not None)
    windows = ks.TimeWindows.of(size="1h", grace=grace)
    departed.group_by(lambda _, flight: flight["origin"]).windowed_by(windows).count()
    flights = new_york_flights().with_partitions(_PARTITIONS)
    with ks.TopologyTestDriver(builder.build(), partitions={"flights": _PARTITIONS}) as driver:
        driver.pipe(flights)
        lost = sum(driver.metrics()["dropped-records-total"].values())
    return lost, sum(record.value["delay"] is not None for record in flights)


def _grace(answer: object) -> str:
    if answer not in _GRACES:
        return f"choose one of {', '.join(_GRACES)}, as text."
    grace = str(answer)
    lost, departed = _lost(grace)
    if lost * 1000 >= departed:
        return f"{grace} loses {lost:,} of {departed:,}, which is {lost / departed:.2%}; try a longer one."
    shorter = _GRACES[max(0, _GRACES.index(grace) - 1)]
    enough = shorter != grace and _lost(shorter)[0] * 1000 < departed
    return f"{grace} loses only {lost:,}, but a shorter one is enough." if enough else ""


def _key(answer: object) -> str:
    keyed = [(called(answer, r.key, r.value), r) for r in new_york_flights(2000)]
    if all(key is None for key, _ in keyed):
        return "every key is None, and a record without a key is left out: what does the function return?"
    if any(key is None for key, _ in keyed):
        return "some keys are None, and their records are left out: choose fields that every flight has."
    log = ks.simulation.Log()
    log.create_topic("flights", partitions=_PARTITIONS)
    counts = Counter(log.append("flights", str(key), 0).partition for key, _ in keyed)
    shares = [counts[partition] / len(keyed) for partition in range(_PARTITIONS)]
    text = ", ".join(f"{share:.0%}" for share in shares)
    if min(shares) == 0:
        keys = len({key for key, _ in keyed})
        return f"the partitions have {text} of the records: {keys} keys are not enough for {_PARTITIONS} partitions."
    if max(shares) > _MOST_SHARE:
        return f"the partitions have {text} of the records: one has too much. Add a field that has many values."
    return ""


JUDGES = {"flights.1": _grace, "flights.2": _key}
