"""A page that is loaded again while its kernel lives: widgets find their models."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.browser.lab import Lab, Notebook

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
