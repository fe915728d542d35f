"""Finds windows that are still open, and the stream time that closes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kstreamnb.core.record import Windowed
from kstreamnb.core.time import MAX_TIME_MS
from kstreamnb.core.traits import AggregationWindows
from kstreamnb.core.windows import SessionWindows, SlidingWindows
from kstreamnb.recording.recorded_run import RecordedRun
from kstreamnb.recording.store_rows import stored_rows


class OpenWindow(NamedTuple):
    """A window that still accepts records; times in ms.

    It closes when the node's stream time, the highest timestamp that reached it, is ``closes_at_ms``.
    """

    store: str
    node: str
    task: str
    key: Windowed[object]
    value: object
    stream_time_ms: int
    closes_at_ms: int

    @property
    def never_closes(self) -> bool:
        """Whether the window has no end."""
        return self.closes_at_ms >= MAX_TIME_MS


def windowed_nodes(run: RecordedRun) -> dict[str, tuple[AggregationWindows, str]]:
    """Return the nodes that aggregate by windows, with their windows and store."""
    traits = {name: node.traits for name, node in run.topology.nodes.items()}
    return {name: (each.windows, str(each.store)) for name, each in traits.items() if each.windows is not None}


def closes_at(windows: AggregationWindows, end: int) -> int:
    """Return the stream time (ms) at which a window with this end stops accepting records."""
    if isinstance(windows, SessionWindows):
        return end + windows.gap_ms + windows.grace_ms + 1
    if isinstance(windows, SlidingWindows):
        return end + windows.grace_ms + 1
    return MAX_TIME_MS if end >= MAX_TIME_MS else end + windows.grace_ms


def node_time(run: RecordedRun, node: str, task: str, step: int) -> int:
    """Stream time as a node has seen it."""
    return int(run.index.state_vars(task, step).get((node, "stream_time_ms"), -1))


def open_windows(run: RecordedRun, step: int) -> Iterator[OpenWindow]:
    """Yield all open windows after ``step`` steps, by store, task and key."""
    for node, (windows, store) in windowed_nodes(run).items():
        for task_id, task in run.tasks.items():
            if store not in task.stores or node not in task.nodes:
                continue
            time = node_time(run, node, task_id, step)
            for row in stored_rows(task_id, task.stores[store], run.index.rows(task_id, store, step)):
                if time < (closing := closes_at(windows, row.key.end)):
                    yield OpenWindow(store, node, task_id, row.key, row.value, time, closing)
