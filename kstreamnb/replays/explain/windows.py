"""Explains why a window is still open, and which record would close it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kstreamnb.core.arguments import check_arguments
from kstreamnb.core.formatting import format_interval, format_time, format_value, join_list
from kstreamnb.core.time import format_duration
from kstreamnb.core.windows import SessionWindows, SlidingWindows
from kstreamnb.errors import EngineError
from kstreamnb.hints import expect_known
from kstreamnb.recording.recorded_run import RecordedRun
from kstreamnb.replays.analysis.buffered_records import BufferedRecord, buffered_records
from kstreamnb.replays.analysis.node_flow import is_about
from kstreamnb.replays.analysis.open_windows import OpenWindow, open_windows, windowed_nodes
from kstreamnb.replays.explain.explanation import Explanation, Explanations, described
from kstreamnb.replays.navigation import Navigation
from kstreamnb.topology.nodes import walk


def why_open(self: Navigation, store: str | None = None, key: object = None, *, at: int | None = None) -> Explanations:
    """Explain open windows after ``at`` steps (default: the end), and what would close them.

    Records that suppressions, joins with grace and outer joins hold back are explained, too.

    Args:
        store: name of the store. Default: all stores with windows.
        key: key of the window. Default: any.
        at: number of steps. Default: the end of the run.

    Raises: EngineError if the topology has no such store.
    """
    check_arguments(why_open, locals())
    run = self.run
    step = len(run.steps) if at is None else at
    if store is not None:
        expect_known("store", [store], sorted(run.stores), error=EngineError)
    windows = list(open_windows(run, step))
    known = {(window.task, repr(window.key)) for window in windows}  # a list as a key has no hash
    waiting = [each for each in buffered_records(run, step) if (each.task, repr(each.key)) not in known]
    result = [_explained(run, each, step) for each in windows if _asked(each, store, key)]
    result += [_explain_buffered(run, each) for each in waiting if _asked(each, store, key)]
    return Explanations(result, f"no window is open after step {step}, and nothing is held back")


def _asked(about: OpenWindow | BufferedRecord, store: str | None, key: object) -> bool:
    """Return whether something belongs to the store and key in question."""
    return store in (None, about.store) and is_about(about.key, key)


_WORDS = {
    "change": ("change", "is held back", "it comes out"),
    "row": ("record", "waits for its table", "it is joined"),
    "partner": ("record", "has no partner", "it is emitted alone"),
}


def _explain_buffered(run: RecordedRun, each: BufferedRecord) -> Explanation:
    """Explain why a change or record waits."""
    buffer = run.topology.nodes[each.node].traits.buffer
    assert buffer is not None
    what, waits, out = _WORDS[buffer.kind]
    now, missing = each.stream_time_ms, each.due_ms - each.stream_time_ms
    record = f"a {what} of key {format_value(each.key)} (value {format_value(each.value)})"
    return Explanation(
        f"{record} {waits} at {described(run, each.node)} in task {each.task}: {out} at stream time "
        f"{format_time(each.due_ms)} ({each.rule}), and stream time there is {format_time(now)}",
        numbers={"stream_time_ms": now, "due_ms": each.due_ms, "missing_ms": missing},
        node=each.node,
        task=each.task,
        origin=run.topology.nodes[each.node].origin,
        remedy=f"a record with time {format_time(each.due_ms)} or later ({format_duration(missing)} ahead) releases "
        f"it: any key of {_partitions(run, each.task)} that reaches it",
    )


def _explained(run: RecordedRun, window: OpenWindow, step: int) -> Explanation:
    windows, _ = windowed_nodes(run)[window.node]
    key, start, end = window.key
    shown = format_interval(start, end, closed=isinstance(windows, (SessionWindows, SlidingWindows)))
    kind = "session" if isinstance(windows, SessionWindows) else "window"
    what = f"{kind} {shown} of key {format_value(key)} is open"
    numbers = {"window_start": start, "window_end": end, "stream_time_ms": window.stream_time_ms}
    about: dict[str, Any] = {"node": window.node, "task": window.task, "origin": run.topology.nodes[window.node].origin}
    if window.never_closes:
        return Explanation(f"{what}: it has no end", numbers=numbers, **about)
    grace = windows.grace_ms
    gap = windows.gap_ms if isinstance(windows, SessionWindows) else 0
    waits = f"end {format_time(end)}{f' + gap {format_duration(gap)}' if gap else ''} + grace {format_duration(grace)}"
    last = window.closes_at_ms - end - gap - grace
    closing = f"{format_time(window.closes_at_ms)} ({waits}{f' + {format_duration(last)}' if last else ''})"
    numbers |= {"closes_at_ms": window.closes_at_ms, "grace_ms": grace}
    missing = window.closes_at_ms - window.stream_time_ms
    now = format_time(window.stream_time_ms)
    return Explanation(
        f"{what}: it closes at stream time {closing}, and task {window.task} is at {now}",
        because=(*_held_back(run, window.node), *_idle(run, window, step)),
        numbers={**numbers, "missing_ms": missing},
        remedy=f"a record with time {format_time(window.closes_at_ms)} or later ({format_duration(missing)} ahead) "
        f"closes it: any key of {_partitions(run, window.task)} that reaches {described(run, window.node)}",
        **about,
    )


def _partitions(run: RecordedRun, task: str) -> str:
    """Return a task's input partitions as text."""
    plan = run.tasks[task].plan
    sources = [source for source in run.topology.sources() if source.name in run.tasks[task].nodes]
    topics = [f'"{plan.topic(topic)}"' for source in sources for topic in source.topics]
    return f"partition {plan.partition} of {join_list(topics)}"


def _held_back(run: RecordedRun, node: str) -> Iterator[str]:
    """Yield what emits nothing before the window closes: suppressions downstream, or the node itself."""
    for name in walk(run.topology.children(node), run.topology.children):
        buffer = run.topology.nodes[name].traits.buffer
        if buffer is not None and buffer.window_end:
            yield f"{described(run, name)} holds its result back until then"
    if run.topology.nodes[node].traits.emit_on_close:
        yield "its result is emitted only when it closes"


def _idle(run: RecordedRun, window: OpenWindow, step: int) -> list[str]:
    """Return other tasks of the node that are ahead: stream time is tracked per task."""
    others = (task for task, other in run.tasks.items() if task != window.task and window.node in other.nodes)
    times = ((task, run.index.stream_time(task, step)) for task in others)
    pending = [f"task {task} is at {format_time(time)}" for task, time in times if time >= window.closes_at_ms]
    return [f"{join_list(pending)}, but each task has its own stream time"] if pending else []
