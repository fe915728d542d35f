"""Real data for the course, without pandas: flights, tropical storms, and the topics of a Java application."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from kstreamnb.core.arguments import at_least, check_arguments
from kstreamnb.core.record import TopicRecord
from kstreamnb.errors import KStreamError
from kstreamnb.samples import Sample

_FILES = Path(__file__).parent / "data"
_START_MS = 1_357_035_300_000  # 2013-01-01T10:15:00Z, the first scheduled departure
_HOUR_MS = 3_600_000
_TEMPERATURE_LOG = "temperature-KSTREAM-REDUCE-STATE-STORE-0000000002-changelog"
_TEMPERATURE_TOPICS = {"reading": "iot-temperature", "change": _TEMPERATURE_LOG}


def new_york_flights(limit: int = 10_000) -> Sample:
    """Return the first flights that left New York in 2013, as records of the topic ``flights``.

    The key is the aircraft's tail number, None for flights cancelled before an aircraft was named. A record's time is
    the scheduled departure in milliseconds; records are in the order of actual departure, so those of delayed flights
    arrive out of order. ``delay`` is in minutes, None for cancelled flights; ``distance`` is in miles.

    Args:
        limit: the number of flights; there are 10,000. Default: 10,000.

    Raises: KStreamError for a negative number.

    Source: the tables of the R package nycflights13, from the Bureau of Transportation Statistics.

    Example:
        >>> first = new_york_flights(3)[0]
        >>> first.key, first.value["origin"], first.value["dest"], first.value["delay"]
        ('N14228', 'EWR', 'IAH', 2)
    """
    check_arguments(new_york_flights, locals())
    at_least(0, limit, "limit")
    return Sample.from_records(
        TopicRecord(
            *("flights", -1, number, _START_MS + int(row["minute"]) * 60_000, row["tail"] or None),
            {
                **_numbers(row, ("carrier", "flight", "origin", "dest", "distance", "month")),
                "delay": int(row["delay"]) if row["delay"] else None,
            },
        )
        for number, row in enumerate([*_rows("flights")][:limit])
    )


def atlantic_storms(first: int = 2001, last: int = 2020) -> Sample:
    """Return observations of 301 tropical storms of the Atlantic, as records of the topic ``observations``.

    There is an observation every six hours, and often one at a landfall. The key is the name, which returns after some
    years. ``wind`` is in knots, ``pressure`` in hectopascals; ``status`` is "depression" (wind below 34 knots), "storm"
    or "hurricane" (from 64 knots); ``season`` is the year in which the storm began. Some storms of these seasons are
    missing in the source.

    Args:
        first: the first season, 2001 or later. Default: 2001.
        last: the last season, 2020 or earlier. Default: 2020.

    Raises: KStreamError for other seasons.

    Source: the table ``storms`` of the R package dplyr, from the hurricane database HURDAT2 of the National Oceanic and
    Atmospheric Administration (public domain).

    Example:
        >>> storms = atlantic_storms(2005, 2005)
        >>> len(storms), max((r.value["wind"], r.key) for r in storms)
        (521, (160, 'Wilma'))
    """
    check_arguments(atlantic_storms, locals())
    if not 2001 <= first <= last <= 2020:
        raise KStreamError(f"seasons must be within 2001 to 2020, got {first} to {last}")
    fields = ("season", "status", "lat", "lon", "wind", "pressure")
    rows = (row for row in _rows("storms") if first <= int(row["season"]) <= last)
    return Sample.from_records(
        TopicRecord("observations", -1, number, int(row["hour"]) * _HOUR_MS, row["name"], _numbers(row, fields))
        for number, row in enumerate(rows)
    )


def temperature_topics() -> Sample:
    """Return two topics of a Java application, with keys and values as bytes: its input and its changelog.

    They were recorded from Kafka Streams 4.3.1, which ran Kafka's example TemperatureDemo with windows of 5 s: the
    records of ``iot-temperature`` that it read, and those of the changelog of its only store that it wrote.

    Example:
        >>> [f"{topic}: {len(temperature_topics().of_topic(topic))}" for topic in temperature_topics().topics]
        ['iot-temperature: 600', 'temperature-KSTREAM-REDUCE-STATE-STORE-0000000002-changelog: 536']
    """
    decode = {"reading": str.encode, "change": bytes.fromhex}
    return Sample.from_records(
        (_TEMPERATURE_TOPICS[kind], 0, number, int(time), decode[kind](key), decode[kind](value))
        for number, (kind, time, key, value) in enumerate(map(dict.values, _rows("temperature")))
    )


def _rows(name: str) -> Iterator[dict[str, str]]:
    with gzip.open(_FILES / f"{name}.csv.gz", "rt", encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    return (dict(zip(header, row, strict=True)) for row in rows)


def _numbers(row: Mapping[str, str], fields: tuple[str, ...]) -> dict[str, object]:
    """Return fields of a row; those that are whole or decimal numbers as numbers."""
    return {field: _number(row[field]) for field in fields}


@cache
def _number(text: str) -> str | float:
    """Return a whole or decimal number, or the text if it is neither; a table repeats few texts many times."""
    digits = text.removeprefix("-").replace(".", "", 1)
    return text if not digits.isdigit() else float(text) if "." in text else int(text)
