"""The table of Java's names and ours: ``python -m tests.unit.java_names > JAVA_NAMES.md`` writes it."""

from __future__ import annotations

import json
from pathlib import Path

__all__ = ["CLASSES", "PAGE", "page"]

CLASSES = Path(__file__).with_name("java_classes.json")
PAGE = Path(__file__).parents[2] / "JAVA_NAMES.md"
_HEAD = """# From Java's names to Python's

Every public method of the public classes of Kafka Streams {version}, and its counterpart; classes without methods to
call, such as functional interfaces and exceptions, are in the last table. Methods are in snake_case; options are
keywords; durations are strings such as `"5m"` or `timedelta`s; iterators need no closing; drivers, brokers and
producers are context managers. `as_` and `with_` have an underscore because `as` and `with` are keywords of Python.

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
    return "\n".join([*lines, *_other_classes()])


def _other_classes() -> list[str]:
    elsewhere: dict[str, str] = json.loads(CLASSES.read_text())["elsewhere"]
    rows = [f"| `{name.replace('$', '.')}` | {here} |" for name, here in elsewhere.items()]
    return ["## Other public classes", "", "| Java, in `org.apache.kafka.streams` | here |", "|---|---|", *rows, ""]


def _shown(ours: str) -> str:
    return f"not here: {ours.removeprefix('refused: ')}" if ours.startswith("refused: ") else f"`{ours}`"


if __name__ == "__main__":
    print(page(), end="")
