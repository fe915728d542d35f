"""`benchmark`: measures this machine, and states the method, so that results of different machines can be compared."""

from __future__ import annotations

import os
import platform
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, cast

from kstreamnb.background import wait_until
from kstreamnb.core.arguments import check_arguments
from kstreamnb.dsl.builder import StreamsBuilder
from kstreamnb.errors import ConfigError, EngineError, extra
from kstreamnb.hints import expect_known
from kstreamnb.simulation.cluster import ClusterDriver
from kstreamnb.topology.topology import Topology

if TYPE_CHECKING:  # clients of Kafka and pyspark come with extras
    from pyspark.sql import SparkSession

    from kstreamnb.kafka.client import Servers
    from kstreamnb.kafka.latency_probe import LatencyProbe
    from kstreamnb.kafka.producer import RecordProducer
    from kstreamnb.spark.deploy import Guarantee
    from kstreamnb.spark.query.query import Query

_WORDS = ["the", "duck", "looks", "calm", "on", "the", "stream", "and", "paddles", "like", "mad", "below"]
_WARM_UP_S = 15.0
_GUARANTEES = ("exactly_once", "at_least_once")


@dataclass(frozen=True)
class Benchmark:
    """The result of a measurement; printing it shows figures, machine and method.

    Attributes:
        name: the name of the benchmark.
        figures: the measured figures by name, in ``unit``.
        unit: "ms" or "s".
        machine: processor, memory and versions.
        method: what was measured.

    Example:
        >>> found = Benchmark("latency", {"p50": 120.0, "p99": 300.0}, "ms", "2 cores", "from sending to reading")
        >>> print(found)
        latency: p50 120 ms, p99 300 ms
        machine: 2 cores
        method: from sending to reading
        >>> found.worse_than({"p50": 50, "p99": 290}, factor=2)
        {'p50': 120.0}
    """

    name: str
    figures: Mapping[str, float]
    unit: str
    machine: str
    method: str

    def __str__(self) -> str:
        shown = ", ".join(f"{name} {value:,.3g} {self.unit}" for name, value in self.figures.items())
        return f"{self.name}: {shown}\nmachine: {self.machine}\nmethod: {self.method}"

    def worse_than(self, published: Mapping[str, float], *, factor: float) -> dict[str, float]:
        """Return the figures that exceed a multiple of the published ones; empty if none does.

        Args:
            published: published figures by name, in the same unit.
            factor: how many times a published figure may be exceeded.
        """
        return {name: self.figures[name] for name, value in published.items() if self.figures[name] > factor * value}


def benchmark(
    name: str = "latency",
    *,
    spark: SparkSession | None = None,
    bootstrap_servers: Servers | None = None,
    seconds: float = 60,
    rate: int = 10,
    records: int = 1_000_000,
    guarantee: Literal["exactly_once", "at_least_once", "both"] = "exactly_once",
    kills: int = 5,
) -> Benchmark:
    """Run a benchmark; all but "restore" need Java, and start a session and a broker if none is given.

    Args:
        name: "latency" of a word count through two sub-topologies from Kafka to Kafka; "failover", the time between the
            death of all Python workers and the next commit of that word count (Linux only); or "restore", the time that
            the restore of a store from its changelog takes. Default: "latency".
        spark: the session. Default: None, a new session.
        bootstrap_servers: the broker; it gets two new topics. Default: None, a temporary local broker.
        seconds: duration of the measurement for "latency", after the warm-up; default 60.
        rate: records per second for "latency"; each is one word; default 10.
        records: for "restore", length of the changelog; the figure is scaled to a million. Default: 1,000,000.
        guarantee: for "latency"; "both" measures both guarantees, and their ratio; default "exactly_once".
        kills: for "failover", how often the workers are killed; default 5.

    Raises: ConfigError for a name or a guarantee that does not exist.

    Example:
        >>> found = benchmark("restore", records=1000)
        >>> found.unit, list(found.figures)
        ('s', ['restore of 1,000,000 records'])
    """
    check_arguments(benchmark, locals())
    expect_known("benchmark", [name], ("latency", "failover", "restore"), error=ConfigError)
    if name == "restore":
        return _restore(records)
    with _deployments(spark, bootstrap_servers) as start:
        if name == "failover":
            return _failover(start, kills)
        return _latency(start, _GUARANTEES if guarantee == "both" else (guarantee,), seconds, rate)


