"""Finds the names of Kafka Streams for our classes and their members, from the table that the tests check."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import cache
from pathlib import Path

__all__ = ["counterparts", "java_line"]

TABLE = Path(__file__).parents[1] / "tests" / "unit" / "completeness.json"


@cache
def counterparts() -> dict[str, list[str]]:
    """Return Java's names by ``Class`` and ``Class.member`` of ours."""
    table: dict[str, dict[str, str]] = json.loads(TABLE.read_text())
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for java, members in table.items():
        for method, ours in members.items() if java else ():
            if ours.startswith("refused: "):
                continue
            target = ours.rpartition(":")[2].partition("(")[0]
            target = target if ":" in ours else f"{java}.{target}"
            found[target][f"{java}#{method}"] = None
            found[target.partition(".")[0]][java] = None
    return {name: [name] if name in table else list(java) for name, java in found.items()}


def java_line(name: str, doc: str) -> str | None:
    """Return the line that names Java's counterpart of a documented object, unless its text has it already.

    Args:
        name: the full name of the object, such as ``kstreamnb.TimeWindows.of_size_and_grace``.
        doc: its docstring.
    """
    *_, owner, last = name.split(".")
    java = counterparts().get(f"{owner}.{last}" if owner[:1].isupper() else last, [])
    if not java or "Source: Kafka Streams" in doc:
        return None
    return f"Java: {', '.join(f'`{each}`' for each in java)}."
