"""What the README claims can be run, and is."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_every_line_of_the_tour_runs_and_prints_what_it_says() -> None:
    """The five-minute tour is a doctest."""
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    failed, tried = doctest.testfile(str(README), module_relative=False, optionflags=flags)
    assert tried > 10
    assert 0 == failed


def test_the_commands_of_the_readme_exist_in_the_makefile() -> None:
    """`make …` in the README names a target."""
    targets = set(re.findall(r"^([a-z-]+):", (README.parent / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"`?make ([a-z-]+)", README.read_text()))
    assert {"demo", "test"} <= named
    assert set() == named - targets
