"""Fixtures for pytest: ``pytest_plugins = ["kstreamnb.testing.fixtures"]`` in a ``conftest.py`` installs them."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
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
    trace = None if call.excinfo is None else call.excinfo.tb
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.startswith((_PACKAGE, "<kstreamnb")):
            trace.tb_frame.f_globals["__tracebackhide__"] = True
        trace = trace.tb_next
    return (yield)


@pytest.fixture
def topology_driver() -> Iterator[Callable[..., TopologyTestDriver]]:
    """Return a function that makes test drivers, which are closed when the test ends."""
    drivers: list[TopologyTestDriver] = []

    def make(*arguments: object, **options: object) -> TopologyTestDriver:
        drivers.append(TopologyTestDriver(*arguments, **options))  # type: ignore[arg-type]
        return drivers[-1]

    yield make
    for driver in drivers:
        driver.close()
