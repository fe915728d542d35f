"""The crash matrix itself: a process that ends by anything but a blow of the matrix is a failure of the matrix."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from kstreamnb.kafka.broker_process import LocalBroker
from tests.kafka.crashes import TWO, VICTIMS, Ordeal, wrong_end

BLOW = "print('{\"blow\": 1}', flush=True); "
DIES = "import os, signal; {blow}os.kill(os.getpid(), signal.{signal})"


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("victim", "blow", "by", "said"),
    [
        ("driver", "", "SIGKILL", "process 1 died of signal 9 without a blow"),
        ("driver", "", "SIGSEGV", "process 1 died of signal 11 without a blow"),
        ("driver", BLOW, "SIGABRT", "process 1 died of signal 6, which its blow does not explain"),
        ("jvm", BLOW, "SIGSEGV", "process 1 died of signal 11, which its blow does not explain"),
        ("worker", "", "SIGABRT", "process 1 died of signal 6 without a blow"),
        ("asleep", BLOW, "SIGKILL", "process 1 died of signal 9, which its blow does not explain"),
        (TWO, "", "SIGSEGV", "ended with -11 before it was stopped"),
    ],
)
def test_a_process_that_dies_of_a_signal_that_the_matrix_did_not_send_fails_every_cell(
    victim: str, blow: str, by: str, said: str, broker: LocalBroker, tmp_path: Path
) -> None:
    """The process dies, with or without a blow, and no cell is good."""
    ordeal = Ordeal(victim, broker, tmp_path, ("-c", DIES.format(blow=blow, signal=by)))
    ordeal.live(1)
    for cell in ordeal.cells.values():
        assert not cell.ok
        assert said in cell.wrong[0]


def test_only_the_code_that_a_blow_causes_is_explained_by_it() -> None:
    """A driver is killed; a driver whose JVM is killed ends with an error; whatever else is hit must survive."""
    codes = (-signal.SIGKILL, -signal.SIGSEGV, -signal.SIGABRT, -signal.SIGTERM, 1, 2)
    explained = {(victim, code) for victim in VICTIMS for code in codes if not wrong_end(victim, code, hit=True)}
    assert {("driver", -signal.SIGKILL), ("jvm", 1)} == explained
    assert all(wrong_end(victim, code, hit=False) for victim in VICTIMS for code in codes)
