"""Pictures of saved notebooks, as viewers show them that sanitize HTML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
SAVED = sorted(path for path in NOTEBOOKS.rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts)


def outputs(notebook: nbformat.NotebookNode) -> list[dict[str, str]]:
    """Return what the cells of a notebook show, by MIME type."""
    shown = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    return [output.data for output in shown if "data" in output]


@pytest.fixture(scope="module")
def exporter() -> Any:
    """One exporter for all notebooks, which compiles its templates once, without code, which has no pictures."""
    from nbconvert import HTMLExporter  # takes each worker half a second, wherever this file runs

    return HTMLExporter(sanitize_html=True, exclude_input=True)


@pytest.mark.parametrize("path", SAVED, ids=[path.stem for path in SAVED])
def test_each_picture_is_still_there_where_html_is_sanitized(path: Path, exporter: Any) -> None:
    """Pictures are separate images, with text and without HTML beside them, and none is inside HTML."""
    notebook = nbformat.read(path, as_version=4)
    shown = outputs(notebook)
    pictures = [data for data in shown if "image/svg+xml" in data or "image/png" in data]
    assert [data["text/plain"][:80] for data in pictures if "text/html" in data] == []
    assert [data["text/plain"][:80] for data in shown if "<svg" in data.get("text/html", "")] == []
    page, _ = exporter.from_notebook_node(notebook)
    images = page.count('src="data:image/svg+xml;base64,') + page.count('src="data:image/png;base64,')
    assert images == len(pictures)
    assert "&lt;svg" not in page


def test_most_chapters_have_pictures() -> None:
    """The test above looks at something."""
    counts = [sum("image/svg+xml" in data for data in outputs(nbformat.read(path, as_version=4))) for path in SAVED]
    assert sum(count > 0 for count in counts) > 20
