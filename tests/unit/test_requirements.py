"""Every requirement has a title and a place that shows it; every id that a test names has a legend."""

from __future__ import annotations

from tests.requirements import PAGE, legend, page, places


def test_every_requirement_is_shown_somewhere() -> None:
    """No id of the legend lacks a test, a notebook or a page."""
    where = places()
    assert [id_ for id_ in legend() if not where[id_]] == []


def test_every_id_has_a_legend() -> None:
    """No test names an id without a legend."""
    assert set(places()) <= set(legend())


def test_the_page_of_requirements_is_up_to_date() -> None:
    """The page is generated."""
    assert page() == PAGE.read_text(), "python -m tests.requirements > tests/requirements.md"