def _restore(records: int) -> Benchmark:
    builder = StreamsBuilder("benchmark-restore")
    builder.stream("in").group_by_key().count(store="counts")
    driver = ClusterDriver(builder.build(), {"processing_guarantee": "at_least_once"}, trace=False)
    driver.create_input_topic("in").pipe_key_value_list([(f"k{n * 7919 % 50_000}", 1) for n in range(records)])
    driver.run_ready()
    driver.application.commit()
    driver.application.crash()
    driver.application.lose_store("counts")
    began = time.perf_counter()
    restored = driver.application.restart()
    took = time.perf_counter() - began
    read = sum(event.numbers["records"] for event in restored)
    if read != records:
        raise EngineError(f"{read:,} of {records:,} records were restored")
    method = f"changelog of {read:,} updates of 50,000 keys at most, read into an empty store in one process"
    return Benchmark("restore", {"restore of 1,000,000 records": took * 1e6 / records}, "s", _machine(), method)


def word_count(name: str) -> Topology:
    """Build two sub-topologies: words and, after a repartition, their number; results have the times of their words."""
    builder = StreamsBuilder(name)
    words = builder.stream(f"{name}-text", value_serde="string").flat_map_values(str.split)
    counts = words.group_by(lambda key, word: word, value_serde="string").count(store="words")
    counts.to_stream().to(f"{name}-counts", value_serde="long")
    return builder.build()


class _Deployment(NamedTuple):
    """A word count that runs, a producer of its input, and the probe that reads its output."""

    query: Query
    producer: RecordProducer
    topic: str
    probe: LatencyProbe


_Start: TypeAlias = Callable[[str], AbstractContextManager[_Deployment]]
"""Deploys the word count with a guarantee."""


@contextmanager
@extra("spark")
def _deployments(spark: SparkSession | None, servers: Servers | None) -> Iterator[_Start]:
    """Provide a session and a broker; yield a function that deploys the word count with a guarantee."""
    from kstreamnb.kafka.admin import Admin
    from kstreamnb.kafka.broker_process import LocalBroker
    from kstreamnb.kafka.latency_probe import LatencyProbe
    from kstreamnb.kafka.producer import RecordProducer
    from kstreamnb.spark.deploy import deploy
    from kstreamnb.spark.jvm.session import spark_session

    session = spark or spark_session("kstreamnb-benchmark", profile="latency")
    with ExitStack() as stack:
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # as a tuned deployment on one machine has it
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kstreamnb-", dir=memory)))
        broker = servers or stack.enter_context(LocalBroker(data=folder / "broker")).bootstrap_servers
        settings = {"bootstrap.servers": broker, "linger.ms": 0} if isinstance(broker, str) else broker

        @contextmanager
        def start(guarantee: str) -> Iterator[_Deployment]:
            name = f"benchmark-{time.time_ns()}"  # other topics each time, on a broker that stays
            for topic in (f"{name}-text", f"{name}-counts"):
                Admin(broker).create_topic(topic, partitions=2)
            query = deploy(
                word_count(name),
                spark=session,
                bootstrap_servers=broker,
                checkpoint=folder / name,
                guarantee=cast("Guarantee", guarantee),
                parity=False,
            )
            try:
                listener = LatencyProbe(broker, f"{name}-counts")
                sender = RecordProducer(settings, value_serde="string")
                with listener as probe, sender as producer:
                    yield _Deployment(query, producer, f"{name}-text", probe)
            finally:
                query.stop()

        yield start


