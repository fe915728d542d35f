"""One topology with every shape that a picture shows, and one whose names contain markup."""

from __future__ import annotations

from typing import Any

from kstreamnb.core.stores import Stores
from kstreamnb.display.graph import Overlay
from kstreamnb.display.parser import parse_description
from kstreamnb.topology.description import TopologyDescription
from kstreamnb.topology.topology import Topology

NASTY = '<script>alert("1")</script>\' & \\n \\N `x` %d #35; ]]>\x07\n'


class Keep:
    """A processor that does nothing."""

    def init(self, context: Any) -> None:
        """Nothing to prepare."""

    def process(self, record: Any) -> None:
        """Nothing to do."""


def by_country(key: Any, value: Any, metadata: Any) -> str:
    """A topic for each record."""
    return str(value)


def shop() -> Topology:
    """Two sub-topologies joined by a repartition topic, a global store, a pattern and a dynamic topic."""
    topology = Topology("shop").add_source("KSTREAM-SOURCE-0000000000", "shop.orders")
    topology.add_processor("KSTREAM-KEY-SELECT-0000000001", Keep, "KSTREAM-SOURCE-0000000000", dsl="select_key")
    topology.add_processor("by-customer-repartition-filter", Keep, "KSTREAM-KEY-SELECT-0000000001")
    topology.add_sink("by-customer-sink", "by-customer-repartition", "by-customer-repartition-filter")
    topology.add_source("by-customer-source", "by-customer-repartition")
    topology.add_processor("totals", Keep, "by-customer-source", dsl="count")
    topology.add_state_store(Stores.persistent_key_value_store("spent"), "totals")
    topology.add_sink("out", "shop.totals", "totals").add_sink("routed", by_country, "totals")
    topology.add_global_store(Stores.in_memory_key_value_store("rates"), "rates-source", "rates", "rates-keeper", Keep)
    topology.add_source("audit", pattern="(audit|log)[.]v[0-9]+")
    return topology.add_internal_topic("by-customer-repartition", 4)


def overlay() -> Overlay:
    """Marks and counts as a run of the shop would add them."""
    return Overlay(
        counts={("shop.orders", "KSTREAM-SOURCE-0000000000"): 12345, ("totals", "out"): 98, ("routed", "de"): 7},
        notes={"totals": "3 late"},
        marks={"by-customer-repartition-filter": "failed"},
    )


def nasty() -> Topology:
    """Every name contains markup."""
    topology = Topology(NASTY).add_source("a" + NASTY, "topic-" + NASTY)
    topology.add_processor("b" + NASTY, Keep, "a" + NASTY)
    topology.add_state_store(Stores.in_memory_key_value_store("store-" + NASTY), "b" + NASTY)
    return topology.add_sink("c" + NASTY, "out-" + NASTY, "b" + NASTY)


def foreign() -> TopologyDescription:
    """The shop as another program would read it: from its text alone."""
    return parse_description(shop().describe())
