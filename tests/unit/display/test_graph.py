"""The view model: labels, boxes, reasons for cuts, counts, folding and the part above a node."""

from __future__ import annotations

import pytest

from kstreamnb.core.formatting import clean
from kstreamnb.display.dot import large_lines
from kstreamnb.display.graph import GraphView, Item, Overlay, graph_view
from kstreamnb.display.names import identifier
from kstreamnb.display.parser import parse_description
from kstreamnb.topology.description import DescribedNode, TopologyDescription
from kstreamnb.topology.labels import node_label, store_label, topic_label
from tests.unit.display.example import NASTY, foreign, overlay, shop


def labels(view: GraphView) -> dict[str, tuple[str, str | None]]:
    """Each Kafka name has its label and word."""
    return {item.name: (item.label, item.word) for item in view.items()}


def test_the_users_names_come_first_and_generated_ones_become_words() -> None:
    """A generated name stays in the tooltip; a name that the user gave is the label."""
    shown = labels(graph_view(shop().description()))
    assert shown["KSTREAM-KEY-SELECT-0000000001"] == ("select_key", None)
    assert shown["totals"] == ("totals", "count")
    assert shown["KSTREAM-SOURCE-0000000000"] == ("source", None)
    tips = {item.name: item.about for item in graph_view(shop().description()).items()}
    assert tips["KSTREAM-KEY-SELECT-0000000001"][0] == "processor KSTREAM-KEY-SELECT-0000000001"
    assert "kind: key_value" in tips["spent"]
    assert "partitions: 4" in tips["by-customer-repartition"]


@pytest.mark.parametrize(
    ("name", "dsl", "label"),
    [
        ("KSTREAM-FLATMAPVALUES-0000000007", None, ("flat_map_values", None)),
        ("KSTREAM-BRANCH-00000000171", None, ("branch 1", None)),
        ("KTABLE-SOURCE-0000000003", None, ("table", None)),
        ("KSTREAM-AGGREGATE-0000000003", "count", ("count", None)),
        ("KSTREAM-JOINTHIS-0000000003", "join", ("join, left input", None)),
        ("only-large", "filter", ("only-large", "filter")),
        ("only-large", None, ("only-large", None)),
    ],
)
def test_a_processor_is_called_what_it_does(name: str, dsl: str | None, label: tuple[str, str | None]) -> None:
    """The word comes from the DSL if known, otherwise from Kafka's prefix."""
    assert node_label(DescribedNode("processor", name, dsl=dsl)) == label


def test_stores_and_topics_with_generated_names_say_what_they_are_for() -> None:
    """Numbers are removed from labels; names that the user chose are kept."""
    assert store_label("KSTREAM-AGGREGATE-STATE-STORE-0000000002") == "aggregate store"
    assert store_label("customers-STATE-STORE-0000000002") == "customers store"
    assert store_label("customers-0000000002") == "customers-0000000002"
    assert topic_label("KSTREAM-AGGREGATE-STATE-STORE-0000000002-repartition") == "aggregate repartition"
    assert topic_label("KSTREAM-REPARTITION-0000000002-repartition") == "repartition"
    assert topic_label("totals-repartition") == "totals-repartition"


def test_every_cut_has_its_reason() -> None:
    """The reason names the key changer and the topic; unconnected parts have a reason too."""
    assert graph_view(shop().description()).sentences() == (
        "Sub-topology 0 to 1: key changed at select_key: repartitioned through topic by-customer-repartition",
        "Sub-topology 2 (global store): global store: every task sees all of its topic, "
        "so it is kept apart and has no tasks of its own",
        "Sub-topology 3: shares no node and no store with the others: it reads only topics from outside",
    )
    assert graph_view(foreign()).sentences() == graph_view(shop().description()).sentences()


