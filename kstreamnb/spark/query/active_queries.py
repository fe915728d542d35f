"""The queries of this process that were started and not stopped."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from kstreamnb.background import background
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
    """Stop all active queries in parallel; returns those that it stopped, oldest first, failed ones included.

    Args:
        timeout_s: seconds to wait for all of them together. Default: 5.

    Raises:
        SparkError: some queries did not stop in time, or failed to stop; the message names them.

    Example:
        >>> stop_all()
        ()
    """
    check_arguments(stop_all, locals())
    queries = active()
    failures: list[tuple[str, BaseException]] = []  # two queries may have the same application

    def failed(query: Query, error: BaseException) -> None:
        failures.append((query.application, error))

    threads = [background(query.stop, "kstreamnb-stop", died=partial(failed, query)) for query in queries]
    end = time.monotonic() + timeout_s
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    late = [query.application for query, thread in zip(queries, threads, strict=True) if thread.is_alive()]
    if late:
        raise SparkError(f"queries did not stop within {timeout_s:g} s: {', '.join(late)}")
    if failures:
        names, details = ", ".join(name for name, _ in failures), "; ".join(message_of(error) for _, error in failures)
        raise SparkError(f"queries failed to stop: {names}", detail=details)
    return queries
