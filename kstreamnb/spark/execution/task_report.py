"""The report of a task after a batch, sent from its worker to the query."""

from __future__ import annotations

from typing import NotRequired, TypedDict


class TaskReport(TypedDict):
    """The counts of a task in a batch; ``topics`` counts records by output topic, inner ones among them.

    ``consumed`` counts all records that the task processed, ``inputs`` those that were read from input topics.
    ``stores`` has, for each store with a state log: its rows, an estimate of its bytes, and how many rows the batch
    wrote and deleted.
    """

    task: str
    level: int
    consumed: int
    inputs: NotRequired[int]
    produced: int
    topics: dict[str, int]
    dropped: dict[tuple[str, str], int]
    stream_time_ms: int
    state: str
    state_bytes: int
    seconds: float
    lateness_ms: tuple[float, float]
    stores: NotRequired[dict[str, tuple[int, int, int, int]]]
