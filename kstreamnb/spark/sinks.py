"""Where batches go: Kafka, exactly once or at least once; memory; a user's function."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kstreamnb.core.record import TopicRecord
from kstreamnb.core.wire import decoder
from kstreamnb.errors import EngineError
from kstreamnb.kafka.publication import Publication
from kstreamnb.spark.deployment import Application
from kstreamnb.spark.stream import Batch, Sink
from kstreamnb.spark.writers import writer_serdes

__all__ = ["FunctionSink", "KafkaSink", "MemorySink", "decoded", "records_of"]


@dataclass
class KafkaSink(Sink):
    """One publication a batch; what may pass is tried again from the first step on.

    Units: ``patience_s`` is how many seconds a broker may be away before the query fails.
    """

    publisher: Any
    patience_s: float = 300.0
    kafka: bool = True
    _closing: threading.Event = field(default_factory=threading.Event, repr=False)

    def open(self) -> None:
        """Fence older deployments and find what was published last."""
        self._closing.clear()
        self.publisher.open()

    def publish(self, batch: Batch) -> Publication:
        """Publish, or find that the batch is in Kafka already."""
        from kstreamnb.kafka.publisher import PublishError

        end = time.monotonic() + self.patience_s
        while True:
            try:
                done: Publication = self.publisher.publish(
                    batch.number, batch.source, batch.output.records(), batch.positions
                )
                return done
            except PublishError as error:
                if not error.restartable or self._gives_up(end):
                    raise
            self._open_again(end)

    def _open_again(self, end: float) -> None:
        while True:
            try:
                self.publisher.open()
                return
            except EngineError as error:
                if not getattr(error, "restartable", True) or self._gives_up(end):
                    raise

    def _gives_up(self, end: float) -> bool:
        return self._closing.wait(0.2) or time.monotonic() > end

    def close(self) -> None:
        """Let go of Kafka; a transaction that is open then is aborted by the next `open`."""
        self._closing.set()
        self.publisher.close()


@dataclass
class MemorySink(Sink):
    """Keeps everything in this process, in wire form: by (application, topic, partition)."""

    rows: dict[tuple[int, str, int], list[tuple[int, Any, Any, Any]]] = field(default_factory=dict)
    batches: dict[int, int] = field(default_factory=dict)

    def publish(self, batch: Batch) -> Publication:
        """Append a batch's output; a batch that comes again is passed over."""
        count = batch.output.count()
        if batch.number in self.batches:
            return Publication(batch.number, count, suppressed=True, differs=count != self.batches[batch.number])
        self.batches[batch.number] = count
        for application in sorted({owner for owner, _ in batch.output.parcels}):
            for topic, partition, *row in batch.output.records(application):
                self.rows.setdefault((application, topic, partition), []).append(tuple(row))
        return Publication(batch.number, count)

    def records(self, application: Application, topic: str, number: int = 0) -> dict[int, list[TopicRecord]]:
        """The records of a topic so far by partition."""
        return {
            partition: list(decoded(application, topic, partition, rows))
            for (owner, name, partition), rows in sorted(self.rows.items())
            if (owner, name) == (number, topic)
        }


@dataclass
class FunctionSink(Sink):
    """Hands each batch's records, by topic, to a function: at least once, for a batch may come again."""

    application: Application
    function: Callable[[Mapping[str, list[TopicRecord]], int], Any]

    def publish(self, batch: Batch) -> Publication:
        """Call the function with records by topic and the batch's number."""
        self.function(records_of(self.application, batch), batch.number)
        return Publication(batch.number, batch.output.count())


def records_of(application: Application, batch: Batch) -> dict[str, list[TopicRecord]]:
    """A batch's output with the user's values, by topic; those of each partition in order."""
    by_topic: dict[str, dict[int, list[tuple[Any, ...]]]] = {}
    for topic, partition, *row in batch.output.records():
        by_topic.setdefault(topic, {}).setdefault(partition, []).append(tuple(row))
    return {
        topic: [
            record for partition in sorted(parts) for record in decoded(application, topic, partition, parts[partition])
        ]
        for topic, parts in by_topic.items()
    }


def decoded(application: Application, topic: str, partition: int, rows: list[Any]) -> list[TopicRecord]:
    """Rows (timestamp, key, value, headers) in wire form as records with the user's values."""
    read_key, read_value = map(decoder, writer_serdes(application, topic))
    return [
        TopicRecord(topic, partition, at, timestamp, read_key(key), read_value(value), headers)
        for at, (timestamp, key, value, headers) in enumerate(rows)
    ]
