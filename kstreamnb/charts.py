"""Figures to draw: bars by name, lines over time, and costs on a graph; drawn by `kstreamnb.display`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from kstreamnb.core.displayed import Displayed
from kstreamnb.topology.topology import Topology

T = TypeVar("T")


@dataclass(frozen=True)
class Bars:
    """One bar for each name. ``unit`` is that of the values."""

    title: str
    unit: str
    rows: tuple[tuple[str, float], ...]

    def __str__(self) -> str:
        return f"{self.title} ({self.unit}): {', '.join(f'{name} {value:,g}' for name, value in self.rows) or 'none'}"


@dataclass(frozen=True)
class Lines:
    """Values over time: points of (epoch ms, value). ``unit`` is that of the values."""

    title: str
    unit: str
    points: tuple[tuple[int, float], ...]

    def __str__(self) -> str:
        values = [value for _, value in self.points]
        figures = f"{min(values):,g} to {max(values):,g}, now {values[-1]:,g}" if values else "nothing yet"
        return f"{self.title} ({self.unit}): {figures}"


class Charted(Displayed):
    """A value that displays as text and a picture of charts."""

    @property
    @abstractmethod
    def charts(self) -> Charts:
        """The charts that are drawn."""


@dataclass(frozen=True)
class Charts(Charted):
    """Charts side by side, with lines of text above them.

    Example:
        >>> print(Charts("orders", (Bars("by partition", "records", (("0", 3), ("1", 5))),)))
        orders
        by partition (records): 0 3, 1 5
    """

    title: str
    each: tuple[Bars | Lines, ...]
    notes: tuple[str, ...] = ()

    @property
    def charts(self) -> Charts:
        """The charts themselves."""
        return self

    def __str__(self) -> str:
        return "\n".join([self.title, *self.notes, *map(str, self.each)])

    def __repr__(self) -> str:
        return f"<{self.title}: {len(self.each)} charts>"


class BeforeAfter(Displayed, tuple[T, ...]):
    """Changes of a topology, each with its ``before``, ``after`` and reason; displays with both topologies as pictures.

    Args:
        changes: the changes, which name nodes.
        before: the topology without them.
        after: the topology with them.
    """

    before: Topology
    after: Topology

    def __new__(cls, changes: Iterable[T], before: Topology, after: Topology) -> BeforeAfter[T]:
        """Make the tuple of the changes, with the topologies as attributes."""
        made = super().__new__(cls, changes)
        made.before, made.after = before, after
        return made

    def __str__(self) -> str:
        return "\n".join(map(str, self)) or "no optimizations"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # IPython would print it as any tuple
        printer.text(self._repr_mimebundle_()["text/plain"])


class TaskCost(NamedTuple):
    """The cost of one task since its query was made: share of the time (0 to 1), records, mean ms for a record, dropped
    records and bytes of state.
    """

    task: str
    share: float
    records: int
    record_ms: float
    dropped: int
    state_bytes: int


@dataclass(frozen=True)
class CostPicture(Displayed):
    """A topology with the share of each node in the cost, 0 to 1, painted as heat, and notes beside nodes.

    A store is named "store " and its name; its share is that of its writes in the writes to all stores.
    """

    topology: Topology
    shares: Mapping[str, float]
    notes: Mapping[str, str]
    tasks: tuple[TaskCost, ...] = ()

    def __repr__(self) -> str:
        return f"<cost of {self.topology.name or 'a topology'}: {'; '.join(self.notes.values()) or 'no figures yet'}>"
