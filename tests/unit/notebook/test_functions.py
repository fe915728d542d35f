"""Functions are the same if their text is, wherever a run of a cell defines them."""

from __future__ import annotations

from collections.abc import Hashable

import pytest

from kstreamnb.notebook.functions import same_code
from kstreamnb.notebook.script_export import script
from kstreamnb.notebook.variables import read_names, statements, written_names


def _first(rows: object) -> object:
    return [row for row in rows if row in (1, 2)]  # type: ignore[attr-defined]


def _again(rows: object) -> object:

    return [row for row in rows if row in (1, 2)]  # type: ignore[attr-defined]


def _edited(rows: object) -> object:
    return [row for row in rows if row in (1.0, 2)]  # type: ignore[attr-defined]


def test_functions_of_one_text_are_the_same_and_an_edited_constant_changes_one() -> None:
    """Lines and names do not count; 1 and 1.0 are equal in Python, but not the same text, nor inside a tuple."""
    assert same_code(_first, _again)
    assert not same_code(_first, _edited)


def test_a_cell_writes_the_names_that_remain_after_it() -> None:
    """Among them those of patterns and functions; variables of comprehensions are gone, and `del` writes nothing."""
    code = """
import os.path
from json import loads as read
kept: int = 1
first, *rest = [last := row for row in range(3)]
del earlier
def made(given):
    inner = given
match rest:
    case [one, *others]:
        pass
"""
    names = "os read kept first rest last made one others"
    assert written_names(statements(code)) == set(names.split())


@pytest.mark.parametrize(
    "code",
    ["def f(a, a): pass", "nonlocal x", "def f():\n    x = 1\n    global x", "[i := 0 for i in y]"],
    ids=["argument twice", "nonlocal", "late global", "rebound"],
)
def test_a_cell_that_python_refuses_does_not_prevent_the_export_of_others(code: str) -> None:
    """Python parses it but does not run it, so it binds and reads nothing; the user may leave it in the notebook."""
    assert written_names(statements(code)) == read_names(statements(code)) == set()
    cells: dict[Hashable, str] = {1: "import kstreamnb as ks\nbuilder = ks.StreamsBuilder()", 2: code}
    exported = script(cells, [1], "builder", str)
    assert cells[1] in exported
    assert code not in exported
