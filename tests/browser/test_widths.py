"""Each display on a narrow and on a wide page, in light and dark: nothing is out of reach."""

from __future__ import annotations

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
