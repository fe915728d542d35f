"""Changelog topics of a deployment: equal to the driver's for any batches, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.kafka.output_batch import OutputRecord
from tests.spark.file_source import FileOffsetSource
from tests.spark.inprocess import Cluster
from tests.spark.streams import Row, batched, placed, with_headers
from tests.spark.test_streaming import disordered, joined, three_levels, two_levels

Logs = dict[tuple[str, int], dict[Any, Any]]
"""By topic and partition: value (bytes), timestamp and headers of the last record of each key."""


def every_kind() -> ks.Topology:
    """Windows, sessions and records that are emitted on close."""
    builder = ks.StreamsBuilder("kinds")
    grouped = builder.stream("in").group_by_key()
    windows = ks.TimeWindows.of_size_and_grace("100ms", "50ms")
    counts = grouped.windowed_by(windows).count(store="windows")
    counts.suppress(ks.Suppressed.until_window_closes()).to_stream(lambda key, count: str(key)).to("out")
    grouped.windowed_by(ks.SessionWindows.of_inactivity_gap_with_no_grace("50ms")).count(store="sessions")
    return builder.build()


def versioned() -> ks.Topology:
    """A table with its history."""
    builder = ks.StreamsBuilder("versioned")
    store = ks.Stores.persistent_versioned_key_value_store("prices", history="1h")
    builder.table("in", materialized=ks.Materialized(store))
    return builder.build()


def every_record(folder: Path, topology: ks.Topology, rows: list[Row], batches: int) -> Iterator[OutputRecord]:
    """Return the changelog records of some batches."""
    deployment = placed(topology, 3, application_id=topology.name)
    cluster = Cluster.of(deployment, folder.name, changelogs=True)
    cluster.forget()
    feed = FileOffsetSource.write(folder / "feed.pickle", batched(deployment, rows, batches))
    for output in cluster.batches(feed):
        for record in output.records():
            if record[0].endswith("-changelog"):
                yield record


def written(folder: Path, topology: ks.Topology, rows: list[Row], batches: int) -> Logs:
    """Return the contents of changelogs after some batches."""
    found = Logs()
    for topic, partition, timestamp, key, value, headers in every_record(folder, topology, rows, batches):
        found.setdefault((topic, partition), {})[key] = (value, timestamp, headers)
    return found


def driver_after(topology: ks.Topology, rows: list[Row]) -> ks.TopologyTestDriver:
    """The driver with the same input."""
    driver = ks.TopologyTestDriver(topology, {"application.id": topology.name}, partitions=3, changelogs=True)
    driver.pipe(ks.TopicRecord(topic, -1, at, time, key, value) for at, (topic, key, value, time) in enumerate(rows))
    return driver


def alive(logs: Logs) -> Logs:
    """Leave out keys whose last record is a tombstone: batches omit rows that were added and deleted within them."""
    return {place: kept for place, log in logs.items() if (kept := {k: v for k, v in log.items() if v[0] is not None})}


@pytest.mark.parametrize("batches", [1, 4, 300])
@pytest.mark.parametrize(
    ("build", "topics"),
    [
        (every_kind, ["in"]),
        (with_headers, ["in"]),
        (two_levels, ["in"]),
        (three_levels, ["in"]),
        (joined, ["left", "right"]),
    ],
    ids=["every kind", "headers", "two levels", "three levels", "joins"],
)
def test_changelogs_end_as_those_of_the_driver(tmp_path: Path, build: Any, topics: list[str], batches: int) -> None:
    """S0-22, S1-38: for every kind of store the last record of each key is the driver's, byte for byte."""
    topology, rows = build(), disordered(topics, 300)
    driver, wanted = driver_after(topology, rows), Logs()
    for topic in sorted(name for name in driver.produced_topic_names() if name.endswith("-changelog")):
        for record in driver.create_output_topic(topic, "bytes", "bytes").read_records():
            last = (record.value, record.timestamp, record.headers)
            wanted.setdefault((topic, record.partition), {})[record.key] = last
    assert len(alive(wanted)) > 3
    assert alive(wanted) == alive(written(tmp_path, topology, rows, batches))


@pytest.mark.parametrize("batches", [1, 4, 300])
def test_a_changelog_of_versions_has_every_one_of_them(tmp_path: Path, batches: int) -> None:
    """S0-22: a versioned store is restored with its history, for any batches."""
    rows: list[Row] = [*disordered(["in"], 300), ("in", "k3", None, 9_000)]
    driver, wanted = driver_after(versioned(), rows), {}
    for record in driver.create_output_topic("versioned-prices-changelog", "bytes", "bytes").read_records():
        wanted.setdefault(record.partition, []).append((record.timestamp, record.key, record.value))
    found: dict[int, list[Any]] = {}
    for _, partition, timestamp, key, value, _ in every_record(tmp_path, versioned(), rows, batches):
        found.setdefault(partition, []).append((timestamp, key, value))
    assert sum(map(len, found.values())) == 301
    assert found == wanted
