"""Bounded reads of topics: which offsets there are, where a batch ends, and the records between two offsets.

Only committed records are seen, and no group offsets are written.
"""

from __future__ import annotations

import json
import re
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from kstreamnb.core.codec import SerializedValue
from kstreamnb.core.record import Headers
from kstreamnb.errors import BrokerError, ConfigError, DataLossError
from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.batch_offsets import Offsets, batch_end_by_time, ranges
from kstreamnb.kafka.client import Servers, client, connection, kafka_error

__all__ = [
    "Piece",
    "RawRecord",
    "BoundedReader",
    "arrived",
    "at_end",
    "bounded_consumer",
    "fetch",
    "pieces_between",
    "plain_records",
    "raw_record",
]

RawRecord: TypeAlias = tuple[int, int, SerializedValue | None, SerializedValue | None, Headers]
"""``(offset, timestamp, key, value, headers)`` as a task takes it."""

_EOF = KafkaError._PARTITION_EOF  # noqa: SLF001 - librdkafka's own codes have such names
_NO_RESET = KafkaError._AUTO_OFFSET_RESET  # noqa: SLF001
_NO_GROUP = KafkaError.GROUP_AUTHORIZATION_FAILED
_PATIENCE_S = 300.0
_CALL_S = 5.0
_TUNING = {
    "fetch.wait.max.ms": 20,
    "fetch.queue.backoff.ms": 2,  # the default of 1000 costs a factor of six
    "queued.min.messages": 20_000,
    "queued.max.messages.kbytes": 32_768,
}
_idle: dict[str, tuple[Consumer, set[str]]] = {}
# Consumers of this process that wait for the next read, with the topics that they know, by their settings.


class Piece(NamedTuple):
    """The records of a partition from ``start`` up to, but not including, ``end``."""

    topic: str
    partition: int
    start: int
    end: int


def pieces_between(start: Offsets, end: Offsets) -> list[Piece]:
    """The pieces that have records, in the order of topic and partition."""
    return [Piece(*each) for each in ranges(start, end) if each[3] > each[2]]


def raw_record(message: Message) -> RawRecord:
    """A message of librdkafka as a task takes it."""
    key, value, headers = message.key(), message.value(), message.headers()
    return (
        message.offset(),
        message.timestamp()[1],
        None if key is None else SerializedValue(key),
        None if value is None else SerializedValue(value),
        tuple(headers) if headers else (),
    )


def plain_records(messages: list[Message]) -> list[tuple[int, int, bytes | None, bytes | None, Headers]]:
    """Messages as records with plain bytes: no object is made a field before it reaches its task."""
    offsets, keys, values = (map(read, messages) for read in (Message.offset, Message.key, Message.value))
    times = map(itemgetter(1), map(Message.timestamp, messages))
    headers = [tuple(each) if each else () for each in map(Message.headers, messages)]
    return list(zip(offsets, times, keys, values, headers, strict=True))


def _raw_records(messages: list[Message]) -> list[RawRecord]:
    return list(map(raw_record, messages))


def bounded_consumer(servers: Servers) -> Consumer:
    """A consumer that is told where to read, sees committed records only, and commits nothing."""
    return client(Consumer, _consumer_settings(servers))


def arrived(consumer: Consumer, count: int, seconds: float) -> list[Message]:
    """The next messages of a bounded consumer, without complaints about its group.

    It is told where to read: who may read the topics needs no permission for a group that nothing is asked of.
    """
    messages: list[Message] = consumer.consume(count, seconds)
    if not any(map(Message.error, messages)):
        return messages
    return [each for each in messages if each.error() is None or each.error().code() != _NO_GROUP]


def _consumer_settings(servers: Servers) -> dict[str, Any]:
    return connection(
        servers,
        defaults=_TUNING,
        group_id="kstreamnb-reader",  # librdkafka asks for one; nothing is ever committed to it
        enable_auto_commit=False,
        enable_auto_offset_store=False,
        auto_offset_reset="error",
        isolation_level="read_committed",
        enable_partition_eof=True,
    )


