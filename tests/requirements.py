"""The legend of ids such as ``S0-25`` and ``E07``, and which test, notebook or page shows each requirement.

``python -m tests.requirements > tests/requirements.md`` writes the page; ``tests/unit/test_requirements.py`` compares.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = Path(__file__).with_suffix(".md")
ID = re.compile(r"\b(S[0-4]-\d\d|E[0-2]\d)\b")
_RANGE = re.compile(r"\b(S[0-4]-)(\d\d)(?:…|\.\.\.| to |–)\1?(\d\d)\b")
_PLACES = ("tests/**/*.py", "tests/**/*.json", "notebooks/**/*.ipynb", "*.md")
_HEAD = """# Requirements

What the ids in the names and docstrings of tests mean, and where each requirement is shown. `S0` to `S4` are single
features, guarantees and practices of Kafka Streams; `E` are worked examples.

| id | requirement | shown by |
|---|---|---|
"""


def legend() -> dict[str, str]:
    """Return the title of every requirement by its id."""
    lines = Path(__file__).with_suffix(".tsv").read_text().splitlines()
    return dict(line.split("\t") for line in lines)


def ids(text: str) -> Iterator[str]:
    """Yield every id of a text; a range such as ``S2-31…33`` is every id in it."""
    for match in _RANGE.finditer(text):
        yield from (f"{match[1]}{number:02}" for number in range(int(match[2]), int(match[3]) + 1))
    yield from (match[0] for match in ID.finditer(text))


def places() -> dict[str, list[str]]:
    """Return the files that name each id, in their order, without this page."""
    found: dict[str, list[str]] = defaultdict(list)
    for pattern in _PLACES:
        for path in sorted(ROOT.glob(pattern)):
            if path.stem != "requirements" and ".artefacts" not in path.parts:
                for id_ in sorted(set(ids(path.read_text(encoding="utf-8")))):
                    found[id_].append(str(path.relative_to(ROOT)))
    return found


def page() -> str:
    """Return the page as Markdown."""
    where = places()
    rows = (f"| {id_} | {title} | {', '.join(f'`{path}`' for path in where[id_])} |" for id_, title in legend().items())
    return _HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    print(page(), end="")
