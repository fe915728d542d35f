"""Warms a new session up: a small job does once, in the background, what a first batch would have to wait for."""

from __future__ import annotations

import atexit
import logging
import threading

from pyspark.sql import SparkSession

from kstreamnb import hooks
from kstreamnb.background import background
from kstreamnb.spark.jvm.constants import INTERPRETED, WORKER_SETTINGS

_LOG = logging.getLogger(__name__)
_PATIENCE_S = 5.0
_warm_ups: list[WarmUp] = []


def warm_up(session: SparkSession) -> None:
    """Start the job of a session that was just started.

    An error ends it quietly: a query takes its steps itself if it must.
    """
    _warm_ups[:] = [*filter(WarmUp.is_alive, _warm_ups), WarmUp(session)]


def end_warm_up(session: SparkSession) -> None:
    """End the job if it still runs, for work that takes other steps and needs the slots."""
    for each in _warm_ups:
        if each.application == session.sparkContext.applicationId:
            each.unwanted.set()


@atexit.register
def end_warm_ups() -> None:
    """Wait for every thread: one in the middle of an import, or of native code, would abort a process that ends."""
    for each in _warm_ups:
        each.unwanted.set()
        for thread in (each.thread, each.canceller):
            thread.join(_PATIENCE_S)  # the JVM may have stopped answering


class WarmUp:
    """The job of one session, in a thread and a session that nothing else uses.

    Steps that have not begun are left out when it is ``unwanted``; another thread cancels the last one, because the
    call to the JVM may take long.
    """

    def __init__(self, session: SparkSession) -> None:
        # Here: pyspark may take a session that another thread makes for that of the program.
        own = session.newSession()
        for name, value in {**WORKER_SETTINGS, **INTERPRETED}.items():
            own.conf.set(name, value)
        self.application, self.unwanted = session.sparkContext.applicationId, threading.Event()
        group = f"kstreamnb-warm-up-{self.application}"

        def run() -> None:
            try:
                own.sparkContext.setJobGroup(group, "warms the session up")
                hooks.current().warm_up(own, lambda: not self.unwanted.is_set())
            finally:
                self.unwanted.set()

        def cancel() -> None:
            self.unwanted.wait()
            if self.thread.is_alive():
                own.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(group)  # noqa: SLF001 - has no public name

        self.thread = background(run, "warm-up", died=_note)
        self.canceller = background(cancel, "warm-up's end", died=_note)

    def is_alive(self) -> bool:
        """Return whether one of its threads may still call the JVM."""
        return self.thread.is_alive() or self.canceller.is_alive()


def _note(error: BaseException) -> None:
    _LOG.debug("the session was not warmed up", exc_info=error)
