"""From declarations to a topology: three views of it, and the effects of optimization."""

from __future__ import annotations

import re

import cloudpickle
import pytest

import kstreamnb as ks
from tests.semantics.scenario import records


def shuffled() -> ks.StreamsBuilder:
    """A changed key, two counts by it, and a table that is read from a topic."""
    builder = ks.StreamsBuilder("app")
    by_value = builder.stream("in").select_key(lambda key, value: value)
    by_value.group_by_key().count(store="c1").to_stream().to("o1", value_serde="long")
    by_value.group_by_key().count(store="c2").to_stream().to("o2", value_serde="long")
    builder.table("t", store="ts")
    return builder


def owned(topology: ks.Topology) -> set[str]:
    """Internal topics of the application."""
    return {topic.name for topic in topology.owned_topics("app")}


def test_optimizing_merges_repartitions_and_reuses_source_topics() -> None:
    """S0-46: two repartition topics become one, and the table's topic serves as its changelog; results are equal."""
    plain, optimized = shuffled().build(), shuffled().build(optimize=True)
    both = {"app-c1-repartition", "app-c1-changelog", "app-c2-changelog"}
    assert (4, both | {"app-c2-repartition", "app-ts-changelog"}) == (len(plain.subtopologies()), owned(plain))
    assert (3, both) == (len(optimized.subtopologies()), owned(optimized))
    found = []
    for topology in (plain, optimized):
        driver = ks.TopologyTestDriver(topology, partitions={"in": 3, "t": 2})
        for row in records("in: a→x@0, b→y@1, c→x@2, d→z@3", "t: k→v@4"):
            driver.create_input_topic(row.topic).pipe_input(row.key, row.value, at=row.timestamp)
        found.append([sorted(driver.create_output_topic(name).read_records()) for name in ("o1", "o2")])
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("rule", "subtopologies", "gone"),
    [
        ("merge.repartition.topics", 3, {"app-c2-repartition"}),
        ("reuse.ktable.source.topics", 4, {"app-ts-changelog"}),
        ("single.store.self.join", 4, set()),
    ],
)
def test_each_rewrite_can_be_had_alone_and_says_what_it_did(rule: str, subtopologies: int, gone: set[str]) -> None:
    """S0-47: the report lists the graph before and after, and the reason."""
    topology = shuffled().build(optimize=rule)
    assert (subtopologies, gone) == (len(topology.subtopologies()), owned(shuffled().build()) - owned(topology))
    assert ({rule} if gone else set()) == {explanation.rule for explanation in topology.explain()}
    for explanation in topology.explain():
        assert explanation.before != explanation.after
        assert str(explanation).endswith(explanation.why)
        assert explanation.why


def test_a_flow_has_three_views() -> None:
    """S0-13: the declarations, the optimized graph, and the description, with Java's names in all of them."""
    builder = shuffled()
    declared, topology = builder.graph(), builder.build(optimize=True)
    lines = str(declared).splitlines()
    assert f"logical graph, {len(declared.nodes)} nodes" == lines[0]
    assert "  1 KSTREAM-KEY-SELECT-0000000001: select_key <- 0" == lines[2]
    assert "0x" not in str(declared)
    described = topology.describe()
    for node in ("KSTREAM-SOURCE-0000000000", "KSTREAM-KEY-SELECT-0000000001", "KSTREAM-AGGREGATE-0000000008"):
        assert node in described
        assert any(node in line for line in lines)
    assert "c2-repartition-source" in str(declared)
    assert "c2-repartition" not in described


