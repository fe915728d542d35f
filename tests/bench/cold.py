"""Time from nothing to a first result, with and without the warm-up of a session: ``python -m tests.bench.cold``.

Each measurement is a new process, in turns. Seconds are those that a person waits for: a pause between session
and query, as long as it takes to write a cell, is not among them. The input is in Kafka before the clock starts, and
the modules are imported.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

CASES = ("query at once", "query after a pause", "run at once", "run after a pause")
ENGINES = {"warm-up": "", "without": "warm-up"}
AIM_S, PAUSE_S, RECORDS, KEYS = 6.0, 8.0, 1_000, 10


def main() -> int:
    """Print a table of medians."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.cold", description="Time to a first result.")
    parser.add_argument("--rounds", type=int, default=5, help="processes for each case, with and without")
    parser.add_argument("--cases", nargs="+", help="only these cases")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(*options.measure)
        return 0
    from kstreamnb.kafka.broker_process import LocalBroker
    from tests.bench.kafka import fill

    found: dict[tuple[str, str], list[list[float]]] = {}
    with LocalBroker() as broker:
        fill(broker.bootstrap_servers, RECORDS, KEYS)
        for _ in range(options.rounds):
            for case in options.cases or CASES:
                for engine, disabled in ENGINES.items():
                    command = [sys.executable, "-m", "tests.bench.cold", "--measure", case, broker.bootstrap_servers]
                    variables = {**os.environ, "KSTREAMNB_DISABLE_PATCHES": disabled}
                    answer = subprocess.run(command, env=variables, stdout=subprocess.PIPE, text=True, check=True)
                    found.setdefault((case, engine), []).append([float(part) for part in answer.stdout.split()])
    print(f"{'case':22}{'session':>20}{'first result after':>20}{'seconds waited':>16}   medians; aim: {AIM_S:.0f} s")
    for (case, engine), runs in found.items():
        session, rest = (statistics.median(parts) for parts in zip(*runs, strict=True))
        waited = statistics.median(map(sum, runs))
        print(f"{case:22}{engine:>10}{session:>10.1f}{rest:>20.1f}{waited:>16.1f}")
    return 0


def measure(case: str, servers: str) -> None:
    """Print the seconds of a session's start, and from then to the first result."""
    from kstreamnb.spark.jvm.session import spark_session

    work = {"query": _query, "run": _run}[case.split()[0]](servers)
    start = time.perf_counter()
    spark = spark_session("cold")
    started = time.perf_counter()
    if "pause" in case:
        time.sleep(PAUSE_S)
    begin = time.perf_counter()
    work()
    print(started - start, time.perf_counter() - begin)
    spark.stop()


def _query(servers: str) -> Callable[[], object]:
    from kstreamnb.spark.deploy import deploy
    from tests.bench.kafka import counting

    topology, folder = counting(f"cold{os.getpid()}"), tempfile.TemporaryDirectory()
    return lambda: deploy(topology, bootstrap_servers=servers, checkpoint=folder.name, parity=False).await_input()


def _run(_: str) -> Callable[[], object]:
    import pandas

    from kstreamnb.spark.run import run
    from tests.bench.kafka import counting

    rows = [(f"k{at % KEYS}", at, at) for at in range(RECORDS)]
    frame = pandas.DataFrame(rows, columns=["key", "value", "timestamp"])
    return lambda: run(counting("cold"), inputs={"numbers": frame}).records("cold-out")


if __name__ == "__main__":
    sys.exit(main())
