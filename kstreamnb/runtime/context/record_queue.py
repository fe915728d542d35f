"""Lanes: what waits in front of a task, one lane for each partition it reads.

A lane hands out its records in order. A careful lane looks at each record before it may be chosen: it decodes it,
asks the timestamp extractor, and drops or reports what cannot be used; a plain lane need not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from operator import length_hint
from typing import Any

from kstreamnb.core.codec import decoder, encoded, to_bytes
from kstreamnb.core.extractors import TimestampExtractor, extractor_of
from kstreamnb.core.operator import Process
from kstreamnb.core.record import Record, TopicRecord
from kstreamnb.errors import ProcessingError
from kstreamnb.hints import message_of
from kstreamnb.java_texts import CANNOT_READ
from kstreamnb.runtime.context.event_time import has_own_extractor, source_extractor
from kstreamnb.runtime.context.handlers import ErrorContext, answer_of
from kstreamnb.runtime.context.record_context import RecordContext, WireRecord
from kstreamnb.runtime.context.task_context import TaskContext
from kstreamnb.topology.nodes import Source

Read = Callable[[str, WireRecord], "WireRecord | None"]


class RecordQueue:
    """Records of one partition, in order; ``head`` is the next one once it has been read."""

    __slots__ = ("_chunks", "_cursor", "_head_from", "_read", "head", "partition", "process", "source", "topic")

    def __init__(self, source: str, topic: str, partition: int, process: Process, cursor: RecordContext) -> None:
        self.source, self.topic, self.partition = source, topic, partition
        self.process = process
        self.head: WireRecord | None = None
        self._read: Read | None = None
        self._cursor = cursor
        self._chunks: deque[tuple[str, list[WireRecord], Iterator[WireRecord]]] = deque()
        self._head_from: tuple[str, WireRecord] | None = None

    def read_with(self, read: Read) -> None:
        """Look at every record with ``read`` before it may be chosen."""
        self._read = read

    @property
    def plain(self) -> bool:
        """Whether records go in as they are."""
        return self._read is None

    @property
    def place(self) -> tuple[int, str, int, int]:
        """Where the head stands in the order of all lanes."""
        head = self.head
        assert head is not None
        return head[1], self.topic, self.partition, head[0]

    def __len__(self) -> int:
        """Number of records that wait, the head among them."""
        return (self.head is not None) + sum(length_hint(records) for _, _, records in self._chunks)

    def push(self, topic: str, records: Iterable[WireRecord]) -> None:
        """Append records of a topic."""
        records = records if isinstance(records, list) else list(records)
        self._chunks.append((topic, records, iter(records)))

    def fill(self) -> bool:
        """Look for a head; False when nothing is left."""
        while self.head is None and self._chunks:
            topic, _, records = self._chunks[0]
            record: WireRecord | None = next(records, None)
            if record is None:
                self._chunks.popleft()
            elif self._read is None:
                self.head = record
            else:
                self._head_from = (topic, record)
                self.head = self._read(topic, record)
        return self.head is not None

    def take(self, bound: tuple[int, str, int, int] | None, limit: int | None) -> Iterator[WireRecord]:
        """Hand out records as long as they come before ``bound``, at most ``limit``."""
        while limit is None or limit > 0:
            if not self.fill() or (bound is not None and self.place > bound):
                return
            record, self.head = self.head, None
            if self._head_from is not None:
                self._cursor.came_as(*self._head_from)
            if limit is not None:
                limit -= 1
            assert record is not None
            yield record

    def arrived(self) -> tuple[str, WireRecord]:
        """The head as it came, with its topic."""
        assert self.head is not None
        return self._head_from or (self.topic, self.head)

    def rest(self) -> list[WireRecord]:
        """Take everything that waits in a plain lane."""
        head, self.head = self.head, None
        found = [] if head is None else [head]
        for _, records, iterator in self._chunks:
            untouched = length_hint(iterator) == len(records)
            if untouched and not found and len(self._chunks) == 1:
                found = records
            else:
                found.extend(iterator)
        self._chunks.clear()
        return found


def is_careful(source: Source, scope: TaskContext) -> bool:
    """Whether the records of a source have to be looked at before they may be chosen."""
    config = scope.plan.config
    return (
        has_own_extractor(source, config)
        or config.deserialization_handler != "fail"
        or config.dead_letter_topic is not None
        or (scope.plan.single and source.pattern is not None)
    )


def reader_of(source: Source, partition: int, scope: TaskContext, time: list[int]) -> Read:
    """``read(topic, record)``: the record decoded and with its event time, or None when it is dropped."""
    plan = scope.plan
    key_serde, value_serde = plan.serdes(source)
    read_key, read_value, extractor = decoder(key_serde), decoder(value_serde), _extractor(source, scope)

    def read(topic: str, record: WireRecord) -> WireRecord | None:
        offset, timestamp, wire_key, wire_value, headers = record
        place: dict[str, object] = {"topic": topic, "partition": partition, "offset": offset}
        try:
            key, value = read_key(wire_key), read_value(wire_value)
        except Exception as error:
            raw = to_bytes(key_serde, wire_key), to_bytes(value_serde, wire_value)
            context = ErrorContext(
                "deserialization", source.name, plan.task_id, topic, partition, offset, timestamp, headers, *raw
            )
            _refuse(scope, context, error)
            raw_key, raw_value = map(encoded, raw)
            scope.drop(
                source.name, "deserialization", raw_key, raw_value, timestamp, {**place, "error": message_of(error)}
            )
            return None
        event = TopicRecord(topic, partition, offset, timestamp, key, value, headers)
        try:
            timestamp = extractor.extract(event, time[0])
        except Exception as error:
            java = "Malformed Record" if plan.is_global else None
            raise _failure(source, plan.task_id, event, "no timestamp could be found", error, java=java) from error
        if timestamp < 0:
            scope.drop(source.name, "negative timestamp", key, value, timestamp, place)
            return None
        time[0] = max(time[0], timestamp)
        return offset, timestamp, key, value, headers

    return read


def _extractor(source: Source, scope: TaskContext) -> TimestampExtractor:
    if scope.plan.is_global:  # Kafka Streams asks no extractor there
        return extractor_of(lambda record, _: Record(record.key, record.value, record.timestamp).timestamp)
    return source_extractor(source, scope.plan.config, scope.clock)


def _refuse(scope: TaskContext, context: ErrorContext, error: Exception) -> None:
    """Ask the handler about a record that cannot be decoded; return if the task continues."""
    config = scope.plan.config
    answer = answer_of(config.deserialization_handler, context, error, config.dead_letter_topic)
    scope.emit(tuple(letter) for letter in answer.dead_letters)
    if answer.action == "fail":
        record = TopicRecord(str(context.topic), context.partition, context.offset, context.timestamp, None, None)
        source = scope.plan.topology.nodes[context.node]
        raise _failure(source, context.task_id, record, "a record cannot be read", error, java=CANNOT_READ) from error


def _failure(
    source: Any, task_id: str, record: TopicRecord, fact: str, error: Exception, *, java: str | None = None
) -> ProcessingError:
    place = f"{record.topic}-{record.partition}@{record.offset}"
    return ProcessingError(
        f'source "{source.name}" failed: {fact}',
        node=source.name,
        coordinates=record[:4],
        detail=f"record {place}, timestamp {record.timestamp} ms, task {task_id}",
        hint=getattr(error, "hint", None),
        origin=source.origin,
        java=java,
    )
