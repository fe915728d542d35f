"""Rewrites: the effect of each on a graph, switched on alone, and its explanation."""

from __future__ import annotations

from typing import Any

import pytest

from kstreamnb.core.processor import FixedKeyProcessor, Processor
from kstreamnb.core.record import Record, TopicRecord
from kstreamnb.core.serdes import Serdes
from kstreamnb.core.windows import JoinWindows
from kstreamnb.dsl.builder import StreamsBuilder
from kstreamnb.dsl.options import Consumed
from kstreamnb.errors import ConfigError, TopologyError
from kstreamnb.logical.optimizer.rewrites import rules_of
from kstreamnb.operators.stateless import PassThrough
from kstreamnb.replays.replay_sample import replay
from kstreamnb.testdriver.topology_test_driver import TopologyTestDriver
from kstreamnb.topology.nodes import ProcessorNode
from kstreamnb.topology.topology import Topology


def first(value: str) -> str:
    return value[:1]


def is_paid(key: Any, value: str) -> bool:
    return bool(value)


def by_first(key: Any, value: str) -> str:
    return value[:1]


def no_key(key: Any, value: str) -> tuple[None, str]:
    return None, value


def pair(left: Any, right: Any) -> tuple[Any, Any]:
    return left, right


def topics(topology: Topology) -> list[str]:
    return list(topology.internal_topics)


def two_counts() -> StreamsBuilder:
    builder = StreamsBuilder()
    keyed = builder.stream("orders").select_key(by_first)
    keyed.group_by_key().count(store="a")
    keyed.filter(is_paid).group_by_key().count(store="b")
    return builder


def test_repartitions_below_one_change_of_keys_become_one() -> None:
    """The first topic remains and everything moves below it."""
    assert topics(two_counts().build()) == ["a-repartition", "b-repartition"]
    merged = two_counts().build(optimize="merge.repartition.topics")
    assert topics(merged) == ["a-repartition"]
    assert merged.nodes["KSTREAM-FILTER-0000000006"].parents == ("a-repartition-source",)


def test_several_aggregations_behind_one_operator_are_merged_as_well() -> None:
    """If Kafka Streams fails to optimize, the second one simply follows the first."""
    builder = StreamsBuilder()
    grouped = builder.stream("orders").select_key(by_first).filter(is_paid).group_by_key()
    grouped.count(store="a")
    grouped.count(store="b")
    assert topics(builder.build(optimize=True)) == ["a-repartition"]


class ByFirst(Processor):
    """Forwards each record under the first character of its value."""

    def process(self, record: Record[Any, str]) -> None:
        self.context.forward(record.with_key(record.value[:1]))


def count_below_process(*, process_changes_records: bool, optimize: bool = True) -> Topology:
    builder = StreamsBuilder(process_changes_records=process_changes_records)
    options = Consumed(Serdes.string(), Serdes.string())
    keyed = builder.stream("orders", options).select_key(lambda key, value: value)
    keyed.process(ByFirst).group_by_key().count(store="a")
    return builder.build(optimize=optimize)


def counts_of(topology: Topology) -> list[tuple[str, int]]:
    with TopologyTestDriver(topology, partitions=4) as driver:
        driver.create_input_topic("orders").pipe_value_list([f"{'ab'[n % 2]}{n}" for n in range(12)])
        return list(driver.get_key_value_store("a").all())


def test_processors_that_change_keys_stay_above_repartitions_if_the_builder_says_so() -> None:
    """Otherwise Kafka Streams moves the repartition above them, so rows of one key are in several partitions."""
    moved = count_below_process(process_changes_records=False)
    assert moved.nodes["KSTREAM-PROCESSOR-0000000002"].parents == ("a-repartition-source",)
    assert 'right only if "KSTREAM-PROCESSOR-0000000002" changes neither keys' in str(moved.explain())
    assert len(counts_of(moved)) > 2
    right = count_below_process(process_changes_records=True)
    assert right.nodes["KSTREAM-PROCESSOR-0000000002"].parents == ("KSTREAM-KEY-SELECT-0000000001",)
    assert 'keys do not change between "KSTREAM-PROCESSOR-0000000002"' in str(right.explain())
    assert counts_of(right) == [("a", 6), ("b", 6)]
    assert right.describe() == count_below_process(process_changes_records=False, optimize=False).describe()


