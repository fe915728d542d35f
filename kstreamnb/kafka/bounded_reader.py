"""Reads topics between two sets of offsets or as records arrive, finds the end of a batch, and detects lost records.

It sees committed records only, and writes no group offsets.
"""

from __future__ import annotations

import json
import time
from bisect import bisect_left
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from kstreamnb.core.record import Headers
from kstreamnb.core.time import Instant
from kstreamnb.errors import BrokerError, DataLossError
from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.batch_offsets import Offsets, PartitionId, batch_end_by_time, by_partition, ranges
from kstreamnb.kafka.client import Servers, client, connection, kafka_error

RawRecord: TypeAlias = tuple[int, int, bytes | None, bytes | None, Headers]
"""``(offset, timestamp, key, value, headers)``."""

_EOF = KafkaError._PARTITION_EOF  # noqa: SLF001 - librdkafka's own codes have such names
_NO_RESET = KafkaError._AUTO_OFFSET_RESET  # noqa: SLF001
_NO_GROUP = KafkaError.GROUP_AUTHORIZATION_FAILED
_SKIP_OR_RESET = "keep records longer; reset the application, or deploy it with fail_on_loss=False to read what is left"
_PATIENCE_S = 300.0
_SILENT_S = 10.0  # after which another consumer reads the rest
_CALL_S = 5.0
_TUNING = {
    "fetch.wait.max.ms": 20,
    "fetch.queue.backoff.ms": 2,  # the default of 1000 costs a factor of six
    "queued.min.messages": 20_000,
    "queued.max.messages.kbytes": 32_768,
}
_FOLLOWING = {"queued.min.messages": 2000, "queued.max.messages.kbytes": 4096, "fetch.wait.max.ms": 500}
_CATCH_UP_S = 0.02
_idle: dict[str, tuple[Consumer, set[str]]] = {}
# Consumers of this process that wait for the next read, with the topics that they know, by their settings.


class Piece(NamedTuple):
    """The records of a partition from ``start`` up to, but not including, ``end``."""

    topic: str
    partition: int
    start: int
    end: int


def pieces_between(start: Offsets, end: Offsets) -> list[Piece]:
    """Return the pieces that have records, ordered by topic and partition."""
    return [Piece(*each) for each in ranges(start, end) if each[3] > each[2]]


def raw_records(messages: list[Message]) -> list[RawRecord]:
    """Convert messages of librdkafka to records, column by column: no object is made for each field."""
    offsets, keys, values = (map(read, messages) for read in (Message.offset, Message.key, Message.value))
    times = map(itemgetter(1), map(Message.timestamp, messages))
    headers = [tuple(each) if each else () for each in map(Message.headers, messages)]
    return list(zip(offsets, times, keys, values, headers, strict=True))


def bounded_consumer(servers: Servers) -> Consumer:
    """Make a consumer that is assigned its partitions, sees committed records only, and commits nothing."""
    return client(Consumer, bounded_settings(servers))


def arrived(consumer: Consumer, count: int, seconds: float) -> list[Message]:
    """Return the next messages of a bounded consumer, without errors about its group.

    Its partitions are assigned, so it needs no permission for the group that librdkafka insists on.
    """
    return _without_group_errors(consumer.consume(count, seconds))


def _without_group_errors(messages: list[Message]) -> list[Message]:
    """Leave out errors about the group of a bounded consumer."""
    if not any(map(Message.error, messages)):
        return messages
    return [each for each in messages if each.error() is None or each.error().code() != _NO_GROUP]


def bounded_settings(servers: Servers, *, isolation_level: str = "read_committed") -> dict[str, object]:
    """Return the settings of a consumer that is assigned its partitions and commits nothing."""
    return connection(
        servers,
        defaults=_TUNING,
        group_id="kstreamnb-reader",  # librdkafka insists on one; nothing is ever committed to it
        enable_auto_commit=False,
        enable_auto_offset_store=False,
        auto_offset_reset="error",
        isolation_level=isolation_level,
        enable_partition_eof=True,
    )


