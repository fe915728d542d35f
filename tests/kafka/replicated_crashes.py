"""The crash matrix on three brokers: ``python -m tests.kafka.replicated_crashes [--runs 5] [--only CASE …]``.

Every topic has three replicas of which two must be in sync. Inside a commit of one application, while another processes
a batch, brokers are killed with SIGKILL and started again later, or are restarted one after the other, or partitions
change their leaders. Output and stores are compared as in `tests.kafka.crashes`; in addition the longest time in which
a query published nothing is measured. There are only two applications: librdkafka connects again without a pause to a
broker that refuses connections while a request of an admin client waits for it, and brokers share the processors here.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.kafka.broker_cluster import BrokerCluster
from tests.kafka.crashes import Cell, Life, RecoveringOrdeal, show_recovered
from tests.kafka.deployed import INSIDE, WHILE, slug

__all__ = ["CASES", "ReplicatedOrdeal", "main", "run_case"]

LEADER, TRANSACTIONS, GROUP, TWO, ROLLING, ELECTION = CASES = (
    "leader of an output partition",
    "transaction coordinator",
    "group coordinator",
    "two of three brokers",
    "rolling restart",
    "leader election",
)
DOWN_S = 20.0
_TRANSACTIONS, _OFFSETS = "__transaction_state", "__consumer_offsets"


class ReplicatedOrdeal(RecoveringOrdeal):
    """Two applications on three brokers, and one case of what happens to the brokers."""

    batches_of_a_kill = 30  # some are left when the brokers are back

    def __init__(self, case: str, cluster: BrokerCluster, folder: Path) -> None:
        self.cluster = cluster
        self._down: list[int] = []
        super().__init__(case, cluster, folder, points=(WHILE, INSIDE))

    def _aim(self, life: Life) -> None:
        cluster = self.cluster
        coordinator = cluster.leader(_TRANSACTIONS)
        if self.victim == ELECTION:
            cluster.restart(coordinator)  # others lead its partitions now
        cluster.await_sync()
        targets = {
            LEADER: lambda: [cluster.leader(f"{self.applications[INSIDE]}-counts")],
            TRANSACTIONS: lambda: [coordinator],
            GROUP: lambda: [cluster.leader(_OFFSETS)],
            TWO: lambda: [coordinator, coordinator % 3 + 1],
        }
        self._down = targets.get(self.victim, list)()
        self._name_brokers(*map(cluster.process, self._down))

    def _recover(self) -> None:
        if self._down:
            time.sleep(DOWN_S)
            for number in self._down:
                self.cluster.brokers[number].kill()
            self.cluster.start(self._down)
        elif self.victim == ELECTION:
            self.cluster.elect_preferred_leaders()
        else:
            for number in self.cluster.brokers:
                self.cluster.restart(number)
                self.cluster.await_sync()


def run_case(case: str, runs: int, cluster: BrokerCluster, folder: Path) -> list[Cell]:
    """Run one case the given number of times at each point."""
    ordeal = ReplicatedOrdeal(case, cluster, folder / slug(case))
    return ordeal.cells_of(runs)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1, help="how often each case happens")
    parser.add_argument("--only", nargs="*", default=CASES, choices=CASES, help="these cases")
    parser.add_argument("--keep", type=Path, help="the folder of brokers, checkpoints and results")
    chosen = parser.parse_args(arguments)
    print(f"{'what happens':30} {'when':22} times  records  lost doubled  still")
    good = True
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.keep or Path(temporary)
        for case in chosen.only:
            with BrokerCluster(folder / slug(f"kafka {case}")) as cluster:
                for cell in run_case(case, chosen.runs, cluster, folder):
                    good = good and cell.ok
                    show_recovered(cell, 30)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
