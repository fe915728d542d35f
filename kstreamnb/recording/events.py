"""What happened inside a task: plain facts for whoever observes it (recording, explanations, widgets).

A task writes entries into a `Recording`, and these are made of them on demand.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from kstreamnb.core.record import Headers
from kstreamnb.runtime.context.handlers import Produced

__all__ = [
    "StateVarChanged",
    "Committed",
    "Committing",
    "Consumed",
    "Crashed",
    "Dropped",
    "Event",
    "Forwarded",
    "Produced",
    "Published",
    "Punctuated",
    "Restarted",
    "Resumed",
    "StoreRead",
    "StoreWritten",
]


class Consumed(NamedTuple):
    """A task took a record from one of its partitions."""

    task: str
    node: str
    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Any
    value: Any
    headers: Headers


class Forwarded(NamedTuple):
    """A node handed a record to one of its children."""

    task: str
    node: str
    child: str
    key: Any
    value: Any
    timestamp: int
    headers: Headers


class StoreRead(NamedTuple):
    """A row was looked up in a store whose rows results are made of, by its key in the store's raw form."""

    task: str
    store: str
    key: Any


class StoreWritten(NamedTuple):
    """A store changed: keys and rows are in the store's raw form, None is no row."""

    task: str
    store: str
    key: Any
    old: Any
    new: Any


class Dropped(NamedTuple):
    """A node refused a record, with the numbers that explain it."""

    task: str
    node: str
    reason: str
    key: Any
    value: Any
    timestamp: int
    details: dict[str, Any]


class Punctuated(NamedTuple):
    """A punctuator ran; ``now_ms`` is stream time or wall clock, as ``kind`` says."""

    task: str
    node: str
    kind: str
    now_ms: int


class StateVarChanged(NamedTuple):
    """Something that a node remembers beside its stores changed: the latest time it saw, when it is due."""

    task: str
    node: str
    state_var: str
    old: Any
    new: Any


class Committing(NamedTuple):
    """A task with caches begins to flush them."""

    task: str


class Committed(NamedTuple):
    """A task flushed its caches and committed."""

    task: str


class Published(NamedTuple):
    """An application's commit was made: the offset up to which each input partition is done."""

    offsets: Mapping[tuple[str, int], int]


class Crashed(NamedTuple):
    """An application ended without a commit."""


class Restarted(NamedTuple):
    """An application started again, with its stores restored."""


class Resumed(NamedTuple):
    """A task began again at the stream time that it had at its last commit."""

    task: str
    stream_time_ms: int


Event: TypeAlias = (
    Consumed
    | Forwarded
    | StoreRead
    | StoreWritten
    | Produced
    | Dropped
    | StateVarChanged
    | Punctuated
    | Committing
    | Committed
    | Published
    | Crashed
    | Restarted
    | Resumed
)
