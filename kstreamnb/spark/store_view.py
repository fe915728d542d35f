"""A store of a run or a query as a person looks at it: read only, over all its partitions."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kstreamnb.errors import StateError
from kstreamnb.spark.deployment import Deployment, PlacedTask, Replica
from kstreamnb.state.store import Rows

__all__ = ["StoreView", "keepers_of", "stores_at", "stores_named"]

_READS = frozenset(
    {
        *("get", "range", "reverse_range", "all", "reverse_all", "prefix_scan", "approximate_num_entries"),
        *("fetch", "fetch_between", "backward_fetch", "fetch_keys", "fetch_all", "backward_fetch_all", "backward_all"),
        *("find_sessions", "find_sessions_between", "fetch_session", "history"),
    }
)
_FOREVER = (1 << 63) - 1


class StoreView:
    """A store of any kind, read only: its reading methods, over the store of each task.

    A look-up gives the row of the task that has one; iterators go through the tasks by partition. Rows of timestamped
    stores are `ValueAndTimestamp`, and ``all`` goes through the sessions of a session store, too. ``batch`` is the
    last batch that the view has seen, None for a run over static data.

    Example: ``view["shoe"]``, ``view.get("shoe")``, ``dict(view.all())``, ``list(view.fetch_all(0, 60_000))``.
    """

    def __init__(self, name: str, parts: Iterable[Any], *, batch: int | None = None) -> None:
        self.name, self.batch = name, batch
        self._parts = [getattr(part, "for_user", part) for part in parts]

    def __getitem__(self, key: Any) -> Any:
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return found

    def __iter__(self) -> Iterator[Any]:
        return (row[0] for row in self.all())

    def __len__(self) -> int:
        return sum(1 for _ in self.all())

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name == "all" and all(hasattr(part, "find_sessions_between") for part in self._parts):
            return lambda: self._ask("find_sessions_between", (None, None, 0, _FOREVER), {})
        if name not in _READS or not all(hasattr(part, name) for part in self._parts):
            kind = type(self._parts[0]).__name__ if self._parts else "store"
            raise AttributeError(f'a view of store "{self.name}" ({kind}) has no "{name}"')
        return lambda *arguments, **options: self._ask(name, arguments, options)

    def _ask(self, name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        answers = [getattr(part, name)(*arguments, **options) for part in self._parts]
        if name == "approximate_num_entries":
            return sum(answers)
        if not all(isinstance(answer, Rows | Iterator) for answer in answers):  # one row, which may be a tuple
            return next((answer for answer in answers if answer is not None), None)
        return (row for answer in answers for row in answer)

    def __repr__(self) -> str:
        since = "" if self.batch is None else f" at batch {self.batch}"
        return f'<StoreView of "{self.name}": {len(self._parts)} partitions{since}>'


def stores_at(deployment: Deployment, name: str) -> list[PlacedTask]:
    """The tasks that have a store.

    Raises: StateError that names the stores there are.
    """
    application = deployment.applications[0]
    owners = {group.id: group.stores for group in application.topology.subtopologies()}
    placed = [
        task
        for task in deployment.tasks
        if task.application == 0 and any(name in owners[plan.subtopologies[0]] for plan in task.plans)
    ]
    if not placed:
        names = sorted(application.topology.stores)
        near = difflib.get_close_matches(name, names, 1)
        raise StateError(
            f'there is no store "{name}"',
            detail=f"there are {', '.join(names) or 'none'}",
            hint=f'did you mean "{near[0]}"?' if near else None,
        )
    return placed


def keepers_of(deployment: Deployment, name: str) -> list[PlacedTask | Replica]:
    """Who keeps a store in a query: its tasks, or for a global one the first of its copies."""
    if name in deployment.applications[0].topology.global_stores:
        copies = [replica for replica in deployment.replicas if replica.application == 0]
        if copies:
            return [copies[0]]
    return [*stores_at(deployment, name)]


def stores_named(task: Any, name: str) -> list[Any]:
    """The store of a task, or those of all members of a circle."""
    return [store for full, store in task.stores.items() if full.rpartition("/")[2] == name]
