"""The restart policy of a query: the application's uncaught exception handler decides about each failure."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from kstreamnb.errors import KStreamError, ProcessingError
from kstreamnb.hints import message_of
from kstreamnb.runtime.context.handlers import UncaughtHandler, uncaught_answer
from kstreamnb.spark.query.lifecycle import Actor
from kstreamnb.spark.query.query import Query

_PAUSE_S = 0.5
_REPEATED = "fix the cause: every replacement thread fails in the same way. Kafka Streams retries for ever."


class RestartPolicy:
    """Restarts a failed query if the handler answers "replace_thread", but once for each failure without progress.

    The second failure of the same kind, with no batch finished in between, ends the query: at the same record, or
    at the same node if the failure belongs to no record, such as that of a punctuator. The drivers have the same rule.
    """

    def __init__(self, query: Query, handler: UncaughtHandler) -> None:
        self._query, self._handler = query, handler
        self._last_failure: tuple[object, ...] | None = None

    def __call__(self, lasts: Callable[[], bool]) -> None:
        """Attend to one start, until its end or the next start."""
        query, control, pause = self._query, self._query.control, threading.Event()
        handle = control.handle
        while query.is_active() and lasts():
            lost = control.lost()
            if lost is not None:
                control.end_with(lost)
            pause.wait(_PAUSE_S)
        error = query.exception()
        if error is not None and lasts() and self.restarts_after(error):
            control.action.log.warn("starts again", reason=error.message)
            with suppress(KStreamError):  # the failed start is the query's error now
                control.start(Actor.COMPANION, after=handle)

    def restarts_after(self, error: KStreamError) -> bool:
        """Ask the handler about an error; never twice about the same failure without a batch in between."""
        if not getattr(error, "restartable", True):
            return False
        try:
            if uncaught_answer(self._handler, error) != "replace_thread":
                return False
        except Exception as own:  # of the user's handler, whose caller nobody waits for
            error.add_note(f"Hint: fix the uncaught handler; it failed: {message_of(own)}")
            return False
        node, coordinates = (error.node, error.coordinates) if isinstance(error, ProcessingError) else ("", None)
        failure = (type(error), node, coordinates, self._query.control.action.last.number)
        if failure == self._last_failure:
            error.add_note(f"Hint: {_REPEATED}")
            return False
        self._last_failure = failure
        return True
