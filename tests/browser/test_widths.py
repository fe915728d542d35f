"""Each display on a narrow and on a wide page, in light and dark: nothing is out of reach."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.browser.lab import SHOP, Lab, Notebook

pytestmark = [pytest.mark.browser]

SHOWN = len(SHOP)
DISPLAYS = {
    "topology": "topology",
    "replay": "replay",
    "timeline": 'replay.timeline("sold")',
    "stepper": "ks.widgets.stepper(replay)",
    "editor": "ks.widgets.edit(builder.sample)",
    "store": 'replay.now.store("sold")',
    "browser": 'ks.widgets.browse(replay.now.store("sold"))',
    "explorer": "ks.widgets.explorer(topology)",
    "sample": "builder.sample",
    "describe": "builder.sample.describe()",
    "statistics": "builder.sample.statistics()",
    "profile": "replay.profile()",
}
RIGHT = "output => output.getBoundingClientRect().right"
OUT_OF_REACH = """output => {
    const scrolls = node => ["auto", "scroll"].includes(getComputedStyle(node).overflowX);
    const reachable = node => {
        for (let above = node.parentElement; above && output.contains(above); above = above.parentElement)
            if (scrolls(above)) return true;
        return false;
    };
    const edge = output.getBoundingClientRect().right + 1;
    const shown = [...output.querySelectorAll("td, th, p, button, input, img, svg, pre, summary")];
    const cut = shown.filter(node => node.getBoundingClientRect().right > edge && !reachable(node));
    return cut.map(node => node.outerHTML.slice(0, 200));
}"""


@pytest.fixture(scope="module")
def notebook(lab: Lab) -> Iterator[Notebook]:
    with lab.prepared("widths", [*SHOP, "pass"]) as found:
        yield found


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("display", DISPLAYS)
def test_a_display_fits_the_page_or_scrolls(notebook: Notebook, display: str, width: int) -> None:
    """Wide content scrolls inside its cell; the page does not scroll sideways."""
    notebook.narrow(width)
    shown = notebook.run(SHOWN, source=DISPLAYS[display])
    expect(shown.locator(":is(img, svg, table):visible").first).to_be_visible()
    notebook.picture(shown, f"width-{width}-{display}", width)
    notebook.narrow(width)
    assert shown.evaluate(OUT_OF_REACH) == []
    assert notebook.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


LONG = """
name = "registrations-of-the-european-subsidiary-by-country-and-by-channel"
long = ks.StreamsBuilder("long")
long.stream(name).group_by_key().count(store=name + "-counts").to_stream().to(name + "-output")
sample = ks.Sample.from_text(f"topic | key | value | time\\n{name} | ann | 1 | 2026-01-01T09:05Z")
run = ks.replay(long.build(), sample)
"""


@pytest.mark.parametrize("display", ["run", "ks.widgets.stepper(run)"])
def test_a_long_name_above_a_table_wraps(notebook: Notebook, display: str) -> None:
    """A caption on one line made its table wider than the page, so that columns were out of sight."""
    notebook.narrow(640)
    shown = notebook.run(SHOWN, source=LONG + display)
    captions = shown.locator("caption:visible")
    expect(captions.first).to_contain_text("registrations-of-the-european-subsidiary")
    edge = shown.evaluate(RIGHT)
    ends = captions.evaluate_all("all => all.map(each => each.getBoundingClientRect().right)")
    notebook.narrow(1280)
    assert max(ends) <= edge


def test_buttons_of_a_group_are_joined(notebook: Notebook) -> None:
    """Only the outer corners of a group are round: "Zoom out", "Fit" and "Zoom in"."""
    shown = notebook.run(SHOWN, source="ks.widgets.explorer(topology)")
    zoom = shown.locator(".ks-group", has_text="Fit").get_by_role("button")
    expect(zoom).to_have_count(3)
    corners = zoom.evaluate_all("all => all.map(each => getComputedStyle(each).borderRadius)")
    assert corners == ["4px 0px 0px 4px", "0px", "0px 4px 4px 0px"]


def test_times_in_the_editor_can_be_read_on_a_narrow_page(notebook: Notebook) -> None:
    """The table scrolls; its cells were squeezed to half a time."""
    notebook.narrow(640)
    shown = notebook.run(SHOWN, source="ks.widgets.edit(builder.sample)")
    times = shown.locator('input[data-column="time"]')
    expect(times.first).to_be_visible()
    cut = times.evaluate_all("all => all.filter(each => each.scrollWidth > each.clientWidth).length")
    notebook.narrow(1280)
    assert cut == 0


ODD = r"""
word = "x" * 41
rows = [
    ("in", 0, 0, 5, "שלום", {"שלום": 4, "مرحبا": 5}),
    ("in", 0, 1, 1200, "a" + word, word),
    ("in", 0, 2, 70, "plain", 9),
]
odd = ks.StreamsBuilder("odd")
odd.stream("in").group_by_key().reduce(lambda old, new: new, store="last")
odd_run = ks.replay(odd.build(), ks.Sample.from_records(rows))
"""
PLACES = """output => {
    const places = {};
    const texts = document.createTreeWalker(output, NodeFilter.SHOW_TEXT);
    for (let text = texts.nextNode(); text; text = texts.nextNode())
        for (const word of ["שלום", ": 4", "مرحبا", ": 5"]) {
            const range = document.createRange(), at = text.data.indexOf(word);
            if (at < 0 || !text.data.startsWith(word) && !text.data.includes('"' + word)) continue;
            range.setStart(text, at); range.setEnd(text, at + word.length);
            places[word] = range.getBoundingClientRect().left;
        }
    return places;
}"""


@pytest.mark.parametrize("display", ['odd_run.now.store("last")', 'ks.widgets.browse(odd_run.now.store("last"))'])
def test_any_key_leaves_columns_in_sight_and_numbers_at_their_names(notebook: Notebook, display: str) -> None:
    """Long words break, numbers are aligned right, and text from right to left moves no number to another name."""
    notebook.narrow(640)
    shown = notebook.run(SHOWN, source=ODD + display)
    value = shown.locator("td:visible", has_text="مرحبا")
    expect(value).to_be_visible()
    places = value.evaluate(PLACES)
    title = shown.locator("th:visible", has_text="time")
    time = shown.locator("td:visible", has_text=re.compile("^1200$"))
    ends = [time.evaluate("cell => cell.getBoundingClientRect().right"), shown.evaluate(RIGHT)]
    sides = [each.evaluate("cell => getComputedStyle(cell).textAlign") for each in (title, time)]
    notebook.narrow(1280)
    assert sorted(places, key=places.__getitem__) == ["שלום", ": 4", "مرحبا", ": 5"]
    assert ends == sorted(ends)
    assert sides == ["right", "right"]


def test_panels_that_scroll_are_reached_by_keys(notebook: Notebook) -> None:
    """A store with more rows than its panel has room for; Tab passes over a panel that shows everything."""
    many = """
many_keys = ks.StreamsBuilder("many-keys")
many_keys.stream("in").group_by_key().count(store="counts")
records = [("in", 0, number, number, f"key-{number}", 1) for number in range(40)]
ks.widgets.stepper(ks.replay(many_keys.build(), ks.Sample.from_records(records)))
"""
    stepper = notebook.run(SHOWN, source=many).locator(".ks-stepper")
    panel = stepper.get_by_role("region", name="Stores")
    expect(panel).to_have_attribute("tabindex", "0")
    expect(stepper.get_by_role("region", name="Stream time")).to_have_count(0)
    panel.evaluate("panel => { panel.scrollTop = 0; panel.focus(); }")
    notebook.page.keyboard.press("PageDown")
    expect(panel).not_to_have_js_property("scrollTop", 0)
    assert notebook.barriers(".ks-stepper") == []
