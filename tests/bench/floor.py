"""Measures Spark alone on small batches, without the kit: levels of state in Python, and one collect per batch."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from kstreamnb.spark.jvm.session import streaming_session

__all__ = ["plain_levels"]


class Counting(StatefulProcessor):
    """Counts the rows of a group in one value state."""

    def init(self, handle: Any) -> None:
        """Declare the state."""
        self._count = handle.getValueState("count", "n bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Increment the count and pass it on."""
        found = self._count.get()
        count = (0 if found is None else found[0]) + sum(1 for _ in rows)
        self._count.update((count,))
        yield Row(g=key[0], n=count)

    def close(self) -> None:
        """Nothing is held."""


def _passed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def plain_levels(spark: Any, levels: int, folder: str | None, batches: int) -> list[int]:
    """Return the milliseconds of each trigger of a plain query with the given levels, under the settings of the kit's
    queries.

    Without a level the rows pass through one Python function, in the stage that creates them.
    """
    session = streaming_session(spark)
    session.conf.set("spark.sql.shuffle.partitions", str(spark.sparkContext.defaultParallelism))
    rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 8).option("numPartitions", 1).load()
    frame = rows.select((F.col("value") % 4).cast("int").alias("g"), F.col("value").alias("n"))
    for _ in range(levels):
        frame = frame.groupBy("g").transformWithState(Counting(), "g int, n bigint", "append", "none")
    if not levels:
        frame = frame.mapInArrow(_passed, frame.schema)
    done: list[int] = []

    def act(batch: Any, number: int) -> None:
        batch.toArrow()
        done.append(number)

    with tempfile.TemporaryDirectory(prefix="kstreamnb-bench-", dir=folder) as checkpoint:
        writer = frame.writeStream.outputMode("append").foreachBatch(act)
        query = writer.option("checkpointLocation", str(Path(checkpoint))).start()
        while len(done) < batches and query.isActive:
            time.sleep(0.05)
        spent = [each["durationMs"]["triggerExecution"] for each in query.recentProgress]
        query.stop()
    return spent
