"""Decisions of `deploy` before anything runs."""

from __future__ import annotations

import pytest

import kstreamnb as ks
from kstreamnb.errors import ConfigError
from kstreamnb.runtime.context.config import Config
from kstreamnb.spark.operations.application_topics import few_replicas


@pytest.mark.parametrize(
    ("replicas", "brokers", "warns"), [(1, 1, False), (1, 2, False), (1, 3, True), (2, 5, True), (3, 3, False)]
)
def test_few_copies_of_the_marker_topic_are_a_warning_on_a_real_cluster(
    replicas: int, brokers: int, *, warns: bool
) -> None:
    """A cluster of one broker has no choice; one of three that keeps one copy loses all batches with a disk."""
    text = few_replicas("shop-commits", replicas, brokers)
    assert warns == (text is not None)
    if text is not None:
        assert f'"shop-commits" has {replicas} replica' in text
        assert '"replication.factor" to 3' in text


def test_the_replication_factor_of_new_topics_is_the_brokers_unless_it_is_set() -> None:
    """The plan shows it, unless the output goes elsewhere."""
    builder = ks.StreamsBuilder("shop")
    builder.stream("in").to("out")
    topology = builder.build()
    assert -1 == Config().replication_factor == ks.plan(topology).replicas
    planned = ks.plan(topology, config={"replication.factor": "3"})
    assert 3 == planned.replicas
    assert "new topics: replication factor 3" in str(planned).splitlines()
    elsewhere = ks.plan(topology, sink=ks.spark.ParquetSink("lake"))
    assert elsewhere.replicas is None
    assert "new topics" not in str(elsewhere)


@pytest.mark.parametrize("value", [0, -2, "three"])
def test_an_impossible_replication_factor_is_refused(value: object) -> None:
    """Refused before anything is created with it."""
    with pytest.raises(ConfigError, match=r"replication\.factor"):
        Config.of({"replication.factor": value})
