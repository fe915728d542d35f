"""Widgets of a page that is loaded again, of a cell that runs again, and of a kernel that is restarted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from nbconvert import HTMLExporter
from playwright.sync_api import expect

from tests.browser.lab import JUPYTERLAB, NOTEBOOK_7, Lab, Notebook

pytestmark = [pytest.mark.browser]

CELLS = [
    """%load_ext kstreamnb
import ipywidgets
import kstreamnb as ks
builder = ks.StreamsBuilder("shop")
builder.stream("orders").filter(lambda key, order: order > 3, name="large").to("out")
""",
    "slider = ipywidgets.IntSlider(description='n')\nslider",
    "explorer = ks.widgets.explorer(builder.build())\nexplorer",
]


SHOWN = """() => [...document.querySelectorAll(".jp-OutputArea-child")].filter(each => each.checkVisibility())
    .map(each => [".ks-saved", ".jp-RenderedSVG", ".ks-widget", ".jupyter-widgets"].find(of => each.querySelector(of)))
    .filter(Boolean)"""
"""The parts of the explorer that a page may show: saved note, saved picture, widget, or the error of ipywidgets."""


@pytest.fixture
def notebook(lab: Lab) -> Iterator[Notebook]:
    with lab.notebook("reload", CELLS) as found:
        yield found


def test_widgets_find_their_models_after_a_reload(notebook: Notebook) -> None:
    """The kernel keeps its variables, and a click on the reloaded page reaches the same object."""
    for number in range(3):
        notebook.run(number)
    expect(notebook.output(1).locator(".widget-slider")).to_be_visible()
    expect(notebook.output(2).locator(".ks-explorer")).to_be_visible()
    notebook.save()
    notebook.page.reload()
    expect(notebook.output(1).locator(".widget-slider")).to_be_visible()
    explorer = notebook.output(2).locator(".ks-explorer")
    expect(explorer).to_be_visible()
    explorer.locator(".ks-thing").first.click()
    notebook.until("explorer.selected != ''", "True")
    notebook.picture(explorer, "reloaded")


def test_only_the_widget_that_the_page_shows_stays_open(notebook: Notebook) -> None:
    """A cell that runs again closes its earlier widget, unless another cell shows it."""
    is_open = "explorer.comm is not None, first.comm is not None, len(get_ipython().kstreamnb_cells.widgets)"
    for number in (0, 1, 2):
        notebook.run(number)
    expect(notebook.output(2).locator(".ks-explorer")).to_be_visible()
    notebook.run(3, source="first = explorer\nfirst")
    notebook.until("first._view_count", "2")
    notebook.run(2)
    notebook.until("first._view_count", "1")
    assert notebook.python(is_open) == "(True, True, 2)"
    notebook.run(3, source="1")
    notebook.until(is_open, "(True, False, 1)")


def test_a_widget_says_that_its_kernel_was_restarted(notebook: Notebook) -> None:
    """A click on it would otherwise do nothing; after its cell has run again, the new one answers."""
    for number in (0, 1, 2):
        notebook.run(number)
    explorer = notebook.output(2).locator(".ks-explorer")
    unanswered = explorer.get_by_text("Python has not answered yet. If the kernel was restarted or stopped")
    explorer.get_by_role("button", name="Nodes").click()
    expect(explorer.get_by_role("button", name="source")).to_be_visible()
    expect(unanswered).to_be_hidden()
    notebook.page.evaluate("() => window.jupyterapp.shell.currentWidget.context.sessionContext.restartKernel()")
    explorer.get_by_role("button", name="Operators").click()
    expect(unanswered).to_be_visible()
    notebook.picture(explorer, "restarted")
    for number in (0, 1, 2):
        notebook.run(number)
    expect(unanswered).to_be_hidden()
    assert notebook.errors == []


@pytest.mark.parametrize("front_end", [JUPYTERLAB, NOTEBOOK_7])
def test_a_saved_notebook_shows_a_picture_instead_of_a_widget_without_its_kernel(lab: Lab, front_end: str) -> None:
    """The picture is hidden as long as the page has the widget, and is what an exported page shows."""
    with lab.notebook(f"saved-{front_end.replace('/', '-')}", [CELLS[0], CELLS[2]], front_end) as notebook:
        notebook.run(0)
        expect(notebook.run(1).locator(".ks-explorer")).to_be_visible()
        assert notebook.page.evaluate(SHOWN) == [".ks-widget"]
        notebook.save()
        notebook.page.evaluate("() => window.jupyterapp.shell.currentWidget.context.sessionContext.shutdown()")
        notebook.page.reload()
        expect(notebook.output(1)).to_contain_text("Run this cell again to use it")
        expect(notebook.output(1)).to_contain_text("model not found")
        assert notebook.page.evaluate(SHOWN) == [".ks-saved", ".jp-RenderedSVG", ".jupyter-widgets"]
        notebook.picture(notebook.output(1), "saved")
        page, _ = HTMLExporter().from_filename(lab.folder / f"{notebook.name}.ipynb")
        assert page.count('src="data:image/svg+xml;base64,') == 1
        assert "Run this cell again to use it" in page
