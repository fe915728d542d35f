"""Runs the levels of a query without Spark, in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import kstreamnb as ks
from kstreamnb.spark.contracts import QueryBatch
from kstreamnb.spark.execution import worker_cache
from kstreamnb.spark.execution.worker_cache import CachedTask
from tests.spark.file_source import FileOffsetSource
from tests.spark.inprocess import Cluster
from tests.spark.memory_sink import MemorySink
from tests.spark.streams import Output, Row, batched, outputs, placed
from tests.spark.test_streaming import joined, three_levels, two_levels

FEED = "feed.pickle"


def run_in(
    cluster: Cluster, folder: Path, batches: Sequence[Any], topics: Sequence[str], between: Callable[[int], None]
) -> dict[str, Output]:
    """Return what a cluster writes in some batches."""
    sink = MemorySink()
    feed = FileOffsetSource.write(folder / FEED, batches)
    for number, output in enumerate(cluster.batches(feed, between)):
        sink.publish(QueryBatch(number, "", {}, 0, output))
    return outputs(cluster.deployment, sink, topics)


def ran(
    folder: Path,
    topology: ks.Topology,
    rows: list[Row],
    topics: Sequence[str],
    *,
    batches: int,
    partitions: int = 3,
    between: Callable[[int], None] = lambda number: None,
    memory_limit: int = 1 << 30,
    spark_partitions: int = 2,
    **config: Any,
) -> tuple[dict[str, Output], Cluster]:
    """Return the output of a run in some batches, and its cluster."""
    deployment = placed(topology, partitions, spark_partitions=spark_partitions, **config)
    cluster = Cluster.of(deployment, folder.name, memory_limit=memory_limit, verify=True)
    cluster.forget()
    return run_in(cluster, folder, batched(deployment, rows, batches), topics, between), cluster


def forget(number: int) -> None:
    """Clear the workers' memory in one of several ways."""
    Cluster.forget()


def timed() -> ks.Topology:
    """Windows, hopping, sliding and emitted on close, sessions, a join of two windows, and a join with versions."""
    builder = ks.StreamsBuilder("timed")
    left, right = builder.stream("left"), builder.stream("right")
    grouped = left.group_by_key()
    minutes = ks.TimeWindows.of("2m", grace="1m")
    hopping = ks.Stores.in_memory_window_store("hopping", retention="10m", window_size="2m")
    tables = {
        "hops": grouped.windowed_by(minutes.advance_by("1m")).count(materialized=ks.Materialized(hopping)),
        "slides": grouped.windowed_by(ks.SlidingWindows.of_time_difference_and_grace("90s", "1m")).count(
            store="slides"
        ),
        "closed": grouped.windowed_by(minutes).emit_strategy(ks.EmitStrategy.on_window_close()).count(store="closed"),
        "sessions": grouped.windowed_by(ks.SessionWindows.of("80s", grace="1m")).count(store="sessions"),
    }
    for topic, table in tables.items():
        table.to_stream(lambda window, count: str(window)).to(topic, value_serde="long")
    pairs = left.outer_join(right, lambda a, b: f"{a}-{b}", ks.JoinWindows.of("1m", grace="1m"))
    pairs.to("pairs", value_serde="string")
    versions = ks.Stores.persistent_versioned_key_value_store("versions", "5m")
    prices = builder.table("prices", materialized=ks.Materialized(versions))
    left.join(prices, lambda a, b: f"{a} at {b}").to("priced", value_serde="string")
    return builder.build()


SHAPES = [
    (two_levels, ["in"], ["totals", "windows"]),
    (three_levels, ["in"], ["out"]),
    (joined, ["left", "right"], ["pairs", "sums"]),
]


def kept_tasks() -> list[CachedTask]:
    """The tasks in the memory of this process."""
    return [task for state in worker_cache._states.values() for task in state.tasks.values()]


def counted() -> ks.Topology:
    """Count records by key."""
    builder = ks.StreamsBuilder("many")
    builder.stream("in").group_by_key().count(store="counts").to_stream().to("out")
    return builder.build()
