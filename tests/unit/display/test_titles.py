"""Titles of boxes are placed where no edge crosses them."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from kstreamnb import StreamsBuilder, Topology
from kstreamnb.display.graph import Overlay, graph_view
from kstreamnb.display.svg import to_svg
from kstreamnb.display.titles import pad_title, place_title
from tests.unit.display.example import shop

SVG = "{http://www.w3.org/2000/svg}"


def chain() -> Topology:
    """One source in one box: the edge enters in the middle."""
    builder = StreamsBuilder("chain")
    builder.stream("in").group_by_key().count(store="counts").to_stream().to("out")
    return builder.build()


def wide() -> Topology:
    """Sources beside one another."""
    builder = StreamsBuilder("wide")
    first, *others = [builder.stream(f"in{number}") for number in range(6)]
    for other in others:
        first = first.merge(other)
    first.to("out")
    return builder.build()


def deep() -> Topology:
    """Boxes stacked vertically, the last of them with a two-digit number."""
    builder = StreamsBuilder("deep")
    stream = builder.stream("in")
    for number in range(10):
        stream = stream.repartition(name=f"again-{number}")
    stream.to("out")
    return builder.build()


def crossings(svg: str) -> list[str]:
    """Return the titles that an edge crosses, between any two points of its curve."""
    root = ElementTree.fromstring(svg)
    edges = [
        [(float(x), float(y)) for x, y in re.findall(r"(-?[\d.]+),(-?[\d.]+)", path.get("d", ""))]
        for group in root.iter(f"{SVG}g")
        if (group.get("id") or "").startswith("edge-")
        for path in group.iter(f"{SVG}path")
    ]
    found = []
    for title in root.iterfind(f".//{SVG}g[@class='ks-title']/{SVG}text"):
        text = title.text or ""
        left, bottom = float(title.get("x", 0)), float(title.get("y", 0))
        for (x, y), (next_x, next_y) in (pair for edge in edges for pair in pairwise(edge)):
            beside = max(x, next_x) < left or min(x, next_x) > left + 5.2 * len(text)
            above_or_below = max(y, next_y) < bottom - 9 or min(y, next_y) > bottom + 3
            if not (beside or above_or_below):
                found.append(text)
    return found


@pytest.mark.parametrize("build", [chain, wide, deep, shop])
def test_no_edge_crosses_a_title(build) -> None:
    """Small, wide, deep, and with a global store; with the counts of a run on the edges, too."""
    description = build().description()
    nodes = description.nodes().values()
    edges = {(node.name, child): 1234 for node in nodes for child in node.successors}
    edges |= {(topic, node.name): 5678 for node in nodes for topic in node.topics}
    for overlay in (None, Overlay(counts=edges)):
        assert [] == crossings(to_svg(graph_view(description, overlay)))


def test_every_box_keeps_its_title() -> None:
    """The kind of a sub-topology is on a separate line; padding spaces are gone."""
    root = ElementTree.fromstring(to_svg(graph_view(shop().description())))
    titles = [title.text for title in root.iterfind(f".//{SVG}g[@class='ks-title']/{SVG}text")]
    assert sorted(titles) == ["(global store)", "Sub-topology 0", "Sub-topology 1", "Sub-topology 2", "Sub-topology 3"]


def test_room_is_made_behind_the_longest_line() -> None:
    """Half of the box is then wide enough."""
    assert pad_title("Sub-topology 2 (global store)")[0].startswith("Sub-topology 2   ")
    assert [line.rstrip() for line in pad_title("Sub-topology 2 (global store)")] == [
        "Sub-topology 2",
        "(global store)",
    ]


def placed(*edges: int) -> float:
    """Return where the title of a box from 0 to 200 is placed if edges enter at these places."""
    lines = "".join(f'<g id="edge-{x}"><path d="M{x},0C{x},10 {x},20 {x},40"/></g>' for x in edges)
    box = f'<g id="box"><path d="M0,5C0,5 200,5 200,5"/><text x="50" y="20">{"t" * 14}   </text></g>'
    drawing = ElementTree.fromstring(f'<g xmlns="http://www.w3.org/2000/svg">{box}{lines}</g>')
    group = drawing[0]
    place_title(drawing, group, group.findall(f"{SVG}text"))
    return float(group[1].get("x", 0))


def test_a_title_takes_the_first_place_that_is_free() -> None:
    """At the left, between two edges, or after the last one."""
    assert placed() == placed(150) == 8
    assert placed(30, 150) == 35
    assert placed(60, 100) == 105


def test_a_title_without_a_free_place_stays_at_the_left() -> None:
    """It is then drawn above the edge, whose line is interrupted behind it."""
    assert placed(50, 100, 150) == 8
