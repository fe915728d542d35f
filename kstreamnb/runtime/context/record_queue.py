"""Input queues of a task, one for each partition that it reads.

A queue returns its records in order. If a record may be dropped or may get another time, the queue decodes it and
extracts its timestamp before it is compared with those of other queues; a plain queue returns records as they came.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import count, repeat
from typing import Any

from kstreamnb.core.codec import decoder, encoded, to_bytes
from kstreamnb.core.extractors import TimestampExtractor, extractor_of
from kstreamnb.core.operator import Process
from kstreamnb.core.record import Record, TopicRecord
from kstreamnb.core.time import time_ms
from kstreamnb.errors import KStreamError, ProcessingError
from kstreamnb.hints import detailed, for_python, reason_of
from kstreamnb.java_texts import CANNOT_READ, EXTRACTOR_FAILED
from kstreamnb.runtime.context.event_time import has_own_extractor, source_extractor
from kstreamnb.runtime.context.handlers import ErrorContext, answer_of
from kstreamnb.runtime.context.record_context import NO_RECORD, RecordContext, WireRecord
from kstreamnb.runtime.context.task_context import TaskContext
from kstreamnb.source_location import user_line
from kstreamnb.topology.nodes import Source

Read = Callable[[str, WireRecord], "WireRecord | None"]


class RecordQueue:
    """Records of one partition, in order; ``head`` is the next one once it has been read.

    ``read`` decodes every record before it may be chosen, unless it is None.
    """

    __slots__ = ("_head_from", "_record_context", "_waiting", "head", "partition", "process", "read", "source", "topic")

    def __init__(self, source: str, topic: str, partition: int, process: Process, context: RecordContext) -> None:
        self.source, self.topic, self.partition = source, topic, partition
        self.process = process
        self.head: WireRecord | None = None
        self.read: Read | None = None
        self._record_context = context
        self._waiting: deque[tuple[str, WireRecord]] = deque()
        self._head_from = topic, NO_RECORD

    @property
    def plain(self) -> bool:
        """True if records are returned unchanged, because nothing reads them first."""
        return self.read is None

    @property
    def order_key(self) -> tuple[int, str, int, int]:
        """Timestamp, topic, partition and offset of the head: its position among all queues."""
        head = self.head
        assert head is not None
        return head[1], self.topic, self.partition, head[0]

    def __len__(self) -> int:
        """Number of queued records, including the head."""
        return (self.head is not None) + len(self._waiting)

    def push(self, topic: str, records: Iterable[WireRecord]) -> None:
        """Append records of a topic."""
        self._waiting.extend(zip(repeat(topic), records, strict=False))

    def fill(self) -> bool:
        """Read until there is a head; return False when nothing is left."""
        while self.head is None and self._waiting:
            self._head_from = topic, record = self._waiting.popleft()
            self.head = record if self.read is None else self.read(topic, record)
        return self.head is not None

    def take(self, bound: tuple[int, str, int, int] | None, limit: int | None) -> Iterator[WireRecord]:
        """Yield at most ``limit`` records, as long as they come before ``bound``."""
        for _ in count() if limit is None else range(limit):
            if not self.fill() or (bound is not None and self.order_key > bound):
                return
            record, self.head = self.head, None
            if self.read is not None:
                self._record_context.set_origin(*self._head_from)
            assert record is not None
            yield record

    def arrived(self) -> tuple[str, WireRecord]:
        """Return the topic of the head, and the head before it was decoded."""
        assert self.head is not None
        return self._head_from

    def rest(self) -> list[WireRecord]:
        """Take all records of a plain queue."""
        head, self.head = self.head, None
        taken = [*([] if head is None else [head]), *(record for _, record in self._waiting)]
        self._waiting.clear()
        return taken


def is_careful(source: Source, context: TaskContext) -> bool:
    """Return whether records of a source must be decoded before they may be chosen."""
    config = context.plan.config
    return (
        has_own_extractor(source, config)
        or config.deserialization_handler != "fail"
        or config.dead_letter_topic is not None
        or (context.plan.single and source.pattern is not None)
    )


def reader_of(source: Source, partition: int, context: TaskContext, time: list[int]) -> Read:
    """Return ``read(topic, record)``: the decoded record with its event time, or None if it is dropped."""
    plan = context.plan
    key_serde, value_serde = plan.serdes(source)
    read_key, read_value, extractor = decoder(key_serde), decoder(value_serde), _extractor(source, context)

    def read(topic: str, record: WireRecord) -> WireRecord | None:
        offset, timestamp, wire_key, wire_value, headers = record
        position: dict[str, object] = {"topic": topic, "partition": partition, "offset": offset}
        try:
            key, value = read_key(wire_key), read_value(wire_value)
        except Exception as error:
            raw = to_bytes(key_serde, wire_key), to_bytes(value_serde, wire_value)
            origin = topic, partition, offset, timestamp, headers
            _refuse(context, ErrorContext("deserialization", source.name, plan.task_id, *origin, *raw), error)
            raw_key, raw_value = map(encoded, raw)
            details = {**position, "error": detailed(error)}
            context.drop(source.name, "deserialization", raw_key, raw_value, timestamp, details)
            return None
        event = TopicRecord(topic, partition, offset, timestamp, key, value, headers)
        try:
            timestamp = time_ms(extractor.extract(event, time[0]), "extracted time")
        except Exception as error:
            java = None if isinstance(error, KStreamError) else EXTRACTOR_FAILED
            java = "Malformed Record" if plan.is_global else java
            fact = f"the timestamp extractor failed: {reason_of(error)}"
            failure = _failure(source, plan.task_id, event, fact, error, java=java)
            failure.record = key, value
            raise failure from error
        if timestamp < 0:
            context.drop(source.name, "negative timestamp", key, value, timestamp, position)
            return None
        time[0] = max(time[0], timestamp)
        return offset, timestamp, key, value, headers

    return read


def _extractor(source: Source, context: TaskContext) -> TimestampExtractor:
    if context.plan.is_global:  # Kafka Streams asks no extractor there
        return extractor_of(lambda record, _: Record(record.key, record.value, record.timestamp).timestamp)
    return source_extractor(source, context.plan.config, context.clock)


def _refuse(context: TaskContext, failure: ErrorContext, error: Exception) -> None:
    """Ask the handler about a record that cannot be decoded; return if the task continues."""
    config = context.plan.config
    answer = answer_of(config.deserialization_handler, failure, error, config.dead_letter_topic)
    context.emit(answer.dead_letters)
    if answer.action == "fail":
        record = TopicRecord(str(failure.topic), failure.partition, failure.offset, failure.timestamp, None, None)
        source = context.plan.topology.nodes[failure.node]
        raise _failure(source, failure.task_id, record, "a record cannot be read", error, java=CANNOT_READ) from error


def _failure(
    source: Any, task_id: str, record: TopicRecord, fact: str, error: Exception, *, java: str | None = None
) -> ProcessingError:
    detail = "record {}-{}@{}, timestamp {} ms, task {}".format(*record[:4], task_id)
    name, at, line = source.name, record[:4], user_line(error)
    hint, origin = getattr(error, "hint", None) or for_python(error, line.code if line else ""), line or source.origin
    fact = f'source "{name}" failed: {fact}'
    return ProcessingError(fact, node=name, coordinates=at, detail=detail, hint=hint, origin=origin, java=java)
