"""No process aborts when transactions are abandoned: librdkafka fails an assertion if producers are freed halfway."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.bounded_reader import fetch, pieces_between
from tests.kafka.apps import settle
from tests.kafka.dropping import PARTITIONS

pytestmark = pytest.mark.kafka
PROCESSES, ROUNDS = 4, 25


def test_processes_that_give_up_transactions_exit_normally(servers: str, admin: Admin, name: str) -> None:
    """100 transactions in 4 concurrent processes; what they committed is present once, on every partition."""
    names = [f"{name}-{number}" for number in range(PROCESSES)]
    for each in names:
        admin.create_topic(each, partitions=PARTITIONS)
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.kafka.dropping", servers]
    running = {
        each: subprocess.Popen([*command, each, str(ROUNDS)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for each in names
    }
    for each, process in running.items():
        out, errors = process.communicate(timeout=300)
        assert 0 == process.returncode, errors.decode()[-2000:]
        published = int(out)
        settle(admin, each)
        pieces = pieces_between(admin.offsets([each], "earliest"), admin.offsets([each]))
        found = sorted((part, record[3]) for _, part, records in fetch(servers, pieces) for record in records)
        assert sorted((part, b"%d" % batch) for part in range(PARTITIONS) for batch in range(published)) == found
        assert 0 < published < ROUNDS
