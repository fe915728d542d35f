"""A foreign-key join that is split on Spark, from Kafka to Kafka: rescaled, and compared with its log."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

import kstreamnb as ks
from kstreamnb.kafka.producer import produce
from tests.kafka.apps import Bench

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def _joined(name: str) -> ks.Topology:
    builder = ks.StreamsBuilder(name)
    customers = builder.table(f"{name}-customers", store="customers")
    orders = builder.table(f"{name}-orders", store="orders")
    joined = orders.left_join(
        customers, lambda order, who: f"{order}+{who}", foreign_key=lambda order: order, store="joined"
    )
    joined.to_stream().to(f"{name}-out")
    return builder.build()


def _round(bench: Bench, name: str, number: int) -> dict[str, str]:
    """Change orders and customers; returns the rows that are joined then."""
    names = [f"c{at}" for at in range(5)]
    orders = [ks.TopicRecord(f"{name}-orders", -1, at, at, f"o{at}", names[(at + number) % 5]) for at in range(20)]
    topic = f"{name}-customers"
    customers = [ks.TopicRecord(topic, -1, at, at, each, f"{each}v{number}") for at, each in enumerate(names)]
    produce(bench.servers, [*orders, *customers])
    return {each.key: f"{each.value}+{each.value}v{number}" for each in orders}


def test_a_split_join_is_rescaled_and_its_copy_compared_with_its_log(bench: Bench) -> None:
    """The copy of the left table is found by its tasks, equals its log, and has no topic."""
    name = "split-join"
    for topic in ("orders", "customers", "out"):
        bench.admin.create_topic(f"{name}-{topic}", partitions=3)
    expected = _round(bench, name, 0)
    query = bench.run(_joined(name), spark_partitions=2, changelogs=True)
    assert len(query.deployment.application.split) == 1
    for number, partitions in ((1, 4), (2, 3)):
        assert expected == dict(query.store("joined").all())
        checked = ks.testing.verify_state(query)
        assert (len(query.deployment.application.running.stores) * 3, ()) == (checked.stores, checked.rows)
        ks.spark.rescale(query.checkpoint, partitions, spark=bench.spark)
        expected = _round(bench, name, number)
        query = bench.run(_joined(name), changelogs=True)
    assert expected == dict(query.store("joined").all())
    table = ks.spark.read_store(_joined(name), "joined", query.checkpoint, spark=bench.spark)
    assert expected == dict(table.all())
    assert not [topic for topic in bench.admin.topics() if "-rows" in topic]


@pytest.fixture
def one_slot(bench: Bench) -> Iterator[None]:
    """The parallelism that the profile "latency" sets."""
    settings = bench.spark.sparkContext._jsc.sc().conf()
    settings.set("spark.default.parallelism", "1")
    yield
    settings.remove("spark.default.parallelism")


@pytest.mark.usefixtures("one_slot")
@pytest.mark.parametrize(
    ("given", "layout", "because"),
    [
        (None, "one task", "at most one task of each level could run at a time"),
        (2, "split", "its sides run at the same time"),
    ],
)
def test_deploy_says_which_layout_a_join_has_and_a_checkpoint_keeps_it(
    bench: Bench, caplog: pytest.LogCaptureFixture, given: int | None, layout: str, because: str
) -> None:
    """With one state partition, the default there, the join is one task; with more it is split."""
    name = f"layout-{given}"
    for topic in ("orders", "customers", "out"):
        bench.admin.create_topic(f"{name}-{topic}", partitions=3)
    for number, reason in enumerate((because, "the checkpoint began with it")):
        expected = _round(bench, name, number)
        caplog.clear()
        with caplog.at_level(logging.INFO, "kstreamnb.query"):
            query = bench.run(_joined(name), spark_partitions=None if number else given)
        assert expected == dict(query.store("joined").all())
        assert bool(query.deployment.application.cycles) == (layout == "one task")
        said = f"layout {layout}, because {reason})"
        assert [said in text for text in caplog.messages if "foreign-key join" in text] == [True]
