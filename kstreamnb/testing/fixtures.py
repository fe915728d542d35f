"""Fixtures for pytest: ``pytest_plugins = ["kstreamnb.testing.fixtures"]`` in a ``conftest.py`` installs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kstreamnb.testdriver.topology_test_driver import TopologyTestDriver


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
