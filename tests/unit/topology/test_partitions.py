"""Partition counts of repartition topics, co-partitioning errors, and the resulting tasks."""

from __future__ import annotations

from typing import Any

import pytest

from kstreamnb.core.record import TopicPartition
from kstreamnb.core.stores import Stores
from kstreamnb.errors import TopologyError
from kstreamnb.topology.partitions import check_fixed_partitions
from kstreamnb.topology.topology import Topology
from tests.unit.topology.test_checks import Pass


def chain(fixed: int | None = None) -> Topology:
    """Orders and returns -> first-repartition -> second-repartition."""
    topology = Topology().add_source("in", "orders", "returns").add_sink("to-1", "first-repartition", "in")
    topology.add_source("from-1", "first-repartition").add_sink("to-2", "second-repartition", "from-1")
    topology.add_source("from-2", "second-repartition").add_sink("out", "totals", "from-2")
    return topology.add_internal_topic("first-repartition", fixed).add_internal_topic("second-repartition")


def test_a_repartition_topic_is_as_wide_as_the_widest_topic_above() -> None:
    """Counts propagate along chains of repartition topics; a fixed count starts a new chain."""
    topics = {"orders": 4, "returns": 6}
    assert chain().partition_counts(topics) == {**topics, "first-repartition": 6, "second-repartition": 6}
    assert chain(fixed=3).partition_counts(topics)["second-repartition"] == 3


def test_tasks_cover_every_partition_of_every_sub_topology() -> None:
    """A sub-topology has as many tasks as its widest topic; narrower topics leave some tasks without input."""
    tasks = chain(fixed=1).tasks({"orders": 1, "returns": 2})
    assert [task.id for task in tasks] == ["0_0", "0_1", "1_0", "2_0"]
    assert tasks[0].inputs == (TopicPartition("orders", 0), TopicPartition("returns", 0))
    assert tasks[1].inputs == (TopicPartition("returns", 1),)


def test_a_missing_topic_and_an_empty_pattern_are_named() -> None:
    """The error says which topic lacks a count, or which pattern matches nothing."""
    with pytest.raises(TopologyError, match='unknown number of partitions of topic "returns"'):
        chain().partition_counts({"orders": 4})
    with pytest.raises(TopologyError, match=r'no topic matches the pattern "x\.\*"') as caught:
        Topology().add_source("s", pattern="x.*").partition_counts({"y": 1})
    assert "partitions={" in str(caught.value.hint)
    with pytest.raises(TopologyError, match='"orders" cannot have 0 partitions'):
        chain().partition_counts({"orders": 0, "returns": 1})


def test_a_pattern_takes_the_topics_that_exist_but_no_internal_ones() -> None:
    """A pattern source reads every matching topic of the user."""
    topology = Topology().add_source("s", pattern="[ab]").add_sink("k", "x-repartition", "s")
    topology.add_internal_topic("x-repartition").add_source("r", "x-repartition")
    assert topology.partition_counts({"b": 2, "a": 3}) == {"a": 3, "b": 2, "x-repartition": 3}


def joined(left: int | None = None, right: int | None = None) -> Topology:
    """Two repartition topics that are joined."""
    topology = Topology().add_source("in", "orders")
    for side, count in (("l", left), ("r", right)):
        topology.add_sink(f"to-{side}", f"{side}-repartition", "in").add_source(f"from-{side}", f"{side}-repartition")
        topology.add_internal_topic(f"{side}-repartition", count)
    return topology.co_partition(["from-l", "from-r"])


def test_joined_repartition_topics_agree() -> None:
    """One fixed count determines its peer's; two different ones are refused before anything runs."""
    assert joined(left=5).partition_counts({"orders": 2}) == {"orders": 2, "l-repartition": 5, "r-repartition": 5}
    with pytest.raises(TopologyError) as caught:
        check_fixed_partitions(joined(left=2, right=3))
    assert caught.value.java == (
        "Invalid topology: Following topics do not have the same number of partitions: "
        "[{l-repartition=2, r-repartition=3}]"
    )
    check_fixed_partitions(joined(left=2))


def test_repartition_topics_agree_although_one_is_also_joined_with_a_topic_of_the_user() -> None:
    """Counts are compared group by group, as in Kafka Streams: the count of another group's topic may be unknown."""
    topology = joined(left=2, right=3).add_source("from-user", "prices").co_partition(["from-l", "from-user"])
    with pytest.raises(TopologyError, match="must have the same number of partitions"):
        check_fixed_partitions(topology)


