"""Edits of a sample, a name or a size never stop the rest of a chapter: ten scripted edits of each."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import nbformat
import pytest

from tests.notebook.shells import loaded_shell

FOLDER = Path(__file__).parents[2] / "notebooks"
COURSE = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
EDITS = 10

pytestmark = [pytest.mark.notebook, pytest.mark.slow]

_SMALLER = ("new_york_flights()", "new_york_flights(1500)")
"""The edits of real data run on less of them; the recorded notebook runs on all."""
_RULES: tuple[tuple[str, str], ...] = (
    (r'store="([^"]+)"', 'store="renamed-store"'),
    (r'size="\d+(\w+)"', r'size="7\1"'),
    (r'grace="\d+(\w+)"', r'grace="11\1"'),
    (r'gap="\d+(\w+)"', r'gap="3\1"'),
    (r'StreamsBuilder\("([^"]+)"\)', 'StreamsBuilder("another-name")'),
    (r"(?m)^((?!topic)\S+ +\| \S+ +\| \S+ +\| \S+)\n(?=[\w\"])", r"\1\n\1\n"),  # a record twice
    (r"(?m)^(?!topic)\S+ +\| \S+ +\| \S+ +\| \S+\n(?=\"\"\")", ""),  # remove the last record
    (r"(?m)^((?!topic)\S+ +\| )\S+( +\| \S+ +\| \S+)$", r"\1another\2"),  # another key
    (r"(?m)^((?!topic)\S+ +\| \S+ +\| \S+ +\| )(\d+)$", r"\g<1>7\2"),  # later
    (r"range\((\d\d+)\)", r"range(17)"),
    (r'\("(\w+)", (\d+)\)', r'("\1", 3\2)'),  # another value
    (r'\((\d), "(\w+)", (\d+)\)', r'(\1, "\2", 4\3)'),  # later
    (r'"(firefox|chrome|opera|safari|DE|FR)"', '"other"'),
    (r'"([ab])": (\d)', r'"\1": 5'),
    (r"new_york_flights\(\d+\)", "new_york_flights(70)"),
    (r"\b(\d{1,3})_000\b", r"\g<1>_500"),
    (r'"\d+(s|m|ms)"', r'"13\1"'),
    (r"(?<![-\w.])(\d)(\d\d?)(?![-\w.:])", r"\g<1>1\2"),
    (r"(?<=, )([2-9])(?=[,)])", "1"),
    (r"=([2-9])(?=[,)])", "=1"),
)
"""Edits that a learner makes: names, sizes, records, numbers."""


class Edit(NamedTuple):
    """A change of one cell."""

    cell: int
    old: str
    new: str


def code_of(notebook: str) -> list[str]:
    """Return the sources of the code cells."""
    cells = nbformat.read(FOLDER / f"{notebook}.ipynb", as_version=4).cells
    return [cell.source for cell in cells if cell.cell_type == "code"]


def edits_of(sources: list[str]) -> list[Edit]:
    """Return ten edits of different kinds, spread over the cells, except cells of exercises and of the course."""
    by_rule = [list(_edits_by(rule, new, sources)) for rule, new in _RULES]
    turns = itertools.zip_longest(*by_rule)
    edits = [edit for turn in turns for edit in turn if edit is not None]
    return list(dict.fromkeys(edits))[:EDITS]


def _edits_by(rule: str, new: str, sources: list[str]) -> Iterator[Edit]:
    for number, source in enumerate(sources):
        if "ks.course.predict" in source or "ks.course.check" in source or "%load_ext" in source:
            continue
        for found in re.finditer(rule, source):
            if found.expand(new) != found[0]:
                yield Edit(number, found[0], found.expand(new))


CASES = [(notebook, number) for notebook in COURSE for number in range(EDITS)]


@pytest.mark.parametrize("notebook", COURSE)
def test_a_chapter_has_ten_edits(notebook: str) -> None:
    """Each changes its cell."""
    sources = code_of(notebook)
    edits = edits_of(sources)
    assert len(edits) == EDITS
    assert all(sources[edit.cell].replace(edit.old, edit.new, 1) != sources[edit.cell] for edit in edits)


@pytest.mark.parametrize(("notebook", "number"), CASES)
def test_a_chapter_runs_to_its_end_after_an_edit(notebook: str, number: int) -> None:
    """No cell raises, although results differ."""
    sources = [source.replace(*_SMALLER) for source in code_of(notebook)]
    edit = edits_of(sources)[number]
    sources[edit.cell] = sources[edit.cell].replace(edit.old, edit.new, 1)
    with loaded_shell() as shell:
        for source in sources:
            result = shell.ip.run_cell(source, store_history=True)
            assert result.success, f"{edit} breaks the cell\n{source}"


@pytest.mark.parametrize("notebook", COURSE)
def test_a_cell_of_a_chapter_runs_again(notebook: str) -> None:
    """Each cell twice, as after an edit of it; then all cells once more, from the last to the first."""
    sources = [source.replace(*_SMALLER) for source in code_of(notebook)]
    with loaded_shell() as shell:
        cells = list(enumerate(sources))
        for cell, source in [*(each for each in cells for _ in range(2)), *reversed(cells)]:
            ran = shell.ip.run_cell(source, store_history=True, cell_id=str(cell))
            assert ran.success, f"the cell does not run again\n{source}"