class BoundedReader:
    """The offsets of some topics, and where to end a batch.

    ``topics`` are names, or ``pattern`` is a regular expression that whole names match.
    Units: ``patience_s`` is how many seconds a broker may be away before a call fails.
    """

    def __init__(
        self,
        servers: Servers,
        topics: Iterable[str] = (),
        *,
        pattern: str | None = None,
        patience_s: float = 30.0,
    ) -> None:
        self.servers = servers
        self._topics = tuple(sorted(topics))
        self._pattern = re.compile(pattern) if pattern is not None else None
        if bool(self._topics) == (pattern is not None):
            raise ConfigError("a reader takes either topics or a pattern")
        self.admin = Admin(servers, patience_s=patience_s)
        self._last_end: tuple[Offsets, int] = ({}, 0)

    def topics(self) -> tuple[str, ...]:
        """The names that are read, in alphabetical order."""
        if self._pattern is None:
            return self._topics
        return tuple(name for name in self.admin.topics() if self._pattern.fullmatch(name))

    def beginning(self) -> Offsets:
        """The first offsets that the cluster still has."""
        return self.admin.offsets(self.topics(), "earliest")

    def end(self) -> Offsets:
        """The last stable offsets: below them no transaction is open."""
        return self.admin.offsets(self.topics(), "latest")

    def at_time(self, timestamp_ms: int) -> Offsets:
        """Offsets of the first records at or after a time; the end where there are none."""
        return self.admin.offsets(self.topics(), timestamp_ms)

    def check(self, start: Offsets, end: Offsets, beginning: Offsets | None = None) -> None:
        """Refuse to go on where records were lost in between or a topic was made anew."""
        for topic, partition, offset, last in ranges(start, end):
            if last < offset:
                raise DataLossError(
                    f'topic "{topic}" ends at offset {last} in partition {partition}, before offset {offset}',
                    detail="it was deleted and created anew, or lost its latest records",
                    hint="reset the application, or give it a new id",
                )
            first = (beginning or {}).get(topic, {}).get(partition, offset)
            if first > offset:
                raise _lost(topic, partition, offset, first, last)

    def batch_end(self, start: Offsets, end: Offsets, limit: int) -> Offsets:
        """End offsets of at most ``limit`` records: those that come first by event time over all partitions."""
        if not 1 <= limit < sum(each.end - each.start for each in pieces_between(start, end)):
            return batch_end_by_time(start, end, limit, at_time=self.at_time, times_ms=(0, 0))[0]
        low = self._last_end[1] if self._last_end[0] == start else self._first_time(start, end)
        times = low, max(low, *self.admin.greatest_timestamps(end))
        self._last_end = batch_end_by_time(start, end, limit, at_time=self.at_time, times_ms=times)
        return self._last_end[0]

    def _first_time(self, start: Offsets, end: Offsets) -> int:
        """The least timestamp among the first records of the partitions."""
        waiting = {(each.topic, each.partition): each for each in pieces_between(start, end)}
        consumer, found, heard = bounded_consumer(self.servers), [], time.monotonic()
        try:
            consumer.assign([TopicPartition(each.topic, each.partition, each.start) for each in waiting.values()])
            while waiting and time.monotonic() - heard < _PATIENCE_S:
                for message in arrived(consumer, 100, 0.05):
                    piece = waiting.pop((message.topic(), message.partition()), None)
                    if piece is not None and not at_end(message, self.servers):
                        found.append(message.timestamp()[1])
        finally:
            consumer.close()
        return max(0, min(found, default=0))


def fetch(
    servers: Servers,
    pieces: Sequence[Piece],
    *,
    chunk: int = 5000,
    convert: Callable[[list[Message]], list[Any]] = _raw_records,
    skip_lost: bool = False,
) -> Iterator[tuple[str, int, list[Any]]]:
    """The records of all pieces through one consumer, as ``(topic, partition, records)`` of at most ``chunk`` records.

    Chunks of a partition come in order; those of different partitions alternate. The consumer of a read that ended
    well waits in this process for the next one. ``convert`` makes records from messages, many at once. Records that
    the cluster has removed are an error, or passed over with ``skip_lost``.
    """
    settings = _consumer_settings(servers)
    name = json.dumps(settings, sort_keys=True, default=repr)
    # Taken out: only a clean end puts it back.
    consumer, known = _idle.pop(name) if name in _idle else (client(Consumer, settings), set())
    try:
        for topic in sorted({piece.topic for piece in pieces} - known):
            with suppress(KafkaException):  # only a help: librdkafka itself asks for topics new to it once a second
                consumer.list_topics(topic, timeout=_CALL_S)
            known.add(topic)
        yield from _fetch(consumer, servers, pieces, chunk, convert, skip_lost=skip_lost)
    except BaseException:
        consumer.close()
        raise
    _idle[name] = consumer, known


