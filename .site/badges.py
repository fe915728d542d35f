"""Writes the badges of every chapter: ``python .site/badges.py``; each opens this chapter, in the browser or on Binder.

The addresses come from ``[project.urls]`` in ``pyproject.toml``, so that a fork changes them in one place.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from urllib.parse import quote

__all__ = ["NEEDS_MACHINE", "badges", "chapters", "runs_in_browser", "with_badges"]

ROOT = Path(__file__).parents[1]
NOTEBOOKS = ROOT / "notebooks"
URLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]

NEEDS_MACHINE: dict[str, str] = {}
"""Chapters that cannot run in a browser, and what they need; single cells have the tag `needs-machine` instead."""

BADGE_LINE = re.compile(r"\n*\[!\[(?:Run in the browser|Open in Binder)\].*\Z")


def chapters() -> list[Path]:
    """Return every chapter of the course, and those that deploy."""
    return [*sorted(NOTEBOOKS.glob("[0-9]*.ipynb")), *sorted(NOTEBOOKS.glob("deployment/[0-9]*.ipynb"))]


def runs_in_browser(chapter: Path) -> bool:
    """Tell whether a chapter of the course runs without a machine."""
    return chapter.parent == NOTEBOOKS and chapter.stem not in NEEDS_MACHINE


def badges(chapter: Path) -> str:
    """Return the line of badges of a chapter."""
    path = chapter.relative_to(NOTEBOOKS)
    pictures = "../" * (len(path.parts) - 1) + "badges"
    binder = f"{URLS['Repository'].replace('https://github.com', 'https://mybinder.org/v2/gh')}/main"
    binder += f"?labpath={quote(f'notebooks/{path}', safe='')}"
    line = f"[![Open in Binder]({pictures}/binder.svg)]({binder})"
    if runs_in_browser(chapter):
        browser = f"{URLS['Documentation']}lite/notebooks/index.html?path={path.name}"
        line = f"[![Run in the browser]({pictures}/browser.svg)]({browser}) {line}"
    return line


def with_badges(chapter: Path) -> str:
    """Return the text of a chapter, with its badges as the last line of the first cell."""
    notebook = json.loads(chapter.read_text(encoding="utf-8"))
    first = notebook["cells"][0]
    text = f"{BADGE_LINE.sub('', ''.join(first['source']))}\n\n{badges(chapter)}"
    first["source"] = text.splitlines(keepends=True)
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for chapter in chapters():
        chapter.write_text(with_badges(chapter))