@pytest.mark.parametrize(
    ("topic", "sentence"),
    [
        ("x-repartition", "Sub-topology 0 to 1: repartition asked for: through topic x-repartition"),
        ("orders", "Sub-topology 0 to 1: sub-topology 1 reads topic orders, which sub-topology 0 writes"),
        (
            "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-0000000014-topic",
            "Sub-topology 0 to 1: foreign-key join: answers go back to the primary key's partition "
            "through topic KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-0000000014-topic",
        ),
    ],
)
def test_topics_between_sub_topologies_are_told_apart(topic: str, sentence: str) -> None:
    """Explicit repartitioning, a user's own topic and a foreign-key join each have their own reason."""
    text = (
        f"Sub-topology: 0\nSource: a (topics: [in])\n--> k\nSink: k (topic: {topic})\n<-- a\n"
        f"Sub-topology: 1\nSource: b (topics: [{topic}])\n--> none"
    )
    assert graph_view(parse_description(text)).sentences() == (sentence,)


def test_a_topic_that_is_read_back_is_a_cut_of_one() -> None:
    """A cycle through a topic is reported, not hidden."""
    text = "Sub-topology: 0\nSource: a (topics: [loop])\n--> k\nSink: k (topic: loop)\n<-- a"
    assert graph_view(parse_description(text)).sentences() == (
        "Sub-topology 0 to 0: sub-topology 0 reads topic loop back, which it writes itself",
    )


def test_counts_lie_on_edges_and_notes_on_nodes() -> None:
    """Counts of a dynamic topic are summed over all topics it chose."""
    view = graph_view(shop().description(), overlay())
    counts = {(edge.tail, edge.head): edge.count for edge in view.edges if edge.count is not None}
    assert list(counts.values()) == [12345, 98, 7]
    assert [(item.name, item.note) for item in view.items() if item.note] == [("totals", "3 late")]
    assert [(item.name, item.mark) for item in view.items() if item.mark] == [
        ("by-customer-repartition-filter", "failed")
    ]


def test_a_folded_sub_topology_is_one_shape_with_the_counts_of_its_edges() -> None:
    """Inner edges disappear; edges to topics end at the box."""
    counts = {("shop.orders", "KSTREAM-SOURCE-0000000000"): 5}
    view = graph_view(shop().description(), Overlay(counts=counts), fold=[0, 1])
    folded = [(edge.tail, edge.head, edge.count) for edge in view.edges if "sub-0" in (edge.tail, edge.head)]
    assert folded == [("topic-shop.orders", "sub-0", 5), ("sub-0", "topic-by-customer-repartition", None)]


def test_a_pattern_is_joined_to_the_topics_it_matches() -> None:
    """A topic that is written here and matched by a pattern there shows the connection."""
    text = (
        "Sub-topology: 0\nSource: a (topics: [in])\n--> k\nSink: k (topic: log.v2)\n<-- a\n"
        "Sub-topology: 1\nSource: b (topics: log.*)\n--> none"
    )
    edges = {(edge.tail, edge.head) for edge in graph_view(parse_description(text)).edges}
    assert ("topic-log.v2", "node-b") in edges
    broken = parse_description("Sub-topology: 1\nSource: b (topics: (?<x>a)*+)\n--> none")
    assert len(graph_view(broken).edges) == 1


def test_identifiers_are_plain_and_differ() -> None:
    """Every name has a separate identifier of letters, digits, dots, dashes and underscores."""
    names = ["a b", "a_b", "a-b", "a.b", "a_20_b", NASTY, "日本"]
    found = [identifier("node", name) for name in names]
    assert len(set(found)) == len(names)
    assert all(id_.replace("-", "").replace("_", "").replace(".", "").isascii() for id_ in found)
    assert clean("a\x00b\nc\ud800") == "a\\x00b\\nc\\ud800"


def test_an_empty_topology_has_a_picture_too() -> None:
    """An empty graph raises no error."""
    assert graph_view(TopologyDescription(())).summary() == "0 nodes"


@pytest.mark.parametrize(
    ("label", "lines"),
    [
        ("transactions_of · group_by_key", ["transactions_of · ", "group_by_key"]),
        ("prices-of-every-customer-and-product", ["prices-of-every-customer-", "and-product"]),
    ],
)
def test_a_name_breaks_only_if_it_is_longer_than_a_line(label: str, lines: list[str]) -> None:
    """A name that fits on a line was broken at a dash or an underscore, as in "group_by_" and "key"."""
    assert large_lines(Item("operator", "operator", "operator", label)) == lines
