"""Whether stores are what their changelogs, and what the committed input, make of them: row by row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kstreamnb.driver.cluster.broker import Broker
from kstreamnb.driver.cluster.restore import folded
from kstreamnb.driver.cluster.stream_task import StreamTask
from kstreamnb.driver.cluster.twin import Twin
from kstreamnb.driver.stored_rows import stored_rows
from kstreamnb.driver.tabular import Tabular
from kstreamnb.driver.wording import counted, said

__all__ = ["StateCheck", "StateDifference", "check_state"]

_SHOWN = 50


@dataclass(frozen=True)
class StateDifference:
    """One key whose row in the store is not the one it should be; None is no row.

    ``against`` is "changelog" or "input".
    """

    task: str
    store: str
    key: Any
    found: Any
    expected: Any
    against: str


@dataclass(frozen=True)
class StateCheck(Tabular):
    """What differs between stores and what they are made from; false when nothing does."""

    rows: tuple[StateDifference, ...]
    stores: int

    header = ("task", "store", "key", "in the store", "should be", "by the")

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[StateDifference]:
        return iter(self.rows)

    @property
    def title(self) -> str:
        """How much differs."""
        if not self.rows:
            return f"state is consistent: {counted(self.stores, 'store')} looked at"
        return f"state is inconsistent in {counted(len(self), 'row')}; {counted(self.stores, 'store')} looked at"

    def table(self) -> Iterator[tuple[str, ...]]:
        """The first rows that differ."""
        for row in self.rows[:_SHOWN]:
            yield row.task, row.store, said(row.key), said(row.found), said(row.expected), row.against


def check_state(tasks: Mapping[str, StreamTask], broker: Broker, twins: Mapping[str, Twin]) -> StateCheck:
    """Compare every store with the fold of its changelog, and with that of the input where there are twins."""
    found: list[StateDifference] = []
    looked = 0
    for task_id, task in tasks.items():
        for name, store in task.task.stores.items():
            expected = folded(task.task, store, broker)
            if expected is not None:
                looked += 1
                found += _differences(task_id, store, expected, "changelog")
            # With a cache a buffer's old values depend on when entries were evicted, which a restart changes.
            caches = store.spec.kind == "internal" and task.task.plan.config.cache_max_bytes > 0
            if task_id in twins and not caches:
                found += _differences(task_id, store, twins[task_id].task.stores[name], "input")
    return StateCheck(tuple(found), looked)


def _differences(task: str, store: Any, expected: Any, against: str) -> Iterator[StateDifference]:
    mine, theirs = (_rows(task, each) for each in (store, expected))
    for shown in dict.fromkeys([*mine, *theirs]):
        one, other = mine.get(shown), theirs.get(shown)
        if one != other:
            key = (one or other or (None,))[0]
            yield StateDifference(task, store.name, key, _value(one), _value(other), against)


def _rows(task: str, store: Any) -> dict[str, tuple[Any, Any, Any]]:
    """Rows by what tells them apart: key, and time or note where a key has several rows."""
    found: dict[str, tuple[Any, Any, Any]] = {}
    for row in stored_rows(task, store, store.snapshot()):
        name = repr(row.key)
        while name in found:
            name += "'"
        found[name] = row.key, row.value, row.timestamp
    return found


def _value(row: tuple[Any, Any, Any] | None) -> Any:
    return None if row is None else row[1]
