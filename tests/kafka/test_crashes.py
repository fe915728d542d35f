"""S0-23: one kill in every cell of the crash matrix; ``python -m tests.kafka.crashes --runs 20`` runs all of it."""

from __future__ import annotations

import pytest

from tests.kafka.crashes import TWO, VICTIMS, run_cells
from tests.kafka.deployed import POINTS

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize("victim", [*VICTIMS, TWO], ids=lambda word: word.replace(" ", "-"))
def test_a_kill_at_any_moment_loses_and_doubles_nothing(victim: str) -> None:
    """S0-23, S0-04, S0-07, S2-30, S4-08, S4-13, S4-34: output and stores are those of the run without kills."""
    for cell in run_cells(victim, ["at once"] if victim == TWO else POINTS, 1):
        assert cell.ok, cell
        assert cell.kills == 1
        assert cell.records > 0
