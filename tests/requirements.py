"""The legend of ids such as ``S0-25`` and ``E07``, and which test, notebook or page shows each requirement.

``python -m tests.requirements > tests/requirements.md`` writes the page; ``tests/unit/test_requirements.py`` compares.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = Path(__file__).with_suffix(".md")
ID = re.compile(r"\b(S[0-4]-\d\d|E[0-2]\d)\b")
_RANGE = re.compile(r"\b(S[0-4]-)(\d\d)(?:…|\.\.\.| to |–)\1?(\d\d)\b")
_PLACES = ("tests/**/*.py", "tests/**/*.json", "notebooks/**/*.ipynb", "*.md")
_HEAD = """# Requirements

What the ids in the names and docstrings of tests mean, and which tests show each requirement. `S0` to `S4` are
single features, guarantees and practices of Kafka Streams; `E` are worked examples.

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


def owners(name: str, text: str) -> dict[int, list[str]]:
    """Return the tests of a Python file by the number of a line, as ``file::test``.

    A line inside a test belongs to that test; the heading of a section (``# ---``), to each test of its section; a
    table of cases, to each test that is parametrized with it.
    """
    lines, body = text.splitlines(), ast.parse(text).body
    tables = {
        ast.unparse(target): node
        for node in body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    }
    found: dict[int, list[str]] = defaultdict(list)
    for test in body:
        if isinstance(test, ast.FunctionDef) and test.name.startswith("test_"):
            first = min([test.lineno, *(decorator.lineno for decorator in test.decorator_list)])
            headings = [number for number in range(first, 0, -1) if lines[number - 1].startswith("# ---")][:1]
            words = [word for each in test.decorator_list for word in ast.walk(each) if isinstance(word, ast.Name)]
            cases = [tables[word.id] for word in words if word.id in tables]
            spans = [(first, test.end_lineno), *((case.lineno, case.end_lineno) for case in cases)]
            for number in {*headings, *(n for start, end in spans for n in range(start, (end or start) + 1))}:
                found[number].append(f"{name}::{test.name}")
    return found


def shown_by(path: Path) -> Iterator[tuple[str, str]]:
    """Yield every id that a file names, with the test that names it, or else with the file.

    If a case of a table is named after the id, the place is ``file::test -k ID``: the arguments that run it.
    """
    name, text = str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
    tests = owners(name, text) if path.match("test_*.py") else {}
    for number, line in enumerate(text.splitlines(), 1):
        for id_ in ids(line):
            case = f" -k {id_}" if f'"{id_}",' in line else ""
            yield from ((id_, f"{place}{case}") for place in tests.get(number, [name]))


def is_named_exactly(place: str, others: Iterable[str]) -> bool:
    """Return whether tests of this file, or cases of this test, are among the other places."""
    return any(other.startswith((f"{place}::", f"{place} -k ")) for other in others)


@cache
def places() -> dict[str, list[str]]:
    """Return the tests and files that name each id, in their order, without this page."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for pattern in _PLACES:
        for path in sorted(ROOT.glob(pattern)):
            if path.stem != "requirements" and ".artefacts" not in path.parts:
                for id_, place in shown_by(path):
                    found[id_][place] = None
    return {id_: [place for place in each if not is_named_exactly(place, each)] for id_, each in found.items()}


def page() -> str:
    """Return the page as Markdown."""
    where = places()
    rows = (
        f"| {id_} | {title} | {', '.join(f'`{place}`' for place in where[id_])} |" for id_, title in legend().items()
    )
    return _HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    print(page(), end="")
