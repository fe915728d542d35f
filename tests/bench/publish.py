"""Cost of publishing: ``python -m tests.bench.publish [--records N] [--executors N ...]``.

Runs on a ``local-cluster``. Prints records per second by the clock, and CPU microseconds per record of the driver's
process and of everything else that Spark runs. The first batch, which starts processes, is left out.

From these follows the model of the guide: the driver works alone, so it publishes at most ``1 / driver`` records per
second, and ``n`` cores compute at most ``n / others``; the smaller number is the limit.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

import kstreamnb as ks
from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.broker_process import LocalBroker
from tests.bench.spark import cpu_seconds

__all__ = ["main"]

_PARTITIONS, _BATCHES = 4, 6


def copying(name: str) -> ks.Topology:
    """A topology that costs little but moving records."""
    builder = ks.StreamsBuilder(name)
    builder.stream("numbers", value_serde="long").map_values(lambda value: value + 1).to(
        f"{name}-out", value_serde="long"
    )
    return builder.build()


def fill(servers: str, count: int) -> None:
    """Produce the input."""
    producer = Producer({"bootstrap.servers": servers, "queue.buffering.max.messages": 1_000_000})
    for at in range(count):
        while True:
            try:
                producer.produce("numbers", at.to_bytes(8, "big"), b"k%d" % at, at % _PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def measured(spark: Any, servers: str, name: str, folder: Path, **options: Any) -> tuple[int, float, float, float]:
    """Return records, seconds, CPU seconds of this process and of its descendants, without the first batch."""
    marks: list[tuple[float, float, float]] = []

    def mark(figures: Any) -> None:
        marks.append((time.perf_counter(), time.process_time(), cpu_seconds()))

    Admin(servers).create_topic(f"{name}-out", partitions=_PARTITIONS)
    query = ks.deploy(copying(name), spark=spark, bootstrap_servers=servers, checkpoint=folder / name, **options)
    query.watch(mark)
    query.await_input(600)
    query.stop()
    consumed = sum(figures.consumed for figures in query.recent()[1 : len(marks)])
    clock, own, tree = (marks[-1][at] - marks[0][at] for at in range(3))
    return consumed, clock, own, tree - own


def main(arguments: list[str] | None = None) -> int:
    """Print one line for each number of cores and way to publish."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=600_000, help="records in all")
    parser.add_argument(
        "--executors", type=int, nargs="*", default=[1, 2], help="numbers of executors, with a core each"
    )
    chosen = parser.parse_args(arguments)
    print(f"{'executors':>9} {'published by':12} {'records/s':>10} {'driver µs':>10} {'others µs':>10}")
    with tempfile.TemporaryDirectory() as temporary, LocalBroker(data=Path(temporary, "kafka")) as broker:
        servers = broker.bootstrap_servers
        Admin(servers).create_topic("numbers", partitions=_PARTITIONS)
        fill(servers, chosen.records)
        for cores in chosen.executors:
            spark = ks.spark.spark_session(master=f"local-cluster[{cores},1,1024]")
            for publish in ("driver", "executors"):
                name = f"copy-{cores}-{publish}"
                options = {"publish": publish, "live": publish == "driver", "spark_partitions": cores}
                options["max_records"] = chosen.records // _BATCHES
                count, clock, own, others = measured(spark, servers, name, Path(temporary), **options)
                costs = f"{1e6 * own / count:10.2f} {1e6 * others / count:10.2f}"
                print(f"{cores:9} {publish:12} {count / clock:10,.0f} {costs}", flush=True)
            spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