def test_a_processor_of_values_keeps_a_repartition_below_it_if_the_builder_says_so() -> None:
    """It may change the type of the values, which the repartition topic then could not write."""
    for process_changes_records, parent in ((False, "a-repartition-source"), (True, "KSTREAM-KEY-SELECT-0000000001")):
        builder = StreamsBuilder(process_changes_records=process_changes_records)
        keyed = builder.stream("orders").select_key(by_first)
        keyed.process_values(FixedKeyProcessor, name="values").group_by_key().count(store="a")
        assert builder.build(optimize=True).nodes["values"].parents == (parent,)


def test_a_change_of_values_in_between_keeps_repartitions_apart() -> None:
    """The repartitioned records would have another value."""
    builder = StreamsBuilder()
    keyed = builder.stream("orders").select_key(by_first)
    keyed.map_values(first).group_by_key().count(store="a")
    keyed.map_values(len).group_by_key().count(store="b")
    assert topics(builder.build(optimize=True)) == ["a-repartition", "b-repartition"]


def test_a_repartition_reached_on_two_ways_stays_where_it_is() -> None:
    """Kafka Streams would move one path only and count some records in the wrong partition."""
    builder = StreamsBuilder()
    keyed = builder.stream("orders").select_key(by_first)
    keyed.merge(keyed.filter(is_paid)).group_by_key().count(store="a")
    keyed.group_by_key().count(store="b")
    optimized = builder.build(optimize=True)
    assert topics(optimized) == ["b-repartition", "a-repartition"]
    assert len(optimized.subtopologies()) == len(builder.build().subtopologies()) == 3


def test_a_repartition_moves_with_all_the_ways_that_lead_to_it() -> None:
    """One path is another repartition that moves as well: all records pass the new topic before they meet again."""
    builder = StreamsBuilder()
    keyed = builder.stream("orders").select_key(by_first)
    joined = keyed.join(builder.table("names"), pair)
    keyed.filter(is_paid).merge(joined).to_table(store="latest")
    assert len(topics(builder.build())) == 2
    optimized = builder.build(optimize=True)
    assert topics(optimized) == ["KSTREAM-KEY-SELECT-0000000001-repartition"]
    assert optimized.nodes["KSTREAM-FILTER-0000000009"].parents == ("KSTREAM-KEY-SELECT-0000000001-repartition-source",)


def test_a_stream_that_joins_below_a_merged_repartition_must_be_co_partitioned_with_it() -> None:
    """Its records keep their own keys, so they need no repartition, only the same partition count."""
    builder = StreamsBuilder()
    keyed = builder.stream("orders").select_key(by_first)
    keyed.group_by_key().count(store="a")
    keyed.merge(builder.stream("returns")).group_by_key().count(store="b")
    optimized = builder.build(optimize=True)
    assert topics(optimized) == ["a-repartition"]
    assert optimized.partition_counts({"orders": 2, "returns": 3})["a-repartition"] == 3


def test_a_repartition_below_another_change_of_keys_stays() -> None:
    """Kafka Streams would move it away from records that the second change has put in the wrong partition."""
    builder = StreamsBuilder()
    keyed = builder.stream("orders").select_key(by_first)
    keyed.group_by_key().count(store="a")
    keyed.merge(builder.stream("returns").select_key(by_first)).group_by_key().count(store="b")
    assert topics(builder.build(optimize=True)) == ["a-repartition", "b-repartition"]


def test_a_table_s_topic_serves_as_its_change_log() -> None:
    """Only materialized tables have a changelog to save."""
    builder = StreamsBuilder()
    builder.table("prices", store="prices")
    builder.table("names")
    plain, reused = builder.build(), builder.build(optimize="reuse.ktable.source.topics")
    assert (plain.stores["prices"].logged, plain.stores["prices"].changelog_topic) == (True, None)
    assert (reused.stores["prices"].logged, reused.stores["prices"].changelog_topic) == (False, "prices")


