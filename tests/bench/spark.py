"""Speed on Spark from memory: ``python -m tests.bench.spark [--only WORD] [--rows N] [--keys N] [--cores N]``.

Prints a table with the targets: a keyed count beside plain Spark SQL on the same keys, latency of small batches through
one and two levels beside Spark alone, both in a separate session with the profile "latency", cost of a batch as state
grows, static frames, the first batch of a query, and planning.

Rates are given twice: by wall-clock time, and by the CPU time of Spark's whole process tree as if nothing else ran on
the cores; on a busy machine only the second is meaningful. Both include Spark's own work and leave out the first, cold
batches.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import kstreamnb as ks
from kstreamnb.kafka.output_batch import OutputBatch
from kstreamnb.kafka.storage.checkpoint_files import LocalFiles
from kstreamnb.runtime.context.config import Config
from kstreamnb.spark.contracts import QueryBatch, QuerySink, StreamSettings
from kstreamnb.spark.deploy import query_of
from kstreamnb.spark.jvm.profiles import PROFILES
from kstreamnb.spark.planning.placement import plan_application, plan_deployment
from tests.bench.floor import plain_levels
from tests.bench.made import PARTITIONS, START_MS, Made

__all__ = ["main"]

_WARM_UP = 3


@dataclass
class Timed(QuerySink):
    """Accepts batches and notes when each was done, by wall-clock and CPU time."""

    done: list[tuple[float, float, int]] = field(default_factory=list)

    def publish(self, batch: QueryBatch) -> OutputBatch:
        """Count the batch's records."""
        count = batch.output.count()
        self.done.append((time.perf_counter(), cpu_seconds(), count))
        return OutputBatch(batch.number, count)

    def steps(self) -> list[tuple[float, float]]:
        """Return wall-clock seconds and CPU seconds of each batch after the first."""
        return [(later[0] - sooner[0], later[1] - sooner[1]) for sooner, later in pairwise(self.done)]


@dataclass(frozen=True)
class StatusLine:
    """Format one line of the table; ``met`` is None if there is no target."""

    what: str
    found: str
    aim: str = ""
    met: bool | None = None


def cpu_seconds(root: int | None = None, *, without: Sequence[int] = ()) -> float:
    """Return the CPU time of a process, by default this one, and its descendants, including those that ended."""
    children: dict[int, list[int]] = {}
    spent: dict[int, float] = {}
    tick = os.sysconf("SC_CLK_TCK")
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        pid = int(path.parent.name)
        children.setdefault(int(words[1]), []).append(pid)
        spent[pid] = sum(map(int, words[11:15])) / tick
    total, waiting = 0.0, [root or os.getpid()]
    while waiting:
        pid = waiting.pop()
        if pid in without:
            continue
        total += spent.get(pid, 0.0)
        waiting += children.get(pid, [])
    return total


