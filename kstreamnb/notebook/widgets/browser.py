"""The browser of rows: searches, sorts and pages through a store, or any other value that becomes a frame."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, ClassVar, TypeAlias

import traitlets

from kstreamnb.core.formatting import join_list, pluralize
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.tables import html_table, text_table
from kstreamnb.core.time import instant_ms
from kstreamnb.errors import EngineError
from kstreamnb.frames import TIMES, Drops, Framed, Records, columns_of, field_text, heading
from kstreamnb.notebook.cells import loaded
from kstreamnb.notebook.widgets.base import Facts, FactsWidget, esm, named, page_of
from kstreamnb.samples.text import format_cell

_PAGE = 25
_STATIC = 10
_CONDITION = re.compile(r"\s*(\w+)((?:\.\w+)*)\s*(<=|>=|=|<|>)\s*(.+?)\s*")
_COMPARE = {"<=": operator.le, ">=": operator.ge, "=": operator.eq, "<": operator.lt, ">": operator.gt}
_Fields: TypeAlias = tuple[Any, ...]


class RowBrowser(FactsWidget):
    """Rows to search, sort and page through.

    Attributes:
        source: what has the rows; a running store is read again on Refresh.
        selected: the key of the row clicked last, as a Python object.
    """

    _esm = esm("browser")
    selected = traitlets.Any(None)

    def __init__(self, source: object) -> None:
        if not isinstance(source, Framed):
            fact = f"expected rows, got {type(source).__name__}"
            raise EngineError(fact, hint='pass a store, replay.output("…"), replay.drops, stream.head() or a sample')
        self.source: Framed = source
        before = loaded[0].earlier("rows", self) if loaded else None  # of the same cell: its search and order stay
        facts = {} if before is None else before.facts
        self._text, self._by = facts.get("text", ""), facts.get("by", "")
        self._down, self._page = facts.get("down", False), facts.get("page", 0)
        self._chosen: _Fields | None = None
        self._read()
        super().__init__(_title(source, len(self._rows)))

    def make_facts(self) -> Facts:
        """Return one page of the matching rows."""
        matches = self._matches()
        shown, self._page, pages = page_of(matches, self._page, _PAGE)
        return {
            "title": _title(self.source, len(self._rows)),
            "number": _number(len(shown), self._page * _PAGE, len(matches), len(self._rows)),
            "header": self._header,
            "rows": [self._cells(row) for row in shown],
            "chosen": shown.index(self._chosen) if self._chosen in shown else -1,
            "detail": {} if self._chosen is None else self._detail(self._chosen),
            "page": self._page,
            "pages": pages,
            "by": self._by,
            "down": self._down,
            "text": self._text,
        }

    def forms(self) -> dict[str, str]:
        """Return the title and the first rows as text and as HTML."""
        rows, title = [self._cells(row) for row in self._rows[:_STATIC]], _title(self.source, len(self._rows))
        more = [f"{_STATIC} of {len(self._rows):,}"] if len(self._rows) > _STATIC else []
        text = "\n".join([title, *([text_table(self._header, rows)] if rows else []), *more])
        return {"text/plain": text, "text/html": html_table(self._header, rows, [title, *more])}

    # --- commands of the page ---
    def search(self, text: str) -> None:
        """Show rows with a cell that contains a text, or that satisfy a condition such as ``value.price > 10``."""
        self._text, self._page = text, 0

    def sort(self, by: str) -> None:
        """Sort by a column; the same column again reverses, then restores the order of the rows."""
        if by not in self._header:
            raise EngineError(f'cannot sort by "{by}": no such column')
        again = by == self._by
        self._by, self._down, self._page = "" if again and self._down else by, again and not self._down, 0

    def turn(self, page: int) -> None:
        """Go to a page, counted from 0."""
        self._page = max(0, int(page))

    def choose(self, index: int) -> None:
        """Show a row of the page in full."""
        self._chosen = self._matches()[self._page * _PAGE + index]
        self.selected = self._chosen[-1]

    def refresh(self) -> None:
        """Read the rows again."""
        self._read()
        self.label = _title(self.source, len(self._rows))

    def _read(self) -> None:
        columns, keys = columns_of(self.source)
        self._names, self._header = list(columns), list(map(heading, columns))
        self._rows: list[_Fields] = list(zip(*columns.values(), keys, strict=True))
        self._by = self._by if self._by in self._header else ""

    commands: ClassVar = named(search, sort, turn, choose, refresh)

    def _cells(self, row: _Fields) -> list[str]:
        return [field_text(name, value) for name, value in zip(self._names, row, strict=False)]

    def _detail(self, row: _Fields) -> dict[str, str]:
        """Return a row in full, without truncation."""
        texts = dict(zip(self._header, self._cells(row), strict=True))
        whole = {name: format_cell(value, iso=True) for name, value in zip(self._names, row, strict=False)}
        return {title: whole[title] if title in ("key", "value") else text for title, text in texts.items()}

    def _matches(self) -> list[_Fields]:
        text = self._text.strip().lower()
        keep = self._condition() or (lambda row: any(text in cell.lower() for cell in self._cells(row)))
        rows = [row for row in self._rows if keep(row)] if text else self._rows
        column = self._header.index(self._by) if self._by else None
        return rows if column is None else sorted(rows, key=lambda row: _rank(row[column]), reverse=self._down)

    def _condition(self) -> Callable[[_Fields], bool] | None:
        """Return the typed condition on a column, or on a field of its values; None for a text to look for."""
        match = _CONDITION.fullmatch(self._text)
        if match is None or match[1] not in self._header:
            return None
        column, path, compare = self._header.index(match[1]), match[2].split(".")[1:], _COMPARE[match[3]]
        kind, wanted = _typed(match[4], is_time=self._names[column] in TIMES)

        def holds(row: _Fields) -> bool:
            value = reduce(_field, path, row[column])
            of, actual = _rank(value)
            return of == kind and value is not None and bool(compare(actual, wanted))

        return holds


def _field(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, Mapping) else None


def _typed(text: str, *, is_time: bool) -> tuple[int, float | str]:
    """Return what a condition compares with, ranked as values are: a number, the ms of an instant, or a text."""
    if is_time:
        return 0, instant_ms(text)
    try:
        return 0, float(text)
    except ValueError:
        return 1, text.strip("\"'")


def _rank(value: object) -> tuple[int, float | str]:
    """Sort numbers by size and first, everything else by its text."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return 0, value
    return 1, value if isinstance(value, str) else field_text("value", value)


def _title(source: object, rows: int) -> str:
    if isinstance(source, Records | Drops):
        topics = dict.fromkeys(record.topic for record in source if isinstance(record, TopicRecord))
        whose = f" of {join_list(topics)}" if topics else " dropped" if isinstance(source, Drops) else ""
        return f"{pluralize(len(source), 'record')}{whose}"
    if isinstance(title := getattr(source, "title", None), str):
        return title
    name, batch = getattr(source, "name", None), getattr(source, "batch", None)
    since = f" at batch {batch}" if batch is not None else ""
    return pluralize(rows, "row") if name is None else f'store "{name}"{since}: {pluralize(rows, "row")}'


def _number(shown: int, first: int, matching: int, rows: int) -> str:
    if not matching:
        return f"0 of {rows:,}: no row matches" if rows else "no rows"
    match = "" if matching == rows else f" that match, of {rows:,}"
    return f"{first + 1:,} to {first + shown:,} of {matching:,}{match}"
