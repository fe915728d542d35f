"""What happens after a query has failed: the application's uncaught handler decides."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from kstreamnb.errors import KStreamError
from kstreamnb.runtime.handlers import UncaughtHandler, uncaught_answer
from kstreamnb.spark.failure import TOO_SLOW

if TYPE_CHECKING:  # a query starts its supervisor
    from kstreamnb.spark.query import Query

__all__ = ["supervise"]

_PAUSE_S = 0.5


def supervise(query: Query, handler: UncaughtHandler) -> None:
    """Look after a query: ask the handler when it fails; "replace_thread" starts it again, once for a failing record.

    Looking also revives a query whose start failed because the machine was busy.
    """
    threading.Thread(target=_run, args=(query, handler), daemon=True, name="kstreamnb-supervisor").start()


def _run(query: Query, handler: UncaughtHandler) -> None:
    pause, failed = threading.Event(), None
    while True:
        while query.is_active():
            pause.wait(_PAUSE_S)
        error = query.exception()
        if error is None or not _goes_on(handler, error):
            return
        coordinates = getattr(error, "coordinates", None)
        if coordinates is not None and coordinates == failed:
            error.add_note("Hint: every thread that takes over fails on this record; Kafka Streams would never end.")
            return
        failed = coordinates
        try:
            query.restart(takes_over=False)
        except KStreamError as why:
            if TOO_SLOW not in str(why):  # else whoever looks next tries again
                query.fail(why)
                return


def _goes_on(handler: UncaughtHandler, error: KStreamError) -> bool:
    if not getattr(error, "restartable", True):
        return False  # a newer deployment has taken over, or a person has to decide
    return uncaught_answer(handler, error) == "replace_thread"