def test_an_optimization_is_shown_before_and_after() -> None:
    """S0-13, S0-47: two pictures with what differs marked, a table of reasons, and the same as text."""
    explained = shuffled().explain()
    bundle = explained._repr_mimebundle_()
    before, after = re.findall(r"<svg.*?</svg>", bundle["text/html"], re.DOTALL)
    assert ("only before" in before, "only" in after, "changed" in after) == (True, False, True)
    text = bundle["text/plain"]
    assert "before: 4 sub-topologies, 16 nodes" in text
    assert "after: 3 sub-topologies, 13 nodes" in text
    assert "c2-repartition-sink ! only before <changed>" in text
    assert all(rewrite.why in text for rewrite in explained)
    assert explained.after.describe() == shuffled().build(optimize=True).describe()
    assert "no optimizations" in shuffled().explain(optimize=False)._repr_mimebundle_()["text/plain"]


def test_an_optimized_topology_displays_what_its_builder_explains() -> None:
    """Pictures before and after, on the topology as well; a pickled topology keeps the reasons alone."""
    topology = shuffled().build(optimize=True)
    assert topology.explain()._repr_mimebundle_() == shuffled().explain()._repr_mimebundle_()
    assert "no optimizations" in shuffled().build().explain()._repr_mimebundle_()["text/plain"]
    sent = cloudpickle.loads(cloudpickle.dumps(topology))
    assert (type(sent.explain()), sent.explain()) == (tuple, topology.explain())


def test_an_optimization_may_remove_all_but_one_of_the_nodes_with_one_name() -> None:
    """As in Kafka Streams; there is no picture of the topology before, because it cannot be built."""
    builder = shuffled()
    by_value = builder.stream("more").select_key(lambda key, value: value)
    for store in ("c3", "c4"):
        by_value.group_by_key(name="again").count(store=store)
    with pytest.raises(ks.errors.TopologyError, match='there is already a node "again-repartition-filter"'):
        builder.build()
    explained = builder.explain()
    assert ["again-repartition-source"] * 2 == [*explained[-1].before]
    assert explained.before is explained.after


# --- S0-54, S0-55: the description --------------------------------------------------------------------------------
COUNTED = """\
Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000000 (topics: [input])
      --> KSTREAM-AGGREGATE-0000000001
    Processor: KSTREAM-AGGREGATE-0000000001 (stores: [countStore])
      --> KTABLE-TOSTREAM-0000000002
      <-- KSTREAM-SOURCE-0000000000
    Processor: KTABLE-TOSTREAM-0000000002 (stores: [])
      --> KSTREAM-SINK-0000000003
      <-- KSTREAM-AGGREGATE-0000000001
    Sink: KSTREAM-SINK-0000000003 (topic: output)
      <-- KTABLE-TOSTREAM-0000000002

"""


def counted() -> ks.Topology:
    """Records counted by key."""
    builder = ks.StreamsBuilder()
    builder.stream("input").group_by_key().count(store="countStore").to_stream().to("output", value_serde="long")
    return builder.build()


def test_the_count_is_described_as_java_describes_it() -> None:
    """S0-54: header, eleven lines and the blank one."""
    assert COUNTED == counted().describe()


@pytest.mark.parametrize("text", [COUNTED, COUNTED.removeprefix("Topologies:\n")], ids=["whole", "without header"])
def test_any_application_s_description_can_be_drawn(text: str) -> None:
    """S0-55: four nodes, two topics and a store in a box, with or without the first line."""
    drawn = ks.parse_description(text)
    svg = drawn.to_svg()
    assert "Sub-topology 0" in svg
    for word in ("input", "output", "countStore"):
        assert f">{word}<" in svg
    assert list(drawn.nodes()) == list(counted().description().nodes())
    assert drawn == counted().description()


# --- S4-02 --------------------------------------------------------------------------------------------------------
def test_a_topology_is_a_graph_without_circles_that_ends_in_sinks() -> None:
    """S4-02: nothing is downstream of a sink or of itself, every edge leads to a node; each concept has a shape."""
    begun = ks.Topology().add_source("source", "in").add_sink("sink", "out", "source")
    for parent in ("sink", "below", "nobody"):
        with pytest.raises(ks.errors.TopologyError):
            begun.add_processor("below", ks.Processor, parent)
    legend = counted().to_svg().partition('class="ks-legend">')[2]
    assert ["operator", "store", "topic"] == sorted(re.findall(r">([a-z ]+)</text>", legend)), "topics: source and sink"


