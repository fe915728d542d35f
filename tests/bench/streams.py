"""Latency and throughput beside Kafka Streams: ``python -m tests.bench.streams [--only latency|throughput|clients]``.

Both run the same topology with four partitions, exactly once unless an engine's name says more, on one local broker,
one after the other in each round: Spark in a session of the profile "latency" (for throughput "local", the default),
Kafka Streams 4.3.1 in its own JVM with two threads and a commit interval of 100 ms. For latency another process sends
and reads, so that it takes no time of either; for throughput the input is there before an engine starts. Printed are
medians of the rounds; the CPU time is that of the measured engine alone.
`make test-java` builds the application in Java.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kstreamnb as ks
from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.broker_process import LocalBroker
from kstreamnb.kafka.latency_probe import LatencyProbe
from kstreamnb.kafka.producer import RecordProducer
from kstreamnb.spark.jvm.profiles import PROFILES
from tests.bench.spark import cpu_seconds
from tests.java.runner import JARS, JavaStreams
from tests.java.topologies import INPUTS, build

__all__ = ["main"]

_PARTITIONS, _KEYS = 4, 1000
_CONFIG = {"statestore.cache.max.bytes": 0, "default_key_serde": "string", "default_value_serde": "string"}
_JAVA = ("-XX:+UseSerialGC", "-Xmx1g")
_IN_MEMORY = (
    "dsl.store.suppliers.class=org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers"
)
_ENGINES: dict[str, tuple[str, ...]] = {
    "spark": (),
    "spark-at-least-once": (),
    "java": (),
    "java-memory": (_IN_MEMORY,),
}
"""Engines, and settings of Kafka Streams, whose own default is RocksDB."""

_FOREIGN = "foreign-key-join"
_FLOWS = {
    "count": "keyed count",
    "tumbling": "count by window of 10 s",
    "regroup": "regrouped count",
    "json-totals": "JSON in and out, totals by key",
    "stream-join": "stream-stream join",
    _FOREIGN: "foreign-key join, 10 foreign rows",
}
_PATIENCE_S, _START_MS = 300.0, 1_790_000_000_000


@dataclass(frozen=True)
class Field:
    """Holds the parts that both engines share: broker, session, JVM, and a folder for checkpoints."""

    servers: str
    spark: Any
    java: JavaStreams
    broker_pid: int
    folder: Path

    def cpu(self, engine: str) -> float:
        """CPU seconds of one engine so far: Spark is everything that is neither Java, broker nor load."""
        if not engine.startswith("spark"):
            return cpu_seconds(self.java.pid)
        return cpu_seconds(os.getpid(), without=(self.java.pid, self.broker_pid))

    @contextmanager
    def running(self, engine: str, name: str, prefix: str, **options: Any) -> Iterator[None]:
        """An engine that runs a topology."""
        if not engine.startswith("spark"):
            self.java.start(prefix, name, prefix, *_ENGINES[engine])
            yield
            self.java.stop(prefix)
            return
        query = ks.deploy(
            build(name, prefix),
            config=_CONFIG,
            spark=self.spark,
            bootstrap_servers=self.servers,
            checkpoint=self.folder / prefix,
            parity=False,
            guarantee="at_least_once" if engine == "spark-at-least-once" else "exactly_once",
            **options,
        )
        yield
        query.stop()


def latency(field: Field, options: argparse.Namespace) -> None:
    """Print p50 and p99 from before a record is sent until a reader of committed records has its result."""
    print(f"{'latency, p50 / p99 ms':<44} {'Spark':>12} {'Java':>12} {'ratio':>11}   CPU s/min Spark, Java", flush=True)
    for name in options.topologies:
        prefixes = {engine: f"{name}-{engine}-{time.time_ns()}" for engine in options.engines}
        with ExitStack() as stack:
            for engine, prefix in prefixes.items():
                _create_topics(field, name, prefix)
                stack.enter_context(field.running(engine, name, prefix))
            for rate in options.rates:
                for prefix in prefixes.values():
                    _load(field, prefix, rate, options.warm)
                found: dict[str, list[tuple[float, ...]]] = {engine: [] for engine in prefixes}
                for _ in range(options.rounds):
                    for engine, prefix in prefixes.items():
                        before = field.cpu(engine)
                        middle, high, own = _load(field, prefix, rate, options.seconds)
                        spent = field.cpu(engine) - before - (own if engine.startswith("spark") else 0)
                        found[engine].append((middle, high, spent * 60 / options.seconds))
                _print(f"{_FLOWS[name]}, {rate:,} records/s", found)


def _print(what: str, found: dict[str, list[tuple[float, ...]]]) -> None:
    medians = _medians(found)
    cells = {engine: f"{m[0]:.0f} / {m[1]:.0f}" for engine, m in medians.items()}
    spark, java = medians.get("spark"), medians.get("java")
    ratio = f"{spark[0] / java[0]:.2f} / {spark[1] / java[1]:.2f}" if spark and java else ""
    cpu = ", ".join(f"{m[2]:.1f}" for m in medians.values())
    print(f"{what:<44} {cells.get('spark', ''):>12} {cells.get('java', ''):>12} {ratio:>11}   {cpu}", flush=True)


def _medians(found: dict[str, list[tuple[float, ...]]]) -> dict[str, list[float]]:
    return {engine: [statistics.median(each) for each in zip(*rounds, strict=True)] for engine, rounds in found.items()}


def _create_topics(field: Field, name: str, prefix: str) -> None:
    for part in (*INPUTS[name], "out"):
        Admin(field.servers).create_topic(f"{prefix}-{part}", partitions=_PARTITIONS)
    if name == _FOREIGN:
        _fill_foreign(field.servers, f"{prefix}-right")


def _load(field: Field, prefix: str, rate: int, seconds: float) -> tuple[float, float, float]:
    """Send at a steady pace in another process; return p50 and p99 of the results' ages, and its own CPU seconds."""
    command = [sys.executable, "-m", "tests.bench.streams", "--load", field.servers, prefix, str(rate), str(seconds)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    middle, high, cpu = json.loads(done.stdout)
    return middle, high, cpu


def load(servers: str, prefix: str, rate: int, seconds: float) -> None:
    """Send, read, and print p50 and p99 in ms, and the CPU seconds of this process, as JSON."""
    settings = {"bootstrap.servers": servers, "linger.ms": 0}
    text = ks.Serdes.string()
    with (
        LatencyProbe(servers, f"{prefix}-out", begin="latest") as probe,
        RecordProducer(settings, key_serde=text, value_serde=text) as producer,
    ):
        time.sleep(1.5)  # the probe joins its group
        count, began = max(1, int(rate * seconds)), time.perf_counter()
        for number in range(count):
            time.sleep(max(0.0, began + number / rate - time.perf_counter()))
            key, value = f"k{number * 7919 % _KEYS}", f"v{number % 10}"
            producer.send(f"{prefix}-left", key, value, timestamp=time.time_ns() // 1_000_000)
        producer.flush()
        end = time.monotonic() + _PATIENCE_S
        while len(probe.latencies_ms) < count and time.monotonic() < end:
            probe.check()
            time.sleep(0.01)
        found = sorted(probe.latencies_ms)
    if len(found) != count:
        raise RuntimeError(f"{len(found)} of {count} results came")
    print(json.dumps([found[count // 2], found[min(count - 1, count * 99 // 100)], time.process_time()]))


def throughput(field: Field, options: argparse.Namespace) -> None:
    """Print records per second, from the start of an engine and after its first commit, until all are committed."""
    print(f"{options.records:,} records, medians of {options.rounds} rounds; CPU is s for a million records")
    print(f"{'':<32}" + "".join(f"{engine:>14}{'from start':>12}{'CPU':>7}" for engine in options.engines), flush=True)
    for name in options.topologies:
        found: dict[str, list[tuple[float, ...]]] = {engine: [] for engine in options.engines}
        for at in range(options.rounds + 1):  # the first warms the engines up
            for engine in options.engines:
                rates = _flow(field, engine, name, f"{name}-{engine}-{at}-{time.time_ns()}", options)
                found[engine] += [rates] if at else []
        medians = _medians(found).values()
        print(f"{_FLOWS[name]:<32}" + "".join(f"{m[0]:>14,.0f}{m[1]:>12,.0f}{m[2]:>7.1f}" for m in medians), flush=True)


def _flow(field: Field, engine: str, name: str, prefix: str, options: argparse.Namespace) -> tuple[float, ...]:
    """Run an engine over a filled topic; return both rates and the CPU seconds for a million records."""
    sides = INPUTS[name]
    results = options.records if name == _FOREIGN else options.records // len(sides)
    _create_topics(field, name, prefix)
    for side in sides:
        if name != _FOREIGN or side == "left":
            _fill(field.servers, f"{prefix}-{side}", results, b'{"amount":%d,"of":"v"}' if "json" in name else b"v%d")
    before, began = field.cpu(engine), time.perf_counter()
    limits = {"max_records": options.batch} if engine.startswith("spark") else {}
    with field.running(engine, name, prefix, **limits):
        first_at, first = _await_results(field.servers, f"{prefix}-out", 1)
        end, _ = _await_results(field.servers, f"{prefix}-out", results)
        spent = field.cpu(engine) - before
    steady = (1 - first / results) * options.records / (end - first_at)
    admin = Admin(field.servers)
    admin.delete_topics(*(topic for topic in admin.topics() if topic.startswith(prefix)))
    return steady, options.records / (end - began), spent * 1e6 / options.records


def _fill(servers: str, topic: str, count: int, value: bytes) -> None:
    """Send one record a millisecond; a key returns after 50 s, so that records of two topics join one to one."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20, "queue.buffering.max.messages": 2_000_000})
    for number in range(count):
        at = number * 7919 % 50_000
        while True:
            try:
                producer.produce(
                    topic, value % (number % 10), b"k%d" % at, at % _PARTITIONS, timestamp=_START_MS + number
                )
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush()


def _fill_foreign(servers: str, topic: str) -> None:
    """Send the rows that all others refer to, to the partitions of their keys."""
    text = ks.Serdes.string()
    with RecordProducer(servers, key_serde=text, value_serde=text) as producer:
        for number in range(10):
            producer.send(topic, f"k{number}", f"v{number}", timestamp=_START_MS)


def _await_results(servers: str, topic: str, count: int) -> tuple[float, int]:
    """Wait for committed results; return the time and their number. Ends of transactions count: few per thousand."""
    admin, end = Admin(servers), time.monotonic() + _PATIENCE_S
    while (found := sum(admin.offsets([topic])[topic].values())) < count:
        if time.monotonic() > end:
            raise RuntimeError(f'topic "{topic}" has {found} of {count} results')
        time.sleep(0.02)
    return time.perf_counter(), found


def clients(field: Field, options: argparse.Namespace) -> None:
    """Print how fast two processes copy records with Python's client: the floor of an engine that counts them."""
    found: list[tuple[float, float]] = []
    for at in range(options.rounds):
        prefix = f"clients-{at}-{time.time_ns()}"
        for topic in (f"{prefix}-left", f"{prefix}-out"):
            Admin(field.servers).create_topic(topic, partitions=_PARTITIONS)
        _fill(field.servers, f"{prefix}-left", options.records, b"v%d")
        shares = [f"{first},{first + 1}" for first in range(0, _PARTITIONS, 2)]
        command = [sys.executable, "-m", "tests.bench.streams", "--copy", field.servers, prefix]
        began = time.perf_counter()
        copying = [subprocess.Popen([*command, share], stdout=subprocess.PIPE, text=True) for share in shares]
        spent = sum(float(each.communicate()[0]) for each in copying)
        found.append((options.records / (time.perf_counter() - began), spent * 1e6 / options.records))
    rate, cpu = (statistics.median(each) for each in zip(*found, strict=True))
    print(f"clients alone: {rate:,.0f} records/s from start, {cpu:.1f} s of CPU for a million records", flush=True)


def copy(servers: str, prefix: str, share: str) -> None:
    """Copy partitions in transactions of 100,000 records; print the CPU seconds of this process."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    settings = {"bootstrap.servers": servers, "group.id": prefix, "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "enable.auto.commit": False, "queued.min.messages": 100_000})
    partitions = [TopicPartition(f"{prefix}-left", int(number), 0) for number in share.split(",")]
    left = sum(consumer.get_watermark_offsets(each)[1] for each in partitions)
    consumer.assign(partitions)
    ids = {"transactional.id": f"{prefix}-{share}", "linger.ms": 5, "compression.type": "lz4"}
    producer = Producer({"bootstrap.servers": servers, "queue.buffering.max.messages": 500_000, **ids})
    producer.init_transactions()
    send, topic = producer.produce, f"{prefix}-out"
    while left:
        producer.begin_transaction()
        sent = 0
        while sent < min(100_000, left):
            messages = consumer.consume(min(5_000, left - sent), 1.0)
            for each in messages:
                send(topic, each.value(), each.key(), each.partition(), None, None, each.timestamp()[1])
            sent += len(messages)
        producer.commit_transaction()
        left -= sent
    print(time.process_time())


_CASES: dict[str, Callable[[Field, argparse.Namespace], None]] = {
    "latency": latency,
    "throughput": throughput,
    "clients": clients,
}


def main() -> None:
    """Measure both engines in turns, or send the load of one measurement."""
    if sys.argv[1:2] == ["--load"]:
        servers, prefix, rate, seconds = sys.argv[2:]
        load(servers, prefix, int(rate), float(seconds))
        return
    if sys.argv[1:2] == ["--copy"]:
        copy(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(prog="python -m tests.bench.streams", description=__doc__)
    parser.add_argument("--only", nargs="*", choices=_CASES, default=["latency"])
    parser.add_argument("--topologies", nargs="*", choices=_FLOWS, default=["count", "regroup"])
    parser.add_argument("--engines", nargs="*", choices=_ENGINES, default=["spark", "java"])
    parser.add_argument(
        "--profile", choices=PROFILES, help='of the session; without it "latency", or "local" for throughput'
    )
    parser.add_argument("--rates", nargs="*", type=int, default=[10, 1000])
    parser.add_argument("--seconds", type=float, default=10, help="of one measurement of latency")
    parser.add_argument("--warm", type=float, default=60, help="seconds before a measurement: compilers need them")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=200_000)
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # lets Spark's processes load compiled modules
    if not (JARS / "classes").exists():
        raise SystemExit("make test-java builds the application in Java")
    fast = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="kstreamnb-bench-", dir=fast) as made:
        folder = Path(made)
        with (
            LocalBroker(heap="512m", data=folder / "log") as broker,
            JavaStreams(broker.bootstrap_servers, folder, options=_JAVA, threads=2) as java,
        ):
            process = broker._process  # only its CPU time is of interest
            assert process is not None
            for only in options.only:
                profile = options.profile or ("latency" if only == "latency" else "local")
                spark = ks.spark.spark_session("kstreamnb-bench", profile=profile)
                _CASES[only](Field(broker.bootstrap_servers, spark, java, process.pid, folder), options)
                spark.stop()


if __name__ == "__main__":
    main()
