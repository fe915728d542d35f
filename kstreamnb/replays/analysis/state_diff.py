"""Compares the state after two steps: rows of stores and stream times."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal, TypeAlias

from kstreamnb.core.formatting import format_stream_time, format_value, pluralize
from kstreamnb.core.tables import Listing
from kstreamnb.recording.recorded_run import RecordedRun
from kstreamnb.recording.store_rows import StoredRow, raw_order, stored_rows, without_cache
from kstreamnb.state.store import Store

ChangeKind: TypeAlias = Literal["+I", "U", "-D"]


@dataclass(frozen=True)
class RowChange:
    """An inserted ("+I"), deleted ("-D") or updated ("U") row."""

    kind: ChangeKind
    store: str
    task: str
    key: object
    old: object
    new: object


@dataclass(frozen=True, repr=False)
class StateDiff(Listing[RowChange]):
    """Row changes by store, task and key; ``stream_time`` maps tasks whose time advanced to (before, after) in ms."""

    before: int
    after: int
    changes: tuple[RowChange, ...]
    stream_time: dict[str, tuple[int, int]]

    _listed = "changes"
    header = ("", "store", "task", "key", "old", "new")

    @property
    def title(self) -> str:
        """Name the steps and count the changed rows."""
        return f"from step {self.before} to step {self.after}: {pluralize(len(self), 'row')} changed"

    def table(self) -> Iterator[tuple[str, ...]]:
        """Yield each change as text."""
        for c in self.changes:
            yield c.kind, c.store, c.task, format_value(c.key), format_value(c.old), format_value(c.new)

    def more(self) -> Iterator[str]:
        """Yield how far stream times advanced."""
        for task, (old, new) in self.stream_time.items():
            yield f"stream time of task {task}: {format_stream_time(old)} to {format_stream_time(new)}"


def state_diff(run: RecordedRun, before: int, after: int) -> StateDiff:
    """Return what changed between two steps; only rows written in between are compared."""
    stores = [(task_id, store) for task_id, task in run.tasks.items() for store in task.stores]
    changes = [change for task_id, store in stores for change in _of(run, task_id, store, before, after)]
    times = {task: (run.index.stream_time(task, before), run.index.stream_time(task, after)) for task in run.tasks}
    return StateDiff(before, after, tuple(changes), {task: pair for task, pair in times.items() if pair[0] != pair[1]})


def _of(run: RecordedRun, task: str, name: str, before: int, after: int) -> Iterator[RowChange]:
    index, store = run.index, run.tasks[task].stores[name]
    first, last = sorted((index.end(before), index.end(after)))
    writes = [positions for _, positions in index.of_kind("written", task=task, node=name)]
    if not any(bisect_left(each, first) < bisect_left(each, last) for each in writes):
        return
    old, new = (without_cache(index.rows(task, name, step))[0] for step in (before, after))
    touched = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    for raw_key in sorted(touched, key=raw_order(store)):
        was, now = (_shown(task, store, rows, raw_key) for rows in (old, new))
        for row, other in zip_longest(was, now):
            if row != other:
                kind: ChangeKind = "+I" if row is None else "-D" if other is None else "U"
                values = (None if each is None else each.value for each in (row, other))
                yield RowChange(kind, name, task, (row or other).key, *values)


def _shown(task: str, store: Store, rows: dict[Hashable, object], raw_key: Hashable) -> list[StoredRow]:
    """Return the rows that one raw row represents."""
    return stored_rows(task, store, {raw_key: rows[raw_key]}) if raw_key in rows else []
