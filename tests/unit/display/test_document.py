"""The JSON document of a topology, its fingerprint, and the difference between two topologies."""

from __future__ import annotations

import json

from kstreamnb.core.stores import Stores
from kstreamnb.display.diff import diff
from kstreamnb.display.parser import parse_description
from kstreamnb.topology.document import to_json
from kstreamnb.topology.topology import Topology
from tests.documents import from_json
from tests.unit.topology.test_checks import Pass


def shop(*, store: str = "totals", topic: str = "out", cached: bool = False) -> Topology:
    """A source, a processor with a store, a sink."""
    topology = Topology("shop").add_source("in", "orders").add_processor("count", Pass, "in")
    topology.add_state_store(Stores.persistent_key_value_store(store, cached=cached), "count")
    return topology.add_sink("out", topic, "count").add_internal_topic("by-key-repartition", 4).co_partition(["in"])


def test_a_document_comes_back_equal_and_keeps_what_the_text_cannot_say() -> None:
    """Stores, internal topics, co-partitioning and the name survive; the text is the same."""
    description = shop().description()
    again = from_json(to_json(description))
    assert str(again) == str(description)
    assert (again.stores, again.internal_topics) == (description.stores, description.internal_topics)
    assert (again.copartitioned, again.name) == ((("in",),), "shop")
    assert to_json(again) == to_json(description)


def test_a_document_says_its_format_and_only_what_is_known() -> None:
    """The document contains its version; empty fields and source locations are omitted."""
    document = json.loads(shop().to_json())
    assert (document["format"], document["version"]) == ("kstreamnb.topology", 1)
    source, processor, sink = document["subtopologies"][0]["nodes"]
    assert source == {"kind": "source", "name": "in", "topics": ["orders"], "successors": ["count"]}
    assert processor["stores"] == ["totals"]
    assert "origin" not in sink
    assert "origin" in json.loads(shop().to_json(origins=True))["subtopologies"][0]["nodes"][0]


def test_the_fingerprint_follows_the_structure_alone() -> None:
    """Another name or another line of code changes nothing; another store setting does."""
    renamed = shop()
    renamed.name = "other"
    assert renamed.fingerprint() == shop().fingerprint()
    assert shop(cached=True).fingerprint() != shop().fingerprint()
    assert shop(topic="elsewhere").fingerprint() != shop().fingerprint()


def test_a_difference_names_nodes_and_what_happens_to_state() -> None:
    """Added, removed and changed nodes, and stores that would be orphaned."""
    one = shop()
    two = shop(store="sums", topic="elsewhere").add_sink("copy", "copies", "in")
    assert str(diff(one.description(), two.description())) == (
        '+ sink "copy"\n'
        '~ processor "count": stores: [totals] -> [sums]\n'
        '~ sink "out": topic: out -> elsewhere\n'
        '! store "totals" is no longer used: its contents are lost\n'
        '! store "sums" is new and starts empty'
    )
    assert not diff(one.description(), shop().description())
    assert str(diff(one.description(), shop().description())) == "no difference"
    cached = diff(one.description(), shop(cached=True).description())
    assert str(cached) == '! store "totals" has other settings: cached False -> True'


def test_a_generated_store_whose_number_shifted_is_recognized() -> None:
    """Inserting an operator renumbers unnamed nodes: the difference says so."""
    text = (
        "Sub-topology: 0\nSource: s (topics: [a])\n--> p\nProcessor: p (stores: [KSTREAM-REDUCE-STATE-STORE-{}])\n<-- s"
    )
    before = parse_description(text.format("0000000002"))
    after = parse_description(text.format("0000000003"))
    assert "(a generated name: its number shifted)" in str(diff(before, after))
