"""Displays of every value of the kit: text and HTML with the same facts, no address, everything escaped."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.core.tables import html_table
from kstreamnb.display.canvas import Canvas
from kstreamnb.display.mime import data_of, mimebundle
from kstreamnb.display.names import identifier
from kstreamnb.display.runs import overlay_of_run
from tests.unit.display.example import shop

NASTY = "<script>alert(1)</script>"


def run() -> ks.Replay:
    """A windowed count with a late record, and a hostile key."""
    builder = ks.StreamsBuilder("shown")
    windows = ks.TimeWindows.of_size_and_grace("10ms", "0ms")
    builder.stream("in").group_by_key().windowed_by(windows).count(store="counts").to_stream(
        lambda window, count: window.key
    ).to("out", value_serde="long")
    times = (0, 25, 3, 26)
    return ks.replay(builder.build(), ks.Sample.from_records([("in", 0, n, t, NASTY, n) for n, t in enumerate(times)]))


def driver() -> ks.TopologyTestDriver:
    """A driver that has counted twelve keys."""
    builder = ks.StreamsBuilder("driven")
    builder.stream("in").group_by_key().count(store="counts")
    driver = ks.TopologyTestDriver(builder.build())
    topic = driver.create_input_topic("in")
    for number in range(12):
        topic.pipe_input(f"{NASTY} {number:02}", number, at=number)
    return driver


SHOWN: dict[str, Any] = {
    "topology": shop,
    "description": lambda: shop().description(),
    "difference": lambda: ks.testing.diff(
        shop().description(), shop().add_sink("more", "copies", "totals").description()
    ),
    "replay": run,
    "step": lambda: run().steps[0],
    "moment": lambda: run().now,
    "store at a moment": lambda: run().now.store("counts"),
    "state difference": lambda: run().diff(0, 2),
    "drops": lambda: run().why_dropped(),
    "open windows": lambda: run().why_open(),
    "test driver": driver,
    "store of a driver": lambda: driver().get_key_value_store("counts"),
    "statistics": lambda: ks.Sample.from_records([("in", 0, 0, 5, NASTY, 1)]).statistics(),
}


@pytest.mark.parametrize("kind", SHOWN)
def test_a_display_has_text_and_html_and_holds_no_address(kind: str) -> None:
    """S1-25: two runs are identical, without addresses; user content is escaped in every form."""
    thing = SHOWN[kind]()
    bundle = thing._repr_mimebundle_()
    drawn = kind in ("topology", "description", "statistics")
    assert set(bundle) == {"text/plain", "image/svg+xml" if drawn else "text/html"}
    assert bundle == SHOWN[kind]()._repr_mimebundle_()
    assert len(bundle["text/plain"].strip()) > 10
    for form in (*bundle.values(), repr(thing)):
        assert not re.search(r"0x[0-9a-f]{6,}", form)
    assert NASTY not in bundle.get("text/html", "")
    assert NASTY not in bundle.get("image/svg+xml", "")


@pytest.mark.parametrize("kind", ["topology", "description", "replay", "test driver"])
def test_what_has_a_graph_shows_it_as_picture_and_text(kind: str) -> None:
    """One SVG, alone or inside the HTML if there is data too, and the tree of nodes."""
    bundle = mimebundle(SHOWN[kind]())
    assert sum(form.count("<svg") for form in bundle.values()) == 1
    assert "\nSub-topology 0\n" in bundle["text/plain"]


def test_data_come_before_the_picture() -> None:
    """A run's output is visible without scrolling past its graph, in text and in HTML."""
    bundle = mimebundle(run())
    for form, picture in (("text/plain", "Sub-topology 0"), ("text/html", "<svg")):
        assert bundle[form].index("output ") < bundle[form].index(picture)


def test_a_store_says_how_many_rows_it_does_not_show() -> None:
    """Nothing is truncated silently."""
    store = driver().get_key_value_store("counts")
    assert str(store).splitlines()[0] == 'store "counts": 12 rows'
    assert str(store).splitlines()[-1] == "10 of 12"
    assert repr(store) == '<store "counts": 12 rows>'


@pytest.mark.parametrize("kind", ["drops", "open windows"])
def test_an_explanation_is_paragraphs_that_wrap_between_words(kind: str) -> None:
    """S1-25: HTML contains all of the text, and none of it in a `pre`, where words would be broken."""
    bundle = SHOWN[kind]()._repr_mimebundle_()
    told = unescape(re.sub(r"<[^>]+>", "\n", bundle["text/html"]))
    assert bundle["text/plain"].split() == told.split()
    assert "<pre" not in bundle["text/html"]


def test_looking_at_a_driver_changes_nothing() -> None:
    """A display runs nothing and consumes no output."""
    found = driver()
    assert repr(found) == '<test driver of "driven": 1 task, wall clock 0>'
    before = list(found.get_key_value_store("counts").all())
    found._repr_mimebundle_()
    assert list(found.get_key_value_store("counts").all()) == before


