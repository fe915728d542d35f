"""Checks of the exercises on fraud detection."""

from __future__ import annotations

import kstreamnb as ks
from kstreamnb.course.judging import called, run_step

_STEPS_MS = 10
_TRANSACTIONS = 5


def _once(answer: object) -> str:
    def alarm(suspicious: ks.KStream[object, object]) -> object:
        windows = ks.SessionWindows.of(gap="5m", grace="30s")
        counts = suspicious.group_by_key().windowed_by(windows).count().to_stream()
        return counts.filter(lambda session, count: bool(called(answer, session, count)))

    records = [("input", 0, n, n * _STEPS_MS, "userA", {"amount": 1500}) for n in range(_TRANSACTIONS)]
    alerts = [value for _, value in run_step(alarm, ks.Sample.from_records(records))]
    if alerts == [3]:
        return ""
    if None in alerts:
        return f"the predicate lets tombstones pass: the alerts would carry {alerts}."
    return f"the alerts carry the counts {alerts}: at which count exactly is the alert due?"


JUDGES = {"fraud.2": _once}
