"""Simulates the state directory of an application: flushed stores with their changelog offsets."""

from __future__ import annotations

from typing import Any

from kstreamnb.state.store import Store


class StateDirectory:
    """Flushed stores by task and name; they survive crashes."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, str], tuple[dict[Any, Any], int]] = {}

    def write(self, task: str, store: Store, offset: int) -> bool:
        """Save a store's content and changelog offset; in-memory stores are not saved."""
        if store.spec.persistent and store.spec.kind != "internal":
            self._held[task, store.name] = store.snapshot(), offset
            return True
        return False

    def read(self, task: str, store: str) -> tuple[dict[Any, Any], int]:
        """Return content and changelog offset of a store; empty and 0 if it was never flushed."""
        return self._held.get((task, store), ({}, 0))

    def lose(self, store: str | None = None, task: str | None = None) -> None:
        """Delete everything, one store, or the stores of one task."""
        for held in list(self._held):
            if task in (None, held[0]) and store in (None, held[1]):
                del self._held[held]
