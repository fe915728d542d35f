"""Tells whether a session has executors, and warns of jobs that wait for some."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from kstreamnb.background import background
from kstreamnb.spark.jvm.session import is_local

_LOG = logging.getLogger(__name__)  # without a handler, so that Python prints warnings by default
_PATIENCE_S = 30.0  # executors of an idle cluster start sooner
NO_EXECUTORS = "waiting because Spark has no executors"


def has_executors(spark: SparkSession) -> bool:
    """Return whether any executor can run tasks; a standalone master that lost its state removes all of them."""
    if is_local(spark):
        return True
    with suppress(Py4JError, OSError):  # the end of the stream tells that the JVM is gone
        known = spark.sparkContext._jsc.sc().getExecutorMemoryStatus()  # noqa: SLF001 - the driver is among them
        return int(known.size()) > 1
    return True


@contextmanager
def warn_without_executors(spark: SparkSession) -> Iterator[None]:
    """Warn, less and less often, while the jobs of a block wait for executors: Spark tells only its own log."""
    done, application = threading.Event(), spark.sparkContext.appName

    def watch() -> None:
        seconds = _PATIENCE_S
        while not done.wait(seconds) and not has_executors(spark):
            seconds *= 2
            text = "%s: %s; the cluster may have no free cores or memory, see its web page and spark.cores.max"
            _LOG.warning(text, application, NO_EXECUTORS)

    watching = background(watch, "executors")
    try:
        yield
    finally:
        done.set()
        watching.join()
