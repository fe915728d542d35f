"""Defines the events of a run: facts for observers such as explanations and widgets.

Tasks write compact entries into a `Recording`; events are built from them on demand.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from kstreamnb.core.operator import Details
from kstreamnb.core.record import Headers
from kstreamnb.runtime.context.handlers import RecordProduced


class RecordConsumed(NamedTuple):
    """A task consumed a record from one of its input partitions."""

    task: str
    node: str
    topic: str
    partition: int
    offset: int
    timestamp: int
    key: object
    value: object
    headers: Headers


class Forwarded(NamedTuple):
    """A node forwarded a record to a child."""

    task: str
    node: str
    child: str
    key: object
    value: object
    timestamp: int
    headers: Headers


class StoreRead(NamedTuple):
    """A row was looked up by its raw key in a store whose rows contribute to results."""

    task: str
    store: str
    key: object


class StoreWritten(NamedTuple):
    """A store changed. Keys and rows are in raw form; None means no row."""

    task: str
    store: str
    key: object
    old: object
    new: object


class Dropped(NamedTuple):
    """A node dropped a record; ``details`` hold the numbers that explain it."""

    task: str
    node: str
    reason: str
    key: object
    value: object
    timestamp: int
    details: Details


class Punctuated(NamedTuple):
    """A punctuator ran; ``kind`` says whether ``now_ms`` is stream time or wall-clock time."""

    task: str
    node: str
    kind: str
    now_ms: int


class StateVarChanged(NamedTuple):
    """A node's state variable changed, such as its stream time or the time of its next emission."""

    task: str
    node: str
    state_var: str
    old: object
    new: object


class Committing(NamedTuple):
    """A task with caches starts to flush them."""

    task: str


class Committed(NamedTuple):
    """A task flushed its caches and committed."""

    task: str


class Published(NamedTuple):
    """An application committed; ``offsets`` maps each input partition to its next offset."""

    offsets: Mapping[tuple[str, int], int]


class Crashed(NamedTuple):
    """An application stopped without a commit."""


class Restarted(NamedTuple):
    """An application restarted with its stores restored."""


class Resumed(NamedTuple):
    """A task resumed with the stream time of its last commit."""

    task: str
    stream_time_ms: int


RecordEvent: TypeAlias = RecordConsumed | Forwarded | StoreRead | StoreWritten | RecordProduced | Dropped
TaskEvent: TypeAlias = StateVarChanged | Punctuated | Committing | Committed | Published | Crashed | Restarted | Resumed
Event: TypeAlias = RecordEvent | TaskEvent