class BoundedReader:
    """Looks up the offsets of topics and the end of a batch.

    Args:
        servers: ``host:port,…``, or settings with ``bootstrap.servers`` among them.
        topics: names of topics.
        patience_s: how many seconds a broker may be unreachable before a call fails; default 30.
    """

    def __init__(self, servers: Servers, topics: Iterable[str], *, patience_s: float = 30.0) -> None:
        self.servers, self.topics = servers, tuple(sorted(topics))
        self.admin = Admin(servers, patience_s=patience_s)
        self._last_end: tuple[Offsets, int] = ({}, 0)

    def beginning(self) -> Offsets:
        """Return the first offsets that the cluster still has."""
        return self.admin.offsets(self.topics, "earliest")

    def end(self) -> Offsets:
        """Return the last stable offsets: no transaction is open below them."""
        return self.admin.offsets(self.topics, "latest")

    def at_time(self, at: Instant) -> Offsets:
        """Return the offsets of the first records at or after an instant, the end if there are none."""
        return self.admin.offsets(self.topics, at)

    def check(self, start: Offsets, end: Offsets) -> None:
        """Raise DataLossError if a topic ends before its position; `fetch` finds records that are gone."""
        for topic, partition, offset, last in ranges(start, end):
            if last < offset:
                fact = f'topic "{topic}" ends at offset {last} in partition {partition}, before offset {offset}'
                detail = "it was deleted and created again, or lost its latest records"
                raise DataLossError(fact, detail=detail, hint="reset the application, or give it a new id")

    def batch_end(self, start: Offsets, end: Offsets, limit: int, *, exact: bool = False) -> Offsets:
        """Return end offsets for at most ``limit`` records: those first by event time over all partitions."""
        if not 1 <= limit < sum(each.end - each.start for each in pieces_between(start, end)):
            return batch_end_by_time(start, end, limit, at_time=self.at_time, times_ms=(0, 0))[0]
        low = self._last_end[1] if self._last_end[0] == start else self._first_time(start, end)
        times = low, max(low, *self.admin.greatest_timestamps(end))
        self._last_end = batch_end_by_time(start, end, limit, at_time=self.at_time, times_ms=times, exact=exact)
        return self._last_end[0]

    def _first_time(self, start: Offsets, end: Offsets) -> int:
        """Return the lowest timestamp among the first records of the partitions."""
        waiting = {(each.topic, each.partition): each.start for each in pieces_between(start, end)}
        first = first_messages(self.servers, waiting, _PATIENCE_S)
        return max(0, min((message.timestamp()[1] for message in first.values()), default=0))


def first_messages(
    servers: Servers, starts: Mapping[PartitionId, int], seconds: float, *, isolation_level: str = "read_committed"
) -> dict[PartitionId, Message]:
    """Return each partition's first message at or after an offset; leaves out those that have none, or none in time.

    Args:
        servers: ``host:port,…``, or settings with ``bootstrap.servers`` among them.
        starts: offsets by topic and partition.
        seconds: how long to wait at most.
        isolation_level: "read_committed" (default), or "read_uncommitted" for records of open transactions, too.
    """
    messages, seen, limit = dict[PartitionId, Message](), set[PartitionId](), time.monotonic() + seconds
    with closing(client(Consumer, bounded_settings(servers, isolation_level=isolation_level))) as consumer:
        consumer.assign([TopicPartition(*partition, offset) for partition, offset in starts.items()])
        while len(seen) < len(starts) and time.monotonic() < limit:
            for message in arrived(consumer, 100, 0.05):
                partition = message.topic(), message.partition()
                if partition not in seen and not at_end(message, servers):
                    messages[partition] = message
                seen.add(partition)
    return messages


def fetch(
    servers: Servers, pieces: Sequence[Piece], *, chunk: int = 5000, skipped: list[Piece] | None = None
) -> Iterator[tuple[str, int, list[RawRecord]]]:
    """Read the records of all pieces through one consumer, as ``(topic, partition, records)``.

    Chunks of a partition come in order; those of different partitions alternate. After a read without an error its
    consumer is kept in this process for the next one.

    Args:
        servers: ``host:port,…``, or settings with ``bootstrap.servers`` among them.
        pieces: what to read.
        chunk: records at most that are returned at once; default 5000.
        skipped: gets what the cluster has removed, which is not read; by default DataLossError is raised for it.
    """
    settings = bounded_settings(servers)
    name = json.dumps(settings, sort_keys=True, default=repr)
    left, silent_s, end = [*pieces], _SILENT_S, time.monotonic() + _PATIENCE_S
    while True:
        # Removed from the idle ones; only a clean end puts it back.
        consumer, known = _idle.pop(name) if name in _idle else (client(Consumer, settings), set())
        try:
            _learn(consumer, servers, {piece.topic for piece in left} - known)
            rest = yield from _fetch(consumer, servers, left, chunk, skipped, silent_s)
        except BaseException:
            consumer.close()
            raise
        if not rest:
            _idle[name] = consumer, known | {piece.topic for piece in pieces}
            return
        consumer.close()
        silent_s = min(2 * silent_s, _PATIENCE_S)  # longer for large records, or for a broker that limits its rate
        if rest != left:
            left, end = rest, time.monotonic() + _PATIENCE_S
        if time.monotonic() > end:
            raise BrokerError(f"no record arrived within {_PATIENCE_S:.0f} s", detail=f"still to read: {left}")


