"""Measures the cost of time travel: ``python -m tests.bench.replay``.

Prints the rate of recording every hop, the time to look at any moment of a long replay, the memory of a million hops,
and the time of a preview. Workloads are those of `tests.bench.driver`; their records exist before the clock starts.

Recording time on one partition, by cProfile: the work itself takes a quarter of it; the rest is six or seven tuples per
record (taken, three hops, written, produced), the memory for them, and the numbers by which the history finds its
steps. Those numbers took a fifth of a tumbling count's time until the history searched for them in bytes; changed cells
cost as much until the lines that note them were moved into the loop. With several partitions, records go to their
tasks' coroutines in turn, so that the log is written in order; the added cost is finding the partition and calling the
coroutine. A windowed key's partition is derived from its inner key once, not for every window. With a repartition
topic, tasks run one after another and their output is sorted: most of the time goes into reading, writing and copying
isolated JSON values, and into a row with its position in the order, twice per record.
"""

from __future__ import annotations

import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kstreamnb.core.record import TopicRecord
from kstreamnb.dsl.builder import StreamsBuilder
from kstreamnb.replays.preview import preview
from kstreamnb.replays.replay_sample import replay
from kstreamnb.samples import Sample
from kstreamnb.tools.preview import upstream_topology
from tests.bench.driver import CASES, ISOLATED, KEYS, START_MS, topology

RECORDS, REPEATS, STEPS = 20_000, 7, 100_000
AIMS = {"recording": 250_000, "seek": 100.0, "memory": 1_000.0, "preview": 50.0, "parquet": 2.0}
LOADED = 1_000_000


def main() -> int:
    """Measure and print a table of figures and aims."""
    print(f"{'what':52}{'measured':>14}{'aim':>12}")
    look_back()
    few = records(RECORDS)
    for case in (*CASES, ISOLATED):
        made = topology(case)
        for partitions in (1, 4):
            rate = max(RECORDS / seconds(lambda: replay(made, few, partitions)) for _ in range(REPEATS))  # noqa: B023
            say(f"recording, {case}, {partitions} partitions, records/s", rate, AIMS["recording"])
    builder = StreamsBuilder("bench")
    counts = builder.stream("in").group_by(lambda key, _: key[-1]).count()
    made = builder.build()
    for partitions in (1, 4):
        rate = max(RECORDS / seconds(lambda: replay(made, few, partitions)) for _ in range(3))  # noqa: B023
        say(f"recording, regrouped count, {partitions} partitions, records/s", rate, AIMS["recording"])
    took = statistics.median(seconds(lambda: preview(upstream_topology(counts), records(1_000))) for _ in range(5))
    say("preview of 1,000 records after a repartition, ms", took * 1000, AIMS["preview"])
    say(f"{LOADED:,} records from Parquet, s", loading(), AIMS["parquet"])
    return 0


def look_back() -> None:
    """Measure looking at moments of a long replay, and its memory."""
    found = replay(topology("keyed count"), records(STEPS), 1)
    places = [len(found.steps) * tenth // 10 for tenth in (5, 0, 9, 1, 10, 3, 7)]
    store = next(iter(found.topology.stores))
    slowest = max(seconds(lambda: len(found.at(place).store(store))) for place in places)  # noqa: B023
    say(f"seek in {len(found.steps):,} steps, slowest, ms", slowest * 1000, AIMS["seek"])
    hops = sum(found.counts().values())
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    say(f"memory of the process with {hops:,} hops, MB per million", megabytes * 1e6 / hops, AIMS["memory"])


def loading() -> float:
    """Measure how long a sample of a million records takes to load from another program's Parquet file."""
    import pandas as pd

    rows = {"key": [f"user{n % 50_000}" for n in range(LOADED)], "at": range(LOADED), "n": range(LOADED)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        pd.DataFrame(rows).to_parquet(path)
        return seconds(lambda: Sample.from_parquet(path, topic="in", key="key", timestamp="at"))


def records(number: int) -> list[TopicRecord]:
    """Numbers by key, a millisecond apart."""
    return [TopicRecord("in", -1, -1, START_MS + n, f"k{n % KEYS}", {"value": n}) for n in range(number)]


def seconds(work: Callable[[], Any]) -> float:
    """Return the CPU time of a call, which excludes other work on the machine."""
    start = time.process_time()
    made = work()
    took = time.process_time() - start
    del made  # releasing it is not part of the work
    return took


def say(what: str, measured: float, aim: float) -> None:
    """Format one line of the table."""
    print(f"{what:52}{measured:>14,.1f}{aim:>12,.0f}")


if __name__ == "__main__":
    sys.exit(main())
