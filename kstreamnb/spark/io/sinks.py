"""Where batches go: Kafka, exactly once or at least once; memory; a user's function, as records or DataFrames."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame

from kstreamnb.core.codec import decoder
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.signatures import taking
from kstreamnb.errors import BrokerError, EngineError, TransactionTimeoutError
from kstreamnb.kafka.output_batch import BatchHistory, OutputBatch, OutputRecord
from kstreamnb.kafka.storage.checkpoint_files import CheckpointFiles, Claim
from kstreamnb.spark.contracts import QueryBatch, QuerySink
from kstreamnb.spark.io.arrow_types import arrow_column
from kstreamnb.spark.planning.deployment import ApplicationPlan
from kstreamnb.spark.planning.output_topics import writer_serdes
from kstreamnb.topology.nodes import grouped

if TYPE_CHECKING:  # Kafka's client is loaded by connections alone
    from kstreamnb.kafka.at_least_once_writer import AtLeastOnceWriter
    from kstreamnb.kafka.transactional_writer import TransactionalWriter

_CLOSE_S = 0.2
_MOST_EXPIRED = 5  # from one minute to the 15 minutes that brokers allow


@dataclass
class KafkaSink(QuerySink):
    """Publishes each batch once; failures that may pass are retried from the first step.

    Units: ``patience_s`` is how many seconds a broker may be away before the query fails.
    """

    writer: TransactionalWriter | AtLeastOnceWriter
    patience_s: float = 300.0
    kafka: bool = True
    _closing: threading.Event = field(default_factory=threading.Event, repr=False)

    @property
    def pipelined(self) -> bool:
        """True for a writer that newer deployments fence: nothing else keeps another process from publishing."""
        return self.writer.fences

    def claim(self, files: CheckpointFiles) -> Claim:
        """Claim the transactions of the application; without transactions, the checkpoint."""
        in_file = super().claim(files)  # an unwritable storage is detected before anything is fenced
        from kstreamnb.kafka.storage.claims import TopicClaim
        from kstreamnb.kafka.transactional_writer import TransactionalWriter

        if isinstance(self.writer, TransactionalWriter):
            writer = self.writer
            return TopicClaim(writer.servers, writer.application, writer.replicas, writer.slots)
        return in_file

    def open(self) -> None:
        """Fence older deployments and find what was published last."""
        self._closing.clear()
        self.writer.claim = self.owner
        self.writer.again, self.writer.without_output = self.again, self.without_output
        self.writer.finished = self.finished
        self.writer.open()

    def publish(self, batch: QueryBatch) -> OutputBatch:
        """Publish, or find that the batch is in Kafka already."""
        try:
            return self._publish(batch)
        finally:
            if self._closing.is_set():  # `close` has not waited for this batch
                self.writer.close(_CLOSE_S)

    def _publish(self, batch: QueryBatch) -> OutputBatch:
        end, expired = time.monotonic() + self.patience_s, 0
        while True:
            try:
                return self._send(batch)
            except TransactionTimeoutError:
                expired += 1  # the next transaction has at least twice the time
                if expired > _MOST_EXPIRED or self._closing.is_set():
                    raise
                end = time.monotonic() + self.patience_s
            except BrokerError as error:
                if not error.restartable or self._gives_up(end):
                    raise
            self.open_again(end)

    def _send(self, batch: QueryBatch) -> OutputBatch:
        return self.writer.publish(batch.number, batch.source, batch.output.columns(), batch.positions)

    def open_again(self, end: float) -> None:
        """Open the writer, again after failures that may pass, until a time of the monotonic clock (s)."""
        from kstreamnb.kafka.transaction_end import overtaken

        while True:
            try:
                if self.owner is not None and not self.owner.holds():
                    raise overtaken(self.writer.application)
                self.writer.open()
                return
            except EngineError as error:
                if not error.restartable or self._gives_up(end):
                    raise

    def _gives_up(self, end: float) -> bool:
        return self._closing.wait(0.2) or time.monotonic() > end

    def close(self) -> None:
        """Release Kafka's clients; a transaction that is open then is aborted by the next `open`."""
        self._closing.set()
        self.writer.close(_CLOSE_S)  # a publication notices that soon; a stop waits for it before and after this call