def test_a_record_that_a_store_dropped_is_shown_at_the_store() -> None:
    """A join's store drops what is older than its retention: pictures and tables once knew only nodes that drop."""
    builder = ks.StreamsBuilder("late")
    within = ks.JoinWindows.of_time_difference_and_grace("1m", "0s")
    left, right = builder.stream("left"), builder.stream("right")
    left.join(right, lambda one, other: [one, other], within).to("pairs")
    sample = ks.Sample.from_records([("left", 0, 0, 600_000, "a", 1), ("left", 0, 1, 0, "a", 2)])
    run = ks.replay(builder.build(), sample)
    store = run.drops[0].node
    assert store not in run.topology.nodes
    assert f'store "{store}"' in data_of(run)["text/plain"]
    assert overlay_of_run(run).notes == {f"store {store}": "1 expired"}
    stepper = ks.widgets.stepper(run)
    assert "expired" in stepper.forms()["text/html"]
    (join,) = (item for item in stepper.graph["order"] if item.startswith("operator-"))
    assert [each["node"] for each in stepper.make_facts()["drops"]] == [join]
    stepper.tell("show", view="physical")
    assert [each["node"] for each in stepper.facts["drops"]] == [identifier("store", store)]


def test_what_users_wrote_is_not_typeset_as_a_formula() -> None:
    """MathJax finds no delimiter within one element: prices in tables, notes and titles stay as they are."""
    sample = ks.Sample.from_records([("orders", 0, 0, 5, "$5 and $6", r"\(x\)")])
    html = sample._repr_html_()
    assert "<span>$</span>5 and <span>$</span>6" in html
    assert r"<span>\</span>(x" in html


def test_text_from_right_to_left_does_not_reverse_the_numbers_beside_it() -> None:
    """Each quoted text is isolated; a browser would show the 4 and the 5 at the wrong keys."""
    sample = ks.Sample.from_records([("orders", 0, 0, 5, "שלום", {"שלום": 4, "مرحبا": 5, "plain": "é"})])
    for html in (sample._repr_html_(), mimebundle(sample_output(sample))["text/html"]):
        assert "&quot;<bdi>שלום</bdi>&quot;: 4, &quot;<bdi>مرحبا</bdi>&quot;: 5, &quot;plain&quot;" in html


def test_plain_text_and_pictures_isolate_text_from_right_to_left() -> None:
    """Columns stay aligned, because the marks have no width; a sample's text, which can be read again, has none."""
    sample = ks.Sample.from_records([("orders", 0, 0, 5, "שלום", {"مرحبا": 5}), ("orders", 0, 1, 6, "abcd", 7)])
    header, rule, one, two = str(sample_output(sample)).splitlines()[1:5]
    assert '"\u2068שלום\u2069" | {"\u2068مرحبا\u2069": 5}' in one
    assert len(re.sub("[\u2068\u2069]", "", one).split(" | ")[0]) == len(two.split(" | ")[0])
    assert "\u2068" not in header + rule + two + str(sample) + sample.to_text()
    canvas = Canvas()
    canvas.text(1, 2, '"שלום": 5')
    assert ">&quot;\u2068שלום\u2069&quot;: 5<" in canvas.parts[0]


def test_a_long_word_wraps_in_its_cell() -> None:
    """It pushed the columns beside it out of sight; columns with spaces or dashes wrap there."""
    rows = [["customer-" + "x" * 41, "some words that are longer than any word may be", "7"]]
    long, plain, number = re.findall(r'<td style="([^"]*)"', html_table(["key", "value", "time"], rows))
    assert (long, plain, number) == (
        "text-align:left;overflow-wrap:anywhere;min-width:12em", "text-align:left", "text-align:right",
    )  # fmt: skip


def test_text_in_columns_has_a_font_with_columns() -> None:
    """Pages of nbconvert do not set JupyterLab's font for code, so a plan was in the font of prose."""
    html = mimebundle(ks.plan(run().topology))["text/html"]
    assert html.startswith('<pre style="')
    assert "font-family:var(--jp-code-font-family,monospace)" in html


def test_a_long_value_is_cut_in_tables_with_a_tooltip() -> None:
    """The cell ends with the length; the tooltip has the first 2,000 characters."""
    sample = ks.Sample.from_records([("orders", 0, 0, 5, "shoe", "x" * 5000)])
    for html in (sample._repr_html_(), mimebundle(sample_output(sample))["text/html"]):
        assert "characters)" in html
        assert 1990 < html.count("x") < 2300
    assert len(str(sample)) < 1000


def test_characters_that_reverse_or_hide_text_are_visible() -> None:
    """Marks of direction, controls and tags are escaped in text and in HTML; letters and emoji stay."""
    sample = ks.Sample.from_records([("orders", 0, 0, 5, "a\u202eb\x85\U000e0041", "שלום 👩\u200d🚀")])
    for shown, escaped in (
        (str(sample), r"\u0085\udb40\udc41"),  # a sample's cells are JSON, to be read back
        (sample._repr_html_(), r"\u0085\udb40\udc41"),
        (str(sample_output(sample)), r"\x85\U000e0041"),
    ):
        assert rf"a\u202eb{escaped}" in shown
        assert "שלום 👩\u200d🚀" in shown


def sample_output(sample: ks.Sample) -> object:
    """Return a sample's records as the output of a copy."""
    builder = ks.StreamsBuilder("copies")
    builder.stream("orders").to("out")
    return ks.replay(builder.build(), sample).output("out")
