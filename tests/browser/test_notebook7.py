"""The first minutes in Notebook 7, which the same server serves under /tree and /notebooks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.browser.lab import NOTEBOOK_7, Lab, Notebook
from tests.browser.test_first_ten_minutes import (
    CELLS,
    COUNTS,
    EXPLORER,
    LATE,
    LOAD,
    REPLAY,
    SAMPLE,
    SOURCE,
    STEPPER,
    TOPOLOGY,
)  # fmt: skip

pytestmark = [pytest.mark.browser]


@pytest.fixture(scope="module")
def notebook(lab: Lab) -> Iterator[Notebook]:
    with lab.notebook("seventh", CELLS[: STEPPER + 1], NOTEBOOK_7) as found:
        yield found
        found.assert_quiet()


def test_cells_run_again_and_what_hangs_on_them_follows(notebook: Notebook) -> None:
    """An edited cell replaces its part, the cells below follow, and the picture shows it, because cells have ids."""
    expect(notebook.run(LOAD)).to_contain_text("kstreamnb")
    expect(notebook.run(SAMPLE)).to_contain_text("Sample of 5 records")
    expect(notebook.run(SOURCE)).to_contain_text("N102")
    expect(notebook.run(LATE)).not_to_contain_text("N103")
    notebook.assert_drawn(notebook.run(COUNTS), "count")
    edited = notebook.run(LATE, source='late = flights.filter(lambda tail, flight: flight["late"] > 20)\nlate')
    expect(edited).to_contain_text("N103")
    graph = notebook.run(TOPOLOGY)
    notebook.assert_drawn(graph, "count")
    assert notebook.python("get_ipython().kstreamnb_cells.ids_are_sent") == "True"
    assert notebook.python("str(topology.describe()).count('Processor: KSTREAM-FILTER')") == "1"


def test_widgets_reach_python(notebook: Notebook) -> None:
    """The replay is shown, a click on a node of the explorer reaches Python, and the stepper takes a step."""
    notebook.assert_drawn(notebook.run(REPLAY), "1 late")
    explorer = notebook.run(EXPLORER).locator(".ks-explorer")
    explorer.get_by_role("button", name="count, processor").first.click()
    expect(explorer.locator(".ks-code")).to_contain_text('count(store="hourly")')
    notebook.until("explorer.selected[:17]", "'KSTREAM-AGGREGATE'")
    stepper = notebook.run(STEPPER).locator(".ks-stepper")
    notebook.python("stepper.tell('run_back')")
    stepper.get_by_role("button", name="Step", exact=True).click()
    notebook.until("replay.position", "1")


def test_the_tree_lists_the_notebook(notebook: Notebook, lab: Lab) -> None:
    """The page is Notebook's, and so is the file list that it opens from."""
    assert "/notebooks/seventh.ipynb" in notebook.page.url
    page = lab.context.new_page()
    page.goto(f"{lab.url}/tree")
    expect(page.get_by_text("seventh.ipynb").first).to_be_visible()
    page.close()
