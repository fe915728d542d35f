"""The result of a run over static DataFrames: output topics as DataFrames or records, stores and counters."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from kstreamnb.core.displayed import Displayed
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.serde import Serde
from kstreamnb.spark.execution.batch_output import BatchOutput
from kstreamnb.spark.execution.record_batch import ORDER, OrderKey, RecordBatch, repeated, unpack
from kstreamnb.spark.execution.rows import OUT, STORE, RowFunction, rows_in
from kstreamnb.spark.execution.state_codec import unpack_delta
from kstreamnb.spark.execution.worker_cache import empty_task
from kstreamnb.spark.io.arrow_types import HEADERS, arrow_column
from kstreamnb.spark.io.sinks import decoded
from kstreamnb.spark.jvm.session import move_frame
from kstreamnb.spark.planning.deployment import Deployment
from kstreamnb.spark.planning.output_topics import writer_serdes
from kstreamnb.spark.state.store_view import StoreView, stores_named, tasks_with
from kstreamnb.state.query_views import detail


class RunResult(Displayed):
    """The outcome of `run`, kept in the session until `close`.

    Attributes:
        outputs: a DataFrame by output topic, with columns partition, offset, timestamp (ms), key, value, headers; they
            live in the session that was given, where SQL finds their views.
        reports: what each task counted: records consumed and produced, records dropped by node and reason.
    """

    def __init__(self, rows: DataFrame, spark: SparkSession, deployment: Deployment, reports: list[bytes]) -> None:
        self._rows, self._deployment, self._application = rows, deployment, deployment.application
        self.reports: list[dict[str, Any]] = sorted(map(pickle.loads, reports), key=lambda report: report["task"])
        hidden = self._application.internal_topics
        topics = sorted({topic for report in self.reports for topic in report["topics"]} - hidden)
        self.outputs: Mapping[str, DataFrame] = {topic: move_frame(self._output(topic), spark) for topic in topics}

    def records(self, topic: str) -> dict[int, list[TopicRecord]]:
        """Return the records of an output topic by partition, in their order.

        Args:
            topic: the output topic.
        """
        batches = [(row["source"], row["seq"], unpack(bytes(row["blob"]))) for row in self._addressed(OUT).collect()]
        output = BatchOutput({(0, topic): [each for each in batches if each[2].topic == topic]})
        found = decoded(self._application, output.records())
        return {partition: records for (_, partition), records in found.items()}

    def store(self, name: str, *, timestamps: bool = False, headers: bool = False) -> StoreView:
        """Return a store at the end of the run, over all its partitions.

        Args:
            name: the store.
            timestamps: return rows of timestamped stores as `ValueAndTimestamp`. Default: False.
            headers: return rows of stores with headers with them. Default: False.
        """
        placed = tasks_with(self._deployment, name)
        source = {len(self._deployment.input_ranks) + task.number: task for task in placed}
        rows = self._addressed(STORE).where(F.col("source").isin(list(source))).collect()
        parts = {number: empty_task(self._deployment, task) for number, task in source.items()}
        for row in rows:
            parts[row["source"]].apply_delta(unpack_delta(bytes(row["blob"]), trust=True))
        stores = [store for number in sorted(parts) for store in stores_named(parts[number], name)]
        return StoreView(name, stores, show=detail(timestamps=timestamps, headers=headers))

    def close(self) -> None:
        """Release the outcome from the session."""
        self._rows.unpersist()

    @property
    def dropped(self) -> dict[tuple[str, str], int]:
        """Number of dropped records by node and reason, most frequent first; a replay of a sample explains each one."""
        return dict(sum((Counter(report["dropped"]) for report in self.reports), Counter()).most_common())

    def counts(self) -> dict[str, int]:
        """Return records consumed, produced and dropped by all tasks together."""
        totals = {name: sum(report[name] for report in self.reports) for name in ("consumed", "produced")}
        return {**totals, "dropped": sum(self.dropped.values())}

    def __repr__(self) -> str:
        figures = ", ".join(f"{count:,} {what}" for what, count in self.counts().items())
        stale = self._application.topology.stale
        mark = f"; stale: {stale}" if stale else ""
        return f"<RunResult of {self._application.id}: {figures}; outputs {', '.join(self.outputs) or 'none'}{mark}>"

    def _addressed(self, target: int) -> DataFrame:
        return self._rows.where(F.col("target") == target).select("source", "seq", "blob")

    def _output(self, topic: str) -> DataFrame:
        """Return the topic's records as rows: exploded, grouped by partition, sorted and numbered."""
        serdes = writer_serdes(self._application, topic)
        none = RecordBatch(topic, 0, OrderKey.of_root(0, 0), np.zeros(0, np.int64), [], [])
        schema = from_arrow_schema(_rows(0, 0, none, serdes).schema)
        exploded = self._addressed(OUT).mapInArrow(_explode(topic, serdes), schema)
        ordered = Window.partitionBy("partition").orderBy(*ORDER, "source", "number")
        offset = (F.row_number().over(ordered) - 1).cast("bigint").alias("offset")
        return exploded.select("partition", offset, "timestamp", "key", "value", "headers")


def _explode(topic: str, serdes: tuple[Serde, Serde]) -> RowFunction:
    """Return the function that yields the records of a topic with their order keys."""

    def run(arrows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for arrow in arrows:
            for source, seq, blob in rows_in(arrow):
                batch = unpack(blob)
                if batch.topic == topic:
                    yield _rows(source, seq, batch, serdes)

    return run


def _rows(source: int, seq: int, batch: RecordBatch, serdes: tuple[Serde, Serde]) -> pa.RecordBatch:
    count, order = len(batch), batch.order
    columns = {
        "partition": pa.array(repeated(batch.partition, count), pa.int32()),
        **{name: pa.array(getattr(order, name), pa.int64()) for name in ORDER},
        "source": pa.array(np.full(count, source), pa.int32()),
        "number": pa.array(np.arange(count) + (seq << 20), pa.int64()),
        "timestamp": pa.array(batch.timestamps, pa.int64()),
        "key": arrow_column(batch.keys, serdes[0]),
        "value": arrow_column(batch.values, serdes[1]),
        # Empty lists are cheap, only nulls are not.
        "headers": pa.array([()] * count if batch.headers is None else batch.headers, HEADERS),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
