"""Where batches go: Kafka, exactly once or at least once; memory; a user's function."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kstreamnb.core.record import TopicRecord
from kstreamnb.core.wire import decoder
from kstreamnb.spark.deployment import Application
from kstreamnb.spark.stream import Batch
from kstreamnb.spark.writers import writer_serdes

__all__ = ["FunctionSink", "KafkaSink", "MemorySink", "decoded"]


@dataclass
class KafkaSink:
    """One publication a batch, ``last`` the latest; what may pass is tried again from the first step on."""

    publisher: Any
    last: Any = None
    patience_s: float = 300.0
    kafka: bool = True

    def publish(self, batch: Batch) -> None:
        """Publish, or find that the batch is in Kafka already."""
        from kstreamnb.kafka.publisher import PublishError

        end = time.monotonic() + self.patience_s
        while True:
            try:
                records = batch.output.records()
                self.last = self.publisher.publish(batch.number, batch.source, records, batch.positions)
                return
            except PublishError as error:
                if not error.restartable or time.monotonic() > end:
                    raise
            self._open_again(end)

    def _open_again(self, end: float) -> None:
        from kstreamnb.errors import EngineError

        while True:
            try:
                self.publisher.open()
                return
            except EngineError as error:
                if not getattr(error, "restartable", True) or time.monotonic() > end:
                    raise
                time.sleep(0.2)


@dataclass
class MemorySink:
    """Keeps everything in this process, in wire form: by (application, topic, partition)."""

    rows: dict[tuple[int, str, int], list[tuple[int, Any, Any, Any]]] = field(default_factory=dict)
    batches: dict[int, int] = field(default_factory=dict)
    kafka: bool = False

    def publish(self, batch: Batch) -> None:
        """Append a batch's output; a batch that comes again is passed over."""
        if batch.number in self.batches:
            return
        self.batches[batch.number] = batch.output.count()
        for application in sorted({owner for owner, _ in batch.output.parcels}):
            for topic, partition, *row in batch.output.records(application):
                self.rows.setdefault((application, topic, partition), []).append(tuple(row))

    def records(self, application: Application, topic: str, number: int = 0) -> dict[int, list[TopicRecord]]:
        """The records of a topic so far by partition."""
        return {
            partition: list(decoded(application, topic, partition, rows))
            for (owner, name, partition), rows in sorted(self.rows.items())
            if (owner, name) == (number, topic)
        }


@dataclass
class FunctionSink:
    """Hands each batch's records, by topic, to a function: at least once, for a batch may come again."""

    application: Application
    function: Callable[[Mapping[str, list[TopicRecord]], int], Any]
    kafka: bool = False

    def publish(self, batch: Batch) -> None:
        """Call the function with records by topic and the batch's number."""
        by_topic: dict[str, dict[int, list[tuple[Any, ...]]]] = {}
        for topic, partition, *row in batch.output.records():
            by_topic.setdefault(topic, {}).setdefault(partition, []).append(tuple(row))
        records = {
            topic: [
                record
                for partition in sorted(parts)
                for record in decoded(self.application, topic, partition, parts[partition])
            ]
            for topic, parts in by_topic.items()
        }
        self.function(records, batch.number)


def decoded(application: Application, topic: str, partition: int, rows: list[Any]) -> list[TopicRecord]:
    """Rows (timestamp, key, value, headers) in wire form as records with the user's values."""
    read_key, read_value = map(decoder, writer_serdes(application, topic))
    return [
        TopicRecord(topic, partition, at, timestamp, read_key(key), read_value(value), headers)
        for at, (timestamp, key, value, headers) in enumerate(rows)
    ]
