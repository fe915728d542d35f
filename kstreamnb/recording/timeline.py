"""Shows a sequence of events as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, Protocol, Self, TypeVar, overload

from kstreamnb.core.formatting import pluralize
from kstreamnb.core.tables import FrozenSequence, Tabular


class TimelineEvent(Protocol):
    """An event of a timeline."""

    @property
    def kind(self) -> str:
        """The kind of event."""


E = TypeVar("E", bound=TimelineEvent)


class Timeline(FrozenSequence[E], Tabular, Generic[E]):
    """Events in order; ``timeline("committed")`` selects events by kind."""

    def __init__(self, events: Sequence[E]) -> None:
        self._items = events

    def __call__(self, *kinds: str) -> Self:
        """Return only events of these kinds."""
        return type(self)([event for event in self if event.kind in kinds])

    @overload
    def __getitem__(self, index: int) -> E: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: Any) -> Any:
        return type(self)(self._items[index]) if isinstance(index, slice) else self._items[index]

    @property
    def title(self) -> str:
        """Return the number of events."""
        return pluralize(len(self), "event")
