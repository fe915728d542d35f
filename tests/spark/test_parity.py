"""Driver and Spark side by side on one sample: equal if the topology is, and every difference shown."""

from __future__ import annotations

import os
from typing import Any

import pytest

import kstreamnb as ks

pytestmark = [pytest.mark.spark]

PARTITIONS = {"orders": 2, "large": 2, "totals": 2}
SAMPLE = ks.Sample.from_records(
    [
        ("orders", at % 2, at // 2, 1000 + (at if at % 7 else at - 20), f"{'abc'[at % 3]}{at % 2}", at)
        for at in range(60)
    ]
)


def counting() -> ks.Topology:
    """Two sub-topologies with stores, late records and two outputs."""
    builder = ks.StreamsBuilder("shop")
    orders = builder.stream("orders")
    orders.filter(lambda key, value: value > 1).to("large")
    windows = ks.TimeWindows.of(size="10ms", grace="0s")
    counts = orders.group_by_key().windowed_by(windows).count().to_stream(lambda window, count: window.key)
    totals = counts.group_by(lambda key, count: key[0], value_serde="long").reduce(lambda total, count: total + count)
    totals.to_stream().to("totals", value_serde="long")
    return builder.build()


def mapping(function: Any) -> ks.Topology:
    """One step with a function."""
    builder = ks.StreamsBuilder("mapping")
    builder.stream("orders").map_values(function).to("large")
    return builder.build()


def test_driver_and_spark_agree(spark: Any) -> None:
    """Records, partitions, order and drops are equal; records of other topics are left out."""
    other = ks.Sample.from_text("topic | key | value \n elsewhere | a | 1")
    found = ks.testing.parity(counting(), [*SAMPLE, *other], spark, partitions=PARTITIONS)
    assert found.is_equal, found
    lines = str(found).splitlines()
    assert "driver and Spark agree on 60 records" == lines[0]
    assert ["large  | 0         | 29     | 29    | equal", "large  | 1         | 29     | 29    | equal"] == lines[3:5]
    assert "dropped: driver 8, Spark 8" == lines[-1]


@pytest.mark.kafka
def test_a_deployment_agrees_too(spark: Any) -> None:
    """The third column is the output from Kafka after several micro-batches."""
    found = ks.testing.parity(counting(), SAMPLE, spark, partitions=PARTITIONS, streaming=True)
    assert found.is_equal, found
    assert ("topic", "partition", "driver", "Spark", "Kafka", "") == found.header


@pytest.mark.kafka
def test_a_deployment_writes_as_many_partitions_as_the_other_engines_and_the_same_dead_letters(spark: Any) -> None:
    """Output topics have the given partitions, and the records that a handler refused are compared, too."""
    topology = mapping(lambda value: 1 / value)
    config = {"processing.exception.handler": "continue", "errors.dead.letter.queue.topic.name": "dead"}
    partitions = {"orders": 2, "large": 3}
    found = ks.testing.parity(topology, SAMPLE, spark, partitions=partitions, config=config, streaming=True)
    assert found.is_equal, found
    assert {"dead", "large"} == set(found.outcomes[-1].outputs)


@pytest.mark.kafka
def test_a_deployments_output_topic_may_begin_with_the_applications_id(spark: Any) -> None:
    """Only the topics that the application owns are left out."""
    builder = ks.StreamsBuilder("shop")
    builder.stream("orders").group_by_key().count().to_stream().to("shop-totals", value_serde="long")
    found = ks.testing.parity(builder.build(), SAMPLE, spark, partitions=2, streaming=True)
    assert found.is_equal, found
    assert ["shop-totals"] == list(found.outcomes[-1].outputs)


@pytest.mark.kafka
def test_a_sample_that_begins_at_time_0_agrees_with_its_deployment(spark: Any) -> None:
    """Kafka's client takes 0 for "now", so the epoch is 1 ms everywhere; the times of text tables begin at 0."""
    builder = ks.StreamsBuilder("epoch")
    builder.stream("orders").group_by_key().count().to_stream().to("totals", value_serde="long")
    sample = ks.Sample.from_text("topic | key | value | time \n orders | a | 1 | 0 \n orders | a | 1 | 2")
    found = ks.testing.parity(builder.build(), sample, spark, streaming=True)
    assert found.is_equal, found


def test_a_function_that_depends_on_where_it_runs_is_found(spark: Any) -> None:
    """Every row that differs is shown with its partition, in text and in HTML."""
    here = os.getpid()
    topology = mapping(lambda value: value if os.getpid() == here or value % 10 else -value)
    found = ks.testing.parity(topology, SAMPLE, spark, partitions=PARTITIONS)
    assert not found.is_equal
    assert "driver and Spark DIFFER on 60 records" == found.title
    assert "large | 0         | 30     | 30    | 10 rows differ" in str(found)
    assert '"-": only driver, "+": only Spark' in str(found)
    html = found._repr_mimebundle_()["text/html"]
    assert html.count("<table>") == 2
    assert "10 rows differ" in html


def test_an_error_is_part_of_what_is_compared(spark: Any) -> None:
    """Both fail on the same record at the same node: they agree, and the error is reported."""
    found = ks.testing.parity(mapping(lambda value: 1 / (value - 30)), SAMPLE, spark, partitions=PARTITIONS)
    assert found.is_equal, found
    assert "driver failed: ProcessingError: " in str(found)
    assert "Spark failed: ProcessingError: " in str(found)
