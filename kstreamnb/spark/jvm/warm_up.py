"""Warms a new session up: a small job does once, in the background, what a first batch would have to wait for."""

from __future__ import annotations

import atexit
import logging
from contextlib import suppress

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from kstreamnb import hooks
from kstreamnb.background import background
from kstreamnb.spark.jvm.constants import WORKER_SETTINGS

_LOG = logging.getLogger(__name__)
_TAG = "kstreamnb-warm-up"
_warm_ups: list[WarmUp] = []


def warm_up(session: SparkSession) -> None:
    """Start the job of a session that was just started.

    An error ends it quietly: a query takes its steps itself if it must.
    """
    _warm_ups[:] = [*(each for each in _warm_ups if each.thread.is_alive()), WarmUp(session)]


def end_warm_up(session: SparkSession) -> None:
    """End the job if it still runs, for work that takes other steps and needs the slots."""
    for each in _warm_ups:
        if each.thread.is_alive() and each.application == session.sparkContext.applicationId:
            each.cancel()


@atexit.register
def _end_all() -> None:
    """Wait for every thread: one in the middle of an import, or of native code, would abort a process that ends."""
    for each in _warm_ups:
        if each.thread.is_alive():
            with suppress(Py4JError, OSError, AttributeError):  # its JVM is gone or stopped, which ends the thread, too
                each.cancel()
            each.thread.join()


class WarmUp:
    """The job of one session, in a thread and a session that nothing else uses."""

    def __init__(self, session: SparkSession) -> None:
        # Here: pyspark may take a session that another thread makes for that of the program.
        self._session = session.newSession()
        for name, value in WORKER_SETTINGS.items():
            self._session.conf.set(name, value)
        self.application, self._wanted = session.sparkContext.applicationId, True
        self.thread = background(self._run, "warm-up", died=self._note)

    def cancel(self) -> None:
        """Leave out the steps that have not begun, each of which takes a second, and cancel the last one."""
        self._wanted = False
        self._session.sparkContext.cancelJobsWithTag(_TAG)

    def _run(self) -> None:
        self._session.sparkContext.addJobTag(_TAG)
        if (job := hooks.current().warm_up) is not None:
            job(self._session, lambda: self._wanted)

    def _note(self, error: BaseException) -> None:
        _LOG.debug("the session was not warmed up", exc_info=error)
