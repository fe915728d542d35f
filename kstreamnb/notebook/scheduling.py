"""Lets pytest-xdist run the cells of a notebook, which depend on each other, in one process."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let one process of pytest-xdist run all cells of a notebook, however it distributes tests otherwise.

    Args:
        config: the configuration of pytest.
        log: the log of xdist.
    """
    nbval = config.getoption("nbval", default=False) or config.getoption("nbval_lax", default=False)
    if not nbval or config.getoption("dist") not in ("load", "loadgroup", "worksteal"):
        return None  # the others keep the tests of a file together
    from xdist.scheduler import LoadGroupScheduling

    class NotebookScheduling(LoadGroupScheduling):
        """Tests one by one, or by the groups of their marks; cells by their notebook."""

        def _split_scope(self, nodeid: str) -> str:
            file, cell, _ = nodeid.partition(".ipynb::")
            return file if cell else super()._split_scope(nodeid)

    return NotebookScheduling(config, log)
