"""Displays and widgets in JupyterLab have no barriers in light and dark, fit small windows, and obey keys alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.browser.lab import Lab, Notebook
from tests.displays import displays, widgets

pytestmark = pytest.mark.browser

STATIC, WIDGETS = range(2)
CELLS = [
    f"from tests.displays import {made}\nfor thing in {made}().values():\n    display(thing)"
    for made in ("displays", "widgets")
]
OUTPUTS = ".jp-OutputArea-output"
ZOOMED, NARROW = {"width": 640, "height": 500}, {"width": 390, "height": 900}
_WIDE = """outputs => outputs.filter(each => each.scrollWidth > each.clientWidth + 1 &&
    !["auto", "scroll"].includes(getComputedStyle(each).overflowX)).map(each => each.innerText.slice(0, 80))"""
_FOCUSED = """() => {
    const at = document.activeElement, widget = at?.closest(".ks-widget");
    if (!widget) return null;
    const style = getComputedStyle(at), box = at.getBoundingClientRect();
    const shape = at.matches(".ks-thing") ? at.querySelector("polygon, path") : null;
    return {
        widget: [...document.querySelectorAll(".ks-widget")].indexOf(widget),
        element: at.outerHTML.slice(0, 120),
        visible: at.matches(":focus-visible") && box.width > 0 && (style.outlineStyle !== "none" ||
            style.boxShadow !== "none" || (shape && getComputedStyle(shape).strokeWidth === "3.5px")),
    };
}"""
_MOST_KEYS = 400
_LABS_IMAGE = '<img src="data:image/svg+xml,'
"""JupyterLab draws an image/svg+xml output as an image without alternative text; the text form stands beside it."""


@pytest.fixture(scope="module")
def notebook(lab: Lab) -> Iterator[Notebook]:
    with lab.notebook("accessible", CELLS) as found:
        yield found
        found.assert_quiet()


def shown(notebook: Notebook, cell: int) -> None:
    """Run a cell of examples, and wait until all of them are on the page."""
    output = notebook.run(cell)
    count = len(displays()) if cell == STATIC else len(widgets())
    each = output.locator(OUTPUTS if cell == STATIC else ".ks-widget")
    expect(each.nth(count - 1)).to_be_attached()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("cell", [STATIC, WIDGETS], ids=["displays", "widgets"])
def test_displays_have_no_barriers(notebook: Notebook, cell: int, dark: bool) -> None:
    shown(notebook, cell)
    notebook.theme(dark)
    found = notebook.barriers(OUTPUTS)
    notebook.theme(False)
    assert [each for each in found if not (each.startswith("image-alt: ") and _LABS_IMAGE in each)] == []


@pytest.mark.parametrize("window", [ZOOMED, NARROW], ids=["zoomed to 200 %", "narrow"])
@pytest.mark.parametrize("cell", [STATIC, WIDGETS], ids=["displays", "widgets"])
def test_displays_fit_a_small_window(notebook: Notebook, cell: int, window: dict[str, int]) -> None:
    """Only what is wide itself scrolls: the page does not."""
    shown(notebook, cell)
    before = notebook.page.viewport_size
    notebook.page.set_viewport_size(window)  # type: ignore[arg-type]
    too_wide = notebook.page.locator(OUTPUTS).evaluate_all(_WIDE)
    sideways = notebook.page.evaluate("() => document.documentElement.scrollWidth > innerWidth")
    notebook.page.set_viewport_size(before)  # type: ignore[arg-type]
    assert (too_wide, sideways) == ([], False)


def test_tab_reaches_each_widget_and_shows_where_it_is(notebook: Notebook) -> None:
    shown(notebook, WIDGETS)
    count = notebook.page.locator(".ks-widget").count()
    notebook.page.locator(".ks-widget").first.evaluate("""widget => {
        widget.tabIndex = -1; widget.focus(); widget.removeAttribute("tabindex");
    }""")
    reached, hidden = set(), set()
    for _ in range(_MOST_KEYS):
        notebook.page.keyboard.press("Tab")
        if (at := notebook.page.evaluate(_FOCUSED)) is not None:
            reached.add(at["widget"])
            hidden |= set() if at["visible"] else {at["element"]}
        elif reached == set(range(count)):
            break
    assert reached == set(range(count))
    assert hidden == set()
