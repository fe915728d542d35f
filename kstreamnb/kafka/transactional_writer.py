"""Exactly-once publishing of batches: one Kafka transaction for each, with a marker of the batch inside.

The marker is a record of the compacted topic ``<application>-commits``. It names the query and the batch and holds
checksums of the batch's input and output. A batch that the marker names already is in Kafka: its replay publishes
nothing. A marker is a record and not a group offset because it must not expire, nor vanish with an output topic.
The source offsets are committed under the group ``<application>`` too, for tools that show lag; nothing reads them.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import repeat
from typing import Any

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from kstreamnb.errors import (
    ApplicationStateError,
    BrokerError,
    CheckpointError,
    DataLossError,
    EngineError,
    FencedError,
)
from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.batch_offsets import Offsets
from kstreamnb.kafka.bounded_reader import arrived, at_end, bounded_consumer
from kstreamnb.kafka.client import Servers, client, connection, kafka_error, sendable_time
from kstreamnb.kafka.output_batch import OutputBatch, OutputColumns

__all__ = ["Marker", "OutputBatch", "TransactionalWriter", "overtaken", "send_all"]

_FENCED = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}  # noqa: SLF001
_PATIENCE_S = 600.0
_CALL_S = 30.0
_MEET_S = 1.0
_crc = zlib.crc32
_TUNING = {
    "compression.type": "lz4",
    "linger.ms": 5,
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 1 << 20,
    "retry.backoff.ms": 20,
    "transaction.timeout.ms": 60_000,
    # With its re-bootstrap librdkafka forgets how to reach the group's coordinator once a broker was away: sending
    # offsets would wait for ever. Whoever loses all brokers opens the publisher anew, with the first addresses.
    "metadata.recovery.strategy": "none",
}


@dataclass(frozen=True)
class Marker:
    """The last batch in Kafka: ``source`` and ``output`` are checksums of what it read and of what it wrote."""

    query: str
    batch: int
    source: str
    output: str


def overtaken(application: str, detail: str) -> FencedError:
    """Make the error of a deployment that another one has replaced."""
    return FencedError(
        f'a newer deployment of "{application}" has taken over',
        detail=detail,
        hint="stop this one; if it should go on, deploy it again",
    )


class TransactionalWriter:
    """Publishes the batches of one query of an application, each of them once.

    ``query`` is the identity of the checkpoint; ``config`` are further settings of the producer. ``again``: by number,
    what older batches read that may come again, since the query's state was taken back.
    """

    def __init__(
        self, servers: Servers, application: str, query: str, *, config: Mapping[str, object] | None = None
    ) -> None:
        self.servers, self.application, self.query = servers, application, query
        self.marker_topic = f"{application}-commits"
        self.marker: Marker | None = None
        self.again: Mapping[int, str] = {}
        self._config = dict(config or {})
        self._producer: Producer | None = None
        self._group: Consumer | None = None

    def new_producer(self) -> Producer:
        """A producer that has fenced nobody yet; raises ConfigError for settings that it does not take."""
        own = {"transactional_id": f"{self.application}.sink"}
        return client(Producer, connection(self.servers, defaults={**_TUNING, **self._config}, **own))

    def open(self) -> Marker | None:
        """Fence every older publisher of the application, then read the last marker.

        The other order would miss the last commit of the one that is being fenced. A marker of another query is seen
        before: that one goes on.
        """
        self.close()
        producer = self.new_producer()  # connects while the marker is looked for; it fences nobody before it is told to
        admin = Admin(self.servers)
        admin.create_topic(self.marker_topic, config={"cleanup.policy": "compact"}, exists_ok=True)
        self._refuse_foreign(self._last_marker(admin))
        self._producer = producer
        try:
            self._await_broker(producer)
            _repeat(producer.init_transactions, 120.0)
        except KafkaException as error:
            raise self._failure(error) from error
        group = connection(self.servers, group_id=self.application, enable_auto_commit=False)
        self._group = client(Consumer, group)
        self.marker = self._last_marker(admin)
        return self.marker

    def _await_broker(self, producer: Producer) -> None:
        """Wait a moment for a broker: librdkafka asks for its coordinator at once where one is up, else 0.5 s later."""
        with suppress(KafkaException):  # `init_transactions` has more patience, and says what is wrong
            producer.list_topics(self.marker_topic, timeout=_MEET_S)

    def close(self) -> None:
        """Let go of the connections; an open transaction is left to be aborted by the next `open`."""
        group, self._group, self._producer = self._group, None, None
        if group is not None:
            group.close()

    def publish(
        self,
        batch: int,
        source: str,
        output: Iterable[OutputColumns],
        positions: Offsets | None = None,
        *,
        between: Callable[[str], None] = lambda step: None,
    ) -> OutputBatch:
        """Publish one batch, or suppress it where it is in Kafka already, or refuse it.

        ``source`` is the batch's entry in the query's log of input offsets; ``positions`` are the offsets after it.
        ``between`` is called at "begin", "produced", "offsets" and "committed" for whoever watches or tests.
        """
        if self._producer is None:
            raise ApplicationStateError("the publisher is not open", hint="call open() first")
        if self._is_replay(batch, source):
            return self._suppress(batch, output)
        try:
            between("begin")
            self._producer.begin_transaction()
            count, checksum = self._produce(self._producer, output)
            marker = Marker(self.query, batch, _checksum(source), checksum)
            self._producer.produce(self.marker_topic, json.dumps(asdict(marker)), b"sink", 0)
            between("produced")
            self._send_positions(self._producer, positions or {})
            between("offsets")
            _repeat(self._producer.commit_transaction, _CALL_S)
        except KafkaException as error:
            raise self._failure(error) from error
        between("committed")
        self.marker = marker
        return OutputBatch(batch, count)

    def _is_replay(self, batch: int, entry: str) -> bool:
        """Whether the batch is in Kafka already; raises where checkpoint and marker contradict each other."""
        last, source = self.marker, _checksum(entry)
        if last is None:
            if batch == 0:
                return False
            raise DataLossError(
                f'batch {batch} of "{self.application}" has no batch before it in Kafka',
                detail=f'topic "{self.marker_topic}" is empty: it was deleted, or the cluster is another one',
                hint="reset the application, or give it a new id and checkpoint",
            )
        self._refuse_foreign(last)
        if batch < last.batch and self.again.get(batch) == entry:
            return True
        if batch < last.batch:
            raise CheckpointError(
                f'batch {batch} of "{self.application}" comes after batch {last.batch} is in Kafka',
                detail="the checkpoint is an older copy",
                hint="use the latest checkpoint, or reset the application",
            )
        if batch == last.batch and source != last.source:
            raise CheckpointError(
                f'batch {batch} of "{self.application}" was published for other input',
                detail=f"the checksum of its input offsets is {source}, that in Kafka {last.source}",
                hint="use the checkpoint that wrote it, or reset the application",
            )
        return batch == last.batch

    def _refuse_foreign(self, last: Marker | None) -> None:
        if last is not None and last.query != self.query:
            raise CheckpointError(
                f'application "{self.application}" belongs to another checkpoint',
                detail=f"Kafka has batch {last.batch} of query {last.query}; this one is query {self.query}",
                hint="use the checkpoint of that query, reset the application, or give it a new id",
            )

    def _suppress(self, batch: int, output: Iterable[OutputColumns]) -> OutputBatch:
        found, count = _Checksum(), 0
        for columns in output:
            found.add(columns)
            count += len(columns.keys)
        last = self.marker
        differs = last is not None and last.batch == batch and last.output != str(found)
        return OutputBatch(batch, count, suppressed=True, differs=differs)

    def _produce(self, producer: Producer, output: Iterable[OutputColumns]) -> tuple[int, str]:
        found, count = _Checksum(), 0
        for columns in output:
            send_all(producer, columns)
            found.add(columns)
            count += len(columns.keys)
        return count, str(found)

    def _send_positions(self, producer: Producer, positions: Offsets) -> None:
        places = [TopicPartition(t, p, n) for t, parts in positions.items() for p, n in parts.items()]
        if places and self._group is not None:
            _repeat(producer.send_offsets_to_transaction, places, self._group.consumer_group_metadata(), _CALL_S)

    def _failure(self, error: KafkaException) -> EngineError:
        """End the transaction where that is still possible, and say whether opening again may help."""
        reason, producer = error.args[0], self._producer
        # Between two records librdkafka says no more than that there was a fatal error: the next call has its reason.
        if producer is not None and (reason.txn_requires_abort() or reason.code() == KafkaError._FATAL):  # noqa: SLF001
            try:
                _repeat(producer.abort_transaction, _CALL_S)
            except KafkaException as other:
                reason = other.args[0]
        if producer is not None:
            with suppress(KafkaException):  # the fatal error once more
                producer.poll(0)  # what it has to say goes to the log
        self.close()
        if reason.code() in _FENCED:
            return overtaken(self.application, f"Kafka says: {reason.str()}")
        again = "the batch is published after a restart"
        return kafka_error(f'publishing for "{self.application}"', error, self.servers, hint=again)

    def _last_marker(self, admin: Admin) -> Marker | None:
        """The last committed marker, searched backwards from the last stable offset."""
        end = admin.offsets([self.marker_topic])[self.marker_topic][0]
        first = admin.offsets([self.marker_topic], "earliest")[self.marker_topic][0]
        if end == first:
            return None
        consumer, back = bounded_consumer(self.servers), 16
        try:
            start = end
            while start > first:
                start, back = max(first, end - back), back * 8
                found = self._read_markers(consumer, start, end)
                if found is not None:
                    return Marker(**json.loads(found))
        finally:
            consumer.close()
        return None

    def _read_markers(self, consumer: Consumer, start: int, end: int) -> bytes | None:
        consumer.assign([TopicPartition(self.marker_topic, 0, start)])
        found, position, deadline = None, start, time.monotonic() + _CALL_S
        while position < end:
            messages = arrived(consumer, end - position, 0.1)
            for message in messages:
                if at_end(message, self.servers):
                    position = message.offset()
                else:
                    found, position = message.value(), message.offset() + 1
            if not messages and time.monotonic() > deadline:
                raise BrokerError(f'no answer from topic "{self.marker_topic}"')
        return found


def send_all(producer: Producer, columns: OutputColumns, on_delivery: Any = None) -> None:
    """Hand records to a producer; where its queue is full, wait for room.

    Raises: KafkaException that names the topic for a record which is larger than the producer may send.
    """
    send = producer.produce
    stamps = np.where(columns.timestamps == 0, sendable_time(0), columns.timestamps).tolist()
    each: list[Any] = [
        columns.values,
        columns.keys,
        columns.partitions.tolist(),
        repeat(on_delivery),  # first of two names for one thing: beside a None here the client forgets the other
        repeat(None),
        stamps,
    ]
    if columns.headers is not None:
        each.append(map(list, columns.headers))
    for arguments in zip(repeat(columns.topic), *each, strict=False):  # naming them doubles the cost of the call
        while True:
            try:
                send(*arguments)
                break
            except BufferError:  # full: delivered or timed out records make room
                producer.poll(0.05)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.MSG_SIZE_TOO_LARGE:
                    raise
                size = f'topic "{columns.topic}", a value of {len(arguments[1] or b""):,} bytes'
                said = f"{error.args[0].str()} ({size})"  # the others of its transaction are not to stay in it
                raise KafkaException(
                    KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, said, txn_requires_abort=True)
                ) from error


class _Checksum:
    """The checksum of a batch's output: of each topic's columns, however many records come at once."""

    def __init__(self) -> None:
        self._sums: dict[str, list[int]] = {}

    def add(self, columns: OutputColumns) -> None:
        """Take up some records; sizes keep neighbouring fields apart."""
        sums = self._sums.setdefault(columns.topic, [0] * 7)
        sized = [_sizes_and_bytes(column) for column in (columns.keys, columns.values)]
        headers = columns.headers or [()] * len(columns.keys)
        parts = [columns.partitions.tobytes(), columns.timestamps.tobytes(), *(part for pair in sized for part in pair)]
        parts.append("".join(map(repr, map(tuple, headers))).encode())
        for at, part in enumerate(parts):
            sums[at] = _crc(part, sums[at])

    def __str__(self) -> str:
        return f"{_crc(json.dumps(self._sums, sort_keys=True).encode()):08x}"


def _sizes_and_bytes(column: list[Any]) -> tuple[bytes, bytes]:
    """The length of each item, -1 for None, and all items behind each other."""
    try:
        return np.fromiter(map(len, column), np.int64, len(column)).tobytes(), b"".join(column)
    except TypeError:  # there is a None among them
        sizes = [-1 if item is None else len(item) for item in column]
        return np.asarray(sizes, np.int64).tobytes(), b"".join(filter(None, column))


def _checksum(entry: str) -> str:
    return f"{_crc(entry.encode()):08x}"


def _repeat(call: Callable[..., Any], *arguments: object) -> None:
    """Repeat the same call while its outcome is open: no other call is allowed then."""
    end = time.monotonic() + _PATIENCE_S
    while True:
        try:
            call(*arguments)
            return
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > end:
                raise
