"""Reports the task, node and record of a batch that runs longer than expected."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from kstreamnb.core.time import Duration, duration_ms
from kstreamnb.errors import EngineError
from kstreamnb.spark.execution.worker_progress import positions_folder, task_positions
from kstreamnb.spark.jvm.executors import NO_EXECUTORS, has_executors
from kstreamnb.spark.query.batch_handler import SlowBatch
from kstreamnb.spark.state.checkpoint_reader import last_begun

if TYPE_CHECKING:  # the watch is a companion of the query
    from kstreamnb.spark.query.query import Query

_EVERY_S = 0.5


class SlowBatches:
    """Sets ``query.control.action.slow`` while a batch takes longer than ``slow``, and logs it.

    The log gets an entry when a batch becomes slow, and another one each time its duration has doubled.
    """

    def __init__(self, query: Query, slow: Duration) -> None:
        self._query, self._slow_s = query, duration_ms(slow, "slow_batch") / 1000
        self._number = -1
        self._begun_s = self._moved_s = self._told_s = 0.0
        self._records: tuple[str, ...] = ()

    def __call__(self, lasts: Callable[[], bool]) -> None:
        """Watch until the query ends or is started again."""
        pause, action = threading.Event(), self._query.control.action
        self._number = -1
        while not pause.wait(min(_EVERY_S, max(0.05, self._slow_s / 4))) and lasts() and self._query.is_active():
            action.slow = self._look(time.monotonic())
        if lasts():
            action.slow = None

    def _phase(self) -> str:
        """Return what a batch does while no task is at work."""
        action = self._query.control.action
        if self._query.book.away is not None:
            return "waiting for Kafka, which cannot be reached"
        if action.busy.locked():
            return "publishing to Kafka" if action.sink.kafka else "publishing to the sink"
        if not has_executors(self._query.spark):
            return NO_EXECUTORS
        return "starting" if positions_folder(self._query.control.files) is not None else "positions unknown"

    def _look(self, now_s: float) -> SlowBatch | None:
        query, files = self._query, self._query.control.files
        positions = tuple(each for each in task_positions(positions_folder(files)) if each.alive)
        try:
            begun = last_begun(files)
        except EngineError:  # the storage does not answer now: if that lasts, the query reports it
            return None
        done = query.control.action.last.number
        if begun <= done:
            self._number = -1
            return None
        number = max(begun - 1, done + 1)  # the one before the last may still be published
        positions = positions if number == begun else ()  # its tasks have ended: they are at work on the next one
        if number != self._number:
            self._number, self._begun_s, self._moved_s, self._told_s = number, now_s, now_s, self._slow_s
        records = tuple(f"{each.task} {each.record}{each.restored}" for each in positions)
        if records != self._records:
            self._records, self._moved_s = records, now_s
        seconds = now_s - self._begun_s
        if seconds < self._slow_s and not any(each.restored for each in positions):
            return None
        known = bool(positions) and not any(each.unknown for each in positions)
        phase = self._phase()
        stuck = (known or phase == NO_EXECUTORS) and now_s - self._moved_s >= self._slow_s
        slow = SlowBatch(number, seconds, positions, stuck, phase)
        if seconds >= self._told_s:
            self._told_s = 2 * seconds
            query.control.action.log.warn("slow batch", batch=number, seconds=round(seconds), at=str(slow))
        return slow
