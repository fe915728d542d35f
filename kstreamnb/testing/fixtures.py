"""Fixtures for pytest: ``pytest_plugins = ["kstreamnb.testing.fixtures"]`` in a ``conftest.py`` installs them."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from traceback import walk_tb
from typing import Any

import pytest

from kstreamnb.testdriver.topology_test_driver import TopologyTestDriver

_PACKAGE = f"{Path(__file__).parent.parent}{os.sep}"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Hide the frames of the package from the report of a failed test; ``--full-trace`` shows them.

    Args:
        call: the result of one phase of the test.
    """
    for frame, _ in walk_tb(None if call.excinfo is None else call.excinfo.tb):
        if frame.f_code.co_filename.startswith((_PACKAGE, "<kstreamnb")):
            frame.f_globals["__tracebackhide__"] = True
    return (yield)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let one process of pytest-xdist run all cells of a notebook that nbval checks.

    Args:
        config: the configuration of pytest.
        log: the log of xdist.
    """
    if config.pluginmanager.hasplugin("kstreamnb.notebook.regression") or not config.pluginmanager.hasplugin("nbval"):
        return None
    from kstreamnb.notebook.regression import pytest_xdist_make_scheduler as make_scheduler

    return make_scheduler(config, log)


@pytest.fixture
def topology_driver() -> Iterator[Callable[..., TopologyTestDriver]]:
    """Return a function that makes test drivers and closes them when the test ends."""
    with ExitStack() as drivers:
        yield lambda *arguments, **options: drivers.enter_context(TopologyTestDriver(*arguments, **options))
