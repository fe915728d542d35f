"""Finds records that a node buffers: suppressed changes, and join records that may still find a partner."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kstreamnb.core.formatting import format_time
from kstreamnb.core.time import format_duration
from kstreamnb.core.traits import BufferTraits
from kstreamnb.recording.recorded_run import RecordedRun
from kstreamnb.recording.store_rows import stored_rows
from kstreamnb.replays.analysis.open_windows import node_time


class BufferedRecord(NamedTuple):
    """One record that a node buffers until stream time reaches ``due_ms``; times in ms.

    ``rule`` is the sum that yields ``due_ms``, as text.
    """

    node: str
    task: str
    store: str
    key: object
    value: object
    stream_time_ms: int
    due_ms: int
    rule: str


def buffered_records(run: RecordedRun, step: int) -> Iterator[BufferedRecord]:
    """Yield all buffered records after ``step`` steps, by node and task."""
    for name, node in run.topology.nodes.items():
        buffer = node.traits.buffer
        for task_id, task in run.tasks.items() if buffer is not None else ():
            if buffer is not None and buffer.store in task.stores and name in task.nodes:
                yield from _waiting(run, name, buffer, task_id, step)


def _waiting(run: RecordedRun, node: str, buffer: BufferTraits, task: str, step: int) -> Iterator[BufferedRecord]:
    store, rows = run.tasks[task].stores[buffer.store], run.index.rows(task, buffer.store, step)
    now = _time(run, node, buffer, task, rows, step)
    for raw_key, row in rows.items():
        # a join of streams keeps both sides' records in one store; those of the other side wait at the other node
        if raw_key is None or row is None or (buffer.is_left is not None and bool(raw_key[1]) != buffer.is_left):
            continue
        is_change = buffer.kind == "change"
        due, rule = _due(buffer, row[0] if is_change else raw_key[0])
        for shown in stored_rows(task, store, {raw_key: row}):
            value = shown.value.new if is_change else shown.value
            yield BufferedRecord(node, task, buffer.store, shown.key, value, now, due, rule)


def _time(run: RecordedRun, node: str, buffer: BufferTraits, task: str, rows: dict[Any, Any], step: int) -> int:
    """Return stream time as the node has seen it."""
    if buffer.kind == "partner":
        return int(run.index.state_vars(task, step).get(("", buffer.clock), -1))
    if buffer.kind == "change":
        return node_time(run, node, task, step)
    return int(rows[None][0]) if rows.get(None) else run.index.stream_time(task, step)


def _due(buffer: BufferTraits, time: int) -> tuple[int, str]:
    """Return when a record of this time is due, and the sum as text."""
    due, wait = time + buffer.wait_ms + buffer.grace_ms, format_duration(buffer.wait_ms)
    if buffer.kind == "partner":
        return due + 1, f"{format_time(time)} + window {wait} + grace {format_duration(buffer.grace_ms)} + 1ms"
    if buffer.kind == "row":
        return due, f"{format_time(time)} + grace {wait}"
    return due, f"end {format_time(time)} + grace {wait}" if buffer.window_end else f"{format_time(time)} + wait {wait}"
