"""The table of Java's names and ours: ``python -m tests.unit.java_names > JAVA_NAMES.md`` writes it."""

from __future__ import annotations

import json
from pathlib import Path

__all__ = ["PAGE", "page"]

PAGE = Path(__file__).parents[2] / "JAVA_NAMES.md"
_HEAD = """# From Java's names to Python's

Every public method of the classes of Kafka Streams {version} named here, and its counterpart. Methods are in
snake_case; options are keywords; durations are texts such as `"5m"` or `timedelta`s; iterators need no closing;
drivers, brokers and producers are context managers. `as_` and `with_` have an underscore because `as` and `with` are
keywords of Python.

A name alone is a method of the class of the same name; `a.b:C.d` is in the module `kstreamnb.a.b`; a method without a
counterpart has the reason.
"""


def page() -> str:
    """The whole page."""
    java = json.loads(Path(__file__).with_name("completeness.json").read_text())
    lines = [_HEAD.format(version=java[""]["of"].rpartition(" ")[2])]
    for of, methods in java.items():
        if of:
            lines += [f"## {of}", "", "| Java | here |", "|---|---|"]
            lines += [f"| `{method}` | {_shown(ours)} |" for method, ours in methods.items()] + [""]
    return "\n".join(lines)


def _shown(ours: str) -> str:
    return f"not here: {ours.removeprefix('refused: ')}" if ours.startswith("refused: ") else f"`{ours}`"


if __name__ == "__main__":
    print(page(), end="")
