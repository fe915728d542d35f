"""Results that wait for their time: changes in suppressions, records of joins that may yet find a partner."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kstreamnb.core.formatting import duration, when
from kstreamnb.recording.recorded_run import RecordedRun
from kstreamnb.recording.store_rows import stored_rows
from kstreamnb.replays.analysis.open_windows import node_time
from kstreamnb.topology.nodes import ProcessorNode

__all__ = ["BufferedRecord", "buffer_of", "buffered_records", "is_buffered"]


class BufferedRecord(NamedTuple):
    """One record that a node keeps until stream time is ``due_ms``; times in ms.

    ``rule`` is the sum that ``due_ms`` comes from, in words.
    """

    node: str
    task: str
    store: str
    key: Any
    value: Any
    stream_time_ms: int
    due_ms: int
    rule: str


def buffer_of(operator: Any) -> str | None:
    """The store in which an operator lets records wait; None for one that holds nothing back."""
    if getattr(operator, "wait_ms", None) is not None:
        return str(operator.store)
    found = getattr(operator, "pending_store", None) or getattr(operator, "buffer_store", None)
    return None if found is None else str(found)


def is_buffered(operator: Any) -> bool:
    """Whether an operator lets a stream's records wait before they look for their row."""
    return getattr(operator, "buffer_store", None) is not None


def buffered_records(run: RecordedRun, step: int) -> Iterator[BufferedRecord]:
    """Everything that waits after so many steps, by node and task."""
    for name, node in run.topology.nodes.items():
        store = buffer_of(node.operator) if isinstance(node, ProcessorNode) else None
        for task_id, task in run.tasks.items():
            if store in task.stores and name in task.nodes:
                yield from _waiting(run, name, node.operator, task_id, str(store), step)  # type: ignore[union-attr]


def _waiting(run: RecordedRun, node: str, operator: Any, task: str, store: str, step: int) -> Iterator[BufferedRecord]:
    keeper, rows = run.tasks[task].stores[store], run.history.rows(task, store, step)
    now = _time(run, node, operator, task, rows, step)
    for raw_key, row in rows.items():
        if raw_key is None or row is None:
            continue
        due, rule = _due(operator, raw_key, row)
        if due is not None:
            for shown in stored_rows(task, keeper, {raw_key: row}):
                value = shown.value.new if hasattr(operator, "wait_ms") else shown.value
                yield BufferedRecord(node, task, store, shown.key, value, now, due, rule)


def _time(run: RecordedRun, node: str, operator: Any, task: str, rows: dict[Any, Any], step: int) -> int:
    """Stream time as the node has seen it."""
    if hasattr(operator, "tracker"):
        seen: int = run.history.cells(task, step).get(("", f"{operator.tracker}-time"), -1)
        return seen
    if hasattr(operator, "wait_ms"):
        return node_time(run, node, task, step)
    return int(rows[None][0]) if rows.get(None) else run.history.stream_time(task, step)


def _due(operator: Any, raw_key: Any, row: Any) -> tuple[int | None, str]:
    """When a row comes out, and the sum; None for one that waits at another node."""
    if hasattr(operator, "wait_ms"):
        time, what = row[0], "grace" if operator.window_end else "wait"
        due = time + operator.wait_ms
        start = f"end {when(time)}" if operator.window_end else when(time)
        return due, f"{start} + {what} {duration(operator.wait_ms)}"
    time = raw_key[0]
    if getattr(operator, "pending_store", None) is None:
        due = time + operator.grace_ms
        return due, f"{when(time)} + grace {duration(operator.grace_ms)}"
    if bool(raw_key[1]) != operator.is_left:
        return None, ""
    ahead = operator.after_ms if operator.is_left else operator.before_ms
    due = time + ahead + operator.grace_ms + 1
    return due, f"{when(time)} + window {duration(ahead)} + grace {duration(operator.grace_ms)} + 1ms"