def test_dsl_and_processor_api_mix_in_one_topology() -> None:
    """S4-01: a grouped count, then a user's processor, then a sink; the description shows both kinds."""

    class Even(ks.Processor[str, int, str, int]):
        def process(self, record: ks.Record[str, int]) -> None:
            if record.value % 2 == 0:
                self.context.forward(record)

    builder = ks.StreamsBuilder()
    counts = builder.stream("in").group_by_key().count(store="counts").to_stream()
    counts.process(Even, name="even-only").to("out", value_serde="long")
    topology = builder.build()
    assert "Processor: KSTREAM-AGGREGATE-0000000001 (stores: [counts])" in topology.describe()
    assert "Processor: even-only (stores: [])" in topology.describe()
    driver = ks.TopologyTestDriver(topology)
    for at in range(4):
        driver.create_input_topic("in").pipe_input("a", "x", at=at)
    assert [2, 4] == driver.create_output_topic("out").read_values_to_list()


def test_a_custom_operator_appears_under_its_own_name_everywhere() -> None:
    """S0-21: built from process and a store; in the graph, the trace and the description it has the user's name."""

    class EverySecond(ks.Processor[str, str, str, str]):
        def stores(self) -> tuple[ks.StoreSpec, ...]:
            return (ks.Stores.in_memory_key_value_store("seen", value_serde="long"),)

        def process(self, record: ks.Record[str, str]) -> None:
            seen = self.context.get_state_store("seen")
            count = (seen.get(record.key) or 0) + 1
            seen.put(record.key, count)
            if count % 2 == 0:
                self.context.forward(record)

    builder = ks.StreamsBuilder("custom")
    builder.stream("in").process(EverySecond, name="every-second").to("out")
    topology = builder.build()
    assert "Processor: every-second (stores: [seen])" in topology.describe()
    assert "every-second" in topology.to_text()
    replay = ks.replay(topology, ks.Sample.from_text("topic | key | value\nin | a | one\nin | a | two"))
    assert ["two"] == [record.value for record in replay.output("out")]
    assert [1] == [count for (parent, _), count in replay.counts().items() if parent == "every-second"]


# --- S2-29 --------------------------------------------------------------------------------------------------------
def test_a_topic_in_the_middle_lets_another_machine_go_on() -> None:
    """S2-29: a topic divides the topology into two sub-topologies, which may run on different instances."""
    builder = ks.StreamsBuilder()
    builder.stream("in").to("my-topic")
    builder.stream("my-topic").to("out")
    first, second = builder.build().description().subtopologies
    assert ("in", "my-topic") == (first.nodes[0].topics[0], first.nodes[-1].topic)
    assert ("my-topic", "out") == (second.nodes[0].topics[0], second.nodes[-1].topic)


def test_a_slow_stage_gets_more_partitions_than_its_input() -> None:
    """S2-59: two partitions in, eight for the slow lookup: ten tasks, and eight instances share the slow work."""
    builder = ks.StreamsBuilder("lookup")
    builder.stream("in").repartition(name="slow-lookup", partitions=8).map_values(str.upper).to("out")
    topology = builder.build()
    tasks = topology.tasks({"in": 2, "out": 8})
    assert {0: 2, 1: 8} == {
        sub.id: sum(task.subtopology == sub.id for task in tasks) for sub in topology.subtopologies()
    }
    (slow,) = topology.owned_topics("lookup", {"in": 2})
    assert ("lookup-slow-lookup-repartition", 8) == (slow.name, slow.partitions)
    group = ks.simulation.ConsumerGroup("lookup", {slow.name: 8})
    for name in "ABCDEFGH":
        group.join(name)
    assert [1] * 8 == [len(mine) for mine in group.assignment.values()]
