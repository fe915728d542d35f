"""The logical picture: one shape for each call of the DSL, folded and unfolded."""

from __future__ import annotations

import re

import kstreamnb as ks
from kstreamnb.display.graph import GraphView, Overlay
from kstreamnb.display.logical import logical_view
from kstreamnb.display.mermaid import to_mermaid
from kstreamnb.display.svg import to_svg
from kstreamnb.display.text import to_text
from kstreamnb.topology.description import TopologyDescription
from tests.unit.display.example import foreign


def joined() -> TopologyDescription:
    """Two joins in one line, a foreign-key join, a table and a count after a repartition."""
    builder = ks.StreamsBuilder("joins")
    left, right, third = (builder.stream(name) for name in ("left", "right", "third"))
    windows = ks.JoinWindows.of_time_difference_with_no_grace("5m")
    left.join(right, _pair, windows).join(third, _pair, windows).to("pairs")
    customers, accounts = builder.table("customers", store="customers"), builder.table("accounts")
    customers.join(accounts, _pair, foreign_key=str).to_stream().to("owners")
    left.filter(print).filter(print).group_by(_pair).count(store="counts").to_stream().to("counts")
    return builder.build().description()


def _pair(one: object, other: object) -> object:
    return one, other


def boxes(view: GraphView) -> list[str]:
    return sorted(box.title for box in view.boxes)


def test_every_call_of_the_dsl_is_one_shape() -> None:
    """Neighboring calls of the same kind on one line remain two operators."""
    view = logical_view(joined())
    assert boxes(view) == ["join", "join", "join", "repartition"]
    assert all(box.folded and box.kind == "operator" for box in view.boxes)
    labels = [item.label for item in view.topics]
    assert labels.count("filter") == 2
    assert labels.count("table") == 2
    assert not [label for label in labels if "join" in label]


def test_a_join_that_begins_with_a_repartition_is_called_join() -> None:
    """The repartition is folded into it."""
    builder = ks.StreamsBuilder("priced")
    orders = builder.stream("orders").select_key(_pair)
    priced = orders.join(builder.table("prices"), _pair)
    priced.to("priced")
    (box,) = logical_view(builder.build().description()).boxes
    assert box.title == "priced · join"
    assert [item.kind for item in box.items].count("internal topic") == 1
    assert box.note == "key changed at orders · select_key"
    assert "key changed" in to_svg(logical_view(builder.build().description()))


def test_what_only_an_operator_uses_is_inside_it() -> None:
    """Internal topics and unnamed stores are folded; named stores remain visible."""
    view = logical_view(joined())
    outside = {item.name for item in view.topics}
    assert {"customers", "counts"} <= outside
    assert not [name for name in outside if name.endswith(("-topic", "-repartition"))]
    sizes = sorted(len(box.items) for box in view.boxes if box.title == "join")
    assert sizes == [7, 7, 13]


def test_records_into_and_out_of_an_operator_are_counted() -> None:
    """Inner edges disappear; those that cross the shape keep their counts."""
    overlay = Overlay(counts={("KSTREAM-KEY-SELECT-0000000026", "counts-repartition-filter"): 5})
    description = joined()
    name = next(name for name in description.nodes() if "KEY-SELECT" in name)
    overlay = Overlay(counts={(name, "counts-repartition-filter"): 5})
    view = logical_view(description, overlay)
    repartition = next(box for box in view.boxes if box.title == "repartition")
    assert [edge.count for edge in view.edges if edge.head == repartition.id] == [5]


def test_an_operator_that_failed_inside_is_marked() -> None:
    """A mark and a note of a part appear on the folded shape."""
    description = joined()
    merge = next(name for name in description.nodes() if "MERGE" in name)
    view = logical_view(description, Overlay(notes={merge: "3 late"}, marks={merge: "failed"}))
    assert [(box.title, box.mark, box.note) for box in view.boxes if box.mark] == [("join", "failed", "3 late")]
    assert "ks-failed" in to_svg(view)


def test_the_number_of_parts_is_smaller_than_the_title() -> None:
    """A folded operator has its title alone in large type, also a title of two lines."""
    builder = ks.StreamsBuilder("priced")
    prices_of_this_season = builder.stream("orders").select_key(_pair).join(builder.table("prices"), _pair)
    prices_of_this_season.to("priced")
    drawn = to_svg(logical_view(builder.build().description()))
    large, small = (re.findall(rf'font-size="{size}"[^>]*>([^<]*)<', drawn) for size in ("12.00", "10"))
    assert {"prices_of_this_season · ", "join"} <= set(large)
    assert ["5 parts"] == [line for line in small if "parts" in line]
    assert not [line for line in large if "parts" in line]


def test_unfolded_an_operator_shows_its_parts() -> None:
    """Its box remains and shows the nodes that Kafka Streams runs."""
    folded = logical_view(joined())
    box = next(box for box in folded.boxes if len(box.items) == 13)
    view = logical_view(joined(), unfold=[box.id])
    assert [each.folded for each in view.boxes if each.id == box.id] == [False]
    assert "foreign-key join: result" in to_svg(view)
    assert "foreign-key join: result" not in to_svg(folded)


def test_the_summary_counts_operators() -> None:
    """Sources and sinks are not operators: they are drawn as their topics."""
    view = logical_view(joined())
    assert view.summary().startswith("12 operators, 8 stores")
    assert "12 operators" in to_mermaid(view)
    assert to_text(view).startswith('Topology "joins": 12 operators')


def test_a_topology_of_another_program_has_a_logical_picture_too() -> None:
    """Without the user's lines only repartitions are grouped."""
    view = logical_view(foreign())
    assert boxes(view) == ["repartition"]
