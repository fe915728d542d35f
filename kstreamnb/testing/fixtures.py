"""Fixtures for pytest: ``pytest_plugins = ["kstreamnb.testing.fixtures"]`` in a ``conftest.py`` installs them."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from traceback import walk_tb
from typing import Any

import pytest

from kstreamnb.hints import explain
from kstreamnb.notebook.scheduling import pytest_xdist_make_scheduler as pytest_xdist_make_scheduler
from kstreamnb.testdriver.topology_test_driver import TopologyTestDriver
from kstreamnb.tools.python_notes import python_notes

_PACKAGE = f"{Path(__file__).parent.parent}{os.sep}"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Hide the frames of the package from the report of a failed test, and add the hints that notebooks show.

    ``--full-trace`` shows the frames.

    Args:
        call: the result of one phase of the test.
    """
    if call.excinfo is not None:
        explain(call.excinfo.value, call.excinfo.tb, python_notes)
    for frame, _ in walk_tb(None if call.excinfo is None else call.excinfo.tb):
        if frame.f_code.co_filename.startswith((_PACKAGE, "<kstreamnb")):
            frame.f_globals["__tracebackhide__"] = True
    return (yield)


@pytest.fixture
def topology_driver() -> Iterator[Callable[..., TopologyTestDriver]]:
    """Return a function that makes test drivers and closes them when the test ends."""
    with ExitStack() as drivers:
        yield lambda *arguments, **options: drivers.enter_context(TopologyTestDriver(*arguments, **options))
