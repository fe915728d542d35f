"""Compares stores with their changelogs, and with the committed input, row by row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kstreamnb.core.formatting import format_value, pluralize
from kstreamnb.core.tables import Listing
from kstreamnb.core.time import Clock
from kstreamnb.errors import StateError
from kstreamnb.recording.store_rows import stored_rows
from kstreamnb.runtime.context.task_context import TaskContext, make_stores
from kstreamnb.runtime.task.task import Task
from kstreamnb.topology.partitions import changelog_topic

_SHOWN = 50


@dataclass(frozen=True)
class StateDifference:
    """One key whose row differs from the expected one; None means no row.

    ``against`` is "changelog" or "input"; for a deployed query "log" (the checkpoint's state log) or "changelog".
    """

    task: str
    store: str
    key: Any
    found: Any
    expected: Any
    against: str


@dataclass(frozen=True, repr=False)
class StateCheck(Listing[StateDifference]):
    """Differences between stores and their changelogs or input; false if there are none."""

    rows: tuple[StateDifference, ...]
    stores: int

    header = ("task", "store", "key", "in the store", "should be", "by the")

    @property
    def title(self) -> str:
        """How much differs."""
        if not self.rows:
            return f"state is consistent: {pluralize(self.stores, 'store')} compared"
        return f"state is inconsistent in {pluralize(len(self), 'row')}; {pluralize(self.stores, 'store')} compared"

    def table(self) -> Iterator[tuple[str, ...]]:
        """Yield the first rows that differ."""
        for row in self.rows[:_SHOWN]:
            yield row.task, row.store, *map(format_value, (row.key, row.found, row.expected)), row.against


def differences(task: str, store: Any, expected: Any, against: str) -> Iterator[StateDifference]:
    """Yield rows of a store that differ from those of another one, which is made of its changelog or of the input."""
    if {**store.snapshot(), None: None} == {**expected.snapshot(), None: None}:
        return  # as nearly always; what has no key, such as stream time, may differ
    stored, folded = (_rows(task, each) for each in (store, expected))
    for shown in dict.fromkeys([*stored, *folded]):
        one, other = stored.get(shown), folded.get(shown)
        if one != other:
            yield StateDifference(task, store.name, (one or other or (None,))[0], _value(one), _value(other), against)


def _rows(task: str, store: Any) -> dict[str, tuple[Any, Any, Any]]:
    """Return rows by what distinguishes them: key, and time or note if a key has several rows."""
    rows: dict[str, tuple[Any, Any, Any]] = {}
    for row in stored_rows(task, store, store.snapshot()):
        name = repr(row.key)
        while name in rows:
            name += "'"
        # The last lookup of a row of a bounded store is in no log, not even in Kafka.
        value = row.value[1] if store.spec.kind == "lru" else row.value
        rows[name] = row.key, value, row.timestamp
    return rows


def _value(row: tuple[Any, Any, Any] | None) -> Any:
    return None if row is None else row[1]


class ChangelogFolds:
    """Stores as the changelogs of an engine make them, kept up with what is written.

    With ``keep`` the records of the changelogs are kept; otherwise they are removed after the check.
    """

    def __init__(self, tasks: Mapping[str, Task], logs: Mapping[str, Any], *, keep: bool) -> None:
        self._logs, self._keep = logs, keep
        self._stores: list[tuple[str, Any, Any]] = []
        self._folds: dict[str, dict[int, Any]] = {}
        self._read: dict[str, int] = {}
        for task_id, task in tasks.items():
            logged = [store for store in task.stores.values() if store.spec.logged]
            folds = make_stores(TaskContext(task.plan, Clock(), None), [store.spec for store in logged])
            for store in logged:
                topic = changelog_topic(task.plan.application_id, store.spec)
                self._folds.setdefault(topic, {})[task.plan.partition] = folds[store.name]
                self._stores.append((task_id, store, folds[store.name]))

    def check(self) -> StateCheck:
        """Compare every store that has a changelog with its fold; all of them have to be committed."""
        self.catch_up()
        rows = [row for task, store, fold in self._stores for row in differences(task, store, fold, "changelog")]
        return StateCheck(tuple(rows), len(self._stores))

    def ensure(self) -> None:
        """Raise StateError if a store differs from the fold of its changelog."""
        result = self.check()
        if result.rows:
            raise StateError("stores differ from their changelogs after a commit", detail=str(result))

    def catch_up(self) -> None:
        """Fold what was written since; to be called before rows are read, which removes them."""
        for topic, folds in self._folds.items():
            log = self._logs.get(topic)
            if log is None:
                continue
            for _, partition, time, key, value, headers in log.rows[self._read.get(topic, 0) - log.removed :]:
                folds[partition].restore_changelog([(key or b"", value, time, headers)])
            self._read[topic] = log.removed + len(log.rows) if self._keep else 0
            if not self._keep:
                log.named = log.named or bool(log.rows)
                log.rows.clear()
