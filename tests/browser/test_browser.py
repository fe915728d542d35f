"""The store browser in a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.lab import Lab, Notebook

pytestmark = [pytest.mark.browser]

CELLS = [
    "import kstreamnb as ks",
    """
builder = ks.StreamsBuilder("stock")
builder.stream("sales").group_by_key().reduce(lambda one, other: other, store="last")
rows = [("sales", 0, at, at * 1000, f"item-{at:02}", {"quantity": 60 - at, "note": "x" * at}) for at in range(60)]
rows.append(("sales", 0, 60, 60_000, "<script>alert(1)</script>", {"quantity": 0, "note": "<b>bold</b>"}))
driver = ks.TopologyTestDriver(builder.build())
replay = ks.Replay.of(driver, ks.Sample.from_records(rows))
browser = ks.widgets.browse(replay.now.store("last"))
browser
""",
]


@pytest.fixture(scope="module")
def notebook(lab: Lab) -> Iterator[Notebook]:
    with lab.prepared("browser", CELLS, ready=".ks-browser tbody tr") as found:
        yield found


@pytest.fixture
def widget(notebook: Notebook) -> Locator:
    """All rows, the first page."""
    found = notebook.page.locator(".ks-browser")
    found.get_by_role("searchbox").fill("")
    notebook.until("browser.facts['text']", "''")  # a search is sent after typing has paused
    notebook.python("browser.tell('turn', page=0)")
    expect(found).to_contain_text("1 to 25 of 61")
    expect(found.get_by_role("alert")).to_be_hidden()
    return found


def test_it_shows_a_page_of_rows_and_how_many_there_are(notebook: Notebook, widget: Locator) -> None:
    """Nothing is cut silently: the title and the line above say how many rows there are."""
    expect(widget).to_contain_text('store "last" (timestamped_key_value) after step 61: 61 rows')
    expect(widget.locator("tbody tr")).to_have_count(25)
    widget.get_by_role("button", name="Next page").click()
    expect(widget).to_contain_text("26 to 50 of 61")
    expect(widget.get_by_role("button", name="Page before")).to_be_enabled()


def test_a_row_is_seen_in_full_and_reaches_python(notebook: Notebook, widget: Locator) -> None:
    """A long value is cut in the table and whole beside it; Python has the key itself."""
    widget.get_by_role("searchbox").fill("item-59")
    row = widget.locator("tbody tr")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("characters)")
    row.click()
    expect(widget.locator(".ks-details")).to_contain_text('"note": "' + "x" * 59)
    notebook.until("browser.selected", "'item-59'")
    notebook.picture(widget, "browser")


def test_rows_are_sorted_by_a_column_both_ways(notebook: Notebook, widget: Locator) -> None:
    """Sorted by time in descending order, the latest is first; the third click restores the store's own order."""
    first = widget.locator("tbody tr").first
    time = widget.get_by_role("columnheader", name="time")
    time.get_by_role("button").click()
    expect(time).to_have_attribute("aria-sort", "ascending")
    expect(first).to_contain_text("item-00")
    time.get_by_role("button").click()
    expect(time).to_have_attribute("aria-sort", "descending")
    expect(first).to_contain_text("<script>")
    time.get_by_role("button").click()
    expect(time).to_have_attribute("aria-sort", "none")


def test_keys_and_values_of_the_users_stay_text(notebook: Notebook, widget: Locator) -> None:
    """A key with <script> is shown as text, not run."""
    widget.get_by_role("searchbox").fill("script")
    expect(widget.locator("tbody tr")).to_have_count(1)
    expect(widget.locator("tbody tr")).to_contain_text("<script>alert(1)</script>")
    widget.locator("tbody tr").click()
    expect(widget.locator(".ks-details")).to_contain_text("<b>bold</b>")
    assert notebook.page.locator(".ks-widget script, .ks-widget td b").count() == 0


def test_the_keyboard_walks_over_rows(notebook: Notebook, widget: Locator) -> None:
    """Arrow keys move, Enter shows the row in full, and the focus stays where it was."""
    widget.locator("tbody tr").first.focus()
    notebook.page.keyboard.press("ArrowDown")
    notebook.page.keyboard.press("ArrowDown")
    notebook.page.keyboard.press("Enter")
    notebook.until("browser.selected", "'item-01'")
    expect(widget.locator('tr[aria-selected="true"]')).to_contain_text("item-01")
    assert notebook.page.evaluate("document.activeElement.dataset.at") == "2"


def test_an_error_is_visible_in_the_widget(notebook: Notebook, widget: Locator) -> None:
    """Errors raised in Python are shown in the widget, and Refresh recovers."""
    notebook.python("browser.tell('sort', by='colour')")
    expect(widget.get_by_role("alert")).to_contain_text('cannot sort by "colour"')
    widget.get_by_role("button", name="Refresh").click()
    expect(widget.get_by_role("alert")).to_be_hidden()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_nothing_keeps_people_out(notebook: Notebook, widget: Locator, dark: bool) -> None:
    """Axe finds no serious violation: names, roles, contrast."""
    widget.locator("tbody tr").first.click()
    expect(widget.locator("tbody tr").first).to_have_attribute("aria-selected", "true")
    notebook.theme(dark)
    assert notebook.barriers(".ks-browser") == []
    notebook.theme(False)
