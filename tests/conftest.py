"""Shared by all suites: Hypothesis profiles, and reasons to skip tests that this machine cannot run."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("quick", max_examples=40, deadline=None, derandomize=True)
settings.register_profile(
    "ci", max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=os.path.join(home, "bin")) if home else shutil.which("java")


_STARTS_A_BROKER = re.compile(r"with local_broker\(|LocalBroker\(")
_STARTS_SPARK = re.compile(r"\bspark_session\(\"examples\"\)")
_USES_SPARK = {"kstreamnb.tools.parity.parity", "kstreamnb.spark.run.run"}
"""Examples in which the kit starts the session."""


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
