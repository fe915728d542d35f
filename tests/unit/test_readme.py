"""The README is short, and its claims are run."""

from __future__ import annotations

import doctest
import re
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / ".site"))

import stepper_picture  # noqa: E402 - the site's builder is not a package

README = ROOT / "README.md"
TEXT = README.read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_readme_fits_on_two_screens() -> None:
    assert len(TEXT.splitlines()) < 120


def test_the_example_runs_and_prints_what_it_says() -> None:
    """The README is a doctest."""
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    failed, tried = doctest.testfile(str(README), module_relative=False, optionflags=flags)
    assert tried >= 10
    assert 0 == failed


def test_the_commands_of_the_readme_exist_in_the_makefile() -> None:
    """`make …` in the README names a target."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"`?make ([a-z-]+)", TEXT))
    assert {"demo", "test"} <= named
    assert set() == named - targets


def test_the_readme_installs_from_the_index_and_lists_every_extra() -> None:
    """Extras for working on the project itself are excluded."""
    assert 'pip install "kstreamnb' in TEXT
    rows = set(re.findall(r"(?m)^\| `(\w+)` \|", TEXT))
    assert rows == set(PROJECT["optional-dependencies"]) - {"dev", "docs"}


def test_the_addresses_are_those_of_the_project() -> None:
    """Badges and links lead to the site and the repository that pyproject.toml names."""
    binder = PROJECT["urls"]["Repository"].replace("https://github.com", "https://mybinder.org/v2/gh")
    addresses = re.findall(r"\]\((https://[^)]+)\)", TEXT)
    assert len(addresses) >= 6
    assert [] == [each for each in addresses if not each.startswith((PROJECT["urls"]["Documentation"], binder))]


def test_the_script_draws_the_same_moving_picture_again() -> None:
    """The README's example, its replay and the layout of the graph decide about every byte of the file."""
    picture = stepper_picture.drawn(stepper_picture.example())
    assert picture.encode() == stepper_picture.PICTURE.read_bytes(), "python .site/stepper_picture.py"


def test_the_moving_picture_is_small_and_shows_every_step_of_the_example() -> None:
    """Self-contained: it requests nothing from other hosts and runs no script."""
    (name,) = re.findall(r"!\[[^\]]+\]\(([^):]+\.svg)\)", TEXT)
    picture = (ROOT / name).read_text()
    root = ElementTree.fromstring(picture)
    frames = [each for each in root.iter() if each.get("class") == "frame"]
    records = re.findall(r"(?m)^\.\.\. sales \| (\w+)", TEXT)
    titles = ["".join(frame.find("{*}text").itertext()) for frame in frames]  # type: ignore[union-attr]
    assert len(records) > 4
    assert [f'step {n + 1} of {len(records)}: sales, "{key}"' for n, key in enumerate(records)] == [
        title.partition(" at ")[0] for title in titles
    ]
    paths = [each.get("path", "") for each in root.findall(".//{*}animateMotion")]
    assert len(paths) == len(records)
    assert all(len(set(re.findall(r"-?[\d.]+,-?[\d.]+", path))) > 2 for path in paths), "the dot stands still"
    assert len(picture) < 1_000_000
    assert "<script" not in picture
    assert "http" not in picture.replace("http://www.w3.org/", "")
