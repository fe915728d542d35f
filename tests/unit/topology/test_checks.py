"""The additions that a topology refuses, with Kafka's text, and that a refused addition changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kstreamnb.core.stores import Stores
from kstreamnb.dsl.builder import StreamsBuilder
from kstreamnb.errors import ConfigError, KStreamError, TopologyError
from kstreamnb.simulation.cluster.cluster_driver import ClusterDriver
from kstreamnb.simulation.cluster.lifecycle import ApplicationLifecycle
from kstreamnb.topology.topology import Topology


class Pass:
    """A processor that does nothing."""

    def init(self, context: object) -> None:
        """Nothing to prepare."""

    def process(self, record: object) -> None:
        """Nothing to do."""


def by_key(key: str, value: object, metadata: object) -> str:
    """Name the topic of a record."""
    return key


def base() -> Topology:
    """A source with one processor, two sinks and one store."""
    topology = Topology().add_source("s", "in").add_processor("p", Pass, "s").add_sink("k", "out", "p")
    topology.add_sink("to-many", by_key, "p")
    return topology.add_state_store(Stores.in_memory_key_value_store("x"), "p")


STORE, OTHER_X = Stores.in_memory_key_value_store("y"), Stores.in_memory_key_value_store("x")
REFUSED: dict[str, Callable[[Topology], object]] = {
    "name cannot be null": lambda t: t.add_source(None, "a"),
    "Processor p is already added.": lambda t: t.add_processor("p", Pass, "s"),
    "Processor s is already added.": lambda t: t.add_read_only_state_store(OTHER_X, "s", "a", "n", Pass),
    "Processor n is already added.": lambda t: t.add_read_only_state_store(STORE, "n", "a", "n", Pass),
    "topics cannot be empty": lambda t: t.add_source("t"),
    "topic names cannot be null": lambda t: t.add_source("t", None),
    "Topic in has already been registered by another source.": lambda t: t.add_source("t", "in"),
    "Topic a has already been registered by another source.": lambda t: t.add_source("t", "a", "a"),
    "Pattern i. will match a topic that has already been registered by another source.": (
        lambda t: t.add_source("t", pattern="i.")
    ),
    "Parent node q is unknown.": lambda t: t.add_processor("n", Pass, "q"),
    "Parent node n is unknown (self-reference).": lambda t: t.add_sink("n", "o", "n"),
    "Sink k cannot be used a parent.": lambda t: t.add_processor("n", Pass, "k"),
    "predecessorNames cannot be empty": lambda t: t.add_sink("n", "o"),
    "topic cannot be null": lambda t: t.add_sink("n", None, "p"),
    "StateStore y is not added yet.": lambda t: t.connect_processor_and_state_stores("p", "y"),
    "Processor n is not added yet.": lambda t: t.add_state_store(STORE, "p", "n"),
    "cannot connect a state store y to a source node or a sink node.": lambda t: t.add_state_store(STORE, "s"),
    "State stores cannot be connect to sources or sinks.": lambda t: t.connect_processor_and_state_stores("k", "x"),
    "stateStoreNames cannot be empty": lambda t: t.connect_processor_and_state_stores("p"),
    "processorName cannot be null": lambda t: t.connect_processor_and_state_stores(None, "x"),
    "cannot connect a state store x to a source node or a sink node.": (
        lambda t: t.connect_processor_and_state_stores("to-many", "x")
    ),
    "A different StateStore has already been added with the name x": (
        lambda t: t.add_state_store(Stores.in_memory_key_value_store("x"))
    ),
    "sourceName and processorName must be different.": lambda t: t.add_global_store(STORE, "g", "G", "g", Pass),
}


@pytest.mark.parametrize("java", REFUSED)
def test_a_mistake_is_refused_with_kafkas_text_and_changes_nothing(java: str) -> None:
    """Each mistake raises one error whose notes hold Java's words; the topology stays as it was."""
    topology = base()
    with pytest.raises(KStreamError) as caught:
        REFUSED[java](topology)
    assert java in (caught.value.java or "")
    assert topology == base_like(topology)


def base_like(topology: Topology) -> Topology:
    """The base with the very same store objects."""
    again = Topology().add_source("s", "in").add_processor("p", Pass, "s").add_sink("k", "out", "p")
    again.add_sink("to-many", by_key, "p")
    return again.add_state_store(topology.stores["x"], "p")


