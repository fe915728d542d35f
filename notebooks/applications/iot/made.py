"""Makes the input: ten readings a second of 20 sensors, out of order, a few of them minutes late or broken."""

from __future__ import annotations

import kstreamnb as ks

SENSORS = 20
START_MS = 1_790_000_000_000
LOOK = """Look at
  {url}/stores/minutes?limit=5     readings of each sensor by minute, also of minutes that are open
  {url}/stores/minutes/sensor3     those of one sensor
Minutes are final, and in the topic "minutes", 30 seconds of stream time after their end."""


def records(first: int, count: int, start_ms: int = START_MS) -> ks.Sample:
    """Return readings by number; each is sent 100 ms after the one before, and measured up to 25 seconds earlier.

    Args:
        first: number of the first reading.
        count: how many readings.
        start_ms: time at which reading 0 is sent, in milliseconds since the epoch.
    """
    rows: list[tuple[object, ...]] = []
    for n in range(first, first + count):
        sensor, sent = n * 7 % SENSORS, start_ms + 100 * n
        at = sent - 7_919 * n % 25_000
        if n % 61 == 60:
            at = sent - 180_000  # the sensor had no connection for three minutes
        value: object = {"celsius": 20 + sensor + (70 if sensor == 3 and n % 1200 > 600 else 0), "at": at}
        if n % 83 == 82:
            value = {"fahrenheit": 70, "at": at}
        rows.append(("readings", -1, 0, sent, f"sensor{sensor}", value))
    return ks.Sample.from_records(rows)
