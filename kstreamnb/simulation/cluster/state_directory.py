"""The local disk of an application: content of stores when they were flushed last, with the changelog offset then."""

from __future__ import annotations

from typing import Any

__all__ = ["StateDirectory"]


class StateDirectory:
    """Flushed stores by task and name; it outlives crashes, unless it is lost."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, str], tuple[dict[Any, Any], int]] = {}

    def write(self, task: str, store: Any, offset: int) -> bool:
        """Keep a store's content and its checkpoint; a store that lives in memory only is not kept."""
        if store.spec.persistent and store.spec.kind != "internal":
            self._held[task, store.name] = store.snapshot(), offset
            return True
        return False

    def read(self, task: str, store: str) -> tuple[dict[Any, Any], int]:
        """Content and checkpoint of a store; nothing and 0 where it was never flushed."""
        return self._held.get((task, store), ({}, 0))

    def lose(self, store: str | None = None, task: str | None = None) -> None:
        """Forget everything, or a store, or that of one task."""
        for held in list(self._held):
            if task in (None, held[0]) and store in (None, held[1]):
                del self._held[held]
