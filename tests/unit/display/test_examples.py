"""Every class with a display has an example, which the tests of accessibility go through."""

from __future__ import annotations

from tests.displays import without_example


def test_every_display_has_an_example() -> None:
    """A new display is added to `tests/displays.py`, and is then tested in both themes, zoomed and by keyboard."""
    assert without_example() == []
