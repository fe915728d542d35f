"""Read-only views of a store of a run or a query, over all its partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from kstreamnb.core.displayed import Displayed, MimeTypes
from kstreamnb.core.tables import Tabular
from kstreamnb.errors import StateError, unknown
from kstreamnb.frames import Framed, TabularRows
from kstreamnb.spark.execution.cyclic_task import AnyTask
from kstreamnb.spark.planning.deployment import Deployment, Placed, TaskPlacement
from kstreamnb.state.query_views import Detail, View, view_of


class _ReadRows(TabularRows):
    """The rows of a store at one moment."""

    def __init__(self, name: str, rows: Iterable[tuple[Any, Any]], since: str) -> None:
        self.name, self.since, self._read = name, since, list(rows)

    @property
    def title(self) -> str:
        """The store's name, its number of rows, and the batch that they are from."""
        return f"{super().title}{self.since}"

    def _rows(self) -> list[tuple[Any, Any]]:
        return self._read


class StoreView(Displayed, Framed):
    """A store of any kind, read only, over all partitions.

    Its methods are those of `DisplayedKeyValueView`, `DisplayedWindowView`, `DisplayedSessionView` or
    `DisplayedVersionedView`. Rows of timestamped stores are their values; ``show="times"`` makes them
    `ValueAndTimestamp`, and with ``show="headers"`` those of stores with headers are `ValueTimestampHeaders` or
    `AggregationWithHeaders`. ``batch`` is the last batch that the view has seen, None for a run over static data.

    Example: ``view["shoe"]``, ``view.get("shoe")``, ``view.to_dict()``, ``list(view.fetch_all(0, 60_000))``.
    """

    def __init__(self, name: str, parts: Iterable[Any], *, batch: int | None = None, show: Detail = "values") -> None:
        self.name, self.batch, self._show, self._parts = name, batch, show, list(parts)
        view = self._over(self._parts)
        if view is None:
            raise StateError(f'store "{name}" serves an operator and has no view')
        self._kind = type(view)

    def __getitem__(self, key: object) -> Any:
        value = self.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def __contains__(self, key: object) -> bool:
        return self.get(key) is not None

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return self.all()

    def __len__(self) -> int:
        return sum(1 for _ in self.all())

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_") or name not in self._reads:
            windows = "its keys have windows: use fetch(key, …); " if name == "get" and "fetch" in self._reads else ""
            known = f"{windows}it has {', '.join(self._reads)}"
            raise AttributeError(f'a view of store "{self.name}" has no "{name}"; {known}', name=name)
        return lambda *arguments, **options: self._ask(name, arguments, options)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._reads]

    @property
    def _reads(self) -> list[str]:
        """Names of the methods of the view's kind; each reads all partitions."""
        kinds = self._kind.__mro__[: self._kind.__mro__.index(View)]
        return [name for name in dict.fromkeys(chain.from_iterable(map(vars, kinds))) if not name.startswith("_")]

    def _over(self, parts: list[Any]) -> Any:
        return view_of(self.name, parts, show=self._show)

    def _ask(self, name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        return getattr(self._over(self._parts), name)(*arguments, **options)

    def _now(self) -> _ReadRows:
        """Return the rows of one moment: a display reads them once, because the query continues."""
        return _ReadRows(self.name, self.all() if "all" in self._reads else (), self._since())

    def _since(self) -> str:
        return "" if self.batch is None else f" at batch {self.batch}"

    def _frame_rows(self) -> tuple[Sequence[str], Iterable[Sequence[object]]]:
        if "all" not in self._reads:
            raise StateError(f'store "{self.name}" has no rows to list', hint="ask it by key, or read its history")
        return ("key", "value"), self.all()

    def __str__(self) -> str:
        return str(self._now())

    _repr_pretty_ = Tabular._repr_pretty_

    def _repr_mimebundle_(self, include: MimeTypes = None, exclude: MimeTypes = None) -> dict[str, str]:
        return self._now()._repr_mimebundle_(include, exclude)

    def __repr__(self) -> str:
        return f'<StoreView of "{self.name}": {len(self._parts)} partitions{self._since()}>'


def tasks_with(deployment: Deployment, name: str) -> list[TaskPlacement]:
    """Return the tasks that have a store.

    Raises: StateError that names the stores there are.
    """
    application = deployment.application
    owners = {group.id: group.stores for group in application.running.subtopologies()}
    own = (task for task in deployment.tasks if task.application == 0)
    placed = [task for task in own if any(name in owners[plan.subtopologies[0]] for plan in task.plans)]
    if not placed and name in application.topology.global_stores:
        detail = "on Spark only tasks that read a global table in a deployment keep a copy of it"
        hint = "declare it with builder.table, whose store can be read; or read its topic with ks.Sample.capture"
        raise StateError(f'no task keeps rows of global store "{name}"', detail=detail, hint=hint)
    if not placed:
        known = sorted({*application.topology.stores, *application.topology.global_stores})
        raise unknown("store", name, known, error=StateError)
    return placed


def placements_of(deployment: Deployment, name: str) -> list[Placed]:
    """Return the placements that have a store: its tasks, or the first replica of a global one."""
    if name in deployment.application.topology.global_stores and deployment.replicas:
        return [deployment.replicas[0]]
    return [*tasks_with(deployment, name)]


def stores_named(task: AnyTask, name: str) -> list[Any]:
    """Return the store of a task, or those of all members of a cycle."""
    return [store for full, store in task.stores.items() if full.rpartition("/")[2] == name]
