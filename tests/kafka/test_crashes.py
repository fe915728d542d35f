"""S0-23: one kill in every cell of the crash matrix; ``python -m tests.kafka.crashes --runs 20`` runs all of it."""

from __future__ import annotations

import pytest

from tests.kafka.crashes import CELLS, run_cell

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize(("victim", "point"), CELLS, ids=lambda word: word.replace(" ", "-"))
def test_a_kill_at_any_moment_loses_and_doubles_nothing(victim: str, point: str) -> None:
    """S0-23, S0-04, S0-07, S4-13, S4-34: output under read_committed and stores are those of the run without kills."""
    cell = run_cell(victim, point, 1)
    assert cell.ok, cell
    assert cell.kills == 1
    assert cell.records > 0
