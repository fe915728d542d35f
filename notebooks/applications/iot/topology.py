"""Means by minute of sensors whose readings arrive out of order; late and broken readings are kept apart."""

from __future__ import annotations

from typing import Any

import kstreamnb as ks

__all__ = ["CONFIG", "TOPICS", "build"]

TOPICS = {"readings": 4, "minutes": 4, "alarms": 4, "late-readings": 4, "readings-dead": 4}
"""Topics with their partitions."""

CONFIG = {
    "deserialization.exception.handler": "continue",
    "processing.exception.handler": "continue",
    "errors.dead.letter.queue.topic.name": "readings-dead",
}
"""A reading that cannot be read or processed goes to "readings-dead", and the application continues."""

SIZE_MS, GRACE_MS, HOT = 60_000, 30_000, 80.0
Minute = dict[str, Any]


class MeasuredAt:
    """The time is that of the sensor, in the value; a reading without one has the time of its record."""

    def extract(self, record: ks.TopicRecord, partition_time: int) -> int:
        """Return milliseconds since the epoch."""
        value = record.value
        return value["at"] if isinstance(value, dict) and isinstance(value.get("at"), int) else record.timestamp


def celsius(reading: dict[str, Any]) -> float:
    """Return the temperature; whatever has none raises an error, and becomes a dead letter."""
    return float(reading["celsius"])


class MarkLate(ks.FixedKeyProcessor[str, float, dict[str, Any]]):
    """Adds whether a reading is late: its minute and the grace have passed in stream time."""

    def process(self, record: ks.Record[str, float]) -> None:
        """Compare the end of the minute with stream time."""
        end = record.timestamp - record.timestamp % SIZE_MS + SIZE_MS
        behind = self.context.current_stream_time_ms() - GRACE_MS - end
        self.context.forward(record.with_value({"celsius": record.value, "late": behind >= 0}))


def empty() -> Minute:
    """Return the minute before its first reading."""
    return {"readings": 0, "sum": 0.0, "most": None}


def add(_sensor: str, reading: dict[str, Any], minute: Minute) -> Minute:
    """Return the minute with one more reading."""
    value = reading["celsius"]
    most = value if minute["most"] is None else max(value, minute["most"])
    return {"readings": minute["readings"] + 1, "sum": minute["sum"] + value, "most": most}


def result(window: ks.Windowed[str], minute: Minute) -> tuple[str, Minute]:
    """Return what is published of a minute, under its sensor."""
    mean = round(minute["sum"] / minute["readings"], 2)
    return window.key, {"start": window.start, "readings": minute["readings"], "mean": mean, "most": minute["most"]}


def build() -> ks.Topology:
    """Readings to one final result for each sensor and minute, to alarms, and to late readings."""
    builder = ks.StreamsBuilder("iot")
    readings = builder.stream("readings", timestamp_extractor=MeasuredAt()).map_values(celsius)
    checked = readings.process_values(MarkLate)
    checked.filter(lambda _sensor, reading: reading["late"]).to("late-readings")
    in_time = checked.filter_not(lambda _sensor, reading: reading["late"])
    windows = ks.TimeWindows.of(size=f"{SIZE_MS}ms", grace=f"{GRACE_MS}ms")
    table = in_time.group_by_key().windowed_by(windows).aggregate(empty, add, store="minutes", retention="1d")
    final = table.suppress(ks.Suppressed.until_window_closes(name="closed")).to_stream().map(result)
    final.to("minutes")
    final.filter(lambda _sensor, minute: minute["mean"] > HOT).to("alarms")
    return builder.build()
