"""Fixtures and reports for pytest: ``pytest_plugins = ["kstreamnb.testing.fixtures"]`` in a ``conftest.py``."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from traceback import walk_tb
from typing import Any

import pytest

from kstreamnb.testdriver.topology_test_driver import TopologyTestDriver
from kstreamnb.testing.notebook_diff import output_diff

_PACKAGE = f"{Path(__file__).parent.parent}{os.sep}"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Hide the frames of the package from the report of a failed test; ``--full-trace`` shows them.

    The report of a notebook's cell, which nbval compares, gets the rows that differ.

    Args:
        item: the test.
        call: the result of one phase of the test.
    """
    for frame, _ in walk_tb(None if call.excinfo is None else call.excinfo.tb):
        if frame.f_code.co_filename.startswith((_PACKAGE, "<kstreamnb")):
            frame.f_globals["__tracebackhide__"] = True
    report = yield
    outputs = getattr(item, "test_outputs", None)
    if report.failed and outputs:
        reference, made = ([_sanitized(item, each) for each in all_] for all_ in (item.cell.outputs, outputs))  # type: ignore[attr-defined]
        if difference := output_diff(reference, made):
            report.sections.append(("rows that differ", difference))
    return report


def _sanitized(item: Any, output: Any) -> dict[str, Any]:
    """Return an output of a cell without differences that mean nothing, as nbval compares it."""
    data = {kind: item.sanitize(text) for kind, text in output.get("data", {}).items() if isinstance(text, str)}
    return {**output, "data": data, "text": item.sanitize(output.get("text", ""))}


@pytest.fixture
def topology_driver() -> Iterator[Callable[..., TopologyTestDriver]]:
    """Return a function that makes test drivers and closes them when the test ends."""
    with ExitStack() as drivers:
        yield lambda *arguments, **options: drivers.enter_context(TopologyTestDriver(*arguments, **options))