def _latency(start: _Start, guarantees: Sequence[str], seconds: float, rate: int) -> Benchmark:
    measured = {}
    for guarantee in guarantees:
        with start(guarantee) as deployed:
            warm = _send(deployed.producer, deployed.topic, rate, _WARM_UP_S)
            deployed.query.await_input(120)
            _await(deployed.probe, warm)
            deployed.probe.latencies_ms.clear()
            _await(deployed.probe, _send(deployed.producer, deployed.topic, rate, seconds))
            measured[guarantee] = quantiles(deployed.probe.latencies_ms)
    method = (
        f"word count through two sub-topologies, {rate} records per second for {seconds:g} s after warming up, "
        f"{' and '.join(each.replace('_', ' ') for each in guarantees)}; from before a record is sent until a reader "
        "of committed records has its result"
    )
    figures = measured[guarantees[0]]
    if len(guarantees) > 1:
        figures = {f"{each.replace('_', ' ')} {name}": ms for each in guarantees for name, ms in measured[each].items()}
        exactly, at_least = (measured[each]["p50"] for each in _GUARANTEES)
        method += f"; exactly once takes {exactly / at_least - 1:+.0%} at p50 (textbooks say 5 to 10 %)"
    return Benchmark("latency", figures, "ms", _machine(), method)


def _failover(start: _Start, kills: int) -> Benchmark:
    """Kill all workers, send records, and wait for the next commit."""
    seconds = []
    with start("exactly_once") as (query, producer, topic, _):
        for _ in range(kills):
            _send(producer, topic, 100, 0.1)
            if not query.await_input(120):
                raise EngineError("the query did not commit the records before a kill within two minutes")
            before, began = query.book.batches, time.perf_counter()
            for pid in python_workers():
                os.kill(pid, signal.SIGKILL)
            _send(producer, topic, 100, 0.1)
            while query.book.batches == before and query.is_active():
                time.sleep(0.002)
            seconds.append(time.perf_counter() - began)
    figures = {"median": statistics.median(seconds), "longest": max(seconds)}
    method = f"from the death of all Python workers of a word count to its next commit, {kills} times"
    return Benchmark("failover", figures, "s", _machine(), method)


def python_workers() -> list[int]:
    """Return the processes that the Python daemons of this process's sessions have forked."""
    parents: dict[int, int] = {}
    daemons: set[int] = set()
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            parents[int(path.name)] = int((path / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
            if b"pyspark.daemon" in (path / "cmdline").read_bytes():
                daemons.add(int(path.name))

    def is_mine(pid: int) -> bool:
        while pid in parents and pid != os.getpid():
            pid = parents[pid]
        return pid == os.getpid()

    workers = [pid for pid, parent in parents.items() if parent in daemons and is_mine(pid)]
    if not workers:
        raise EngineError("no Python worker was found", hint='"failover" needs Linux and a session of this process')
    return workers


def quantiles(latencies_ms: list[float]) -> dict[str, float]:
    """Return the median, the 99th percentile and the 99.9th: the lowest age that this share does not exceed.

    Example:
        >>> quantiles([float(age) for age in range(1, 2001)])
        {'p50': 1000.5, 'p99': 1980.0, 'p999': 1998.0}
    """
    latencies = sorted(latencies_ms)
    rank = {share: latencies[max(0, -(-len(latencies) * share // 1000) - 1)] for share in (990, 999)}
    return {"p50": statistics.median(latencies), "p99": rank[990], "p999": rank[999]}


def _send(producer: RecordProducer, topic: str, rate: int, seconds: float) -> int:
    """Send words at a steady pace; return their number."""
    count, began = max(1, int(rate * seconds)), time.perf_counter()
    for number in range(count):
        time.sleep(max(0.0, began + number / rate - time.perf_counter()))
        now_ms = time.time_ns() // 1_000_000
        producer.send(topic, None, _WORDS[number % len(_WORDS)], timestamp=now_ms)
    producer.flush()
    return count


def _await(probe: LatencyProbe, count: int) -> None:
    """Wait for that many results."""

    def arrived() -> bool:
        probe.check()
        return len(probe.latencies_ms) >= count

    if not wait_until(arrived, 120):
        raise EngineError(f"only {len(probe.latencies_ms)} of {count} results arrived within two minutes")


def _machine() -> str:
    """Describe processor, memory, system and versions."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 0
    known = [f"{os.cpu_count()} cores", f"{pages / 2**30:.0f} GB", platform.system(), platform.machine()]
    known.append(f"Python {platform.python_version()}")
    installed = (name for name in ("pyspark", "confluent-kafka") if find_spec(name.replace("-", "_")))
    return ", ".join([*known, *(f"{name} {version(name)}" for name in installed)])
