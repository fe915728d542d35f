"""What happened inside a task: plain facts for whoever observes it (recording, explanations, widgets).

Values are those that travelled, not copies. In fast mode none of these is made.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from kstreamnb.core.record import Headers

__all__ = ["Committed", "Consumed", "Dropped", "Event", "Forwarded", "Produced", "Punctuated", "StoreWritten"]


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


class StoreWritten(NamedTuple):
    """A store changed: keys and rows are in the store's raw form, None is no row."""

    task: str
    store: str
    key: Any
    old: Any
    new: Any


class Produced(NamedTuple):
    """A task wrote a record to a topic; key and value are in wire form."""

    topic: str
    partition: int
    timestamp: int
    key: Any
    value: Any
    headers: Headers = ()


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


class Committed(NamedTuple):
    """A task flushed its caches and committed."""

    task: str


Event: TypeAlias = Consumed | Forwarded | StoreWritten | Produced | Dropped | Punctuated | Committed