def _learn(consumer: Consumer, servers: Servers, topics: Iterable[str]) -> None:
    """Ask for topics, which is optional: librdkafka itself asks for those that are new to it once a second."""
    for topic in sorted(topics):
        with suppress(KafkaException):
            refusal = consumer.list_topics(topic, timeout=_CALL_S).topics[topic].error
            if refusal is not None and refusal.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise kafka_error(f'reading topic "{topic}"', refusal, servers)  # a fetch would wait for ever


def _fetch(
    consumer: Consumer, servers: Servers, pieces: list[Piece], chunk: int, skipped: list[Piece] | None, silent_s: float
) -> Generator[tuple[str, int, list[RawRecord]], None, list[Piece]]:
    """Read pieces; return the rest if nothing arrives for a while: librdkafka may never connect again (issue 5301)."""
    # Not pause and resume: librdkafka looks at a resumed partition only after a second.
    consumer.incremental_assign([TopicPartition(each.topic, each.partition, each.start) for each in pieces])
    missing = sum(each.end - each.start for each in pieces)
    ends = {each[:2]: each.end for each in pieces}
    reached = {each[:2]: each.start for each in pieces}
    waiting: dict[tuple[str, int], list[Message]] = {partition: [] for partition in ends}
    last_message = time.monotonic()
    while ends:
        messages = arrived(consumer, max(1, min(chunk, missing)), 0.01)
        for partition, run in _runs(messages):
            end, rows = ends.get(partition), waiting.get(partition, [])
            error = run[0].error()
            lost = end is not None and error is not None and error.code() == _NO_RESET
            done = lost or at_end(run[0], servers)
            if end is None:
                continue
            if lost:
                position = _after_loss(consumer, servers, Piece(*partition, reached[partition], end), skipped)
            elif done:
                position = run[0].offset()  # after the partition's last record
            else:
                offsets = list(map(Message.offset, run))
                fitting = bisect_left(offsets, end)
                rows += run[:fitting]
                missing -= fitting
                position = offsets[-1] + 1
            reached[partition] = position
            if position >= end:
                del ends[partition]
                consumer.incremental_unassign([TopicPartition(*partition)])
            while len(rows) >= chunk or (rows and partition not in ends):
                yield *partition, raw_records(rows[:chunk])
                del rows[:chunk]
        last_message = time.monotonic() if messages else last_message  # not before the caller has taken the chunks
        if time.monotonic() - last_message > silent_s:
            yield from ((*partition, raw_records(rows)) for partition, rows in waiting.items() if rows)
            break
    return [Piece(*partition, reached[partition], end) for partition, end in ends.items()]


def _runs(messages: list[Message]) -> Iterator[tuple[tuple[str, int], list[Message]]]:
    """Group consecutive records of one partition; each error is a separate group.

    The loops over fields run in C, because a chunk has thousands of records.
    """
    alone = [0 if error is None else at for at, error in enumerate(map(Message.error, messages), 1)]
    fields = map(Message.topic, messages), map(Message.partition, messages), alone
    for (topic, partition, _), run in groupby(zip(zip(*fields, strict=True), messages, strict=True), itemgetter(0)):
        yield (topic, partition), [message for _, message in run]


def _after_loss(consumer: Consumer, servers: Servers, rest: Piece, skipped: list[Piece] | None) -> int:
    """Continue with the first record that is left of the rest of a piece; return its offset."""
    topic, partition, start, end = rest
    admin = Admin(servers)
    first, last = (admin.offsets([topic], word)[topic][partition] for word in ("earliest", "latest"))
    if skipped is None or first <= start:
        raise _lost(topic, partition, start, first, last)
    skipped.append(Piece(topic, partition, start, min(first, end)))
    consumer.incremental_unassign([TopicPartition(topic, partition)])
    # A partition of which nothing is left to read is removed later, like one that was read.
    consumer.incremental_assign([TopicPartition(topic, partition, first if first < end else last)])
    return first


def _lost(topic: str, partition: int, offset: int, first: int, last: int) -> DataLossError:
    if first > offset:
        fact = f'topic "{topic}" begins at offset {first} in partition {partition}, after offset {offset}'
        detail = f"{first - offset} offsets were removed before they were read"
        return DataLossError(fact, detail=detail, hint=_SKIP_OR_RESET)
    return _unreadable(topic, partition, f"it has {first} to {last}, expected {offset}")


