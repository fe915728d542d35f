"""Tables as plain text and as HTML, and the base class of values that display as a table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import ClassVar, Generic, TypeVar, overload

from kstreamnb.core.displayed import Displayed
from kstreamnb.core.formatting import ShortText
from kstreamnb.masking import clean, clean_lines

E = TypeVar("E")
_FORMULA = re.compile(r"\$|\\(?=[(\[])")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefe]")
_LONG_WORD = re.compile(r"[^\s-]{41}")
_CAPTION = 70
"""Characters of a caption that fit on half a screen: it stays on one line over a narrow table; a longer one wraps."""
_SHORT, _LONG = "white-space:nowrap", "min-width:24em;overflow-wrap:anywhere"
_NUMBER = re.compile(r"[-+]?\d[\d,]*(\.\d+)?%?")


def text_table(header: Sequence[str], rows: Iterable[Sequence[str]], *, rule: bool = True) -> str:
    """Return a table as plain text with aligned columns; ``rule`` draws a line below the header.

    Without a rule, the table can be read as a sample, so its cells get no marks of direction.

    Example:
        >>> print(text_table(["key", "value"], [["pear", "20"]]))
        key  | value
        -----+------
        pear | 20
    """
    table = [list(map(clean, row)) for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
    if rule:
        lines.insert(1, "-+-".join("-" * width for width in widths))
    return isolated("\n".join(lines)) if rule else "\n".join(lines)


def isolated(text: str, before: str = "\u2068", after: str = "\u2069") -> str:
    r"""Isolate quoted words of a script that is written from right to left: they would reverse the numbers beside them.

    Example:
        >>> isolated('"shalom" 4'), len(isolated('"\u05e9" 4'))
        ('"shalom" 4', 7)
    """
    first, *parts = text.split('"')
    parts[:-1] = [f"{before}{part}{after}" if _RIGHT_TO_LEFT.search(part) else part for part in parts[:-1]]
    return '"'.join([first, *parts])


def escaped(text: str) -> str:
    """Return text as HTML without markup, with `isolated` words; a front end typesets no part of it as a formula.

    MathJax looks for the delimiters of a formula within one element, so each is put into a separate one.

    Example:
        >>> escaped("<$5 and $6>")
        '&lt;<span>$</span>5 and <span>$</span>6&gt;'
    """
    html = isolated(escape(clean_lines(text), quote=False), "<bdi>", "</bdi>")
    return _FORMULA.sub(r"<span>\g<0></span>", html.replace('"', "&quot;").replace("'", "&#x27;"))


def html_table(header: Sequence[str], rows: Iterable[Sequence[str]], caption: Sequence[str] = ()) -> str:
    """Return a table as HTML without script or style sheet; columns of numbers are aligned right.

    Every cell carries its alignment, because front ends differ in their defaults; a truncated one has a tooltip.

    Example:
        >>> html_table(["key", "value"], [["pear", "20"]], ["1 record"]).count("text-align:right")
        2
    """
    body = [list(row) for row in rows]
    styles = [f' style="text-align:{_alignment([row[column] for row in body])}"' for column in range(len(header))]

    def cells(row: Sequence[str], tag: str, scope: str = "") -> str:
        texts = ((f"{scope}{style}{_tooltip(cell)}", escaped(cell)) for style, cell in zip(styles, row, strict=True))
        return "".join(f"<{tag}{attributes}>{text}</{tag}>" for attributes, text in texts)

    text = "<br>".join(map(escaped, caption))
    wrap = _SHORT if max(map(len, caption), default=0) <= _CAPTION else _LONG
    above = f'<caption style="caption-side:top;text-align:left;{wrap}">{text}</caption>' if text else ""
    head = cells(header, "th", ' scope="col"')
    lines = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in body)
    return f"<table>{above}<thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"


def _tooltip(cell: str) -> str:
    return f' title="{escape(cell.whole)}"' if isinstance(cell, ShortText) else ""


def _alignment(cells: Sequence[str]) -> str:
    filled = [cell for cell in cells if cell not in ("", "null")]
    if filled and all(map(_NUMBER.fullmatch, filled)):
        return "right"
    return "left;overflow-wrap:anywhere;min-width:12em" if any(map(_LONG_WORD.search, filled)) else "left"


class FrozenSequence(Sequence[E]):
    """A sequence that never changes; subclasses set ``_items``."""

    _items: Sequence[E]

    @overload
    def __getitem__(self, index: int) -> E: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[E]: ...
    def __getitem__(self, index: int | slice) -> E | Sequence[E]:
        return self._items[index]

    def __len__(self) -> int:
        return len(self._items)


class Tabular(Displayed):
    """A value that displays as a title, a table and closing lines, the same in text and in HTML."""

    __slots__ = ()

    @property
    def header(self) -> Sequence[str]:
        """The titles of the columns; most subclasses set it as an attribute."""
        return ()

    @property
    def title(self) -> str:
        """One line that names the value, with its figures."""
        raise NotImplementedError

    def table(self) -> Iterable[Sequence[str]]:
        """Return the rows of the table."""
        return ()

    def more(self) -> Iterable[str]:
        """Return the lines below the table."""
        return ()

    def __str__(self) -> str:
        rows = list(self.table())
        table = [text_table(self.header, rows)] if rows else []  # has marks of direction, which `clean` escapes
        return "\n".join([clean_lines(self.title), *table, *map(clean_lines, self.more())])

    def __repr__(self) -> str:
        return f"<{clean(self.title)}>"

    def _repr_pretty_(self, printer: object, cycle: bool) -> None:
        printer.text(str(self))  # type: ignore[attr-defined]


class Listing(Tabular, Generic[E]):
    """A table of items that can be counted and iterated over; ``_listed`` is the attribute that holds them."""

    _listed: ClassVar = "rows"

    def __len__(self) -> int:
        return len(getattr(self, self._listed))

    def __iter__(self) -> Iterator[E]:
        return iter(getattr(self, self._listed))
