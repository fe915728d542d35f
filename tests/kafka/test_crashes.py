"""S0-23: one kill in every cell of the crash matrix; ``python -m tests.kafka.crashes --runs 20`` runs all of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kstreamnb.kafka.broker_process import LocalBroker
from tests.kafka.crashes import VICTIMS, run_victim

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize("publish", ["driver", "executors"])
@pytest.mark.parametrize("victim", VICTIMS, ids=lambda word: word.replace(" ", "-"))
def test_a_kill_at_any_moment_loses_and_doubles_nothing(
    victim: str, publish: str, broker: LocalBroker, tmp_path: Path
) -> None:
    """S0-23, S0-04, S0-07, S2-30, S4-08, S4-13, S4-34: output and stores equal those of the run without kills."""
    for cell in run_victim(victim, 1, broker, tmp_path, publish=publish):
        assert cell.ok, cell
        assert cell.kills == 1
        assert cell.records > 0
