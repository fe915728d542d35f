"""Changelog topics of a deployment: what the driver would have written, whatever the batches; here without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.spark.contracts import QueryBatch
from kstreamnb.spark.io.changelog_topics import Changelogs
from kstreamnb.spark.io.offset_source import FileOffsetSource
from tests.spark.inprocess import Cluster
from tests.spark.streams import Row, batched, placed
from tests.spark.test_streaming import disordered, joined, three_levels, two_levels

Logs = dict[tuple[str, int], dict[Any, Any]]
"""By topic and partition: the last value of each key, in bytes."""


def every_kind() -> ks.Topology:
    """Windows, sessions and what waits until they close."""
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


def written(folder: Path, topology: ks.Topology, rows: list[Row], batches: int) -> Logs:
    """What changelogs hold after some batches."""
    deployment = placed(topology, 3, application_id=topology.name)
    cluster = Cluster.of(deployment, folder.name)
    cluster.forget()
    changelogs, found = Changelogs(cluster.deployment), Logs()
    feed = FileOffsetSource.write(folder / "feed.pickle", batched(deployment, rows, batches))
    for number, output in enumerate(cluster.batches(feed)):
        for topic, partition, _, key, value, _ in changelogs.records(QueryBatch(number, "", {}, 0, output)):
            found.setdefault((topic, partition), {})[key] = value
    return found


def driver_after(topology: ks.Topology, rows: list[Row]) -> ks.TopologyTestDriver:
    """The driver with the same input."""
    driver = ks.TopologyTestDriver(topology, {"application.id": topology.name}, partitions=3, changelogs=True)
    driver.pipe(ks.TopicRecord(topic, -1, at, time, key, value) for at, (topic, key, value, time) in enumerate(rows))
    return driver


def alive(logs: Logs) -> Logs:
    """Without keys whose last record is a tombstone: batches leave out what came and went within them."""
    return {place: kept for place, log in logs.items() if (kept := {k: v for k, v in log.items() if v is not None})}


@pytest.mark.parametrize("batches", [1, 4, 300])
@pytest.mark.parametrize(
    ("build", "topics"),
    [(every_kind, ["in"]), (two_levels, ["in"]), (three_levels, ["in"]), (joined, ["left", "right"])],
    ids=["every kind", "two levels", "three levels", "joins"],
)
def test_changelogs_end_as_those_of_the_driver(tmp_path: Path, build: Any, topics: list[str], batches: int) -> None:
    """S0-22, S1-38: for every kind of store the last value of each key is the driver's, byte for byte."""
    topology, rows = build(), disordered(topics, 300)
    driver, wanted = driver_after(topology, rows), Logs()
    for topic in sorted(name for name in driver.produced_topic_names() if name.endswith("-changelog")):
        for record in driver.create_output_topic(topic, "bytes", "bytes").read_records():
            wanted.setdefault((topic, record.partition), {})[record.key] = record.value
    assert len(alive(wanted)) > 3
    assert alive(wanted) == alive(written(tmp_path, topology, rows, batches))


@pytest.mark.parametrize("batches", [1, 4, 300])
def test_a_changelog_of_versions_has_the_latest_ones(tmp_path: Path, batches: int) -> None:
    """S0-22: records that come too late are history, which stays in the checkpoint; a deleted key is a tombstone."""
    rows: list[Row] = [*disordered(["in"], 300), ("in", "k3", None, 9_000)]
    store = driver_after(versioned(), rows).get_versioned_key_value_store("prices")
    found: dict[str, Any] = {}
    for log in written(tmp_path, versioned(), rows, batches).values():
        found |= {key.decode(): value and int(value) for key, value in log.items()}
    assert {key: row and row.value for key in found for row in [store.get(key)]} == found
    assert found.get("k3") is None
    assert 12 == len({"k3", *found})
