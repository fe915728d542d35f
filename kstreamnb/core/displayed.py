"""The hook by which frozen models show themselves in notebooks, and give their picture to scripts; tables in HTML.

A model knows only the hooks; how it looks is decided in `kstreamnb.display`, above every model.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from html import escape
from typing import Any

from kstreamnb import hooks

_NUMBER = re.compile(r"[-+]?\d[\d,]*(\.\d+)?%?")


class Displayed:
    """Gives a model its rich display and its picture; showing it never changes it and never runs anything."""

    __slots__ = ()

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        mimebundle = hooks.current().mimebundle
        return {"text/plain": repr(self)} if mimebundle is None else mimebundle(self, include, exclude)

    def to_text(self) -> str:
        """The picture in characters."""
        return self._drawn("to_text")

    def to_mermaid(self) -> str:
        """The picture as a Mermaid flowchart."""
        return self._drawn("to_mermaid")

    def to_dot(self) -> str:
        """The picture in Graphviz's language."""
        return self._drawn("to_dot")

    def to_svg(self) -> str:
        """The picture as a self-contained SVG element.

        Raises: EngineError when there is no Graphviz to lay it out.
        """
        return self._drawn("to_svg")

    def _drawn(self, form: str) -> str:
        draw = hooks.current().draw
        return repr(self) if draw is None else draw(self, form)


def html_table(header: Sequence[str], rows: Iterable[Sequence[str]], caption: Sequence[str] = ()) -> str:
    """A table that needs no script and no style sheet; front ends differ in where they put text, so each cell says it.

    Example:
        >>> html_table(["key", "value"], [["pear", "20"]], ["1 record"]).count("text-align:right")
        2
    """
    body = [list(row) for row in rows]
    sides = [f' style="text-align:{_side([row[at] for row in body])}"' for at in range(len(header))]
    head = "".join(f'<th scope="col"{side}>{escape(cell)}</th>' for side, cell in zip(sides, header, strict=True))
    lines = ("".join(f"<td{side}>{escape(cell)}</td>" for side, cell in zip(sides, row, strict=True)) for row in body)
    said = "<br>".join(escape(line) for line in caption)
    above = f'<caption style="caption-side:top;text-align:left;white-space:nowrap">{said}</caption>' if said else ""
    filled = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table>{above}<thead><tr>{head}</tr></thead><tbody>{filled}</tbody></table>"


def _side(cells: Sequence[str]) -> str:
    """Numbers stand below each other at the right, everything else begins at the left."""
    said = [cell for cell in cells if cell not in ("", "null")]
    return "right" if said and all(map(_NUMBER.fullmatch, said)) else "left"
