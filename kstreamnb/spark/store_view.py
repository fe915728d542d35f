"""A store of a run or a query as a person looks at it: read only, over all its partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from typing import Any

from kstreamnb.core.record import ValueAndTimestamp, Windowed
from kstreamnb.errors import StateError, did_you_mean
from kstreamnb.spark.deployment import Deployment, PlacedTask, Replica
from kstreamnb.state.store import Rows

__all__ = ["StoreView", "keepers_of", "stores_at", "stores_named"]

_READS = {
    "key_value": "get all reverse_all range reverse_range prefix_scan approximate_num_entries",
    "window": "fetch backward_fetch fetch_keys backward_fetch_keys fetch_all backward_fetch_all all backward_all",
    "session": "fetch backward_fetch fetch_session all find_sessions backward_find_sessions find_sessions_between "
    "backward_find_sessions_between",
    "versioned": "get history",
}
_BY_KEY = frozenset({"fetch_between", "backward_fetch", "history"})
"""Reads whose rows are of one key; they do not begin with it."""
_FOREVER = (1 << 63) - 1


class StoreView:
    """A store of any kind, read only: it reads as the test driver's stores of its kind do, over all partitions.

    Rows of timestamped stores are their values; with ``timestamps`` they are `ValueAndTimestamp`. ``batch`` is the
    last batch that the view has seen, None for a run over static data.

    Example: ``view["shoe"]``, ``view.get("shoe")``, ``dict(view.all())``, ``list(view.fetch_all(0, 60_000))``.
    """

    def __init__(self, name: str, parts: Iterable[Any], *, batch: int | None = None, timestamps: bool = False) -> None:
        self.name, self.batch, self.timestamps = name, batch, timestamps
        self._parts = list(parts)
        self._timed = self._parts[0].spec.kind.startswith("timestamped")
        self._kind = self._parts[0].spec.kind.removeprefix("timestamped_").replace("lru", "key_value")

    def __getitem__(self, key: Any) -> Any:
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return found

    def __contains__(self, key: Any) -> bool:
        return self.get(key) is not None

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        found: Iterator[tuple[Any, Any]] = self.all()
        return found

    def __len__(self) -> int:
        return sum(1 for _ in self.all())

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_") or name not in self._reads:
            raise AttributeError(f'a view of store "{self.name}" has no "{name}"; it has {", ".join(self._reads)}')
        return lambda *arguments, **options: self._ask(name, arguments, options)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._reads]

    @property
    def _reads(self) -> list[str]:
        return _READS.get(self._kind, "").split()

    def _ask(self, name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        return self._answer(self._parts, name, arguments, options)

    def _answer(self, parts: list[Any], name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        if (self._kind, name) == ("session", "all"):
            return iter([row for part in parts for row in part.find_sessions_between(None, None, 0, _FOREVER)])
        if (self._kind, name) == ("window", "fetch") and len(arguments) + len(options) > 2:
            name = "fetch_between"
        answers = [getattr(part, name)(*arguments, **options) for part in parts]
        if name == "approximate_num_entries":
            return sum(answers)
        if not all(isinstance(answer, Rows | Iterator) for answer in answers):  # one row, which may be a tuple
            return self._shown(next((answer for answer in answers if answer is not None), None))
        if name == "history":
            return iter([version for answer in answers for version in answer])
        rows = [[(key, self._shown(row)) for key, row in answer] for answer in answers]
        if name in _BY_KEY and self._kind == "window":
            return iter([row for part in rows for row in part])
        return self._merged(rows, reverse=name.startswith(("reverse", "backward")))

    def _merged(self, rows: list[list[Any]], *, reverse: bool) -> Iterator[Any]:
        """Rows of all partitions in the order that each has: by key bytes, then by time."""
        if len(rows) == 1:
            return iter(rows[0])
        return merge(*rows, key=lambda row: self._rank(row[0]), reverse=reverse)

    def _rank(self, key: Any) -> Any:
        serde = self._parts[0].spec.key_serde
        if isinstance(key, Windowed):
            return serde.serialize(key.key), key.start, key.end
        return (serde.serialize(key),)

    def _shown(self, row: Any) -> Any:
        if row is None or not self._timed:
            return row
        return ValueAndTimestamp(*row) if self.timestamps else row[0]

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
        raise StateError(
            f'there is no store "{name}"',
            detail=f"there are {', '.join(names) or 'none'}",
            hint=did_you_mean(name, names),
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
