"""The queries of this process that were started and not stopped."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from kstreamnb.core.arguments import check_arguments
from kstreamnb.errors import SparkError
from kstreamnb.hints import message_of

if TYPE_CHECKING:  # a query registers itself here
    from kstreamnb.spark.query.query import Query

_active: dict[int, Query] = {}  # by identity, in the order of their starts


def add_active(query: Query) -> None:
    """Add a query that was started."""
    _active[id(query)] = query


def remove_active(query: Query) -> bool:
    """Remove a query; returns whether it was active."""
    return _active.pop(id(query), None) is not None


def active() -> tuple[Query, ...]:
    """Return the queries of this process that were started and not stopped, oldest first; failed ones are included.

    Example:
        >>> active()
        ()
    """
    return tuple(_active.values())


def stop_all(timeout_s: float = 5.0) -> tuple[Query, ...]:
    """Stop all active queries in parallel; returns those that it stopped.

    Args:
        timeout_s: seconds to wait for all of them together. Default: 5.

    Raises:
        SparkError: some queries did not stop in time; the message names them.

    Example:
        >>> stop_all()
        ()
    """
    check_arguments(stop_all, locals())
    queries = active()
    failures: dict[str, str] = {}
    threads = [threading.Thread(target=_stop, args=(query, failures), daemon=True) for query in queries]
    for thread in threads:
        thread.start()
    end = time.monotonic() + timeout_s
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    late = [query.application for query, thread in zip(queries, threads, strict=True) if thread.is_alive()]
    if late:
        raise SparkError(f"queries did not stop within {timeout_s:g} s: {', '.join(late)}")
    if failures:
        raise SparkError(f"queries failed to stop: {', '.join(failures)}", detail="; ".join(failures.values()))
    return queries


def _stop(query: Query, failures: dict[str, str]) -> None:
    try:
        query.stop()
    except Exception as error:
        failures[query.application] = message_of(error)
