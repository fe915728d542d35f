"""Real data for the course: flights that left New York in January 2013, without pandas."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

from kstreamnb.core.arguments import check_arguments
from kstreamnb.core.record import TopicRecord
from kstreamnb.samples import Sample

_FILE = Path(__file__).parent / "drawings" / "flights.csv.gz"
_START_MS = 1_357_035_300_000  # 2013-01-01T10:15:00Z, the first scheduled departure
_NUMBERS = ("flight", "distance", "month")


def new_york_flights(limit: int = 10_000) -> Sample:
    """Return the first flights that left New York in 2013, as records of the topic ``flights``.

    The key is the aircraft's tail number, None for flights cancelled before an aircraft was named. A record's time is
    the scheduled departure in milliseconds; records are in the order of actual departure, so those of delayed flights
    arrive out of order. ``delay`` is in minutes, None for cancelled flights; ``distance`` is in miles.

    Args:
        limit: the number of flights, at most 10,000. Default: 10,000.

    Source: the tables of the R package nycflights13, from the Bureau of Transportation Statistics.

    Example:
        >>> first = new_york_flights(3)[0]
        >>> first.key, first.value["origin"], first.value["dest"], first.value["delay"]
        ('N14228', 'EWR', 'IAH', 2)
    """
    check_arguments(new_york_flights, locals())
    with gzip.open(_FILE, "rt", encoding="utf-8", newline="") as file:
        rows = [row for row, _ in zip(csv.DictReader(file), range(limit), strict=False)]
    return Sample.from_records(
        TopicRecord(
            "flights", -1, number, _START_MS + int(row["minute"]) * 60_000, row["tail"] or None, _value(row), ()
        )
        for number, row in enumerate(rows)
    )


def _value(row: dict[str, str]) -> dict[str, object]:
    value: dict[str, object] = {name: int(row[name]) if name in _NUMBERS else row[name] for name in _FIELDS}
    return {**value, "delay": int(row["delay"]) if row["delay"] else None}


_FIELDS = ("carrier", "flight", "origin", "dest", "distance", "month")
