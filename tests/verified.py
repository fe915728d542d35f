"""A fixture for conftest modules: every test driver compares its stores with their changelogs after each call."""

from __future__ import annotations

import pytest

from kstreamnb.testdriver.topology_test_driver import TopologyTestDriver

__all__ = ["stores_are_what_their_changelogs_make_of_them"]


@pytest.fixture(autouse=True)
def stores_are_what_their_changelogs_make_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """S0-09: a store that differs from the fold of its changelog fails the test in which that happens."""
    monkeypatch.setattr(TopologyTestDriver, "verify_by_default", True)
