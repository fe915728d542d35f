"""Growth of cost with the work: ``python -m tests.bench.growth [--json FILE] [--quick]``.

Measures CPU time against one size at a time, prints for each curve how fast it grows and the constant of its largest
point, and exits with code 1 if one grows faster than n log n. ``--json`` writes the curves for the guide's charts:
a list of ``{"chart", "x_label", "y_label", "series": [{"name", "points": [[x, y], …]}]}``.

Each point is the least of several runs: CPU time excludes other processes, the least excludes a cold cache.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import kstreamnb as ks
from kstreamnb.core.record import TopicRecord
from tests.bench.driver import START_MS
from tests.bench.driver import topology as bench_topology
from tests.bench.replay import seconds

Work = Callable[[], object]
Prepare = Callable[[int], Work]
"""Returns, for a size, the work to measure; what it prepares is not measured."""

MOST_GROWTH = 1.5
"""How much more a unit may cost at the largest size than at any smaller one, by n log n; the rest is noise."""
LEAST_S = 0.002
"""Shorter times are mostly fixed costs: they do not count as a smaller cost of a unit."""


class Chart(NamedTuple):
    """Curves over one axis, which holds the size of the work."""

    title: str
    x_label: str
    sizes: tuple[int, ...]
    series: dict[str, Prepare]


def records(count: int, keys: int = 100, topic: str = "in") -> list[TopicRecord]:
    """Return records a millisecond apart, whose keys cycle."""
    return [TopicRecord(topic, -1, -1, START_MS + n, f"k{n % keys}", {"value": n}) for n in range(count)]


def regrouped() -> Any:
    """Count by another key, behind a repartition topic."""
    builder = ks.StreamsBuilder("bench")
    builder.stream("in").group_by(lambda key, _: key[-1]).count().to_stream().to("out", value_serde=ks.Serdes.long())
    return builder.build()


def piped(topology: Any, given: list[TopicRecord], partitions: int = 1) -> Work:
    """Return the work of piping records into a new driver."""
    return lambda: ks.TopologyTestDriver(topology, partitions=partitions).pipe(given)


def replayed(topology: Any, given: list[TopicRecord]) -> Work:
    """Return the work of replaying records with every step recorded."""
    return lambda: ks.replay(topology, given)


def chained(count: int) -> Work:
    """Return the work of building and running a stream of operators, 1,000 records."""
    few = records(1_000)

    def work() -> None:
        builder = ks.StreamsBuilder("bench")
        stream = builder.stream("in")
        for _ in range(count):
            stream = stream.filter(lambda key, value: True)
        stream.to("out")
        ks.TopologyTestDriver(builder.build()).pipe(few)

    return work


def joined_tables(count: int) -> Work:
    """Return the work of building and running joins of a stream with tables, 1,000 records."""
    few = records(1_000)

    def work() -> None:
        builder = ks.StreamsBuilder("bench")
        stream = builder.stream("in")
        for number in range(count):
            stream = stream.left_join(builder.table(f"table-{number}"), lambda value, _: value)
        stream.to("out")
        ks.TopologyTestDriver(builder.build()).pipe(few)

    return work


def looked_at(steps: int) -> Work:
    """Return the work of looking at seven moments of a replay."""
    run = ks.replay(bench_topology("keyed count"), records(steps))
    store = next(iter(run.topology.stores))
    return lambda: [len(run.at(steps * tenth // 10).store(store)) for tenth in (5, 0, 9, 1, 10, 3, 7)]


def previewed(count: int) -> Work:
    """Return the work of showing the first rows of a windowed count on a sample of a size."""
    builder = ks.StreamsBuilder("bench")
    builder.sample = ks.Sample.from_records(records(count))
    stream = builder.stream("in")
    counts = stream.group_by_key().windowed_by(ks.TimeWindows.of(size="1m", grace="0s")).count()
    counts.head()
    return lambda: counts.head()


def charts(*, quick: bool) -> list[Chart]:
    """Return everything that is measured; ``quick`` leaves out the largest sizes."""
    most = 5 if quick else 6
    sizes = tuple(10**power for power in range(3, most + 1))
    keyed, plain, again = bench_topology("keyed count"), bench_topology("filter and map"), regrouped()
    fixed = records(20_000)
    return [
        Chart(
            "Time against records",
            "records",
            sizes,
            {
                "count by key": lambda count: piped(keyed, records(count)),
                "count by another key": lambda count: piped(again, records(count)),
                "count by key, every step recorded": lambda count: replayed(keyed, records(count)),
            },
        ),
        Chart(
            "Time against keys, one record each",
            "keys",
            sizes,
            {
                "count by key": lambda count: piped(keyed, records(count, keys=count)),
                "count by another key": lambda count: piped(again, records(count, keys=count)),
            },
        ),
        Chart(
            "Time of 20,000 records against partitions",
            "partitions",
            (1, 4, 16, 64, 256),
            {
                "filter and map": lambda count: piped(plain, fixed, count),
                "count by key": lambda count: piped(keyed, fixed, count),
                "count by another key": lambda count: piped(again, fixed, count),
            },
        ),
        Chart(
            "Time to build a topology and process 1,000 records",
            "operators",
            (1, 3, 10, 30, 100),
            {"filters": chained, "joins with tables": joined_tables},
        ),
        Chart(
            "Time against the length of a sample or a replay",
            "records",
            sizes,
            {"look at seven moments of a replay": looked_at, "first rows of a windowed count": previewed},
        ),
    ]


def measured(chart: Chart, repeats: int) -> dict[str, list[tuple[int, float]]]:
    """Return the points of each curve: size and seconds of CPU."""
    curves: dict[str, list[tuple[int, float]]] = {name: [] for name in chart.series}
    for name, prepare in chart.series.items():
        for size in chart.sizes:
            work = prepare(size)
            work()  # imports and compiles
            curves[name].append((size, min(seconds(work) for _ in range(1 if size >= 10**6 else repeats))))
    return curves


def growth(points: list[tuple[int, float]]) -> float:
    """Return how many times more a unit costs at the largest size than at the cheapest smaller one, by n log n."""
    units = [took / size / math.log2(size + 1) for size, took in points if took >= LEAST_S]
    return units[-1] / min(units) if units else 0.0


def report(chart: Chart, curves: dict[str, list[tuple[int, float]]]) -> int:
    """Print the curves of a chart; return how many grow faster than n log n."""
    print(f"\n{chart.title}\n{chart.x_label:36}" + "".join(f"{size:>12,}" for size in chart.sizes))
    missed = 0
    for name, points in curves.items():
        size, took = points[-1]
        factor = growth(points)
        missed += factor > MOST_GROWTH
        verdict = "" if factor <= MOST_GROWTH else f"  MISSED: {factor:.2f} × the cost by n log n"
        line = "".join(f"{1000 * spent:>9,.1f} ms" for _, spent in points)
        print(f"{name:36}{line}   {1e6 * took / size:,.2f} µs for each at the end{verdict}")
    return missed


def main() -> int:
    """Measure, print and write the curves; exit with code 1 if one grows too fast."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.growth", description="Growth of cost with the work.")
    parser.add_argument("--json", type=Path, help="file for the curves")
    parser.add_argument("--quick", action="store_true", help="only up to 100,000 records")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each point")
    options = parser.parse_args()
    missed, written = 0, []
    for chart in charts(quick=options.quick):
        curves = measured(chart, options.repeats)
        missed += report(chart, curves)
        series = [{"name": name, "points": [[x, round(y, 6)] for x, y in points]} for name, points in curves.items()]
        written.append({"chart": chart.title, "x_label": chart.x_label, "y_label": "seconds of CPU", "series": series})
    if options.json:
        options.json.write_text(json.dumps(written, indent=1, ensure_ascii=False) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
