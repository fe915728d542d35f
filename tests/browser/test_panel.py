"""The deploy panel in a real browser, over a real query on Spark."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.lab import Lab, Notebook

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(shutil.which("java") is None, reason="there is no Java, which Spark needs"),
]

CELLS = [
    """
import tempfile
from pathlib import Path
import kstreamnb as ks
from tests.browser.queries import counting
folder = Path(tempfile.mkdtemp())
query = counting(folder / "good", list(range(20)))
query.await_input(60)
panel = ks.panel(query)
panel
""",
    """
broken = counting(folder / "broken", [*range(4), "boom"])
while broken.is_active():
    pass
broken_panel = ks.panel(broken)
broken_panel
""",
]
_SPARK_MS = 60_000


@pytest.fixture(scope="module")
def notebook(lab: Lab) -> Iterator[Notebook]:
    with lab.notebook("panel", CELLS) as found:
        found.run(0)
        expect(found.page.locator(".ks-panel").first).to_be_visible(timeout=2 * _SPARK_MS)
        yield found
        found.python("ks.stop_all()")
        found.assert_quiet()


@pytest.fixture
def widget(notebook: Notebook) -> Locator:
    """The panel of the query that works, which is running."""
    found = notebook.output(0).locator(".ks-panel")
    if notebook.python("query.is_active()") == "False":
        found.get_by_role("button", name="Restart").click()
    expect(found.locator(".ks-state")).to_have_text("running", timeout=_SPARK_MS)
    expect(found.get_by_role("alert")).to_be_hidden()
    return found


def test_it_shows_what_the_query_is_doing(notebook: Notebook, widget: Locator) -> None:
    """State, batch and duration, records in and out with their rates, lag, drops, state, tasks, lines of the past."""
    expect(widget).to_contain_text("prices")
    figures = widget.locator(".ks-figures")
    expect(figures).to_contain_text(re.compile(r"in20 records, [\d,.]+/s"))
    expect(figures).to_contain_text("lag0 records")
    expect(figures).to_contain_text(re.compile(r"duration[\d,]+ ms"))
    expect(figures).to_contain_text("dead letters")
    expect(widget.get_by_role("img", name=re.compile("records in in the last"))).to_be_visible()
    expect(widget.get_by_role("table", name="Tasks")).to_contain_text("0_0")
    expect(widget.get_by_role("table", name="Dropped")).to_contain_text("late")
    notebook.picture(widget, "panel")


def test_rows_of_stores_are_counted_when_asked_for(notebook: Notebook, widget: Locator) -> None:
    """Counting reads the stores, so nobody does it unasked."""
    expect(widget.get_by_role("table", name="Stores")).to_contain_text("not counted")
    widget.get_by_role("button", name="Count rows").click()
    expect(widget.get_by_role("table", name="Stores")).to_contain_text(re.compile(r"per-second\d+"), timeout=_SPARK_MS)


def test_it_looks_again_by_itself(notebook: Notebook, widget: Locator) -> None:
    """While the query runs the panel asks every second, until it is told not to."""
    before = notebook.python(
        "(setattr(panel, 'facts', {**panel.facts, 'application': 'old'}), panel.facts['application'])[1]"
    )
    assert before == "'old'"
    notebook.until("panel.facts['application']", "'prices'", timeout_s=20)


def test_stop_and_restart_reach_the_query_by_keyboard(notebook: Notebook, widget: Locator) -> None:
    """Stop ends it after what is under way; Restart goes on from the checkpoint."""
    widget.get_by_role("button", name="Stop").focus()
    notebook.page.keyboard.press("Enter")
    expect(widget.locator(".ks-state")).to_have_text("stopped", timeout=_SPARK_MS)
    assert notebook.python("query.status(lag=False).state") == "'stopped'"
    expect(widget.get_by_role("button", name="Stop")).to_be_disabled()
    widget.get_by_role("button", name="Restart").focus()
    notebook.page.keyboard.press("Enter")
    expect(widget.locator(".ks-state")).to_have_text("running", timeout=_SPARK_MS)
    assert notebook.python("query.is_active()") == "True"


def test_the_last_error_is_shown_with_its_node(notebook: Notebook, widget: Locator) -> None:
    """A query that failed says why, in the kit's words, and its graph has the node in red; it can be restarted."""
    notebook.run(1)
    failed = notebook.output(1).locator(".ks-panel")
    expect(failed.locator(".ks-state")).to_have_text("failed", timeout=2 * _SPARK_MS)
    expect(failed.locator(".ks-failure")).to_contain_text("check")
    expect(failed.locator(".ks-graph .ks-failed")).to_contain_text("check")
    expect(failed.get_by_role("button", name="Restart")).to_be_enabled()
    assert notebook.page.locator(".ks-widget script").count() == 0
    notebook.picture(failed, "panel-failed")


def test_an_error_is_visible_in_the_widget(notebook: Notebook, widget: Locator) -> None:
    """What Python refuses is said in the widget."""
    notebook.python("panel.tell('explode')")
    expect(widget.get_by_role("alert")).to_contain_text('this widget has no command "explode"')
    notebook.python("panel.tell('refresh')")
    expect(widget.get_by_role("alert")).to_be_hidden()


def test_a_saved_notebook_keeps_the_figures_as_text(notebook: Notebook, widget: Locator) -> None:
    """Without a kernel the panel is its text form."""
    text = notebook.python("panel.forms()['text/plain']")
    assert 'deployment "prices": running' in text
    assert "in: 20 records" in text


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_nothing_keeps_people_out(notebook: Notebook, widget: Locator, dark: bool) -> None:
    """Axe finds nothing serious: names, roles, contrast."""
    notebook.theme(dark)
    assert notebook.barriers(".ks-panel") == []
    notebook.theme(False)
