"""The crash matrix on a standalone cluster: ``python -m tests.cluster.crashes [--runs 5] [--only VICTIM …]``.

A master and two workers with one core each are processes of this machine; the master keeps its state in a folder. An
executor, all executors, a worker with its executor, the master, or the driver are killed with SIGKILL while each of
five applications is at another point of a batch. What is compared is that of `tests.kafka.crashes`: every output record
with its time and headers, the stores, and each store with its log and its changelog topic. In addition, the longest
time in which an application published nothing is shown.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kstreamnb.kafka.broker_process import LocalBroker
from tests.cluster.deployments import SETTINGS
from tests.cluster.services import Standalone, executors
from tests.kafka.crashes import BROKER_CONFIG, Cell, Life, RecoveringOrdeal, show_recovered
from tests.kafka.deployed import POINTS, slug

__all__ = ["VICTIMS", "ClusterOrdeal", "main", "run_victim"]

EXECUTOR, EXECUTORS, WORKER, MASTER, DRIVER = VICTIMS = ("executor", "all executors", "worker", "master", "driver")
_ROOT = str(Path(__file__).parents[2])


class ClusterOrdeal(RecoveringOrdeal):
    """Applications of one driver on a standalone cluster, each with its point of a batch, and what is killed there."""

    workers_of_spark_die = True  # with their executor

    def __init__(
        self, victim: str, broker: LocalBroker, cluster: Standalone, folder: Path, points: Sequence[str] = ()
    ) -> None:
        self.cluster = cluster
        super().__init__(victim, broker, folder, points=points)

    def _begin(self, **plan: Any) -> Life:
        settings = {**SETTINGS, "spark.executorEnv.PYTHONPATH": _ROOT}
        return super()._begin(master=self.cluster.url, settings=settings, **plan)

    def _aim(self, life: Life) -> None:
        """Wait until each worker has an executor: after a blow, the master has to start others."""
        cluster, turn = self.cluster, self.lives % 2
        while life.process.poll() is None:
            running = [executors(worker.pid) for worker in cluster.workers]
            if all(running):
                every = [pid for pids in running for pid in pids]
                worker = [cluster.workers[turn].pid, *running[turn]]
                master = [cluster.master.pid]
                targets = {EXECUTOR: running[turn], EXECUTORS: every, WORKER: worker, MASTER: master}
                self._name_brokers(*targets[self.victim])
                return
            time.sleep(0.1)

    def _recover(self) -> None:
        if self.victim == WORKER:
            self.cluster.workers[self.lives % 2].wait()
            self.cluster.replace_ended_workers()
        if self.victim == MASTER:
            self.cluster.master.wait()
            self.cluster.start_master()


def run_victim(
    victim: str, runs: int, broker: LocalBroker, cluster: Standalone, folder: Path, points: Sequence[str] = ()
) -> list[Cell]:
    """Run one victim through the given number of kills at each point, or at the given ones."""
    ordeal = ClusterOrdeal(victim, broker, cluster, folder / slug(victim), points)
    return ordeal.cells_of(runs)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cells and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1, help="kills in each cell")
    parser.add_argument("--only", nargs="*", default=VICTIMS, choices=VICTIMS, help="these victims")
    parser.add_argument("--points", nargs="*", default=(), choices=POINTS, help="one application for each of these")
    parser.add_argument("--keep", type=Path, help="the folder of broker, cluster, checkpoints and results")
    chosen = parser.parse_args(arguments)
    print(f"{'killed':14} {'when':22} times  records  lost doubled  still")
    good = True
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.keep or Path(temporary)
        with LocalBroker(data=folder / "kafka", config=BROKER_CONFIG, timeout_s=180.0) as broker:
            for victim in chosen.only:
                cluster = Standalone(folder / slug(f"cluster {victim}"), recovers=True)
                try:
                    for cell in run_victim(victim, chosen.runs, broker, cluster, folder, chosen.points):
                        good = good and cell.ok
                        show_recovered(cell, 14)
                finally:
                    cluster.stop()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
