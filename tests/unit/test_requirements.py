"""Every requirement has a title and a test that names it; every id that a test names has a legend."""

from __future__ import annotations

import re

from tests.notebook.test_stories import PINS
from tests.requirements import PAGE, ROOT, legend, owners, page, places


def test_every_requirement_is_named_by_a_test() -> None:
    """No id of the legend is named by files only."""
    where = places()
    assert [id_ for id_ in legend() if not any("::" in place for place in where[id_])] == []


def test_every_test_that_the_page_names_exists() -> None:
    """Each ``file::test`` is a function of that file."""
    named = set(re.findall(r"`([^`]+)::(test_\w+)(?: -k \w+)?`", PAGE.read_text()))
    assert len(named) > 400
    assert [each for each in sorted(named) if f"\ndef {each[1]}(" not in (ROOT / each[0]).read_text()] == []


def test_a_line_belongs_to_its_test_to_the_tests_of_its_section_or_to_those_of_its_table() -> None:
    """The docstring of the module belongs to no test."""
    text = """'Module.'
CASES: list[int] = [
    1,
]
# --- section
@parametrize("case", CASES)
def test_a(case):
    'Of a.'
def helper():
    pass
def test_b():
    pass
# --- other section
"""
    a, b = ["t.py::test_a"], ["t.py::test_b"]
    assert owners("t.py", text) == {2: a, 3: a, 4: a, 5: [*a, *b], 6: a, 7: a, 8: a, 11: b, 12: b}


def test_a_case_that_is_named_after_an_example_is_selected_by_its_name() -> None:
    """Each example has separate cases, and pytest selects them by the words of the page."""
    where = places()
    test = "tests/notebook/test_stories.py::test_an_example_gives_what_kafka_streams_gives"
    named = {id_ for id_, each in where.items() if f"{test} -k {id_}" in each}
    assert named == {pin.row for pin in PINS} & set(legend()) == {id_ for id_ in legend() if id_.startswith("E")}
    assert [id_ for id_ in named if test in where[id_]] == []


def test_every_id_has_a_legend() -> None:
    """No test names an id without a legend."""
    assert set(places()) <= set(legend())


def test_the_page_of_requirements_is_up_to_date() -> None:
    """The page is generated."""
    assert page() == PAGE.read_text(), "python -m tests.requirements > tests/requirements.md"
