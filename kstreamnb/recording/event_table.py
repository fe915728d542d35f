"""Formats the entries of a recording as table rows."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from kstreamnb.core.formatting import format_time, format_value
from kstreamnb.recording.record_text import record_id
from kstreamnb.recording.store_rows import StoredRow, stored_rows, without_cache
from kstreamnb.recording.trace import Code, Entry, shown
from kstreamnb.state.store import Store

if TYPE_CHECKING:  # a run creates steps, and steps show entries
    from kstreamnb.recording.recorded_run import RecordedRun

RowText = tuple[str, ...]


def event_row(run: RecordedRun, position: int) -> RowText:
    """Return one entry as a table row: what, where, to, key, value, time."""
    entry = run.index.log[position]
    code = run.index.codes[entry[0]]
    return _CELLS[code.kind](run, position, code, entry)


def _content(key: object, value: object, timestamp: int) -> RowText:
    return format_value(shown(key)), format_value(shown(value)), format_time(timestamp)


def _consumed(run: RecordedRun, position: int, code: Code, entry: Entry) -> RowText:
    topic, partition = code.other
    return "taken", f"{topic}-{partition}@{entry[1]}", code.node, *_content(entry[3], entry[4], entry[2])


def _written(run: RecordedRun, position: int, code: Code, entry: Entry) -> RowText:
    _, raw_key, old, new = entry
    if raw_key is None:
        return "store time", code.node, "", "", "", ""
    store = run.tasks[code.task].stores[code.node]
    was, now = (_rows(code.task, store, raw_key, row) for row in (old, new))
    shown_row = (now or was)[0] if now or was else None
    key = "" if shown_row is None else format_value(shown_row.key)
    value = format_value(now[-1].value) if now else "deleted"
    value += f" instead of {format_value(was[-1].value)}" if was else ""
    return "written", f"store {code.node}", "", key, value, ""


def _rows(task: str, store: Store, raw_key: Hashable, row: object) -> list[StoredRow]:
    return stored_rows(task, store, without_cache({raw_key: row})[0] if row is not None else {})


def _produced(run: RecordedRun, position: int, code: Code, entry: Entry) -> RowText:
    record = run.produced(position)
    return "produced", "", record_id(record), *_content(record.key, record.value, record.timestamp)


def _state_var_changed(run: RecordedRun, position: int, code: Code, entry: Entry) -> RowText:
    return "remembered", code.node, code.other, "", f"{entry[2]!r} instead of {entry[1]!r}", ""


def _punctuated(run: RecordedRun, position: int, code: Code, entry: Entry) -> RowText:
    return "punctuated", code.node, str(code.other).replace("_", " "), "", "", format_time(entry[1])


def _published(run: RecordedRun, position: int, code: Code, entry: Entry) -> RowText:
    offsets = ", ".join(f"{topic}-{partition}@{offset}" for (topic, partition), offset in entry[1].items())
    return "published", "application", offsets, "", "", ""


def _resumed(run: RecordedRun, position: int, code: Code, entry: Entry) -> RowText:
    return "resumed", f"task {code.task}", "", "", "", format_time(entry[1]) if entry[1] >= 0 else ""


_CELLS: dict[str, Callable[[RecordedRun, int, Code, Entry], RowText]] = {
    "consumed": _consumed,
    "forwarded": lambda run, at, code, entry: ("handed on", code.node, code.other, *_content(*entry[1:4])),
    "written": _written,
    "read": lambda run, at, code, entry: ("looked up", f"store {code.node}", "", format_value(entry[1]), "", ""),
    "produced": _produced,
    "dropped": lambda run, at, code, entry: (f"dropped: {code.other}", code.node, "", *_content(*entry[1:4])),
    "state_var": _state_var_changed,
    "punctuated": _punctuated,
    "committing": lambda run, position, code, entry: ("begins to commit", f"task {code.task}", "", "", "", ""),
    "committed": lambda run, position, code, entry: ("committed", f"task {code.task}", "", "", "", ""),
    "published": _published,
    "crashed": lambda run, position, code, entry: ("crashed", "application", "", "", "", ""),
    "restarted": lambda run, position, code, entry: ("restarted", "application", "", "", "", ""),
    "resumed": _resumed,
}
