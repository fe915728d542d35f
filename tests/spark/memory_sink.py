"""A sink in memory, for queries of one or several applications."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from kstreamnb.core.record import TopicRecord
from kstreamnb.kafka.output_batch import Marker, OutputBatch
from kstreamnb.spark.contracts import QueryBatch, QuerySink
from kstreamnb.spark.io.sinks import decoded, history_of
from kstreamnb.spark.planning.deployment import ApplicationPlan, Deployment


@dataclass
class MemorySink(QuerySink):
    """Keeps everything in this process, in wire form: by (application, topic, partition)."""

    rows: dict[tuple[int, str, int], list[tuple[int, Any, Any, Any]]] = field(default_factory=dict)
    batches: dict[int, int] = field(default_factory=dict)

    def attach(self, deployment: Deployment, spark: SparkSession) -> None:
        """Bind the sink to a query; it keeps the output of one."""
        before = self.deployment
        super().attach(deployment, spark)
        if self.batches and before is not None:
            last = Marker(before.name, max(self.batches), "", "")
            history_of(self, "the sink").refuse_foreign(last, "make a new MemorySink")

    def publish(self, batch: QueryBatch) -> OutputBatch:
        """Append a batch's output; a repeated batch is skipped."""
        count = batch.output.count()
        if batch.number in self.batches:
            return OutputBatch(batch.number, count, suppressed=True, differs=count != self.batches[batch.number])
        self.batches[batch.number] = count
        for application in sorted({owner for owner, _ in batch.output.batches}):
            for topic, partition, timestamp, key, value, headers in batch.output.records(application):
                self.rows.setdefault((application, topic, partition), []).append((timestamp, key, value, headers))
        return OutputBatch(batch.number, count)

    def records(self, application: ApplicationPlan, topic: str, number: int = 0) -> dict[int, list[TopicRecord]]:
        """Return the records of a topic so far by partition."""
        rows = (
            (topic, partition, *row)
            for (owner, name, partition), rows in self.rows.items()
            for row in rows
            if (owner, name) == (number, topic)
        )
        return {partition: records for (_, partition), records in decoded(application, rows).items()}