def test_an_unknown_parent_gets_a_near_miss() -> None:
    """A typing error in a parent's name gets the intended name as a suggestion."""
    topology = Topology().add_source("orders-source", "in")
    with pytest.raises(TopologyError) as caught:
        topology.add_processor("n", Pass, "order-source")
    assert 'Hint: did you mean "orders-source"?' in caught.value.__notes__


def test_a_global_store_is_neither_passed_nor_followed() -> None:
    """Every processor sees a global store; nothing can be connected to it or come after it."""
    topology = base().add_global_store(STORE, "gs", "G", "gp", Pass)
    with pytest.raises(TopologyError, match='global store "y" was passed to node "p"'):
        topology.connect_processor_and_state_stores("p", "y")
    with pytest.raises(TopologyError, match="belongs to a global store"):
        topology.add_processor("n", Pass, "gp")
    with pytest.raises(TopologyError) as caught:
        topology.add_state_store(Stores.in_memory_key_value_store("y"))
    assert "A different GlobalStateStore has already been added with the name y" in (caught.value.java or "")
    assert topology.global_stores["y"].logged is False


def test_a_store_may_be_added_again_when_it_is_the_same_object() -> None:
    """The same spec object connects more processors; an equal one from elsewhere is another store."""
    topology = base()
    topology.add_processor("q", Pass, "s").add_state_store(topology.stores["x"], "q")
    assert topology.nodes["q"].stores == ("x",)


def test_a_store_whose_name_is_taken_is_named_with_both_lines() -> None:
    """The error is at the second line, and tells the first."""
    builder = StreamsBuilder("app")
    orders = builder.stream("orders")
    orders.group_by_key().count(store="sold")
    orders.filter(lambda key, value: value).group_by_key().count(store="sold")
    with pytest.raises(TopologyError, match='there is already another store "sold"') as caught:
        builder.build()
    assert 'orders.group_by_key().count(store="sold")' in (caught.value.detail or "")
    assert caught.value.origin is not None
    assert "filter" in caught.value.origin.code
    assert caught.value.hint == "rename one, or share it"


def test_a_supplier_must_make_processors_and_new_ones() -> None:
    """An instance is not a supplier, and a supplier that returns one processor repeatedly is detected."""
    shared = Pass()
    with pytest.raises(TopologyError, match="needs a supplier of processors, got type"):
        base().add_processor("n", shared, "s")
    with pytest.raises(TopologyError) as caught:
        base().add_processor("n", lambda: shared, "s")
    assert "generates single reference" in (caught.value.java or "")
    with pytest.raises(TopologyError, match='returned an object of type "int", not a processor'):
        base().add_processor("n", lambda: 5, "s")


def test_stores_of_a_processor_come_with_it() -> None:
    """Stores that a processor declares in stores() are added and connected."""

    class Counting(Pass):
        def stores(self) -> tuple[object, ...]:
            return (STORE,)

    topology = base().add_processor("n", Counting, "s", stores=["x"])
    assert topology.nodes["n"].stores == ("y", "x")
    assert topology.stores["y"] is STORE


def test_a_pattern_and_an_offset_reset_are_checked() -> None:
    """An invalid pattern, a pattern beside topics and an unknown reset are refused."""
    with pytest.raises(ConfigError, match="not a regular expression"):
        Topology().add_source("s", pattern="in(")
    with pytest.raises(TopologyError, match="both topics and a pattern"):
        Topology().add_source("s", "a", pattern="b.*")
    with pytest.raises(ConfigError, match='unknown offset reset "later"'):
        Topology().add_source("s", "a", offset_reset="later")


def test_topics_clash_with_patterns_whichever_comes_first() -> None:
    """A topic read by pattern cannot be read by name too."""
    with pytest.raises(TopologyError) as caught:
        Topology().add_source("s", pattern="in.*").add_source("t", "in7")
    assert "Topic in7 matches a Pattern already registered by another source." in (caught.value.java or "")


def _application() -> ApplicationLifecycle:
    builder = StreamsBuilder("copy")
    builder.stream("abc").to("out")
    return next(iter(ClusterDriver(builder.build()).applications.values()))


@pytest.mark.parametrize(
    "call",
    [
        lambda: Topology().add_source("in", "t").add_processor("p", Pass, "in", stores="abc"),
        lambda: Topology().co_partition("abc"),
        lambda: _application().reset("abc"),
    ],
    ids=["stores", "sources", "topics"],
)
def test_one_text_is_not_a_list_of_its_letters(call: Callable[[], object]) -> None:
    """The hint is the list to write."""
    with pytest.raises(ConfigError, match="must be a list, got 'abc'") as caught:
        call()
    assert caught.value.hint == "write ['abc']"
