"""Measures the cost of many input partitions: ``python -m tests.bench.partitions [--partitions 8 500] [--batches 60]``.

A keyed count reads a topic at a low rate, 20 records for each batch; printed is the median of the time that Spark
reports for a batch, with planning and commit. The aim is that 500 partitions cost at most 1.5 times as much as 8.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import kstreamnb as ks
from kstreamnb.kafka import Admin, local_broker, produce
from tests.bench.kafka import counting

__all__ = ["main"]

RECORDS, WARM, AIM = 20, 15, 1.5


def send(servers: str, topic: str, partitions: int, batch: int) -> None:
    """Send the records of one batch, to partitions spread over the topic."""
    rows = (batch * RECORDS + at for at in range(RECORDS))
    records = [ks.TopicRecord(topic, at * 37 % partitions, -1, at, f"k{at % 1000}", at) for at in rows]
    produce(servers, records, value_serde="long", keep_partitions=True)


def batch_times(spark: Any, servers: str, partitions: int, batches: int, folder: Path) -> list[float]:
    """Return the seconds of each batch after the first ones, which load code and state."""
    name = f"p{partitions}"
    Admin(servers).create_topic(name, partitions=partitions)
    query = ks.deploy(
        counting(name, name),
        spark=spark,
        bootstrap_servers=servers,
        checkpoint=folder / name,
        trigger="0s",
        parity=False,
    )
    try:
        for batch in range(batches):
            send(servers, name, partitions, batch)
            assert query.await_input(300)
            time.sleep(0.1)
        handle = query.control.handle
        assert handle is not None
        progress = handle.streaming.recentProgress
        times = [each.durationMs["triggerExecution"] / 1000 for each in progress if "addBatch" in each.durationMs]
        return times[WARM:]
    finally:
        query.stop()


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each number of partitions, and compare the last with the first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, nargs="+", default=[8, 500])
    parser.add_argument("--batches", type=int, default=60)
    options = parser.parse_args(arguments)
    spark, medians = ks.spark.spark_session("partitions", profile="latency"), []
    with local_broker() as broker, tempfile.TemporaryDirectory() as folder:
        for count in options.partitions:
            times = batch_times(spark, broker.bootstrap_servers, count, options.batches, Path(folder))
            medians.append(statistics.median(times))
            print(f"{count:>5} partitions: {medians[-1] * 1000:.0f} ms a batch (median of {len(times)})", flush=True)
    spark.stop()
    ratio = medians[-1] / medians[0]
    print(f"{options.partitions[-1]} cost {ratio:.2f} times {options.partitions[0]} (aim {AIM})")
    return int(ratio > AIM)


if __name__ == "__main__":
    raise SystemExit(main())
