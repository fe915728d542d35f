"""Shows the state of a run after a number of steps: stores, stream times and waiting records."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from kstreamnb.core.formatting import format_stream_time, format_time, format_value, pluralize
from kstreamnb.core.tables import Listing, Tabular
from kstreamnb.errors import StateError
from kstreamnb.frames import Framed, Records
from kstreamnb.hints import expect_known
from kstreamnb.recording.recorded_run import RecordedRun, Waiting
from kstreamnb.recording.store_rows import StoredRow, stored_rows
from kstreamnb.replays.analysis.open_windows import OpenWindow, open_windows


@dataclass(frozen=True, repr=False)
class StoreTable(Listing[StoredRow], Framed):
    """Rows of a store over all its partitions: ``table[key]``, or iterate over the rows."""

    name: str
    kind: str
    step: int
    rows: tuple[StoredRow, ...]

    header = ("task", "key", "value", "time", "note")

    def __getitem__(self, key: object) -> Any:
        if key not in self:
            raise KeyError(key)
        return self.get(key)

    def __contains__(self, key: object) -> bool:
        return any(row.key == key for row in self.rows)

    def get(self, key: object, default: object = None) -> Any:
        """Return the value of a key, or ``default``.

        Args:
            key: the key.
            default: the result if the row does not exist. Default: None.
        """
        return next((row.value for row in self.rows if row.key == key), default)

    def to_dict(self) -> dict[Any, Any]:
        """Return values by key; if a key has several rows, the last one wins."""
        return {row.key: row.value for row in self.rows}

    def _frame_rows(self) -> tuple[Sequence[str], Iterable[Sequence[object]]]:
        return StoredRow._fields, self.rows

    @property
    def title(self) -> str:
        """Name, kind, step and number of rows."""
        return f'store "{self.name}" ({self.kind}) after step {self.step}: {pluralize(len(self), "row")}'

    def table(self) -> Iterator[tuple[str, ...]]:
        """Yield the rows as text."""
        for row in self.rows:
            time = "" if row.timestamp is None else format_time(row.timestamp)
            yield row.task, format_value(row.key), format_value(row.value), time, row.note


class Snapshot(Tabular):
    """The state of a run after ``step`` steps; computed on access."""

    header = ("task", "stream time", "stores")

    def __init__(self, run: RecordedRun, step: int) -> None:
        self.step = step
        self._run = run

    @property
    def stores(self) -> tuple[str, ...]:
        """Names of all stores."""
        return self._run.stores

    def store(self, name: str) -> StoreTable:
        """Return the rows of a store; raise StateError if no store has this name.

        Args:
            name: the store.
        """
        expect_known("store", [name], self.stores, error=StateError)
        kinds = [(task_id, task.stores[name]) for task_id, task in self._run.tasks.items() if name in task.stores]
        rows = [row for task_id, store in kinds for row in stored_rows(task_id, store, self.raw(task_id, name))]
        return StoreTable(name, kinds[0][1].spec.kind, self.step, tuple(rows))

    def raw(self, task: str, store: str) -> dict[Any, Any]:
        """Return a store of one task in raw form."""
        expect_known("task", [task], list(self._run.tasks), error=StateError)
        expect_known(f'in task "{task}", store', [store], list(self._run.tasks[task].stores), error=StateError)
        return self._run.index.rows(task, store, self.step)

    def state_vars(self, task: str) -> dict[tuple[str, str], Any]:
        """Return the state variables of a task's nodes, by node and name.

        Args:
            task: a task id such as "0_1".
        """
        expect_known("task", [task], list(self._run.tasks), error=StateError)
        return self._run.index.state_vars(task, self.step)

    @property
    def stream_time(self) -> dict[str, int]:
        """Stream time of each task (ms), -1 before its first record."""
        return {task: self._run.index.stream_time(task, self.step) for task in self._run.tasks}

    def windows(self, store: str | None = None) -> tuple[OpenWindow, ...]:
        """Return windows that can still change, of one store or of all.

        Args:
            store: the store of the windows. Default: all stores.
        """
        expect_known("store", [store] if store is not None else [], self.stores, error=StateError)
        return tuple(window for window in open_windows(self._run, self.step) if store in (None, window.store))

    def waiting(self) -> tuple[Waiting, ...]:
        """Return records that no task had consumed yet: remaining input, and records between tasks."""
        return tuple(self._run.waiting(self.step))

    def first_waiting(self, n: int) -> tuple[Waiting, ...]:
        """Return the first ``n`` records that no task had consumed yet.

        Args:
            n: the maximum number of records.
        """
        return tuple(islice(self._run.waiting(self.step), n))

    def count_waiting(self) -> int:
        """Return the number of records that no task had consumed yet."""
        if self._run.taken is None:
            return sum(1 for _ in self._run.waiting(self.step))
        end = self._run.index.end(self.step)
        taken, between, written = (bisect_left(each, end) for each in self._run.taken)
        return len(self._run.taken[0]) - taken - (len(self._run.taken[1]) - between) + written - between

    def output(self, topic: str) -> Records:
        """Return the records written to a topic so far.

        Args:
            topic: a topic that the run has written.
        """
        return Records(map(self._run.produced, self._run.output_positions(topic, self.step)))

    def counts(self) -> dict[tuple[str, str], int]:
        """Count records per edge of the graph so far; topics have the topology's names."""
        run, index, end = self._run, self._run.index, self._run.index.end(self.step)
        result = Counter[tuple[str, str]]()
        for code, positions in index.of_kind("consumed"):
            result[run.short(code.other[0]), code.node] += bisect_left(positions, end)
        for code, positions in index.of_kind("forwarded"):
            result[code.node, code.other] += bisect_left(positions, end)
        for edge, positions in run.sunk.items():
            result[edge] += bisect_left(positions, end)
        return dict(result)

    @property
    def title(self) -> str:
        """Name the step, and count waiting records."""
        waiting = pluralize(self.count_waiting(), "record")
        return f"after step {self.step:,} of {len(self._run.steps):,}: {waiting} waiting"

    def table(self) -> Iterator[tuple[str, ...]]:
        """Yield stream time and stores of each task."""
        for task, time in self.stream_time.items():
            held = self._run.tasks[task].stores.items()
            stores = [(name, len(stored_rows(task, store, self.raw(task, name)))) for name, store in held]
            rows = ", ".join(f"{name} {pluralize(number, 'row')}" for name, number in stores)
            yield task, format_stream_time(time), rows or "no stores"