def memory_mb() -> float:
    """Return the current memory of this process and all its descendants, counting shared memory once per process."""
    children: dict[int, list[int]] = {}
    held: dict[int, float] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "stat").read_text().rpartition(")")[2].split()
            lines = (path / "smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        children.setdefault(int(words[1]), []).append(int(path.name))
        held[int(path.name)] = sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
    total, waiting = 0.0, [os.getpid()]
    while waiting:
        pid = waiting.pop()
        total += held.get(pid, 0.0)
        waiting += children.get(pid, [])
    return total


@dataclass
class Light(QuerySink):
    """Accepts batches and adds no cost; reads the CPU time once after the warm-up and once at the end."""

    marks: tuple[int, int]
    found: list[float] = field(default_factory=list)

    def publish(self, batch: QueryBatch) -> OutputBatch:
        """Read the CPU time if it is due."""
        if batch.number in self.marks:
            self.found.append(cpu_seconds())
        return OutputBatch(batch.number, batch.output.count())

    def cpu_ms(self) -> float:
        """Return the average CPU time of a batch between the two readings."""
        return 1000 * (self.found[1] - self.found[0]) / (self.marks[1] - self.marks[0])


def counting(levels: int = 1) -> ks.Topology:
    """A keyed count; with two levels, counted again by the last characters of the key."""
    builder = ks.StreamsBuilder(f"counting-{levels}")
    table = builder.stream("numbers", value_serde="long").group_by_key().count(store="counts")
    if levels == 2:
        grouped = table.to_stream().group_by(lambda key, count: key[-1], value_serde="long")
        table = grouped.count(store="ends")
    table.to_stream().to("out", value_serde="long")
    return builder.build()


def squaring() -> ks.Topology:
    """A map that costs far more than moving its records does."""
    builder = ks.StreamsBuilder("squaring")
    numbers = builder.stream("numbers", value_serde="long")
    numbers.map_values(lambda value: sum(at * at for at in range(value % 7, 500))).to("out", value_serde="long")
    return builder.build()


def streamed(spark: Any, feed: Made, sink: QuerySink, *, levels: int = 1, slots: int = 0) -> Any:
    """Run a query over generated records, with ``slots`` one that only maps them; returns the finished query."""
    topology = squaring() if slots else counting(levels)
    application = plan_application(topology, Config(), {"numbers": PARTITIONS}, direct=True)
    deployment = plan_deployment("bench", [application], spark.sparkContext.defaultParallelism)
    with tempfile.TemporaryDirectory(prefix="kstreamnb-bench-", dir=_fast_folder()) as folder:
        settings = StreamSettings(
            LocalFiles(Path(folder)), None, max_records=1, readers=slots or spark.sparkContext.defaultParallelism
        )
        named = replace(deployment, name=Path(folder).name)
        query = query_of(spark, named, feed, sink, settings).restart()  # type: ignore[arg-type]
        query.await_termination(3600)
        return query


def keyed_count(spark: Any, options: argparse.Namespace) -> Iterator[StatusLine]:
    """Measure records per second through one level with state, beside Spark SQL's count of the same number of keys."""
    size, batches, cores = options.batch, options.batches, options.cores
    sink = Timed()
    streamed(spark, Made(size, batches, options.keys), sink)
    warm = sink.steps()[_WARM_UP - 1 :]
    clock, cpu = (statistics.median(step[at] for step in warm) for at in (0, 1))
    ours = size / (cpu / cores)
    yield StatusLine(
        f"keyed count, {options.keys:,} keys, by CPU", f"{ours:,.0f} records/s", "≥ 200,000", ours >= 200_000
    )
    yield StatusLine("  by the clock", f"{size / clock:,.0f} records/s")
    theirs = plain_sql(spark, size, batches, options.keys)
    clock, cpu = (statistics.median(step[at] for step in theirs[_WARM_UP - 1 :]) for at in (0, 1))
    rate = size / (cpu / cores)
    yield StatusLine("  Spark SQL's groupBy.count on such keys, by CPU", f"{rate:,.0f} records/s ({ours / rate:.2f}×)")
    yield StatusLine("  by the clock", f"{size / clock:,.0f} records/s")


def plain_sql(spark: Any, size: int, batches: int, keys: int) -> list[tuple[float, float]]:
    """Return seconds and CPU seconds of each batch of Spark's own count; every update is collected, as in ours."""
    from pyspark.sql import functions as F

    from kstreamnb.spark.jvm.session import query_session

    session = query_session(spark)
    session.conf.set("spark.sql.shuffle.partitions", str(spark.sparkContext.defaultParallelism))
    rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", size)
    rows = rows.option("numPartitions", PARTITIONS).load()
    counts = rows.select(F.concat(F.lit("k"), F.col("value") * 7919 % keys).alias("key")).groupBy("key").count()
    done: list[tuple[float, float]] = []

    def act(frame: Any, number: int) -> None:
        frame.toArrow()
        done.append((time.perf_counter(), cpu_seconds()))

    with tempfile.TemporaryDirectory(prefix="kstreamnb-bench-", dir=_fast_folder()) as folder:
        writer = counts.writeStream.outputMode("update").option("checkpointLocation", folder).foreachBatch(act)
        query = writer.start()
        while len(done) < batches and query.isActive:
            time.sleep(0.05)
        query.stop()
    return [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(done)]


def latency(spark: Any, options: argparse.Namespace) -> Iterator[StatusLine]:
    """Return Spark's figures for consecutive batches of a few records, once its code is compiled."""
    warm, last = options.warm, options.warm + 100
    stage = statistics.median(plain_levels(spark, 0, _fast_folder(), last)[warm:])
    for levels, aim in ((1, 100), (2, 150)):
        sink = Light((warm, last - 1))
        query = streamed(spark, Made(8, last, 40), sink, levels=levels)
        spent = [p["durationMs"]["triggerExecution"] for p in query.control.handle.streaming.recentProgress][warm:]
        middle, worst = statistics.median(spent), statistics.quantiles(spent, n=100)[98]
        found = f"p50 {middle:.0f} ms, p99 {worst:.0f} ms ({sink.cpu_ms():.0f} ms of CPU)"
        yield StatusLine(f"latency, {levels} level{'s'[: levels - 1]}", found, f"p50 ≤ {aim} ms", middle <= aim)
        floor = statistics.median(plain_levels(spark, levels, _fast_folder(), last)[warm:])
        yield StatusLine(
            "  Spark alone, as many levels of a count in Python", f"p50 {floor:.0f} ms ({middle / floor:.2f}×)"
        )
    yield StatusLine("  Spark alone, one stage that keeps nothing", f"p50 {stage:.0f} ms")


def growing_state(spark: Any, options: argparse.Namespace) -> Iterator[StatusLine]:
    """Measure the CPU time of equal batches while the number of keys grows to a million."""
    batches = options.grow // 20_000
    sink = Timed()
    streamed(spark, Made(20_000, batches, 4 * options.grow), sink)
    spent = [cpu for _, cpu in sink.steps()]
    first, last = spent[_WARM_UP : _WARM_UP + 10], spent[-10:]
    early, late = statistics.median(first), statistics.median(last)
    found = f"{early * 1000:.0f} → {late * 1000:.0f} ms of CPU, at most {max(spent[_WARM_UP:]) * 1000:.0f} ms"
    what = f"a batch of 20,000 new keys, state up to {options.grow:,} keys"
    yield StatusLine(what, found, "flat (≤ 1.5×)", late <= 1.5 * early)


def static_frames(spark: Any, options: argparse.Namespace) -> Iterator[StatusLine]:
    """A keyed count over a DataFrame."""
    from pyspark.sql import functions as F

    from kstreamnb.spark.io.dataframe_input import FrameInput

    frame = spark.range(options.rows).select(
        F.concat(F.lit("k"), F.col("id") * 7919 % 50_000).alias("key"),
        F.col("id").alias("value"),
        (F.lit(START_MS) + F.col("id")).alias("timestamp"),
    )
    clock, cpu = time.perf_counter(), cpu_seconds()
    given = {"numbers": FrameInput(frame, value="value")}
    result = ks.run(counting(), spark=spark, inputs=given, partitions=8, keep_stores=False)
    produced = result.counts()["produced"]
    spent, clock = cpu_seconds() - cpu, time.perf_counter() - clock
    held = memory_mb()
    result.close()
    if produced != options.rows:
        raise RuntimeError(f"{produced} results of {options.rows} rows")
    rate = options.rows / (spent / options.cores)
    yield StatusLine(
        f"static frame, {options.rows:,} rows", f"{clock:.0f} s, {rate:,.0f} rows/s by CPU", "runs", met=True
    )
    yield StatusLine("  memory of all processes at the end", f"{held:,.0f} MB", "≤ 8,192", held <= 8192)


def scaling(spark: Any, options: argparse.Namespace) -> Iterator[StatusLine]:
    """S0-08: a CPU-bound map, on one slot and on all of them; by wall-clock time, because that is what scales."""
    found, records = {}, set()
    for slots in (1, options.cores):
        sink = Timed()
        streamed(spark, Made(20_000, 6, 40), sink, slots=slots)
        found[slots] = statistics.median(step[0] for step in sink.steps()[1:])
        records.add(sum(count for *_, count in sink.done))
    ratio, aim = found[1] / found[options.cores], 1 + 0.5 * (options.cores - 1)
    told = f"{ratio:.2f}× on {options.cores} slots, {20_000 / found[1]:,.0f} records/s on one"
    yield StatusLine("a map bound by the CPU", told, f"≥ {aim:g}×", ratio >= aim and len(records) == 1)


def first_batch(spark: Any, options: argparse.Namespace) -> Iterator[StatusLine]:
    """Measure from the start of a query to the end of its first batch, in a session that has already run one."""
    for _ in range(2):
        sink = Timed()
        began, cpu = time.perf_counter(), cpu_seconds()
        streamed(spark, Made(8, 1, 40), sink)
        clock, spent = sink.done[0][0] - began, sink.done[0][1] - cpu
    yield StatusLine(
        "first batch after the start of a query", f"{clock:.1f} s ({spent:.1f} s of CPU)", "≤ 2 s", clock <= 2
    )


def planning(spark: Any, options: argparse.Namespace) -> Iterator[StatusLine]:
    """`plan` over a hundred partitions."""
    began = time.process_time()
    ks.plan(counting(2), 100, spark_partitions=16)
    spent = time.process_time() - began
    yield StatusLine("plan of 100 partitions, two levels", f"{spent:.2f} s", "< 1 s", spent < 1)


CASES: dict[str, Callable[[Any, argparse.Namespace], Iterator[StatusLine]]] = {
    "planning": planning,
    "first": first_batch,
    "count": keyed_count,
    "latency": latency,
    "grow": growing_state,
    "scale": scaling,
    "frames": static_frames,
}


def main() -> int:
    """Measure and print; exit with code 1 if a target is missed."""
    options = _options()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # lets Spark's processes load compiled modules
    missed = 0
    if options.only in (None, "latency") and not options.profile:
        again = (*sys.argv[1:], "--only", "latency", "--profile", "latency")  # another profile needs another JVM
        missed = subprocess.run([sys.executable, "-m", "tests.bench.spark", *again], check=False).returncode
    chosen = {name: case for name, case in CASES.items() if options.only == name or not options.only}
    if not options.profile:
        chosen.pop("latency", None)
    if not chosen:
        return missed
    settings = {"spark.driver.memory": options.memory, "spark.sql.streaming.numRecentProgressUpdates": 1000}
    profile = options.profile or "local"
    spark = ks.spark.spark_session("kstreamnb-bench", cores=options.cores, profile=profile, settings=settings)
    for case in chosen.values():
        for line in case(spark, options):
            mark = "" if line.met is None else "met" if line.met else "MISSED"
            missed += line.met is False
            print(f"{line.what:<58} {line.found:<52} {line.aim:<14} {mark}", flush=True)
    spark.stop()
    return 1 if missed else 0


def _fast_folder() -> str | None:
    """Use memory for checkpoints if there is such a folder, as a tuned deployment on one machine does."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.spark", description="Measure deployments on Spark.")
    parser.add_argument("--only", choices=CASES, help="measure only this")
    parser.add_argument("--profile", choices=PROFILES, help='of the session; without it "latency" for latency alone')
    parser.add_argument("--warm", type=int, default=300, help="batches before latency is measured")
    parser.add_argument("--cores", type=int, default=2, help="task slots of the session")
    parser.add_argument("--memory", default="2g", help="memory of the JVM")
    parser.add_argument("--batch", type=int, default=200_000, help="records a batch of the keyed count")
    parser.add_argument("--batches", type=int, default=12, help="batches of the keyed count")
    parser.add_argument("--keys", type=int, default=50_000, help="keys of the keyed count")
    parser.add_argument("--grow", type=int, default=1_000_000, help="keys that state grows to")
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of the static frame")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
