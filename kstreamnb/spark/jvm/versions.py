"""The versions of Spark that kstreamnb runs on, and what depends on them."""

from __future__ import annotations

import logging
from functools import cache
from typing import Any

import pyspark

from kstreamnb.errors import MissingPackageError

Version = tuple[int, ...]

OLDEST, NEWEST = (4, 1), (4, 3)
"""The first and the last minor version that the suites have run on."""

_LOG = logging.getLogger(__name__)  # without a handler, so that Python prints warnings by default


def version_of(text: str) -> Version:
    """Return the major and minor number of a version.

    Example:
        >>> version_of("4.10.0.dev2")
        (4, 10)
    """
    return tuple(map(int, text.split(".")[:2]))


def not_checked(version: str, since: Version = OLDEST) -> str | None:
    """Return why a version of Spark is not one of those from ``since`` to `NEWEST`, None if it is.

    Example:
        >>> not_checked("4.4.0", (4, 2))
        'checked with Spark 4.2 to 4.3, this is 4.4.0'
    """
    if since <= version_of(version) <= NEWEST:
        return None
    checked = " to ".join("{}.{}".format(*each) for each in dict.fromkeys((since, NEWEST)))
    return f"checked with Spark {checked}, this is {version}"


@cache
def warn_of_newer(version: str) -> None:
    """Warn once of a Spark that is newer than `NEWEST`."""
    if version_of(version) > NEWEST:
        _LOG.warning("Spark %s is newer than the versions that kstreamnb was tried with: its patches are off", version)


if version_of(pyspark.__version__) < OLDEST:  # before a public name is loaded that would fail on it
    fact = "pyspark {} is too old, expected {}.{} or later".format(pyspark.__version__, *OLDEST)
    raise MissingPackageError(fact, hint='pip install "kstreamnb[spark]"')

PLANS_BOUNDED_RUNS = MOVES_STATE = version_of(pyspark.__version__) >= (4, 2)
"""Spark passes a Python source the beginning of each batch, and announces a run over the records that exist; and it
can spread state over another number of partitions.
"""

BoundedReader: Any = object
"""The base class of readers that Spark tells of such a run."""

if PLANS_BOUNDED_RUNS:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

    BoundedReader = SupportsTriggerAvailableNow