def _fetch(
    consumer: Consumer,
    servers: Servers,
    pieces: Sequence[Piece],
    chunk: int,
    convert: Callable[[list[Message]], list[Any]],
    *,
    skip_lost: bool,
) -> Iterator[tuple[str, int, list[Any]]]:
    # Not pause and resume: librdkafka looks at a resumed partition only after a second.
    consumer.incremental_assign([TopicPartition(each.topic, each.partition, each.start) for each in pieces])
    missing = sum(each.end - each.start for each in pieces)
    ends = {(each.topic, each.partition): each.end for each in pieces}
    held: dict[tuple[str, int], list[Message]] = {place: [] for place in ends}
    heard = time.monotonic()
    while ends:
        messages = arrived(consumer, max(1, min(chunk, missing)), 0.01)
        heard = time.monotonic() if messages else heard
        for place, run in _runs(messages):
            end, rows = ends.get(place), held.get(place, [])
            lost = _is_lost(run[0]) and end is not None
            done = lost or at_end(run[0], servers)
            if end is None:
                continue
            if lost:
                position = _after_loss(consumer, servers, place, pieces, skip=skip_lost)
            elif done:
                position = run[0].offset()  # after the partition's last record
            else:
                offsets = list(map(Message.offset, run))
                fitting = bisect_left(offsets, end)
                rows += run[:fitting]
                missing -= fitting
                position = offsets[-1] + 1
            if position >= end:
                del ends[place]
                consumer.incremental_unassign([TopicPartition(*place)])
            while len(rows) >= chunk or (rows and place not in ends):
                yield *place, convert(rows[:chunk])
                del rows[:chunk]
        if time.monotonic() - heard > _PATIENCE_S:
            raise BrokerError(f"no record came for {_PATIENCE_S:.0f} s", detail=f"still to read: {ends}")


def _runs(messages: list[Message]) -> Iterator[tuple[tuple[str, int], list[Message]]]:
    """Neighbours that come from one partition, with its topic and number; what is no record stands alone.

    Each record costs one step of a loop in C for each of its fields: a chunk has thousands.
    """
    alone = [0 if error is None else at for at, error in enumerate(map(Message.error, messages), 1)]
    fields = map(Message.topic, messages), map(Message.partition, messages), alone
    for (topic, partition, _), run in groupby(zip(zip(*fields, strict=True), messages, strict=True), itemgetter(0)):
        yield (topic, partition), [message for _, message in run]


def _is_lost(message: Message) -> bool:
    error = message.error()
    return error is not None and error.code() == _NO_RESET


def _after_loss(
    consumer: Consumer, servers: Servers, place: tuple[str, int], pieces: Sequence[Piece], *, skip: bool
) -> int:
    """Go on with the first record that is left of a partition; gives its offset."""
    topic, partition = place
    piece = next(each for each in pieces if each[:2] == place)
    admin = Admin(servers)
    first, last = (admin.offsets([topic], word)[topic][partition] for word in ("earliest", "latest"))
    if not skip or first <= piece.start:
        raise _lost(topic, partition, piece.start, first, last)
    consumer.incremental_unassign([TopicPartition(topic, partition)])
    if first < piece.end:
        consumer.incremental_assign([TopicPartition(topic, partition, first)])
    else:
        consumer.incremental_assign([TopicPartition(topic, partition, last)])  # taken away again as one that is done
    return first


def _lost(topic: str, partition: int, offset: int, first: int, last: int) -> DataLossError:
    if first > offset:
        return DataLossError(
            f'topic "{topic}" begins at offset {first} in partition {partition}, after offset {offset}',
            detail=f"{first - offset} offsets were removed before they were read",
            hint="keep the topic's records longer, or reset the application",
        )
    return DataLossError(
        f'topic "{topic}" no longer has the offsets to read in partition {partition}',
        detail=f"it has {first} to {last}, asked for was {offset}",
        hint="keep the topic's records longer, or reset the application",
    )


def at_end(message: Message, servers: Servers) -> bool:
    """Whether a message only says that its partition has no more records now; raises on other errors."""
    error = message.error()
    if error is None:
        return False
    if error.code() == _EOF:
        return True
    if error.code() == _NO_RESET:
        raise DataLossError(
            f'topic "{message.topic()}" no longer has the offsets to read in partition {message.partition()}',
            detail=f"Kafka says: {error.str()}",
            hint="keep the topic's records longer, or reset the application",
        )
    raise kafka_error(f'reading topic "{message.topic()}"', error, servers)
