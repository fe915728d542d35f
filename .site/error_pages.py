"""Writes the index of errors: the tree, and a page for each kind with cause, example, remedy and its place in the tree.

The texts are those of the docstrings in `kstreamnb.errors`; examples with a broker are those of the tests on Kafka.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from kstreamnb import errors
from kstreamnb.errors import EngineError, KStreamError
from tests.kafka import error_examples

__all__ = ["kinds", "page", "write"]


def kinds(base: type[KStreamError] = KStreamError) -> Iterator[type[KStreamError]]:
    """Yield an error and those below it, depth first."""
    yield base
    for below in sorted(base.__subclasses__(), key=lambda kind: kind.__name__):
        if below.__module__ == errors.__name__:
            yield from kinds(below)


def write(folder: Path) -> list[str]:
    """Write the index and the pages into a folder; return the names of the pages."""
    folder.mkdir()
    tree = textwrap.dedent(inspect.cleandoc(errors.__doc__ or "").split("\n\n")[1])
    rows = [f"| [{kind.__name__}]({kind.__name__.lower()}.md) | {summary(kind)} |" for kind in kinds()]
    names = [kind.__name__.lower() for kind in kinds()]
    lines = ["# Errors", f"```text\n{tree}\n```", "`*`: fails again until somebody acts.", ""]
    lines += ["\n".join(["| error | meaning |", "|---|---|", *rows])]
    lines += ["```{toctree}\n:hidden:\n:maxdepth: 1\n\n" + "\n".join(names) + "\n```"]
    (folder / "index.md").write_text("\n\n".join(lines) + "\n")
    for kind in kinds():
        (folder / f"{kind.__name__.lower()}.md").write_text(page(kind))
    return names


def summary(kind: type[KStreamError]) -> str:
    """Return the first line of the docstring."""
    return (inspect.getdoc(kind) or "").partition("\n")[0]


def page(kind: type[KStreamError]) -> str:
    """Return the page of one kind."""
    text, _, example = (inspect.getdoc(kind) or "").partition("\nExample:\n")
    text = re.sub(r"(?ms)^(Args|Attributes):\n.*?(?=^\S|\Z)", "", text)
    text = re.sub(r"(?m)^(Cause|Remedy): (.)", lambda match: f"## {match[1]}\n\n{match[2].upper()}", text)
    for words, link in LINKS.items():
        text = text.replace(words, link)
    bases = " and ".join(
        f"[{base.__name__}]({base.__name__.lower()}.md)" if base.__module__ == errors.__name__ else f"`{base.__name__}`"
        for base in kind.__bases__
    )
    lines = [f"# {kind.__name__}", text.strip(), "## Example", shown_example(kind, textwrap.dedent(example))]
    lines += ["## Base classes", f"{bases}."]
    if issubclass(kind, EngineError):
        again = "a restart may help" if kind.restartable else "it fails again until somebody acts"
        lines.append(f"`restartable` is {kind.restartable}: {again}.")
    return "\n\n".join(lines) + "\n"


def shown_example(kind: type[KStreamError], example: str) -> str:
    """Return a program that provokes the error, or the tests that do."""
    if kind in error_examples.OTHER_TESTS:
        return f"No short program provokes it reliably; the test `{error_examples.OTHER_TESTS[kind]}` does."
    if kind not in error_examples.EXAMPLES:
        return f"```pycon\n{example.strip()}\n```"
    function = error_examples.EXAMPLES[kind]
    parts = [source(function)]
    parts = [inspect.getsource(helper) for helper in HELPERS if f"{helper.__name__}(" in parts[0]] + parts
    code = "\n\n\n".join(part.strip() for part in parts)
    return f"{summary_of(function)} The tests run this program.\n\n```python\n{code}\n```"


HELPERS = (error_examples.copy, error_examples.send)
LINKS = {"the page Recipes": "[Recipes](../recipes.md)", "the page Java's names": "[Java's names](../java-names.md)"}


def summary_of(function: object) -> str:
    """Return the first line of a function's docstring."""
    return (inspect.getdoc(function) or "").partition("\n")[0]


def source(function: object) -> str:
    """Return the body of a function without its docstring."""
    text = inspect.getsource(function)  # type: ignore[arg-type]
    return textwrap.dedent(text.partition('"""\n')[2])