def test_topics_of_the_user_must_be_co_partitioned() -> None:
    """Joined topics with different partition counts are refused with Kafka's text."""
    topology = Topology().add_source("l", "left").add_source("r", "right").co_partition(["l", "r"])
    assert topology.partition_counts({"left": 3, "right": 3}) == {"left": 3, "right": 3}
    with pytest.raises(TopologyError) as caught:
        topology.tasks({"left": 3, "right": 4})
    assert "Topics not co-partitioned: [{left=3, right=4}]" in (caught.value.java or "")


def test_a_fixed_repartition_topic_must_match_the_topic_it_is_joined_with() -> None:
    """A repartition topic without a count follows its peer; a fixed one that differs is refused."""
    topology = joined(left=None).add_source("t", "table").co_partition(["from-l", "t"])
    assert topology.partition_counts({"orders": 2, "table": 7})["r-repartition"] == 7
    fixed = joined(left=5).add_source("t", "table").co_partition(["from-l", "t"])
    with pytest.raises(TopologyError) as caught:
        fixed.partition_counts({"orders": 2, "table": 7})
    assert "Number of partitions [5] of repartition topic [l-repartition] doesn't match" in (caught.value.java or "")


def test_owned_topics_are_repartition_topics_and_changelogs_with_kafkas_settings() -> None:
    """Full names, counts by tasks, and clean-up by the kind of store."""
    topology = chain().add_processor("p", Pass, "from-2")
    topology.add_state_store(Stores.persistent_key_value_store("kv", log_config=(("retention.bytes", "9"),)), "p")
    topology.add_state_store(Stores.persistent_window_store("w", retention="1h", window_size="5m"), "p")
    topology.add_state_store(Stores.persistent_versioned_key_value_store("v", history="1h"), "p")
    topology.add_state_store(Stores.in_memory_key_value_store("quiet", logged=False), "p")
    owned = {topic.name: topic for topic in topology.owned_topics("app", {"orders": 4, "returns": 2})}
    assert list(owned) == [
        "app-first-repartition",
        "app-second-repartition",
        "app-kv-changelog",
        "app-w-changelog",
        "app-v-changelog",
    ]
    assert {topic.partitions for topic in owned.values()} == {4}
    assert ("retention.bytes", "9") in owned["app-kv-changelog"].config
    assert dict(owned["app-w-changelog"].config)["retention.ms"] == str(3_600_000 + 86_400_000)
    assert dict(owned["app-v-changelog"].config)["min.compaction.lag.ms"] == str(3_600_000 + 86_400_000)
    assert [topic.partitions for topic in topology.owned_topics("app")] == [None] * 5


def test_changelogs_of_windows_with_duplicates_are_deleted_by_age_and_never_compacted() -> None:
    """Unless the user or a store with times asks for compaction, as in Kafka."""
    topology = chain().add_processor("p", Pass, "from-2")
    kept: dict[str, Any] = {"retention": "1h", "window_size": "5m", "retain_duplicates": True}
    topology.add_state_store(Stores.in_memory_window_store("w", **kept), "p")
    topology.add_state_store(Stores.persistent_timestamped_window_store("timed", **kept), "p")
    topology.add_state_store(
        Stores.persistent_window_store("own", log_config=(("cleanup.policy", "compact"),), **kept), "p"
    )
    policies = {
        topic.store: dict(topic.config)["cleanup.policy"] for topic in topology.owned_topics("app") if topic.store
    }
    assert {"w": "delete", "timed": "compact,delete", "own": "compact"} == policies


def test_changelogs_of_stores_that_keep_everything_have_the_largest_retention_of_kafka() -> None:
    """A day more than unlimited windows last is a number that no broker accepts."""
    topology = chain().add_processor("p", Pass, "from-2")
    forever = f"{2**63 - 1}ms"
    topology.add_state_store(Stores.persistent_window_store("w", retention=forever, window_size="5m"), "p")
    topology.add_state_store(Stores.persistent_versioned_key_value_store("v", history=forever), "p")
    owned = {topic.name: dict(topic.config) for topic in topology.owned_topics("app")}
    assert owned["app-w-changelog"]["retention.ms"] == str(2**63 - 1)
    assert owned["app-v-changelog"]["min.compaction.lag.ms"] == str(2**63 - 1)