def _unreadable(topic: str, partition: int, detail: str) -> DataLossError:
    fact = f'topic "{topic}" no longer has the offsets to read in partition {partition}'
    return DataLossError(fact, detail=detail, hint=_SKIP_OR_RESET)


def at_end(message: Message, servers: Servers) -> bool:
    """Return whether a message only marks the end of its partition; raise on other errors."""
    error = message.error()
    if error is None:
        return False
    if error.code() == _EOF:
        return True
    if error.code() == _NO_RESET:
        raise _unreadable(message.topic(), message.partition(), f"Kafka says: {error.str()}")
    raise kafka_error(f'reading topic "{message.topic()}"', error, servers)


class TopicFollower:
    """Receives committed records in the order of their arrival, for a reader that is nearly at the end of its topics.

    A look-up of offsets and a fetch take several round trips; records that have arrived take none.

    Args:
        servers: ``host:port,…``, or settings with ``bootstrap.servers`` among them.
        begin: the offsets to begin with.
        most: how many records it keeps before it gives up.
    """

    def __init__(self, servers: Servers, begin: Offsets, *, most: int) -> None:
        self._servers, self._most = servers, most
        self._first = by_partition(begin)
        self._next = dict(self._first)
        self._held: dict[tuple[str, int], list[Message]] = {partition: [] for partition in self._first}
        self._consumer = client(Consumer, {**bounded_settings(servers), **_FOLLOWING})
        self._consumer.assign([TopicPartition(*partition, offset) for partition, offset in self._first.items()])

    def wait(self, begin: Offsets, seconds: float) -> Offsets | None:
        """Return the offsets after all records that have arrived; ``begin`` if there are none for that time.

        Returns None if the follower cannot continue from there, or has more records than it keeps: start another one
        once there are few.

        Raises:
            EngineError: Kafka failed, or records were lost.
        """
        if not self._forget(begin):
            return None
        end = time.monotonic() + seconds
        while True:
            self._receive(max(0.0, end - time.monotonic()))
            count = sum(map(len, self._held.values()))
            if count > self._most:
                return None
            if count or time.monotonic() >= end:
                break
        if not count:  # ends of transactions alone are not worth a batch
            return begin
        return {
            topic: {part: max(offset, self._next[topic, part]) for part, offset in parts.items()}
            for topic, parts in begin.items()
        }

    def take(self, pieces: Sequence[Piece]) -> list[tuple[str, int, list[RawRecord]]] | None:
        """Return the records of these pieces, None if not all of them have arrived."""
        if any(self._first.get(each[:2], each.end) > each.start for each in pieces):
            return None
        patience = time.monotonic() + _CATCH_UP_S
        while any(self._next[each[:2]] < each.end for each in pieces):
            if time.monotonic() > patience:
                return None
            self._receive(_CATCH_UP_S)
        taken = []
        for piece in pieces:
            messages = self._held[piece[:2]]
            offsets = list(map(Message.offset, messages))
            messages = messages[bisect_left(offsets, piece.start) : bisect_left(offsets, piece.end)]
            if messages:
                taken.append((piece.topic, piece.partition, raw_records(messages)))
        return taken

    def has_seen(self, offsets: Offsets) -> bool:
        """Return whether everything before these offsets has arrived."""
        return all(self._next.get(partition, 0) >= offset for partition, offset in by_partition(offsets).items())

    def close(self) -> None:
        """Close the connection."""
        self._consumer.close()

    def _forget(self, begin: Offsets) -> bool:
        """Drop the records before these offsets; returns whether all records after them are held or will come."""
        wanted = by_partition(begin)
        if wanted.keys() != self._first.keys() or any(offset < self._first[each] for each, offset in wanted.items()):
            return False
        for partition, offset in wanted.items():
            messages = self._held[partition]
            del messages[: bisect_left(messages, offset, key=Message.offset)]
        self._first = wanted
        return True

    def _receive(self, seconds: float) -> None:
        """Add what has arrived; waits for the first message only."""
        message = self._consumer.poll(seconds)
        if message is None:
            return
        for each in _without_group_errors([message, *self._consumer.consume(self._most + 1, 0.0)]):
            partition, offset = (each.topic(), each.partition()), each.offset()
            if at_end(each, self._servers):
                self._next[partition] = max(self._next[partition], offset)
                continue
            self._next[partition] = offset + 1
            if offset >= self._first[partition]:
                self._held[partition].append(each)
