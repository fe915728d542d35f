"""What happens when a query fails, or loses its checkpoint: the application's uncaught handler decides."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kstreamnb.errors import KStreamError
from kstreamnb.runtime.context.handlers import UncaughtHandler, uncaught_answer
from kstreamnb.spark.execution.failures import TOO_SLOW

if TYPE_CHECKING:  # a supervisor is a query's companion
    from kstreamnb.spark.query.query import Query

__all__ = ["RestartPolicy"]


_PAUSE_S = 0.5


class RestartPolicy:
    """Looks after a query: asks the handler when it fails; "replace_thread" starts it again, once for a failing record.

    Looking also revives a query whose start failed because the machine was busy.
    """

    def __init__(self, query: Query, handler: UncaughtHandler) -> None:
        self._query, self._handler = query, handler
        self._failed: Any = None  # coordinates of the record that the query failed on last

    def __call__(self, lasts: Callable[[], bool]) -> None:
        """Look after one start, as long as it lasts."""
        query, pause = self._query, threading.Event()
        while lasts():
            while query.is_active() and lasts():
                lost = query.checkpoint_gone
                if lost is not None:
                    query.fail(lost)
                pause.wait(_PAUSE_S)
            error = query.exception()
            if error is None or not self._goes_on(error) or not lasts():
                return
            try:
                query.restart(takes_over=False)
            except KStreamError as why:
                if TOO_SLOW not in str(why):  # else whoever looks next tries again
                    query.fail(why)
                    return

    def _goes_on(self, error: KStreamError) -> bool:
        if not getattr(error, "restartable", True):
            return False  # a newer deployment has taken over, or a person has to decide
        if uncaught_answer(self._handler, error) != "replace_thread":
            return False
        coordinates = getattr(error, "coordinates", None)
        if coordinates is not None and coordinates == self._failed:
            error.add_note("Hint: every thread that takes over fails on this record; Kafka Streams would never end.")
            return False
        self._failed = coordinates
        return True
