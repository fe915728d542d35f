"""Explains dropped records with the numbers of the rule that applied."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from itertools import accumulate
from typing import TypeAlias

from kstreamnb.core.arguments import check_arguments
from kstreamnb.core.formatting import format_interval, format_time, format_value
from kstreamnb.core.time import format_duration
from kstreamnb.core.windows import SessionWindows, SlidingWindows
from kstreamnb.errors import EngineError
from kstreamnb.hints import unknown
from kstreamnb.recording.record_text import describe_content, record_id
from kstreamnb.recording.recorded_run import RecordedRun
from kstreamnb.recording.steps import Drop
from kstreamnb.replays.analysis.node_flow import is_about
from kstreamnb.replays.explain.explanation import Explanation, Explanations, described
from kstreamnb.replays.navigation import Navigation
from kstreamnb.topology.nodes import Source


def why_dropped(
    self: Navigation,
    topic: str | None = None,
    partition: int | None = None,
    offset: int | None = None,
    *,
    node: str | None = None,
    key: object = None,
) -> Explanations:
    """Explain drops: all of them, or those of one input record, node or key.

    Args:
        topic: name of the input topic. Default: any.
        partition: number of the partition. Default: any.
        offset: position in the partition. Default: any.
        node: name of the node that dropped the record. Default: any.
        key: key of the record. Default: any.

    Raises: EngineError if the topology has no such node.
    """
    check_arguments(why_dropped, locals())
    run = self.run
    if node is not None and node not in run.topology.nodes:
        known = sorted({drop.node for drop in run.drops()})
        if node not in known:
            detail = f"drops were at {', '.join(known)}"
            raise unknown("node", node, run.topology.nodes, error=EngineError, detail=detail)
    result, reached = [], _Clocks()
    for drop in run.drops():
        record = drop.record
        position = (None, None, None) if record is None else record[:3]
        wanted = zip((topic, partition, offset), position, strict=True)
        chosen = all(want is None or want == have for want, have in wanted)
        if chosen and node in (None, drop.node) and is_about(drop.key, key):
            result.append(_explained(run, drop, reached))
    asked = f"record {topic}-{partition}@{offset}" if offset is not None else "record"
    asked += "" if key is None else f" of key {format_value(key)}"
    clocks = stream_times(run)
    own = f"{clocks} tasks each have their own stream time; over another number of partitions, others may be late"
    return Explanations(result, f"no {asked} was dropped" + (f": {own}" if clocks > 1 else ""))


_KINDS_BY_TIME = ("window", "session", "versioned")  # how kinds of stores end that drop what is late


def stream_times(run: RecordedRun) -> int:
    """Return the maximum number of tasks of a sub-topology if their stream times decide what is late; otherwise 0."""
    kinds = {task_id: [store.spec.kind for store in task.stores.values()] for task_id, task in run.tasks.items()}
    of_time = [task for task, own in kinds.items() if any(kind.endswith(_KINDS_BY_TIME) for kind in own)]
    return max(Counter(task.partition("_")[0] for task in of_time).values(), default=0)


_Clocks: TypeAlias = dict[str, tuple[list[int], list[int]]]
"""For each task, the positions of consumed records and the highest timestamp up to each."""


def _set_by(run: RecordedRun, drop: Drop, clocks: _Clocks) -> int | None:
    """Return the step that advanced stream time so far that the record was late."""
    if drop.task not in clocks:
        consumed = run.index.positions_of("consumed", task=drop.task)
        clocks[drop.task] = consumed, list(accumulate((run.index.log[position][2] for position in consumed), max))
    positions, times = clocks[drop.task]
    first = bisect_left(times, drop.details["stream_time_ms"])
    step = run.index.step_of(positions[first]) if first < len(times) else None
    return None if step is None or step > drop.step else step


def _explained(run: RecordedRun, drop: Drop, clocks: _Clocks) -> Explanation:
    reason, remedy = _ALIKE.get(drop.reason) or _BY_NUMBERS.get(drop.reason, _other)(run, drop)
    record = drop.record
    what = "a record" if record is None else record_id(record)
    about = f"{what} ({describe_content(drop.key, drop.value, drop.timestamp)})"
    refused = "topic" in drop.details  # by its source: it is part of no step
    steps = [] if refused else [drop.step]
    if "stream_time_ms" in drop.details and (step := _set_by(run, drop, clocks)) is not None:
        steps.insert(0, step)
    return Explanation(
        f"{about} was dropped at {described(run, drop.node)} in task {drop.task}: {reason}",
        numbers={"reason": drop.reason, **drop.details, "timestamp_ms": drop.timestamp},
        node=drop.node,
        task=drop.task,
        steps=tuple(steps),
        origin=getattr(run.topology.nodes.get(drop.node), "origin", None),
        remedy=remedy,
    )


def _late(run: RecordedRun, drop: Drop) -> tuple[str, str | None]:
    numbers = drop.details
    start, end, grace, time = (numbers[name] for name in ("window_start", "window_end", "grace_ms", "stream_time_ms"))
    windows = run.topology.nodes[drop.node].traits.windows
    closed = isinstance(windows, (SessionWindows, SlidingWindows))
    gap = numbers.get("gap_ms", 0)
    wait = f"gap {format_duration(gap)} − " if "gap_ms" in numbers else ""
    rule = (
        f"stream time {format_time(time)} − {wait}grace {format_duration(grace)} = {format_time(numbers['close_ms'])} "
        f"{'>' if closed else '≥'} end {format_time(end)}"
    )
    needed = time - gap - end + (0 if closed else 1)
    kind = "session" if isinstance(windows, SessionWindows) else "window"
    reason = f"late: {kind} {format_interval(start, end, closed=closed)} had closed, because {rule}"
    return reason, f"a grace of {format_duration(needed)} instead of {format_duration(grace)} would have kept it"


def _expired(run: RecordedRun, drop: Drop) -> tuple[str, str | None]:
    numbers = drop.details
    if "retention_ms" not in numbers:
        return "an answer to an older version of the left table's row, which has changed since", None
    time, retention = numbers["stream_time_ms"], numbers["retention_ms"]
    kept = f"stream time {format_time(time)} − retention {format_duration(retention)} = {format_time(time - retention)}"
    return (
        f'it is older than what store "{numbers["store"]}" keeps: {kept} is after {format_time(drop.timestamp)}',
        f"a retention of {format_duration(time - drop.timestamp)} instead of {format_duration(retention)} would "
        "have kept it",
    )


def _unreadable(run: RecordedRun, drop: Drop) -> tuple[str, str | None]:
    source = run.topology.nodes[drop.node]
    assert isinstance(source, Source)
    serdes = " and ".join(map(str, run.tasks[drop.task].plan.serdes(source)))
    because = f": {drop.details['error']}" if "error" in drop.details else ""
    return (
        f"it cannot be read by the serdes of key and value, {serdes}{because}",
        "name the serdes with which the topic was written, or send such records to a dead-letter topic",
    )


def _other(run: RecordedRun, drop: Drop) -> tuple[str, str | None]:
    numbers = ", ".join(f"{name} {value}" for name, value in drop.details.items())
    return f"{drop.reason} ({numbers})" if numbers else drop.reason, None


_BY_NUMBERS = {"late": _late, "expired": _expired, "deserialization": _unreadable}
"""Reasons whose explanation has numbers of the drop."""
_ALIKE: dict[str, tuple[str, str | None]] = {
    "null key": ("its key is null, and rows are found by key", "give it a key before, with select_key()"),
    "null value": ("its value is null, so there is nothing to add or to join", None),
    "null foreign key": ("its foreign key is null, so no row of the other table can belong to it", None),
    "negative timestamp": ("its timestamp is negative", "choose a timestamp extractor that gives another time"),
    "out of order": ("it is older than the latest version of its row, which is kept", None),
    "partitioner": ("the partitioner of the sink chose no partition", None),
}
"""Reasons with the same explanation for every drop."""