def history_of(sink: QuerySink, destination: str) -> BatchHistory:
    """Return the batches of a sink's query, to compare with the last one in its destination, named ``destination``."""
    deployment, lost = sink.bound, f"{destination} has none: it was emptied or replaced, or the wrong one was given"
    return BatchHistory(deployment.application.id, deployment.name, sink.again, sink.without_output, destination, lost)


@dataclass
class FunctionSink(QuerySink):
    """Passes each batch's records, by topic, to a function: at least once, because a batch may be repeated.

    The function gets the records and the batch's number, by which it can recognize a repeated batch.

    Args:
        function: function ``(records, batch) -> None``; gets a list of records by topic, and the number of the batch.

    Example:
        >>> sink = FunctionSink(lambda output, batch: print(batch, sorted(output)))
        >>> sink.deployment is None  # until ``deploy(…, sink=sink)``
        True
    """

    repeats: ClassVar[str] = "its records are handed to the sink's function again"
    function: Callable[[Mapping[str, list[TopicRecord]], int], Any]

    def __post_init__(self) -> None:
        taking(self.function, "records", "batch")

    def publish(self, batch: QueryBatch) -> OutputBatch:
        """Call the function with records by topic and the batch's number.

        Args:
            batch: output of one batch, with its number.
        """
        self.function(records_of(self.bound.application, batch), batch.number)
        return OutputBatch(batch.number, batch.output.count())


@dataclass
class FrameSink(QuerySink):
    """Passes each batch to a function, as one DataFrame per topic; at least once: a batch may be repeated.

    Columns are partition, timestamp (ms), key and value, typed by the topic's serdes; JSON values are text.

    Args:
        function: function ``(frames, batch) -> None``; gets a DataFrame by topic, and the number of the batch.

    Example:
        >>> sink = FrameSink(lambda frames, batch: frames["stock"].write.mode("append").parquet("lake"))
        >>> sink.deployment is None  # until ``deploy(…, sink=sink)``
        True
    """

    repeats: ClassVar[str] = FunctionSink.repeats
    function: Callable[[Mapping[str, DataFrame], int], Any]

    def __post_init__(self) -> None:
        taking(self.function, "frames", "batch")

    def publish(self, batch: QueryBatch) -> OutputBatch:
        """Call the function with DataFrames by topic and the batch's number.

        Args:
            batch: output of one batch, with its number.
        """
        tables = tables_of(self.bound.application, batch)
        assert self.spark is not None
        self.function({topic: self.spark.createDataFrame(table) for topic, table in tables.items()}, batch.number)
        return OutputBatch(batch.number, batch.output.count())


def tables_of(application: ApplicationPlan, batch: QueryBatch) -> dict[str, pa.Table]:
    """Return a batch's output as a table by topic: partition, timestamp, key, value."""
    tables: dict[str, list[pa.Table]] = {}
    for columns in batch.output.columns():
        key_serde, value_serde = writer_serdes(application, columns.topic)
        fields = {
            "partition": pa.array(columns.partitions, pa.int32()),
            "timestamp": pa.array(columns.timestamps, pa.int64()),
            "key": arrow_column(columns.keys, key_serde),
            "value": arrow_column(columns.values, value_serde),
        }
        tables.setdefault(columns.topic, []).append(pa.table(fields))
    return {topic: pa.concat_tables(parts) for topic, parts in tables.items()}


def records_of(application: ApplicationPlan, batch: QueryBatch) -> dict[str, list[TopicRecord]]:
    """Return a batch's output with the user's values, by topic; those of each partition in order."""
    records: dict[str, list[TopicRecord]] = {}
    for (topic, _), part in decoded(application, batch.output.records()).items():
        records.setdefault(topic, []).extend(part)
    return records


def decoded(application: ApplicationPlan, records: Iterable[OutputRecord]) -> dict[tuple[str, int], list[TopicRecord]]:
    """Convert produced records into records with the user's values, by topic and partition in their order."""
    result: dict[tuple[str, int], list[TopicRecord]] = {}
    for (topic, partition), rows in sorted(grouped(records, itemgetter(0, 1)).items()):
        read_key, read_value = map(decoder, writer_serdes(application, topic))
        result[topic, partition] = [
            TopicRecord(topic, partition, at, timestamp, read_key(key), read_value(value), headers)
            for at, (_, _, timestamp, key, value, headers) in enumerate(rows)
        ]
    return result
