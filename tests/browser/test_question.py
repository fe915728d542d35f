"""The form of a prediction: a choice, a number and a table are answered, kept and compared."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.browser.lab import Lab, Notebook

pytestmark = [pytest.mark.browser]

CELLS = (
    "%load_ext kstreamnb\nimport kstreamnb as ks",
    'ks.course.predict("count.pieces")',
    'ks.course.predict("count.updates")',
    'ks.course.predict("stateless.pieces")',
)
ASKEW = """form => [...form.querySelectorAll("label")].filter(label => {
    const middle = box => (box.top + box.bottom) / 2;
    const words = document.createRange();
    words.selectNodeContents(label.lastChild);
    const button = label.querySelector("input").getBoundingClientRect();
    return Math.abs(middle(button) - middle(words.getBoundingClientRect())) > 3;
}).length"""


@pytest.fixture(scope="module")
def notebook(lab: Lab) -> Iterator[Notebook]:
    with lab.prepared("question", [*CELLS, "pass"], run=len(CELLS), ready=".ks-question form") as found:
        yield found


def test_a_choice_is_beside_its_words_and_is_kept(notebook: Notebook) -> None:
    """The style sheet of JupyterLab moves buttons of a choice away from the line of their words."""
    form = notebook.output(1)
    assert form.evaluate(ASKEW) == 0
    form.get_by_label("two").check()
    form.get_by_role("button").click()
    expect(form.get_by_role("status")).to_have_text("Kept. Run the next cell and compare.")
    notebook.picture(form, "question-choice")
    compared = notebook.run(len(CELLS), source='ks.course.compare("count.pieces", "two")')
    expect(compared).to_contain_text("As you predicted: two.")


def test_a_number_and_a_table_are_kept(notebook: Notebook) -> None:
    """An empty form asks for an answer."""
    number, table = notebook.output(2), notebook.output(3)
    number.get_by_role("button").click()
    expect(number.get_by_role("status")).to_have_text("Choose or type an answer first.")
    number.get_by_role("textbox").fill("3")
    number.get_by_role("textbox").press("Enter")
    expect(number.get_by_role("status")).to_have_text("Kept. Run the next cell and compare.")
    table.get_by_role("textbox", name="map_values").fill("1")
    table.get_by_role("button").click()
    expect(table.get_by_role("status")).to_have_text("Kept. Run the next cell and compare.")
    source = 'ks.course.compare("stateless.pieces", {"map_values": 1, "map": 2})'
    expect(notebook.run(len(CELLS), source=source)).to_contain_text("You predicted otherwise: map.")
