"""The sample editor: records as a table of cells; every edit makes a new sample and leaves the original unchanged."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import traitlets

from kstreamnb.core.arguments import expect
from kstreamnb.core.formatting import pluralize
from kstreamnb.core.record import TopicRecord
from kstreamnb.errors import ConfigError, EngineError
from kstreamnb.errors.base import notes_without_link
from kstreamnb.notebook.widgets.base import Facts, FactsWidget, esm, named, page_of
from kstreamnb.samples import Sample
from kstreamnb.samples.columns import UNASSIGNED, number_offsets
from kstreamnb.samples.text import parse_rows, record_cells

_PAGE = 50
_MOST_AS_TEXT = 1000
_COLUMNS = ("topic", "key", "value", "time", "partition", "headers")
_FIELDS = {"time": "timestamp"}
_NEEDED = ("topic", "time", "partition")


@dataclass(frozen=True)
class _Row:
    """A record; ``typed`` are its cells if some were typed, ``wrong`` is the error of a cell, by column."""

    record: TopicRecord
    typed: tuple[str, ...] = ()
    wrong: tuple[tuple[str, str], ...] = field(default=())

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells; made when they are shown, because most records of a large sample never are."""
        if self.typed:
            return self.typed
        (cells,) = record_cells([self.record], _COLUMNS)
        return tuple(_shown(name, text) for name, text in zip(_COLUMNS, cells, strict=True))


class SampleEditor(FactsWidget):
    """A sample as an editable table.

    Attributes:
        sample: the edited sample; while a cell has an error, the last valid one.
    """

    _esm = esm("editor")
    sample = traitlets.Any()

    def __init__(self, sample: Sample) -> None:
        expect(sample, Sample, "sample", hint="pass a Sample")
        self.sample = self._given = sample
        self._numbers_offsets = number_offsets(sample.records) == sample.records
        self._rows: tuple[_Row, ...] = tuple(map(_Row, sample.records))
        self._before: list[tuple[_Row, ...]] = []
        self._page = self._focus = self._moves = 0
        super().__init__("sample editor")

    def make_facts(self) -> Facts:
        """Return one page of the table."""
        shown, self._page, pages = page_of(self._rows, self._page, _PAGE)
        first = self._page * _PAGE
        wrong = sum(bool(row.wrong) for row in self._rows)
        return {
            "number": f"{pluralize(len(self._rows), 'record')}, hash {self.sample.content_hash}",
            "wrong": f"{pluralize(wrong, 'record')} with errors: sample is the last valid one" if wrong else "",
            "shown": f"{first + 1:,} to {first + len(shown):,} of {len(self._rows):,}" if pages > 1 else "",
            "columns": list(_COLUMNS),
            "rows": [{"cells": list(row.cells), "wrong": dict(row.wrong)} for row in shown],
            "first": first,
            "focus": self._focus,
            "moves": self._moves,
            "page": self._page,
            "pages": pages,
            "edited": self.sample != self._given,
            "undo": len(self._before),
            "text": self._text(),
        }

    def _text(self) -> str:
        """Return the sample as text; only the first records of a large one, because every edit sends it to the page."""
        if len(self.sample) <= _MOST_AS_TEXT:
            return self.sample.to_text()
        return f"{self.sample[:_MOST_AS_TEXT].to_text()}\n{_MOST_AS_TEXT:,} of {len(self.sample):,}"

    def forms(self) -> dict[str, str]:
        """Return the sample as it is displayed without a kernel."""
        return {"text/plain": repr(self.sample), "text/html": self.sample._repr_html_()}

    # --- commands of the page ---
    def put(self, row: int, column: str, text: str) -> None:
        """Type a text into a cell."""
        if column not in _COLUMNS:
            raise EngineError(f'no column is named "{column}"', detail=f"the columns are {', '.join(_COLUMNS)}")
        if text != self._rows[row].cells[_COLUMNS.index(column)]:
            self._change((*self._rows[:row], _typed(self._rows[row], column, text), *self._rows[row + 1 :]))

    def add(self, row: int) -> None:
        """Insert a record below a row, with its topic, partition and time and without key and value."""
        if not self._rows:
            fresh = TopicRecord(self._given.topics[0] if self._given.topics else "topic", UNASSIGNED, 0, 0, None, None)
        else:
            fresh = self._rows[row].record._replace(key=None, value=None, headers=())
        self._insert(row, fresh)

    def duplicate(self, row: int) -> None:
        """Insert a copy of a record below it."""
        self._insert(row, self._rows[row].record)

    def remove(self, row: int) -> None:
        """Delete a record."""
        self._change((*self._rows[:row], *self._rows[row + 1 :]))
        self._go(max(0, min(row, len(self._rows) - 1)))

    def move(self, row: int, by: int) -> None:
        """Move a record earlier or later in arrival order."""
        to = max(0, min(len(self._rows) - 1, row + by))
        rows = [*self._rows[:row], *self._rows[row + 1 :]]
        rows.insert(to, self._rows[row])
        self._change(tuple(rows))
        self._go(to)

    def undo(self) -> None:
        """Undo the last change."""
        if self._before:
            self._rows = self._before.pop()
            self._settle()

    def turn(self, page: int) -> None:
        """Go to a page, counted from 0."""
        self._page = max(0, int(page))

    commands: ClassVar = named(put, add, duplicate, remove, move, undo, turn)

    def _insert(self, row: int, record: TopicRecord) -> None:
        at = min(row + 1, len(self._rows))
        self._change((*self._rows[:at], _Row(record), *self._rows[at:]))
        self._go(at)

    def _change(self, rows: tuple[_Row, ...]) -> None:
        self._before.append(self._rows)
        self._rows = rows
        self._settle()

    def _go(self, row: int) -> None:
        """Move the page's focus to a record whose position changed."""
        self._focus, self._page, self._moves = row, row // _PAGE, self._moves + 1

    def _settle(self) -> None:
        """Make the new sample, unless a cell has an error."""
        if any(row.wrong for row in self._rows):
            return
        records = tuple(row.record for row in self._rows)
        if self._numbers_offsets:
            records = number_offsets(records)
        notes = tuple(dict.fromkeys((*self._given.notes, "edited")))
        edited = replace(self._given, records=records, notes=notes)
        self.sample = self._given if records == self._given.records else edited


def _shown(column: str, text: str) -> str:
    """Return a cell as it is typed: bars need no backslash here, and no partition is an empty cell."""
    return "" if column == "partition" and text == str(UNASSIGNED) else text.replace("\\|", "|")


def _typed(row: _Row, column: str, text: str) -> _Row:
    """Return a row after a text was typed into a cell; only that cell is parsed."""
    at = _COLUMNS.index(column)
    cells = (*row.cells[:at], text, *row.cells[at + 1 :])
    wrong = {name: why for name, why in row.wrong if name != column}
    try:
        changes: dict[str, Any] = {_FIELDS.get(column, column): _read(column, text)}
        record = row.record._replace(**changes)
    except ConfigError as error:
        notes = [str(error), *notes_without_link(error)]
        wrong[column] = "\n".join(note for note in notes if not note.startswith("At: "))
        record = row.record
    return _Row(record, cells, tuple(wrong.items()))


def _read(column: str, text: str) -> object:
    bare = text.strip()
    if not bare:
        if column == "partition":
            return UNASSIGNED
        if column in _NEEDED:
            raise ConfigError(f"a record needs a {column}")
        return () if column == "headers" else None
    if column == "topic":
        return bare
    escaped = re.sub(r"(?<!\\)\|", r"\\|", bare)
    return parse_rows(f"topic | {column}\nx | {escaped}")[0][column]
