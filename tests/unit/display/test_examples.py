"""Every class with a display has an example, which the tests of accessibility go through."""

from __future__ import annotations

import re

from tests.displays import displays, without_example


def test_every_display_has_an_example() -> None:
    """A new display is added to `tests/displays.py`, and is then tested in both themes, zoomed and by keyboard."""
    assert without_example() == []


def test_a_plain_prompt_shows_what_a_display_is() -> None:
    """`python -i`, f-strings and lists show the repr: once every field of a plan, or the address of a trace."""
    for name, shown in displays().items():
        fields_or_address = rf"{type(shown).__name__}\(\w+=|0x[0-9a-f]{{6}}"
        assert not re.search(fields_or_address, repr(shown)), name
