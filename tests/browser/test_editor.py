"""The sample editor in a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.lab import Lab, Notebook

pytestmark = [pytest.mark.browser]

CELLS = [
    "import kstreamnb as ks",
    """
sample = ks.Sample.from_text('''
    topic | key  | value                     | time
    sales | shoe | {"quantity": 1}           | 0
    sales | sock | "<script>alert(1)</script>" | 5
    sales | hat  | {"quantity": 3}           | 7
''')
editor = ks.widgets.edit(sample)
editor
""",
]


@pytest.fixture(scope="module")
def notebook(lab: Lab) -> Iterator[Notebook]:
    with lab.prepared("editor", CELLS, ready=".ks-editor tbody tr") as found:
        yield found


@pytest.fixture
def widget(notebook: Notebook) -> Locator:
    """The sample as given."""
    notebook.python("[editor.tell('undo') for _ in range(20)]")
    found = notebook.page.locator(".ks-editor")
    expect(found.get_by_role("button", name="Undo")).to_be_disabled()
    expect(found.get_by_role("alert")).to_be_hidden()
    return found


def cell(widget: Locator, column: str, record: int) -> Locator:
    return widget.get_by_role("textbox", name=f"{column} of record {record}", exact=True)


def test_an_edit_makes_a_new_sample(notebook: Notebook, widget: Locator) -> None:
    """Python has the new sample at once; the old one is unchanged."""
    cell(widget, "value", 1).fill('{"quantity": 10, "unit": "a|b"}')
    cell(widget, "value", 1).press("Enter")
    notebook.until("editor.sample[0].value", "{'quantity': 10, 'unit': 'a|b'}")
    assert notebook.python("sample[0].value") == "{'quantity': 1}"
    expect(widget).to_contain_text("edited")
    assert notebook.python("editor.sample[1] is sample[1]") == "True"
    notebook.picture(widget, "editor")


def test_a_wrong_cell_is_said_and_the_sample_stays_right(notebook: Notebook, widget: Locator) -> None:
    """Cells that cannot be parsed are marked and explained; the sample remains the last valid one."""
    time = cell(widget, "time", 2)
    time.fill("soon")
    time.press("Tab")
    expect(time).to_have_attribute("aria-invalid", "true")
    expect(widget.get_by_role("status")).to_contain_text('Record 2, time: time "soon" is not an instant')
    notebook.picture(widget, "editor-wrong")
    assert notebook.python("editor.sample is sample") == "True"
    time.fill("1s")
    time.press("Tab")
    expect(widget.get_by_role("status")).to_be_hidden()
    notebook.until("editor.sample[1].timestamp", "1000")


def test_records_are_added_moved_and_removed(notebook: Notebook, widget: Locator) -> None:
    """The tools work on the record under the cursor; offsets follow the order."""
    cell(widget, "key", 1).focus()
    widget.get_by_role("button", name="Duplicate").click()
    notebook.until("[r.key for r in editor.sample]", "['shoe', 'shoe', 'sock', 'hat']")
    cell(widget, "key", 2).fill("boot")
    cell(widget, "key", 2).press("Tab")
    notebook.until("editor.sample[1].key", "'boot'")
    widget.get_by_role("button", name="Move down").click()
    notebook.until("[r.key for r in editor.sample]", "['shoe', 'sock', 'boot', 'hat']")
    assert notebook.python("[r.offset for r in editor.sample]") == "[0, 1, 2, 3]"
    cell(widget, "key", 1).focus()
    widget.get_by_role("button", name="Delete").click()
    notebook.until("[r.key for r in editor.sample]", "['sock', 'boot', 'hat']")
    widget.get_by_role("button", name="Undo").click()
    notebook.until("len(editor.sample)", "4")


def test_values_of_the_users_stay_text(notebook: Notebook, widget: Locator) -> None:
    """A value with <script> is shown as text, not run."""
    expect(cell(widget, "value", 2)).to_have_value("<script>alert(1)</script>")
    assert notebook.page.locator(".ks-widget script").count() == 0


def test_the_keyboard_moves_as_in_a_sheet(notebook: Notebook, widget: Locator) -> None:
    """Enter commits and moves down, the arrow keys move up and down, and Escape discards what was typed."""
    cell(widget, "key", 1).focus()
    notebook.page.keyboard.press("ArrowDown")
    expect(cell(widget, "key", 2)).to_be_focused()
    notebook.page.keyboard.type("s")
    notebook.page.keyboard.press("Enter")
    expect(cell(widget, "key", 3)).to_be_focused()
    notebook.page.keyboard.type("zzz")
    notebook.page.keyboard.press("Escape")
    expect(cell(widget, "key", 3)).to_have_value("hat")


def test_an_answer_that_comes_while_someone_types_commits_nothing(notebook: Notebook, widget: Locator) -> None:
    """Rows are redrawn when Python answers; a half-typed value stays, is not sent, and is discarded by Escape."""
    cell(widget, "key", 3).focus()
    notebook.page.keyboard.type("zzz")
    typed = cell(widget, "key", 3).input_value()
    notebook.python("editor.tell('put', row=0, column='key', text='clog')")
    expect(cell(widget, "key", 1)).to_have_value("clog")
    expect(cell(widget, "key", 3)).to_have_value(typed)
    expect(cell(widget, "key", 3)).to_be_focused()
    notebook.page.keyboard.press("Escape")
    expect(cell(widget, "key", 3)).to_have_value("hat")
    assert notebook.python("[r.key for r in editor.sample]") == "['clog', 'sock', 'hat']"


def test_who_types_faster_than_python_answers_loses_nothing(notebook: Notebook, widget: Locator) -> None:
    """Tab moves from cell to cell and selects the content: typing replaces it, whether or not the answer has
    arrived.
    """
    cell(widget, "key", 1).select_text()
    notebook.start("import time; time.sleep(1)")
    for text in ("boot", '"red"', "1s"):
        notebook.page.keyboard.type(text)
        notebook.page.keyboard.press("Tab")
    notebook.until("editor.sample[0][4:6], editor.sample[0].timestamp", "(('boot', 'red'), 1000)")
    expect(cell(widget, "partition", 1)).to_be_focused()
    notebook.page.keyboard.type("2")
    notebook.python("editor.tell('put', row=2, column='key', text='clog')")
    expect(cell(widget, "key", 3)).to_have_value("clog")
    notebook.page.keyboard.type("1")
    notebook.page.keyboard.press("Enter")
    notebook.until("editor.sample[0].partition", "21")


def test_the_sample_is_there_as_text(notebook: Notebook, widget: Locator) -> None:
    """The edited sample can be copied as the table that Sample.from_text reads."""
    widget.get_by_text("As text").click()
    text = widget.get_by_role("textbox", name="the sample as text").input_value()
    assert notebook.python(f"ks.Sample.from_text({text!r}) == sample") == "True"
    widget.get_by_text("As text").click()


def test_an_error_is_visible_in_the_widget(notebook: Notebook, widget: Locator) -> None:
    """Errors raised in Python are shown in the widget."""
    notebook.python("editor.tell('put', row=0, column='colour', text='red')")
    expect(widget.get_by_role("alert")).to_contain_text('no column is named "colour"')
    notebook.python("editor.tell('turn', page=0)")
    expect(widget.get_by_role("alert")).to_be_hidden()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_nothing_keeps_people_out(notebook: Notebook, widget: Locator, dark: bool) -> None:
    """Axe finds no serious violation: names, roles, contrast."""
    notebook.theme(dark)
    assert notebook.barriers(".ks-editor") == []
    notebook.theme(False)
