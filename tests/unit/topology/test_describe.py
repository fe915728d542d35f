"""Kafka's text of a topology: layout, and the orders of Java's collections."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kstreamnb.core.stores import Stores
from kstreamnb.topology.java_order import TreeSet, copied_hash_order, hash_order, java_hash
from kstreamnb.topology.topology import Topology
from tests.unit.topology.test_checks import Pass


def test_an_empty_topology_prints_its_header() -> None:
    """Without nodes the header and one space remain, as in Java."""
    assert Topology().describe() == "Topologies:\n "


def test_global_stores_take_an_id_and_no_blank_line() -> None:
    """A global store is printed between the sub-topologies, by id."""
    store = Stores.in_memory_key_value_store("g")
    topology = Topology().add_source("s", "in").add_global_store(store, "gs", "G", "gp", Pass)
    assert topology.add_source("t", pattern="x.*").describe() == (
        "Topologies:\n   Sub-topology: 0\n    Source: s (topics: [in])\n      --> none\n\n"
        "  Sub-topology: 1 for global store (will not generate tasks)\n    Source: gs (topics: [G])\n"
        "      --> gp\n    Processor: gp (stores: [g])\n      --> none\n      <-- gs\n"
        "  Sub-topology: 2\n    Source: t (topics: x.*)\n      --> none\n\n"
    )


def test_a_chosen_topic_prints_the_functions_name() -> None:
    """A sink whose topic is chosen for each record prints the name of the function."""

    def by_country(key: object, value: object, metadata: object) -> str:
        return str(key)

    text = Topology().add_source("s", "in").add_sink("k", by_country, "s").describe()
    assert "Sink: k (extractor class: test_a_chosen_topic_prints_the_functions_name.<locals>.by_country)" in text
    assert "0x" not in Topology().add_source("s", "in").add_sink("k", object.__str__, "s").describe()


def test_nodes_that_share_a_store_share_a_sub_topology() -> None:
    """Two sources that share only a store are one group, numbered by its first node."""
    topology = Topology().add_source("a", "A").add_source("b", "B").add_source("c", "C")
    topology.add_processor("pa", Pass, "a").add_processor("pc", Pass, "c")
    topology.add_state_store(Stores.in_memory_key_value_store("x"), "pa", "pc")
    assert [(sub.id, sub.nodes, sub.stores) for sub in topology.subtopologies()] == [
        (0, ("a", "c", "pa", "pc"), ("x",)),
        (1, ("b",), ()),
    ]


def test_topics_print_in_hash_order() -> None:
    """Java's HashSet orders topics; a copied set of twelve or more has a larger table."""
    topics = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "jj", "kk", "ll"]
    text = Topology().add_source("s", *topics).describe()
    assert "(topics: [jj, kk, ll, a, b, c, d, e, f, g, h, i])" in text


def test_equal_hashes_keep_the_order_of_insertion() -> None:
    """Names in one bucket keep the order in which they were added."""
    assert java_hash("Aa") == java_hash("BB")
    assert hash_order(["BB", "Aa"]) == ["BB", "Aa"]
    assert copied_hash_order(["Aa", "BB", "Aa"]) == ["Aa", "BB"]
    assert java_hash("naïve 🦆") == 1285307389


@given(st.lists(st.integers(), max_size=200))
def test_a_tree_set_sorts_and_drops_equals(numbers: list[int]) -> None:
    """With a fixed comparison the set is a sorted set, whatever the order of insertion."""
    tree: TreeSet[int] = TreeSet(lambda one, two: one - two)
    for number in numbers:
        tree.add(number)
    assert list(tree) == sorted(set(numbers))


def test_a_topology_says_its_size_in_the_right_number() -> None:
    topology = Topology("copies").add_source("in", "orders").add_sink("out", "copies", "in")
    assert repr(topology) == '<Topology "copies" of 2 nodes in 1 sub-topology>'
    assert repr(Topology().add_source("in", "orders")) == "<Topology of 1 node in 1 sub-topology>"
