"""Every display as a saved notebook keeps it, for places that remove HTML or show text alone."""

from __future__ import annotations

import re
from pathlib import Path

import bleach
import nbformat
import pytest
from nbclient import NotebookClient

from tests.displays import displays

pytestmark = [pytest.mark.notebook]

_TAGS = {"b", "br", "caption", "code", "details", "div", "li", "ol", "p", "pre", "span", "strong", "summary"}
_TAGS |= {"table", "tbody", "td", "th", "thead", "tr", "ul"}


@pytest.fixture(scope="module")
def shown() -> dict[str, list[dict[str, str]]]:
    """Return what a kernel shows for each display, as the data of its outputs."""
    sources = ["%load_ext kstreamnb\nfrom tests.displays import displays\nshown = displays()"]
    sources += [f"shown[{name!r}]" for name in displays()]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    root = Path(__file__).parents[2]
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": root}}).execute()
    outputs = [[output.data for output in cell.outputs] for cell in notebook.cells[1:]]
    return dict(zip(displays(), outputs, strict=True))


def test_a_page_without_styles_and_pictures_in_html_shows_only_words(shown: dict[str, list[dict[str, str]]]) -> None:
    """Removing every other tag and every attribute leaves neither style sheets nor tooltips as text."""
    for name, outputs in shown.items():
        for data in outputs:
            page = bleach.clean(data.get("text/html", ""), tags=_TAGS, attributes=[], strip=True)
            assert not re.search(r"\.ks-|--ks|&lt;svg|\{fill", page), name
            assert "<svg" not in data.get("text/html", ""), name
            assert not ("text/html" in data and "image/svg+xml" in data), name


def test_an_optimization_keeps_both_pictures(shown: dict[str, list[dict[str, str]]]) -> None:
    """A table, the topology before and the one after are three outputs; without optimizations there is one sentence."""
    table, before, after = shown["optimizations"]
    assert "merge.repartition.topics" in table["text/html"]
    assert "before: 4 sub-topologies, 12 nodes" in before["image/svg+xml"]
    assert "after: 3 sub-topologies, 9 nodes" in after["image/svg+xml"]
    assert [{"text/plain": "no optimizations", "text/html": "<p>no optimizations</p>"}] == shown["no optimizations"]


def test_text_alone_holds_what_a_display_shows(shown: dict[str, list[dict[str, str]]]) -> None:
    """Lists and tuples with a display once had the text that IPython gives to lists and tuples."""
    for name, model in displays().items():
        if hasattr(model, "_repr_mimebundle_"):
            text = "\n\n".join(data["text/plain"] for data in shown[name])
            missing = [line for line in model._repr_mimebundle_()["text/plain"].splitlines() if line not in text]
            assert missing == [], name
