"""What a task remembers, as bytes: whole (snapshot), as changes since the last time (delta), or in parts.

All of it is store rows and cells. A delta is made from the stores' journals, so it costs what changed and not what
is there. Snapshots and deltas have one format: stores' rows and cells, None being no row.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from operator import itemgetter
from typing import Any, TypeAlias

from kstreamnb.errors import StateError
from kstreamnb.runtime.scope import Scope

StateKey: TypeAlias = tuple[str, Any, Any]
"""``("store", store name, raw key)`` or ``("cell", node, cell name)``."""

_VERSION = 1


class Checkpointed:
    """The part of a task that saves and restores its state."""

    scope: Scope
    _journals: dict[str, list[Any]] | None
    _taken: dict[tuple[str, str], Any]

    def snapshot(self) -> bytes:
        """The whole state of the task."""
        rows = {name: store.snapshot() for name, store in self.scope.stores.items()}
        return _pack(rows, {key: cell[0] for key, cell in self.scope.cells.items()})

    def restore(self, data: bytes) -> None:
        """Take up the state of a snapshot; everything else is forgotten."""
        rows, cells = _unpack(data)
        for name, store in self.scope.stores.items():
            store.restore(rows.get(name, {}))
        self._set_cells({**self.scope.initial, **cells})
        self._forget_changes()

    def take_delta(self) -> bytes:
        """What changed since the last delta, snapshot or start; needs a task made with ``track=True``."""
        if self._journals is None:
            raise StateError("the task does not track its changes", hint="make it with track=True")
        rows: dict[str, dict[Any, Any]] = {}
        for name, journal in self._journals.items():
            if journal:
                row_of = self.scope.stores[name].raw.get
                rows[name] = {raw_key: row_of(raw_key) for raw_key in dict.fromkeys(map(itemgetter(0), journal))}
        cells = {
            key: cell[0]
            for key, cell in self.scope.cells.items()
            if key not in self._taken or self._taken[key] != cell[0]
        }
        self._forget_changes()
        return _pack(rows, cells)

    def apply_delta(self, data: bytes) -> None:
        """Take up a delta, or a part of a state made by `delta_of`."""
        rows, cells = _unpack(data)
        for name, changed in rows.items():
            apply = self.scope.stores[name].apply
            for raw_key, row in changed.items():
                apply(raw_key, row)
        self._set_cells(cells)
        self._taken.update(cells)

    def state_keys(self) -> list[StateKey]:
        """Keys of everything that a snapshot would hold."""
        keys: list[StateKey] = [
            ("store", name, raw_key) for name, store in self.scope.stores.items() for raw_key in store.raw
        ]
        return keys + [("cell", *key) for key in self.scope.cells]

    def delta_of(self, keys: Iterable[StateKey]) -> bytes:
        """The present content of some keys, as a delta; keys that are gone are left out."""
        rows: dict[str, dict[Any, Any]] = {}
        cells = {}
        for kind, first, second in keys:
            if kind == "cell":
                if (first, second) in self.scope.cells:
                    cells[first, second] = self.scope.cells[first, second][0]
            elif (row := self.scope.stores[first].raw.get(second)) is not None:
                rows.setdefault(first, {})[second] = row
        return _pack(rows, cells)

    def _set_cells(self, cells: dict[tuple[str, str], Any]) -> None:
        scope = self.scope
        for key, content in cells.items():
            if key in scope.cells:
                scope.cells[key][0] = content
            else:
                scope.restored[key] = content
        scope.stream_schedules.rebuild()
        scope.wall_schedules.rebuild()

    def _forget_changes(self) -> None:
        self._taken = {key: cell[0] for key, cell in self.scope.cells.items()}
        for journal in (self._journals or {}).values():
            journal.clear()


def _pack(rows: dict[str, dict[Any, Any]], cells: dict[tuple[str, str], Any]) -> bytes:
    return pickle.dumps((_VERSION, rows, cells), protocol=5)


def _unpack(data: bytes) -> tuple[dict[str, dict[Any, Any]], dict[tuple[str, str], Any]]:
    version, rows, cells = pickle.loads(data)
    if version != _VERSION:
        raise StateError(f"the state has format {version}, but this version reads format {_VERSION}")
    return rows, cells


EMPTY_DELTA = _pack({}, {})
"""The delta of a task that did not change."""
