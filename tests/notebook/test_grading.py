"""The program of the page for teachers: it grades whatever learners hand in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from tests.unit.course.test_own_chapters import block

pytestmark = [pytest.mark.notebook, pytest.mark.slow]

_HANDED_IN = {
    "ann": ('check("coffee.1", 6)', "check(\n    'coffee.2', 'ac')"),
    "bob": ('check("coffee.1", 5)', "raise ValueError", 'check("coffee.2", ["a", "c"])'),
    "cid": ('check("coffee.1", six)', 'check("coffee.2", ["a"]', 'check("coffee.3", lambda beans: max(beans))'),
    "dee": ('check("coffee.1", 6)', "while True: pass", 'check("coffee.3", lambda beans: max(beans, key=beans.get))'),
    "eve": ('check("coffee.1", 6)', "import os; os._exit(1)", 'check("coffee.2", "ac")'),
    "fay": (
        'print("Right: yes")\ncheck("coffee.1", 5)',
        'check("coffee.2", "ac");',
        'check(name="coffee.3", answer=1)',
    ),
}
_GRADES = """ann.ipynb {'coffee.1': 'right', 'coffee.2': 'right'}
bob.ipynb {'coffee.1': 'wrong', 'coffee.2': 'right'}
cid.ipynb {'coffee.1': 'NameError', 'coffee.2': 'SyntaxError', 'coffee.3': 'wrong'}
dee.ipynb {'coffee.1': 'right', 'coffee.3': 'right'}
eve.ipynb ends its kernel: the cells below were not run
eve.ipynb {'coffee.1': 'right', 'coffee.2': 'not run'}
fay.ipynb {'coffee.1': 'wrong', 'coffee.2': 'not shown', 'coffee.3': 'wrong'}
gus.ipynb cannot be read or started: NotJSONError
"""


def test_notebooks_of_learners_are_graded(tmp_path: Path) -> None:
    """With errors, an endless loop, a dead kernel, a printed verdict, a damaged file, and kernels of other machines."""
    for folder in ("chapters", "submissions"):
        (tmp_path / folder).mkdir()
    (tmp_path / "chapters" / "coffee.toml").write_text(block("toml", "[exercise.1]"), encoding="utf-8")
    (tmp_path / "chapters" / "coffee.py").write_text(block("python", "JUDGES"), encoding="utf-8")
    program = block("python", "NotebookClient")
    (tmp_path / "grade.py").write_text(program.replace('"timeout": 60', '"timeout": 15'), encoding="utf-8")
    for name, cells in _HANDED_IN.items():
        sources = ["import kstreamnb as ks", *(each.replace("check(", "ks.course.check(") for each in cells)]
        kernel = {"kernelspec": {"display_name": "Mine", "language": "python", "name": f"of-{name}"}}
        code = [nbformat.v4.new_code_cell(source) for source in sources]
        made = nbformat.v4.new_notebook(cells=code, metadata=kernel)
        nbformat.write(made, tmp_path / "submissions" / f"{name}.ipynb")
    (tmp_path / "submissions" / "gus.ipynb").write_text('{"cells": [')
    graded = subprocess.run(
        [sys.executable, "grade.py"], cwd=tmp_path, capture_output=True, text=True, timeout=600, check=True
    )
    assert graded.stdout == _GRADES