def test_a_self_join_needs_one_store() -> None:
    """Both sides are the same records."""
    builder = StreamsBuilder()
    orders = builder.stream("orders")
    orders.join(orders, pair, JoinWindows.of(difference="5ms"))
    assert len(builder.build().stores) == 2
    alone = builder.build(optimize="single.store.self.join")
    assert list(alone.stores) == ["KSTREAM-JOINTHIS-0000000003-store"]
    assert list(alone.nodes) == [
        "KSTREAM-SOURCE-0000000000",
        "KSTREAM-WINDOWED-0000000001",
        "KSTREAM-MERGE-0000000005",
    ]


def self_joined(how: str, windows: JoinWindows, *, optimize: bool) -> tuple[str, list[tuple[Any, Any]]]:
    builder = StreamsBuilder()
    orders = builder.stream("orders", Consumed(Serdes.string(), Serdes.string()))
    getattr(orders, how)(orders, pair, windows).to("pairs")
    topology = builder.build(optimize=optimize)
    with TopologyTestDriver(topology) as driver:
        for key, value, at in (("a", "x", 10), ("a", "y", 14), (None, "no key", 20), ("a", "z", 50), ("a", "end", 99)):
            driver.create_input_topic("orders").pipe_input(key, value, at=at)
        pairs = driver.create_output_topic("pairs").read_values_to_list()
    return str(topology.explain()), [tuple(each) for each in pairs]


@pytest.mark.parametrize(
    ("how", "windows", "differs"),
    [
        ("join", JoinWindows.of(difference="5ms"), False),
        ("left_join", JoinWindows.of(difference="5ms"), True),
        ("join", JoinWindows.of(difference="8ms").before("-2ms"), True),
    ],
)
def test_the_explanation_of_a_self_join_says_what_it_becomes(how: str, windows: JoinWindows, differs: bool) -> None:
    """Kafka Streams makes an inner join of it, in which each record joins itself, whatever the windows are."""
    _, before = self_joined(how, windows, optimize=False)
    why, after = self_joined(how, windows, optimize=True)
    assert "the join is inner, and each record also joins itself" in why
    assert {("x", "x"), ("y", "y"), ("z", "z")} <= set(after)
    assert (sorted(map(str, before)) != sorted(map(str, after))) is differs


def test_streams_of_the_same_topics_share_a_source() -> None:
    """Refused in either order of the topics."""
    builder = StreamsBuilder()
    builder.stream(["a", "b"]).to("out")
    builder.stream(["b", "a"]).to("out")
    assert [source.name for source in builder.build().sources()] == ["KSTREAM-SOURCE-0000000000"]
    assert builder.explain().after.describe() == builder.build(optimize=True).describe()


def test_streams_of_overlapping_topics_are_refused_with_their_places() -> None:
    """The error names the topic, and the line of the second stream."""
    builder = StreamsBuilder()
    builder.stream(["a", "b"]).to("out")
    builder.stream(["b", "c"]).to("out")
    with pytest.raises(TopologyError, match='topic "b" is read by two streams') as caught:
        builder.build()
    assert caught.value.origin is not None
    assert caught.value.origin.code == 'builder.stream(["b", "c"]).to("out")'


def test_null_keys_pass_a_repartition_only_above_left_and_outer_joins() -> None:
    """Elsewhere nothing could use them."""
    builder = StreamsBuilder()
    table = builder.table("names")
    keyed = builder.stream("orders").select_key(by_first)
    keyed.left_join(table, pair, name="kept")
    keyed.join(table, pair, name="dropped")
    nodes = builder.build().nodes
    filters = {name: type(nodes[name].operator).__name__ for name in nodes if name.endswith("-filter")}
    assert filters == {"kept-repartition-filter": "PassThrough", "dropped-repartition-filter": "RepartitionFilter"}


