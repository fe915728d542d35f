"""Compares the built reference with the package: names, arguments and Java's names that no page shows."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from java_counterparts import java_line

from kstreamnb.dsl.declarations import Handle
from tests.unit.public_names import is_internal, public_names, returned_classes
from tests.unit.test_docstrings import callables, described

__all__ = ["entries", "missing"]

_ANCHOR = re.compile(r'<dt class="sig[^>]*? id="kstreamnb\.([\w.]+)">')


def entries(pages: Iterator[Path]) -> dict[str, str]:
    """Return the HTML of each documented object by its name, up to the next object."""
    found: dict[str, str] = {}
    for page in pages:
        parts = _ANCHOR.split(page.read_text())
        found |= dict(zip(parts[1::2], parts[2::2], strict=True))
    return found


def is_handle(value: object) -> bool:
    """Return whether an object is a kind of stream or table, which the DSL makes and no user."""
    return inspect.isclass(value) and issubclass(value, Handle)


def missing(html: Path) -> Iterator[str]:
    """Yield public names without an entry, arguments that an entry lacks, and counterparts that it does not name."""
    shown = entries((html / "reference").rglob("*.html"))
    for name, value in public_names().items():
        if name.startswith("errors."):
            if not (html / "errors" / f"{name.partition('.')[2].lower()}.html").exists():
                yield f"{name} has no page"
        elif name not in shown and not name.startswith("samples."):
            yield f"{name} is not in the reference"
        elif inspect.isclass(value):
            java = java_line(f"kstreamnb.{name}", inspect.getdoc(value) or "")
            if java is not None and "Java: " not in shown.get(name, ""):
                yield f"{name} does not name Java's class"
    for kind in returned_classes():
        if f"{kind.__module__.partition('.')[2]}.{kind.__name__}" not in shown:
            yield f"{kind.__name__} is not in the reference"
    yield from _missing_arguments(shown)


def _missing_arguments(shown: dict[str, str]) -> Iterator[str]:
    names = public_names()
    for name, _, doc in callables():
        owner, _, member = name.rpartition(".")
        kind = names.get(owner)
        hidden = name.endswith(".add_note") or (inspect.isclass(kind) and is_internal(kind, member))
        if hidden or name.startswith(("errors.", "samples.")):
            continue
        text = shown.get(name)
        if text is None:
            yield f"{name} is not in the reference"
        elif "\nArgs:" in inspect.cleandoc(doc or "") and not is_handle(names.get(name)):
            arguments = described(doc)
            yield from (f"{name} does not show {each}" for each in arguments if f"<strong>{each}</strong>" not in text)
