"""Speed of deployments from Kafka to Kafka, exactly once: ``python -m tests.bench.kafka [--records 1000000]``.

Prints the throughput of a copy and of a keyed count, beside at least once; the time from `deploy` to the first batch's
commit in a warm session; the time from the death of all workers to the next commit; and the results of
``ks.testing.benchmark("latency")``, which alone uses a session of the profile "latency".
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import kstreamnb as ks
from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.broker_process import LocalBroker

__all__ = ["main"]

_PARTITIONS, _START_MS = 4, 1_790_000_000_000


def copying(name: str) -> ks.Topology:
    """A filter and a map, without state."""
    builder = ks.StreamsBuilder(name)
    stream = builder.stream("numbers", key_serde="string", value_serde="long")
    stream.filter(lambda key, value: value % 10 > 0).map_values(lambda value: value + 1).to(
        f"{name}-out", value_serde="long"
    )
    return builder.build()


def counting(name: str, topic: str = "numbers") -> ks.Topology:
    """A keyed count."""
    builder = ks.StreamsBuilder(name)
    table = builder.stream(topic, value_serde="long").group_by_key().count(store="counts")
    table.to_stream().to(f"{name}-out", value_serde="long")
    return builder.build()


def fill(servers: str, count: int, keys: int) -> None:
    """Many small records, produced without creating an object for each."""
    from confluent_kafka import Producer

    Admin(servers).create_topic("numbers", partitions=_PARTITIONS)
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000})
    for at in range(count):
        while True:
            try:
                key = b"k%d" % (at * 7919 % keys)
                producer.produce(
                    "numbers",
                    at.to_bytes(8, "big"),
                    key,
                    at * 7919 % keys % _PARTITIONS,
                    timestamp=1_790_000_000_000 + at,
                )
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush()


def throughput(spark: Any, servers: str, topology: ks.Topology, limit: int, guarantee: Any) -> tuple[float, float]:
    """Return records per second over all batches but the first, and over the time spent in the batches themselves."""
    with tempfile.TemporaryDirectory(dir=_memory()) as folder:
        query = ks.deploy(
            topology,
            spark=spark,
            bootstrap_servers=servers,
            checkpoint=folder,
            available_now=True,
            max_records=limit,
            guarantee=guarantee,
        )
        query.await_termination(900)
        figures = query.recent()
        query.stop()
    first, last, rest = figures[0], figures[-1], figures[1:]
    count = sum(each.consumed for each in rest)
    return count * 1000 / max(1, last.at_ms - first.at_ms), count / sum(each.seconds for each in rest)


def costs(spark: Any, servers: str, limit: int) -> dict[str, float]:
    """Return records per second of a keyed count under both guarantees, within batches, and their ratio."""
    guarantees: tuple[Any, ...] = ("exactly_once", "at_least_once")
    found = {}
    for guarantee in guarantees:
        topology = counting(f"costs-{guarantee.replace('_', '-')}")
        found[guarantee] = throughput(spark, servers, topology, limit, guarantee)[1]
    return {**found, "ratio": found["exactly_once"] / found["at_least_once"]}


def first_batch(spark: Any, servers: str, name: str) -> float:
    """Seconds from the call of `deploy` to the first commit."""
    with tempfile.TemporaryDirectory(dir=_memory()) as folder:
        Admin(servers).create_topic(f"{name}-in", partitions=2)
        done = threading.Event()
        topology = counting(name, f"{name}-in")
        send(servers, f"{name}-in", 10)
        began = time.perf_counter()
        query = ks.deploy(topology, spark=spark, bootstrap_servers=servers, checkpoint=folder)
        query.watch(lambda figures: done.set())
        while not query.recent() and not done.wait(0.005):
            pass
        took = time.perf_counter() - began
        query.stop()
    return took


def send(servers: str, topic: str, count: int) -> None:
    """Records of now."""
    if servers not in _producers:
        from confluent_kafka import Producer

        _producers[servers] = Producer({"bootstrap.servers": servers, "linger.ms": 0})
    producer = _producers[servers]
    for at in range(count):
        now = int(time.time() * 1000)  # noqa: TID251 - the age of results is measured
        producer.produce(topic, at.to_bytes(8, "big"), b"k%d" % (now % 9), timestamp=now)
    producer.flush()


_producers: dict[str, Any] = {}


def _memory() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all measurements, or those named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=200_000)
    parser.add_argument("--only", nargs="*", default=("copy", "count", "first", "failover", "latency"))
    parser.add_argument("--seconds", type=float, default=60, help="how long latency is measured")
    chosen = parser.parse_args(arguments)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # lets Spark's processes load compiled modules
    settings = {"spark.driver.memory": "2g"}
    with (
        tempfile.TemporaryDirectory(dir=_memory()) as data,
        LocalBroker(heap="512m", data=Path(data) / "log") as broker,
    ):
        servers = broker.bootstrap_servers
        profile = "latency" if list(chosen.only) == ["latency"] else "local"
        spark = ks.spark.spark_session(profile=profile, settings=settings)
        if {"copy", "count"} & set(chosen.only):
            began = time.perf_counter()
            fill(servers, chosen.records, 50_000)
            print(f"{chosen.records:,} records produced in {time.perf_counter() - began:.1f} s", flush=True)
        for what, build in (("copy", copying), ("count", counting)):
            for guarantee in ("exactly_once", "at_least_once") if what in chosen.only else ():
                name = f"{what}-{guarantee.replace('_', '-')}"
                wall, busy = throughput(spark, servers, build(name), chosen.batch, guarantee)
                print(f"{what:6} {guarantee:14} {wall:10,.0f} records/s  ({busy:,.0f} within batches)", flush=True)
        if "first" in chosen.only:
            times = [first_batch(spark, servers, f"first{at}") for at in range(4)]
            print("first batch after deploy: " + ", ".join(f"{each:.2f}" for each in times) + " s", flush=True)
        if "failover" in chosen.only:
            print(ks.testing.benchmark("failover", spark=spark, bootstrap_servers=servers), flush=True)
        if "latency" in chosen.only:
            print(
                ks.testing.benchmark("latency", spark=spark, bootstrap_servers=servers, seconds=chosen.seconds),
                flush=True,
            )
        spark.stop()


if __name__ == "__main__":
    main()
