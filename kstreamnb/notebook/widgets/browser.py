"""The store browser: searches, sorts and pages through the rows of a recorded snapshot or a running store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

import traitlets

from kstreamnb.core.formatting import format_time, format_value, pluralize
from kstreamnb.core.record import ValueAndTimestamp, ValueTimestampHeaders
from kstreamnb.core.tables import text_table
from kstreamnb.errors import EngineError
from kstreamnb.notebook.widgets.base import Facts, FactsWidget, esm
from kstreamnb.recording.store_rows import StoredRow
from kstreamnb.replays.analysis.snapshot import StoreTable
from kstreamnb.samples.text import format_cell

_PAGE = 25
_STATIC = 10
_HEADER = ("key", "value", "time", "task", "note")
_ORDERS = {"": None, "key": 1, "value": 2, "time": 3, "task": 0}


class StoreBrowser(FactsWidget):
    """The rows of a store, to search, sort and page through.

    Attributes:
        store: the store; a running one is read again on Refresh.
        selected: the key of the row clicked last, as a Python object.
    """

    _esm = esm("browser")
    selected = traitlets.Any(None)

    def __init__(self, store: object) -> None:
        self.store = store
        self._rows = _rows(store)
        self._text, self._by, self._down, self._page = "", "", False, 0
        self._chosen: StoredRow | None = None
        super().__init__(f'store "{_name(store)}"')

    def make_facts(self) -> Facts:
        """Return one page of the matching rows."""
        matches = self._matches()
        pages = max(1, -(-len(matches) // _PAGE))
        self._page = min(self._page, pages - 1)
        first = self._page * _PAGE
        shown = matches[first : first + _PAGE]
        return {
            "title": _title(self.store, len(self._rows)),
            "number": _number(len(shown), first, len(matches), len(self._rows)),
            "header": list(_HEADER),
            "rows": [_cells(row) for row in shown],
            "chosen": shown.index(self._chosen) if self._chosen in shown else -1,
            "detail": _detail(self._chosen),
            "page": self._page,
            "pages": pages,
            "by": self._by,
            "down": self._down,
            "text": self._text,
        }

    def forms(self) -> dict[str, str]:
        """Return the title and the first rows."""
        rows = [_cells(row) for row in self._rows[:_STATIC]]
        more = [f"{_STATIC} of {len(self._rows):,}"] if len(self._rows) > _STATIC else []
        lines = [_title(self.store, len(self._rows)), *([text_table(_HEADER, rows)] if rows else []), *more]
        return {"text/plain": "\n".join(line.rstrip() for line in "\n".join(lines).split("\n"))}

    # --- commands of the page ---
    def search(self, text: str) -> None:
        """Show rows with a cell that contains a text."""
        self._text, self._page = text, 0

    def sort(self, by: str) -> None:
        """Sort by a column; the same column again reverses, then restores the store's order."""
        if by not in _ORDERS:
            raise EngineError(f'cannot sort by "{by}": no such column')
        if by == self._by and self._down:
            by, self._down = "", False
        else:
            self._down = by == self._by
        self._by, self._page = by, 0

    def turn(self, page: int) -> None:
        """Go to a page, counted from 0."""
        self._page = max(0, int(page))

    def choose(self, index: int) -> None:
        """Show a row of the page in full."""
        self._chosen = self._matches()[self._page * _PAGE + index]
        self.selected = self._chosen.key

    def refresh(self) -> None:
        """Read the store again."""
        self._rows = _rows(self.store)

    commands: ClassVar = {"search": search, "sort": sort, "turn": turn, "choose": choose, "refresh": refresh}

    def _matches(self) -> list[StoredRow]:
        asked = self._text.strip().lower()
        rows = [row for row in self._rows if not asked or any(asked in cell.lower() for cell in _cells(row))]
        column = _ORDERS[self._by]
        return rows if column is None else sorted(rows, key=lambda row: _rank(row[column]), reverse=self._down)


def _rank(value: object) -> tuple[int, float | str]:
    """Sort numbers by size and first, everything else by its text."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return 0, value
    return 1, format_value(value)


def _name(store: object) -> str:
    return str(getattr(store, "name", type(store).__name__))


def _title(store: object, rows: int) -> str:
    if isinstance(store, StoreTable):
        return store.title
    batch = getattr(store, "batch", None)
    since = f" at batch {batch}" if batch is not None else ""
    return f'store "{_name(store)}"{since}: {pluralize(rows, "row")}'


def _number(shown: int, first: int, matching: int, rows: int) -> str:
    if not matching:
        return f"0 of {rows:,}"
    match = "" if matching == rows else f" that match, of {rows:,}"
    return f"{first + 1:,} to {first + shown:,} of {matching:,}{match}"


def _cells(row: StoredRow) -> list[str]:
    time = "" if row.timestamp is None else format_time(row.timestamp)
    return [format_value(row.key), format_value(row.value), time, row.task, row.note]


def _detail(row: StoredRow | None) -> dict[str, str]:
    """Return a row in full, without truncation."""
    return {} if row is None else {"key": format_cell(row.key, iso=True), "value": format_cell(row.value, iso=True)}


def _rows(store: object) -> list[StoredRow]:
    """Return the rows of a store of a snapshot, a test driver, a run on Spark or a deployment."""
    if isinstance(store, StoreTable):
        return list(store.rows)
    read = getattr(store, "all", None)
    if read is None:
        raise EngineError(
            f"expected a store, got {type(store).__name__}",
            hint='pass replay.now.store("…"), driver.get_key_value_store("…") or query.store("…")',
        )
    return list(_stored(read()))


def _stored(rows: Iterable[tuple[object, object]]) -> Iterator[StoredRow]:
    for key, value in rows:
        if isinstance(value, ValueAndTimestamp | ValueTimestampHeaders):
            yield StoredRow("", key, value.value, value.timestamp)
        else:
            yield StoredRow("", key, value, None)