@pytest.mark.parametrize("last", ["table", "global table", "stream", "outer stream", "stream on the right"])
def test_null_keys_pass_a_repartition_above_an_inner_join_if_a_left_or_outer_join_follows(last: str) -> None:
    """As in Kafka Streams: null keys are then dropped, and counted, by the inner join instead of the filter."""
    builder = StreamsBuilder()
    table, windows = builder.table("names"), JoinWindows.of_time_difference_with_no_grace("1s")
    joined = builder.stream("orders").select_key(by_first).join(table, pair, name="inner")
    if last == "table":
        joined.left_join(builder.table("more"), pair).to("out")
    elif last == "global table":
        joined.left_join(builder.global_table("more"), by_first, pair).to("out")
    elif last == "stream":
        joined.left_join(builder.stream("more"), pair, windows).to("out")
    elif last == "outer stream":
        joined.outer_join(builder.stream("more"), pair, windows).to("out")
    else:
        builder.stream("more").left_join(joined, pair, windows).to("out")
    node = builder.build().nodes["inner-repartition-filter"]
    assert isinstance(node, ProcessorNode)
    assert isinstance(node.operator, PassThrough)


def test_a_null_key_before_an_inner_join_above_a_left_join_is_counted_by_the_join() -> None:
    """The result of Kafka Streams 4.3.1 for this topology: one dropped record, at the join."""
    builder = StreamsBuilder()
    table, more = builder.table("names"), builder.global_table("more")
    keyed = builder.stream("orders").map(no_key)
    keyed.join(table, pair, name="inner").left_join(more, by_first, pair).to("out")
    run = replay(builder.build(), [TopicRecord("orders", 0, 0, 0, "k", "v", ())])
    assert [(drop.node, drop.reason) for drop in run.drops] == [("inner", "null key")]


def test_every_rewrite_explains_itself() -> None:
    """Before, after and why, in the order of application."""
    builder = two_counts()
    builder.table("prices", store="prices")
    explained = builder.explain()
    assert [each.rule for each in explained] == ["reuse.ktable.source.topics", "merge.repartition.topics"]
    assert explained[1].before == ("a-repartition-source", "b-repartition-source")
    assert explained[1].after == ("a-repartition-source",)
    assert "keys do not change" in str(explained[1])
    assert builder.explain(optimize=False) == ()


@pytest.mark.parametrize(
    ("optimize", "rules"),
    [
        (False, ()),
        ("none", ()),
        (
            "single.store.self.join , reuse.ktable.source.topics",
            ("reuse.ktable.source.topics", "single.store.self.join"),
        ),
    ],
)
def test_rules_are_named_as_in_kafka(optimize: bool | str, rules: tuple[str, ...]) -> None:
    """Kafka's names, in any order."""
    assert rules_of(optimize) == rules
    assert rules_of("all") == rules_of(optimize=True)


def test_an_unknown_rule_says_which_there_are() -> None:
    """The error lists the rules."""
    with pytest.raises(ConfigError, match='unknown optimization "merge"') as caught:
        rules_of("merge")
    assert "merge.repartition.topics" in str(caught.value.detail)


def test_a_topic_that_is_a_stream_and_a_table_is_refused_with_both_places() -> None:
    """In either order of declaration, the error is at the second one."""
    builder = StreamsBuilder()
    builder.table("orders")
    builder.stream("orders").to("out")
    with pytest.raises(TopologyError, match='topic "orders" is read both as a stream and as a table') as caught:
        builder.build()
    assert caught.value.detail is not None
    table, stream = caught.value.detail.split(" and ")
    assert table.startswith("KTABLE-SOURCE-0000000002 (test_rewrites.py, line ")
    assert stream.startswith("KSTREAM-SOURCE-0000000003 (test_rewrites.py, line ")
    assert caught.value.hint == "read it once, then derive the other with to_table() or to_stream()"
    assert caught.value.origin is not None
    assert caught.value.origin.code == 'builder.stream("orders").to("out")'


def test_a_topology_says_what_optimizing_did_and_what_it_left() -> None:
    """A repartition that Kafka Streams would move along one path only is reported with the reason why it remains."""
    builder = StreamsBuilder()
    keyed = builder.stream("orders").select_key(by_first)
    keyed.group_by_key().count(store="a")
    keyed.merge(keyed.filter(is_paid).map_values(first)).group_by_key().count(store="b")
    moved, stays = builder.build(optimize=True).explain()
    assert ("a-repartition-source",) == moved.before == moved.after
    assert ("b-repartition-source",) == stays.before == stays.after
    assert "arrive on another path" in str(stays)
    assert builder.build().explain() == ()
