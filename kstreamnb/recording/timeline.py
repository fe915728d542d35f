"""What happened, in order: events of one kind of thing as a sequence that shows itself as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, Protocol, Self, TypeVar, overload

from kstreamnb.core.formatting import pluralize
from kstreamnb.core.tables import Tabular

__all__ = ["Timeline"]


class Event(Protocol):
    """What any event has."""

    @property
    def kind(self) -> str:
        """A word for what happened."""


E = TypeVar("E", bound=Event)


class Timeline(Sequence[E], Tabular, Generic[E]):
    """Events in order; ``timeline("committed")`` gives those of a kind."""

    def __init__(self, events: Sequence[E]) -> None:
        self._events = events

    def __call__(self, *kinds: str) -> Self:
        """Only events of some kinds."""
        return type(self)([event for event in self if event.kind in kinds])

    @overload
    def __getitem__(self, index: int) -> E: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: Any) -> Any:
        return type(self)(self._events[index]) if isinstance(index, slice) else self._events[index]

    def __len__(self) -> int:
        return len(self._events)

    @property
    def title(self) -> str:
        """How many there are."""
        return pluralize(len(self), "event")
