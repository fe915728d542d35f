"""Deployments from Kafka to Kafka: exactly once through kills, refusals before anything is touched."""

from __future__ import annotations

import random  # noqa: TID251 - seeded
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.produce import produce
from tests.kafka.crashes import committed

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

START_MS = 1_790_000_000_000


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """A session for the deployments of this process."""
    settings = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    session = ks.spark_session("kstreamnb-kafka-tests", settings=settings)
    yield session
    session.stop()


def rows(topic: str, count: int, partitions: int) -> list[ks.TopicRecord]:
    """Records with times that grow."""
    chance = random.Random(7)
    return [
        ks.TopicRecord(topic, at % partitions, at // partitions, START_MS + at, f"{chance.choice('abc')}{at % 7}", at)
        for at in range(count)
    ]


def counting(name: str, **options: Any) -> ks.Topology:
    """A count from one topic to another."""
    builder = ks.StreamsBuilder(name)
    grouped = builder.stream(f"{name}-in", value_serde="long").group_by_key()
    grouped.count(store="counts", **options).to_stream().to(f"{name}-out", value_serde="long")
    return builder.build()


def test_a_query_stops_goes_on_and_shows_its_store(spark: Any, servers: str, admin: Admin, tmp_path: Path) -> None:
    """Records that came meanwhile are counted on top; positions lie under the application's id."""
    admin.create_topic("goes-on-in", partitions=2)
    produce(servers, rows("goes-on-in", 40, 2), value_serde=ks.Serdes.long())
    checkpoint = tmp_path / "checkpoint"
    query = ks.deploy(counting("goes-on"), spark=spark, bootstrap_servers=servers, checkpoint=checkpoint)
    assert query.await_input(120)
    assert 40 == sum(value.value for _, value in query.store("counts").all())
    query.stop()
    assert "stopped" == query.status().state
    produce(servers, rows("goes-on-in", 20, 2), value_serde=ks.Serdes.long())
    query.restart()
    assert query.await_input(120)
    assert 60 == sum(value.value for _, value in query.store("counts").all())
    metrics = {metric.name: metric.value for metric in query.metrics() if metric.group == "stream-thread-metrics"}
    assert 60 == metrics["records-published-total"]
    query.stop()
    assert 60 == sum(map(len, committed(servers, "goes-on-out").values()))


def test_another_topology_is_refused_before_anything_is_touched(
    spark: Any, servers: str, admin: Admin, tmp_path: Path
) -> None:
    """The error says what differs; the page of the checkpoint stays as it was."""
    admin.create_topic("refused-in", partitions=1)
    produce(servers, rows("refused-in", 10, 1), value_serde=ks.Serdes.long())
    checkpoint = tmp_path / "checkpoint"
    options = {"spark": spark, "bootstrap_servers": servers, "checkpoint": checkpoint, "available_now": True}
    ks.deploy(counting("refused"), **options).await_termination(120)
    page = (checkpoint / "kstreamnb.json").read_text()
    builder = ks.StreamsBuilder("refused")
    windows = ks.TimeWindows.of_size_with_no_grace("1h")
    grouped = builder.stream("refused-in", value_serde="long").group_by_key().windowed_by(windows)
    grouped.count(store="counts").to_stream(lambda key, count: key.key).to("refused-new", value_serde="long")
    with pytest.raises(ks.EngineError, match="cannot serve this topology") as caught:
        ks.deploy(builder.build(), **options)
    assert 'store "counts"' in (caught.value.detail or "")
    assert "refused-new" not in admin.topics()
    assert page == (checkpoint / "kstreamnb.json").read_text()


def test_at_least_once_needs_no_transaction(spark: Any, servers: str, admin: Admin, tmp_path: Path) -> None:
    """The same topology, without a marker topic."""
    admin.create_topic("plain-in", partitions=1)
    produce(servers, rows("plain-in", 30, 1), value_serde=ks.Serdes.long())
    query = ks.deploy(
        counting("plain"),
        spark=spark,
        bootstrap_servers=servers,
        checkpoint=tmp_path / "checkpoint",
        available_now=True,
        guarantee="at_least_once",
    )
    query.await_termination(120)
    assert 30 == sum(map(len, committed(servers, "plain-out").values()))
    assert "plain-commits" not in admin.topics()
