"""`benchmark`: figures of this machine, with what was measured and how, so that others can be set beside them."""

from __future__ import annotations

import os
import platform
import statistics
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from kstreamnb.dsl.builder import StreamsBuilder
from kstreamnb.errors import ConfigError, EngineError, did_you_mean, extra
from kstreamnb.simulation.cluster import ClusterDriver
from kstreamnb.topology.topology import Topology

__all__ = ["Benchmark", "benchmark"]

_WORDS = ["the", "duck", "looks", "calm", "on", "the", "stream", "and", "paddles", "like", "mad", "below"]
_WARM_UP_S = 15.0


@dataclass(frozen=True)
class Benchmark:
    """The result of a measurement; printing it shows figures, machine and method.

    Attributes:
        name: what was asked for.
        figures: by name, in ``unit``.
        unit: "ms" or "s".
        machine: processor, memory and versions.
        method: what the figures are of.

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
        """Return figures that exceed a multiple of what was published: nothing, unless something has become slow."""
        return {name: self.figures[name] for name, value in published.items() if self.figures[name] > factor * value}


def benchmark(
    name: str = "latency",
    *,
    spark: Any = None,
    bootstrap_servers: Any = None,
    seconds: float = 60,
    rate: int = 10,
    records: int = 1_000_000,
) -> Benchmark:
    """Measure and give the figures; "latency" needs Java, and starts a session and a broker if none is given.

    Args:
        name: "latency" of a word count through two sub-topologies, exactly once, from Kafka to Kafka; or "restore",
            the time in which a store is restored from its changelog.
        spark: the session.
        bootstrap_servers: the broker; it gets two topics of the benchmark's own.
        seconds: how long latency is measured, after warming up.
        rate: records a second; each is one word.
        records: of the changelog that is restored; figures are for a million.

    Example:
        >>> found = benchmark("restore", records=1000)
        >>> found.unit, list(found.figures)
        ('s', ['restore of 1,000,000 records'])
    """
    if name == "restore":
        return _restore(records)
    if name == "latency":
        return _latency(spark, bootstrap_servers, seconds, rate)
    raise ConfigError(f'there is no benchmark "{name}"', hint=did_you_mean(name, ("latency", "restore")))


def _restore(records: int) -> Benchmark:
    builder = StreamsBuilder("benchmark-restore")
    builder.stream("in").group_by_key().count(store="counts")
    driver = ClusterDriver(builder.build(), {"processing_guarantee": "at_least_once"}, trace=False)
    source = driver.create_input_topic("in")
    source.pipe_key_value_list([(f"k{n * 7919 % 50_000}", 1) for n in range(records)])
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
    """Two sub-topologies: words, and after a repartition their number; results have the times of their words."""
    builder = StreamsBuilder(name)
    words = builder.stream(f"{name}-text", value_serde="string").flat_map_values(str.split)
    counts = words.group_by(lambda key, word: word, value_serde="string").count(store="words")
    counts.to_stream().to(f"{name}-counts", value_serde="long")
    return builder.build()


@extra("spark")
def _latency(spark: Any, servers: Any, seconds: float, rate: int) -> Benchmark:
    from kstreamnb.core.serdes import Serdes
    from kstreamnb.kafka.admin import Admin
    from kstreamnb.kafka.broker_process import LocalBroker
    from kstreamnb.kafka.latency_probe import LatencyProbe
    from kstreamnb.kafka.producer import RecordProducer
    from kstreamnb.spark.deploy import deploy
    from kstreamnb.spark.jvm.session import spark_session

    session = spark or spark_session("kstreamnb-benchmark", profile="latency")
    name = f"benchmark-{time.time_ns()}"  # other topics each time, on a broker that stays
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="kstreamnb-", dir=_fast_folder()))
        if servers is None:
            servers = stack.enter_context(LocalBroker(data=Path(folder) / "broker")).bootstrap_servers
        for topic in (f"{name}-text", f"{name}-counts"):
            Admin(servers).create_topic(topic, partitions=2)
        checkpoint = Path(folder) / "checkpoint"
        query = deploy(word_count(name), spark=session, bootstrap_servers=servers, checkpoint=checkpoint, parity=False)
        stack.callback(query.stop)
        heard = stack.enter_context(LatencyProbe(servers, f"{name}-counts"))
        settings = {"bootstrap.servers": servers, "linger.ms": 0} if isinstance(servers, str) else servers
        with RecordProducer(settings, value_serde=Serdes.string()) as producer:
            warm = _send(producer, f"{name}-text", rate, _WARM_UP_S)
            query.await_input(120)
            _await(heard, warm)
            heard.latencies_ms.clear()
            sent = _send(producer, f"{name}-text", rate, seconds)
            _await(heard, sent)
    method = (
        f"word count through two sub-topologies, {rate} records a second for {seconds:g} s after warming up, exactly "
        "once; from before a record is sent until a reader of committed records has its result"
    )
    return Benchmark("latency", quantiles(heard.latencies_ms), "ms", _machine(), method)


def quantiles(latencies_ms: list[float]) -> dict[str, float]:
    """The middle, the 99th percentile and the 99.9th: the least age that this share does not exceed.

    Example:
        >>> quantiles([float(age) for age in range(1, 2001)])
        {'p50': 1000.5, 'p99': 1980.0, 'p999': 1998.0}
    """
    latencies = sorted(latencies_ms)
    rank = {share: latencies[max(0, -(-len(latencies) * share // 1000) - 1)] for share in (990, 999)}
    return {"p50": statistics.median(latencies), "p99": rank[990], "p999": rank[999]}


def _send(producer: Any, topic: str, rate: int, seconds: float) -> int:
    """Words at a steady pace; gives how many."""
    count, began = max(1, int(rate * seconds)), time.perf_counter()
    for number in range(count):
        time.sleep(max(0.0, began + number / rate - time.perf_counter()))
        now_ms = time.time_ns() // 1_000_000
        producer.send(topic, None, _WORDS[number % len(_WORDS)], timestamp=now_ms)
    producer.flush()
    return count


def _await(heard: Any, count: int) -> None:
    """Wait for as many results."""
    end = time.monotonic() + 120
    while len(heard.latencies_ms) < count:
        if time.monotonic() > end:
            raise EngineError(f"{len(heard.latencies_ms)} of {count} results came within two minutes")
        time.sleep(0.02)


def _machine() -> str:
    """Processor, memory, system and versions."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 0
    known = [f"{os.cpu_count()} cores", f"{pages / 2**30:.0f} GB", platform.system(), platform.machine()]
    known.append(f"Python {platform.python_version()}")
    for package in ("pyspark", "confluent-kafka"):
        try:
            known.append(f"{package} {version(package)}")
        except ModuleNotFoundError:
            continue
    return ", ".join(known)


def _fast_folder() -> str | None:
    """Memory for the checkpoint where there is such a folder, as a tuned deployment on one machine has."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
