"""Shared by all suites: Hypothesis profiles, and reasons to skip tests that this machine cannot run."""

from __future__ import annotations

import gc
import os
import re
import shutil
import signal
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from _pytest.doctest import DoctestItem, DoctestModule
from hypothesis import HealthCheck, settings

from tests import leaks

settings.register_profile("quick", max_examples=40, deadline=None, derandomize=True)
settings.register_profile(
    "ci", max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

# Shells have processes in the background ignore interrupts, which tests send to themselves and to what they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests ask servers on this machine, which a proxy of the network does not reach.
for _name in ("no_proxy", "NO_PROXY"):
    os.environ[_name] = ",".join(filter(None, (os.environ.get(_name), "127.0.0.1", "localhost")))


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=os.path.join(home, "bin")) if home else shutil.which("java")


_STARTS_A_BROKER = re.compile(r"with local_broker\(|LocalBroker\(")
_STARTS_SPARK = re.compile(r"\bspark_session\(\"examples\"\)|>>> .*(?<![.\w])(run|parity)\(")
"""Examples that start a session, or in which `run` or `parity` starts one."""


_UNTRACED = (
    "tests/applications/",
    "tests/golden/test_changelogs.py",
    "tests/golden/test_dsl.py",
    "tests/golden/test_headers.py",
    "tests/golden/test_levels.py",
    "tests/golden/test_vectors.py::test_kafka_streams_would_answer_the_same[behaviour",
    "tests/notebook/",
    "tests/property/",
    "tests/semantics/",
    "tests/spark/test_changelogs.py",
    "tests/spark/test_levels.py",
    "tests/spark/test_plan.py",
    "tests/spark/test_state_logs.py",
    "tests/spark/test_task_files.py",
    "tests/unit/core/test_operator_traits.py",
    "tests/unit/course/test_exercises.py",
    "tests/unit/replays/",
    "tests/unit/simulation/",
    "tests/unit/state/test_laws.py",
    "tests/unit/test_background.py",
    "tests/unit/test_completeness.py",
    "tests/unit/test_docs.py",
    "tests/unit/test_docstrings.py",
    "tests/unit/test_extras.py",
    "tests/unit/test_requirements.py",
    "tests/unit/test_serving.py",
    "tests/unit/test_strategies.py",
    "tests/unit/test_tidy.py",
    "tests/unit/testdriver/test_race_detector.py",
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
    return "spark" if _STARTS_SPARK.search(source) else None


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


def pytest_collection_finish() -> None:
    """Exclude tests from garbage collections: they live until the end, and every full collection would visit them."""
    gc.freeze()


class _Examples:
    """Looks for examples only in modules that have some, and not in files of tests: a search of all takes each worker a
    second.

    A plugin, because hooks of this file are called for files of its folder only.
    """

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path: Path) -> Generator[None, Any, Any]:
        found = yield
        return [each for each in found if not isinstance(each, DoctestModule) or _has_examples(file_path)]


def _has_examples(path: Path) -> bool:
    # A package shows the classes of its modules as its own.
    paths = path.parent.glob("*.py") if path.name == "__init__.py" else [path]
    return not path.name.startswith("test_") and any(b">>> " in each.read_bytes() for each in paths)


class _Rotated:
    """Lets each worker of xdist collect the files of a folder beginning with another one.

    On a fresh checkout, workers with the same order compile every file at the same time, each for itself.
    """

    def __init__(self, config: pytest.Config, worker: dict[str, Any]) -> None:
        self._begin = int(worker["workerid"].removeprefix("gw")) / worker["workercount"]
        self._arguments = [config.invocation_params.dir / each.partition("::")[0] for each in config.args]

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, Any, Any]:
        report = yield
        if isinstance(collector, pytest.Directory):
            first = int(len(report.result) * self._begin)
            report.result = report.result[first:] + report.result[:first]
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Sort the files again: all workers must have the same tests in the same order."""
        items.sort(key=lambda item: (self._argument(item.path), item.path.parts, isinstance(item, DoctestItem)))

    @cache  # noqa: B019 - one for each worker
    def _argument(self, path: Path) -> int:
        """Return the position of the argument that a file belongs to."""
        return next((at for at, each in enumerate(self._arguments) if path.is_relative_to(each)), 0)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Examples())
    config.pluginmanager.register(leaks)
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(_Rotated(config, config.workerinput))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, Any, Any]:
    """Pause coverage while tests are collected: imports take few branches of the spine."""
    with _untraced():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Pause coverage for some tests."""
    if not item.nodeid.startswith(_UNTRACED):
        return (yield)
    with _untraced():
        return (yield)


@contextmanager
def _untraced() -> Iterator[None]:
    """Pause coverage.

    The marker ``no_cover`` has no effect in workers of xdist: each starts two measurements, and pausing one of them
    resumes the other.
    """
    tracer = sys.gettrace()
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(tracer)
        _call()


def _call() -> None:
    """Do nothing: a tracer that is set is active in running functions only after the next call."""


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One small local session with two slots, shared by all tests that need one."""
    from kstreamnb.spark.jvm.session import spark_session

    session = spark_session("kstreamnb-tests", settings={"spark.driver.memory": "1g"})
    yield session
    session.stop()
