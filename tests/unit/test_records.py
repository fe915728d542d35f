"""The pages about the project itself: numbers of decisions, links, and what ARCHITECTURE says about the rooms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RECORDS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "DECISIONS.md", "CHANGELOG.md", "SECURITY.md")
DECISION = re.compile(r"\bD-\d{3}\b")
ROOMS = {path.parent.name for path in ROOT.glob("kstreamnb/*/__init__.py")} - {"errors"}
"""The folders of the package; ``errors`` is listed outside of the rooms."""


def prose(page: str) -> str:
    """Return a page of the repository without its blocks of code."""
    return re.sub(r"(?ms)^ *```.*?^ *```$", "", (ROOT / page).read_text())


def anchors(page: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and the site make them."""
    headings = re.findall(r"(?m)^#+ (.+)$", prose(page))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_decision_that_is_named_exists() -> None:
    """Numbers stay when entries are merged; code, tests and documents refer to them."""
    known = set(DECISION.findall((ROOT / "DECISIONS.md").read_text()))
    places = ("*.md", "kstreamnb/**/*.py", "tests/**/*.py", ".site/*.py", "notebooks/**/*.md")
    files = [path for place in places for path in ROOT.glob(place)]
    named = {(path.name, number) for path in files for number in DECISION.findall(path.read_text())}
    assert {(file, number) for file, number in named if number not in known} == set()


def test_a_decision_has_a_theme_and_the_contents_list_each_theme() -> None:
    """Entries are headings of the third level below a theme, with their numbers first."""
    text = (ROOT / "DECISIONS.md").read_text()
    themes = re.findall(r"(?m)^## (.+)$", text)
    assert re.findall(r"(?m)^\d+\. \[(.+)\]\(#", text) == themes
    titles = re.findall(r"(?m)^### (.+)$", text)
    assert [title for title in titles if not re.match(r"(D-\d{3}, )*D-\d{3} \S", title)] == []


@pytest.mark.parametrize("page", RECORDS)
def test_links_between_the_pages_lead_somewhere(page: str) -> None:
    """Files exist, and so do the headings that a link names."""
    for path, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)", prose(page)):
        target = ROOT / (path or page)
        assert target.exists(), path
        assert not anchor or anchor in anchors(path or page), anchor


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_files_that_the_pages_name_exist(page: str) -> None:
    """A path is given from the repository or, in ARCHITECTURE, from the package."""
    paths = re.findall(r"`((?:[\w.-]+/)+[\w.-]+/?)`", prose(page))
    missing = {path for path in paths if not any((ROOT / start / path).exists() for start in ("", "kstreamnb"))}
    assert missing <= {".artefacts/browser", ".venv/bin/python"}, "made by targets"
    assert len(paths) > 20


TYPING = re.compile(r"(?m)^if TYPE_CHECKING:.*\n(?:(?: .*)?\n)+")
IMPORT = re.compile(r"(?m)^ *(?:from|import) kstreamnb\.(\w+)")


def edges() -> Iterator[tuple[str, str]]:
    """Yield each room with every room that it imports when it runs, also inside a function."""
    for path in ROOT.glob("kstreamnb/*/**/*.py"):
        room = path.relative_to(ROOT / "kstreamnb").parts[0]
        others = set(IMPORT.findall(TYPING.sub("", path.read_text())))
        yield from ((room, other) for other in others & ROOMS if room in ROOMS - {other})


def test_the_picture_of_the_rooms_shows_their_imports() -> None:
    """An edge that follows from other edges is not drawn."""
    below: dict[str, set[str]] = {room: set() for room in ROOMS}
    for room, other in edges():
        below[room].add(other)

    def reached(room: str) -> set[str]:
        return below[room].union(*map(reached, below[room]))

    needed = {(room, each) for room in ROOMS for each in below[room] - set().union(*map(reached, below[room]))}
    drawn = set(re.findall(r"(?m)^  (\w+) --> (\w+)$", (ROOT / "ARCHITECTURE.md").read_text()))
    assert drawn == needed


def test_every_room_and_every_module_beside_them_has_a_row() -> None:
    """The first columns of the two tables of ARCHITECTURE."""
    tables = prose("ARCHITECTURE.md").partition("## Rooms")[2].partition("**Following one record**")[0]
    rooms, beside = tables.split("Outside the rooms:")
    columns = ("|".join(line.split("|")[:3]) for line in _rows(rooms))
    rows = {room: set(inner) for room, *inner in (re.findall(r"`(\w+)/`", line) for line in columns)}
    folders = {room: {path.parent.name for path in ROOT.glob(f"kstreamnb/{room}/*/__init__.py")} for room in ROOMS}
    assert {room: listed - {"static"} for room, listed in rows.items()} == folders
    named = {name for line in _rows(beside) for name in re.findall(r"`(\w+)/?`", line.split("|")[1])}
    files = {path.stem for path in ROOT.glob("kstreamnb/*.py")}
    assert named - {"kstreamnb", "errors"} == files


def _rows(table: str) -> list[str]:
    return [line for line in table.splitlines() if line.startswith("| `")]
