"""Shared by all suites: Hypothesis profiles, and reasons to skip tests that this machine cannot run."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("quick", max_examples=40, deadline=None, derandomize=True)
settings.register_profile(
    "ci", max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

# Shells have processes in the background ignore interrupts, which tests send to themselves and to what they start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=os.path.join(home, "bin")) if home else shutil.which("java")


_STARTS_A_BROKER = re.compile(r"with local_broker\(|LocalBroker\(")
_STARTS_SPARK = re.compile(r"\bspark_session\(\"examples\"\)")
_USES_SPARK = {"kstreamnb.tools.parity.parity", "kstreamnb.spark.run.run"}
"""Examples in which the kit starts the session."""


_UNTRACED = (
    "tests/notebook/",
    "tests/property/test_cells.py",
    "tests/property/test_cluster.py",
    "tests/property/test_nonsense.py",
    "tests/property/test_time_travel.py",
    "tests/spark/test_changelogs.py",
    "tests/spark/test_levels.py",
    "tests/spark/test_state_logs.py",
    "tests/spark/test_task_files.py",
    "tests/unit/course/test_exercises.py",
    "tests/unit/simulation/",
    "tests/unit/test_docs.py",
    "tests/unit/test_docstrings.py",
    "tests/unit/test_extras.py",
    "tests/unit/test_requirements.py",
    "tests/unit/test_tidy.py",
    "tests/unit/widgets/",
)
"""Tests that coverage does not trace, because tracing makes them twice as long: they are about other packages, or take
long, and reach few branches of the spine that no other test reaches.
"""


def _suite_of(example: pytest.DoctestItem) -> str | None:
    """Return the mark of the suite that a docstring's example belongs to, if it starts a broker or a session."""
    source = example.dtest.docstring or ""
    if _STARTS_A_BROKER.search(source):
        return "kafka"
    return "spark" if example.name in _USES_SPARK or _STARTS_SPARK.search(source) else None


@pytest.hookimpl(tryfirst=True)  # before tests are selected by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests that need Java or Chromium if it is missing, and say why."""
    needs_java = pytest.mark.skip(reason="needs Java 17 or later: install a JRE and set JAVA_HOME or PATH")
    needs_chromium = pytest.mark.skip(reason="needs Chromium: install the package chromium")
    for item in items:
        if isinstance(item, pytest.DoctestItem) and (suite := _suite_of(item)):
            item.add_marker(suite)
        if (item.get_closest_marker("spark") or item.get_closest_marker("kafka")) and _java() is None:
            item.add_marker(needs_java)
        if item.get_closest_marker("browser") and shutil.which("chromium") is None:
            item.add_marker(needs_chromium)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Pause coverage for some tests.

    The marker ``no_cover`` has no effect in workers of xdist: each starts two measurements, and pausing one of them
    resumes the other.
    """
    tracer = sys.gettrace()
    if tracer is None or not item.nodeid.startswith(_UNTRACED):
        return (yield)
    sys.settrace(None)
    try:
        return (yield)
    finally:
        sys.settrace(tracer)
        _call()


def _call() -> None:
    """Do nothing: a tracer that is set is active in running functions only after the next call."""


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One small local session with two slots, shared by all tests that need one."""
    from kstreamnb.spark.jvm.session import spark_session

    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    session = spark_session("kstreamnb-tests", settings=settings)
    yield session
    session.stop()
