"""Finds schedules of the wall clock that never fired, because the clock of a replay does not move."""

from __future__ import annotations

from kstreamnb.core.processor import PunctuationType
from kstreamnb.recording.recorded_run import RecordedRun

CLOCK_REMEDY = "advance the clock of a TopologyTestDriver with advance_wall_clock_time, then ks.Replay.of(driver)"


def never_fired(run: RecordedRun) -> list[str]:
    """Return, for each task, the nodes with wall-clock schedules of which none has fired."""
    codes = run.index.of_kind("punctuated", other=PunctuationType.WALL_CLOCK_TIME)
    fired = {(code.task, code.node) for code, _ in codes}
    scheduled = ((id_, node) for id_, task in run.tasks.items() for node in task.context.wall_schedules.nodes())
    return [node for id_, node in scheduled if (id_, node) not in fired]
