"""Producers of records: one at a time with a future and a callback, a whole sample, or batches of an application."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Container, Iterable, Mapping
from concurrent.futures import Future
from datetime import timedelta
from functools import partial
from itertools import repeat
from typing import Self

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from kstreamnb.background import background
from kstreamnb.core.arguments import check_arguments
from kstreamnb.core.codec import StreamPartitioner
from kstreamnb.core.record import Headers, TopicRecord
from kstreamnb.core.serde import Serde
from kstreamnb.core.serdes import serde_of
from kstreamnb.core.time import duration_ms, format_duration
from kstreamnb.errors import ApplicationStateError, BufferExhaustedError
from kstreamnb.kafka.batch_offsets import Offsets, by_partition
from kstreamnb.kafka.client import (
    Servers,
    as_settings,
    await_broker,
    client,
    connection,
    kafka_error,
    sendable_time,
    shown_servers,
)
from kstreamnb.kafka.output_batch import OutputColumns
from kstreamnb.kafka.partitioners import Content, DeliveryCallback, checked_partition, complete, record_bytes
from kstreamnb.kafka.storage.checkpoint_files import Claim

_PATIENCE = {"topic.metadata.propagation.max.ms": 5000}  # how long a topic may be unknown; 30 s by default
_TUNING = {"linger.ms": 5, "compression.type": "lz4", "enable.idempotence": True, **_PATIENCE}
BATCH_TUNING = {
    "compression.type": "lz4",
    "linger.ms": 5,
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 1 << 20,
}
"""Settings of producers of whole batches, unless the user gives others."""

_POLL_S = 0.1
_FLUSH_S = 1.0


class RecordProducer:
    """Sends records; keys choose partitions as those of a Java producer do. Leaving a ``with`` block flushes.

    It is librdkafka's producer: ``servers`` takes its settings, and Java's names for batches and buffer:
    ``batch.size`` (0: each record alone), ``linger.ms``, ``buffer.memory``, ``delivery.timeout.ms``, ``acks``.
    A thread of the producer completes futures and calls callbacks; it ends with the producer.

    Args:
        servers: ``host:port,…``, or settings with ``bootstrap.servers`` among them.
        key_serde: converts keys to bytes; text by default.
        value_serde: converts values to bytes; JSON by default.
        partitioner: ``(topic, key, value, partitions)`` to a partition, or None for the key's; `RoundRobin` is one.
            Without one, librdkafka chooses the partition of records without a key. Default: None.
        max_block: how long `send` waits for room in a full buffer before it raises BufferExhaustedError; default 1 min.
        patience_s: after how many seconds without any outcome a flush fails; default 60.

    Example:
        >>> from kstreamnb.kafka import Admin, local_broker
        >>> with local_broker() as broker:
        ...     Admin(broker.bootstrap_servers).create_topic("orders")
        ...     with RecordProducer(broker.bootstrap_servers) as producer:
        ...         sent = producer.send("orders", "shoe", {"pieces": 1}, timestamp=1_767_258_000_000)
        ...     sent.result().offset
        0
    """

    def __init__(
        self,
        servers: Servers,
        *,
        key_serde: Serde | str | None = None,
        value_serde: Serde | str | None = None,
        partitioner: StreamPartitioner | None = None,
        max_block: timedelta | str = "1m",
        patience_s: float = 60.0,
    ) -> None:
        check_arguments(RecordProducer.__init__, locals())
        self.servers, self.patience_s = servers, patience_s
        self._partitioner, self._counts = partitioner, dict[str, int]()
        self._block_ms = duration_ms(max_block, "longest wait for room")
        self.key_serde, self.value_serde = serde_of(key_serde or "string"), serde_of(value_serde or "json")
        self._producer = client(Producer, connection(servers, defaults=_TUNING, partitioner="murmur2_random"))
        self._poller: threading.Thread | None = None
        self._reporting = set[int]()  # threads within a callback; the outcomes that they would wait for come after it

    def __repr__(self) -> str:
        return f"<RecordProducer to {shown_servers(self.servers)}>"

    def send(
        self,
        topic: str,
        key: object,
        value: object,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Headers = (),
        delivered: DeliveryCallback | None = None,
        max_block: timedelta | str | None = None,
    ) -> Future[TopicRecord]:
        """Send a record; return a future that gives it with partition and offset once the broker has it.

        Args:
            topic: the topic.
            key: the key, written by ``key_serde``.
            value: the value, written by ``value_serde``.
            partition: the partition; by default the partitioner or the key chooses it.
            timestamp: in ms; by default the client's clock.
            headers: names and bytes. Default: none.
            delivered: called in the producer's thread, or within `flush`, when the outcome is known. It may send, but
                waits for nothing: `flush`, and `send` into a full buffer, raise at once there. Its error is logged.
                Default: None.
            max_block: how long to wait for room in a full buffer; by default as long as the producer does.

        Raises: BufferExhaustedError if no room came in time; SerdeError, PartitionError; BrokerError if the client
            refuses the record, such as one for a partition that does not exist.
        """
        future: Future[TopicRecord] = Future()
        data = record_bytes(topic, key, value, self.key_serde, self.value_serde)
        if partition is None and self._partitioner is not None:
            partition = checked_partition(self._partitioner, topic, key, value, self._count(topic))

        def report(error: KafkaError | None, message: Message) -> None:
            position = message.partition(), message.offset(), message.timestamp()[1]
            outcome = error and kafka_error(f'sending to topic "{topic}"', error, self.servers)
            self._reporting.add(threading.get_ident())
            try:
                complete(future, outcome or TopicRecord(topic, *position, key, value, headers), delivered)
            finally:
                self._reporting.discard(threading.get_ident())

        chosen = -1 if partition is None else partition  # -1 leaves the choice to librdkafka
        arguments: dict[str, object] = {"headers": list(headers), "on_delivery": report, "partition": chosen}
        if timestamp is not None:
            arguments["timestamp"] = sendable_time(timestamp)
        block_ms = self._block_ms if max_block is None else duration_ms(max_block, "longest wait for room")
        self._put(topic, (data[1], data[0]), arguments, block_ms)
        if self._poller is None:
            self._poller = background(partial(_poll, self._producer, weakref.ref(self)), "kstreamnb-producer")
        return future

    def _put(self, topic: str, data: Content, arguments: dict[str, object], block_ms: int) -> None:
        end = time.monotonic() + block_ms / 1000
        while True:
            try:
                self._producer.produce(topic, *data, **arguments)
                return
            except KafkaException as error:  # refused at once: too large, or for an unknown partition
                hint = None
                if error.args[0].code() == KafkaError._UNKNOWN_PARTITION:  # noqa: SLF001 - a public code
                    hint = f"the last partition of the topic is {self._count(topic) - 1}, not {arguments['partition']}"
                raise kafka_error(f'sending to topic "{topic}"', error, self.servers, hint=hint) from error
            except BufferError as error:  # full: delivered records make room
                waits = threading.get_ident() not in self._reporting
                if (left := end - time.monotonic()) <= 0 or not waits:
                    after = f"after {format_duration(block_ms)}" if waits else "and a delivery callback cannot wait"
                    fact = f'the producer\'s buffer has no room for a record of topic "{topic}"'
                    detail = f"{len(self._producer):,} records wait, {after}"
                    hint = "send more slowly, or raise buffer.memory; buffered records are still sent"
                    raise BufferExhaustedError(fact, detail=detail, hint=hint) from error
                self._producer.poll(min(left, 0.05))

    def _count(self, topic: str) -> int:
        """Return the number of partitions of a topic, asked once."""
        if topic not in self._counts:
            metadata = self._producer.list_topics(topic, timeout=self.patience_s).topics[topic]
            if metadata.error is not None:
                raise kafka_error(f'looking for the partitions of topic "{topic}"', metadata.error, self.servers)
            self._counts[topic] = len(metadata.partitions)
        return self._counts[topic]

    def flush(self) -> None:
        """Wait until the outcome of every record is known.

        Raises:
            ApplicationStateError: it is called within a delivery callback.
            BrokerError: none has become known for ``patience_s`` while others wait.
        """
        if threading.get_ident() in self._reporting:
            fact = "a delivery callback cannot flush, because its record counts as delivered only after it"
            raise ApplicationStateError(fact, hint="flush where the records are sent")
        if left := flushed(self._producer, self.patience_s):
            raise kafka_error(f"sending {left} records", TimeoutError(), self.servers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.flush()


def _poll(producer: Producer, owner: weakref.ref[RecordProducer]) -> None:
    """Complete the futures of a producer for as long as its owner is referenced."""
    while owner() is not None:
        producer.poll(_POLL_S)


def produce(
    servers: Servers,
    records: Iterable[TopicRecord],
    *,
    key_serde: Serde | str | None = None,
    value_serde: Serde | str | None = None,
    keep_partitions: bool = False,
) -> int:
    r"""Send records, such as those of a sample, in their order and with their timestamps; return their number.

    Keys choose the partitions unless ``keep_partitions``. If records fail, the error of the first one is raised.

    Args:
        servers: ``host:port,…``, or settings of a client with ``bootstrap.servers`` among them.
        records: a sample, or any `TopicRecord` objects; timestamps are epoch milliseconds.
        key_serde: serde of the keys, or its name such as "long". Default: text.
        value_serde: serde of the values, or its name. Default: JSON.
        keep_partitions: send each record to its own ``partition``. Default: False.

    Example:
        >>> from kstreamnb import Sample
        >>> from kstreamnb.kafka import Admin, local_broker
        >>> sample = Sample.from_text("topic | key | value | time\norders | a | 1 | 0\norders | b | 3 | 5")
        >>> with local_broker() as broker:
        ...     Admin(broker.bootstrap_servers).create_topic("orders")
        ...     produce(broker.bootstrap_servers, sample)
        2
    """
    check_arguments(produce, locals())
    futures = list[Future[TopicRecord]]()
    with RecordProducer(servers, key_serde=key_serde, value_serde=value_serde) as producer:
        for record in records:
            if not futures:
                await_broker(producer._producer, record.topic)  # noqa: SLF001 - of this module
            topic, partition, _, timestamp, key, value, headers = record
            number = partition if keep_partitions else None
            futures.append(producer.send(topic, key, value, partition=number, timestamp=timestamp, headers=headers))
    for future in futures:
        future.result()
    return len(futures)


class BatchWriter:
    """Publishes the batches of an application; another thread may close it at any time.

    Args:
        servers: ``host:port,…``, or settings with ``bootstrap.servers`` among them.
        application: id of the application, which is also its group.
        config: further settings of the producer, which replace those of ``servers``.

    Attributes:
        claim: read before each fencing; a writer without one fences any other.
        again: by number, the input of older batches that may come again after their state was rolled back.
        without_output: numbers of batches that the checkpoint has, but that never had input, such as a rescaling.
        finished: the last batch that the checkpoint calls finished, -1 before the first.
    """

    def __init__(self, servers: Servers, application: str, *, config: Mapping[str, object] | None = None) -> None:
        self.servers, self.application, self.config = servers, application, dict(config or {})
        self.claim: Claim | None = None
        self.again: Mapping[int, str] = {}
        self.without_output: Container[int] = ()
        self.finished = -1
        self._producer: Producer | None = None
        self._group: Consumer | None = None
        self._publishing, self._closing = threading.RLock(), threading.Event()

    def _settings(self, tuning: Mapping[str, object], **own: object) -> dict[str, object]:
        return connection({**as_settings(self.servers), **self.config}, defaults=tuning, **own)

    @staticmethod
    def _partitions(positions: Offsets) -> list[TopicPartition]:
        return [TopicPartition(*partition, offset) for partition, offset in by_partition(positions).items()]

    def _new_group(self) -> Consumer:
        """Make a member of the group that commits positions, for tools that show lag."""
        return client(Consumer, connection(self.servers, group_id=self.application, enable_auto_commit=False))

    def close(self, timeout_s: float = -1) -> None:
        """Close the connections. A batch that another thread is publishing is aborted, or fails, first.

        ``timeout_s`` is seconds to wait for that at most, without limit by default: a broker may not answer. The
        connections then stay open until the next call, or the next `open`.
        """
        self._closing.set()
        if self._publishing.acquire(timeout=timeout_s):
            group, self._group, self._producer = self._group, None, None
            self._publishing.release()
            if group is not None:
                group.close()


def send_all(
    producer: Producer,
    columns: OutputColumns,
    on_delivery: Callable[[KafkaError | None, Message], None] | None = None,
    closing: threading.Event | None = None,
) -> None:
    """Hand records to a producer; if its queue is full, wait for room.

    Raises: KafkaException that names the topic if a record is larger than the producer may send;
        ApplicationStateError if ``closing`` is set.
    """
    refuse_closing(closing)
    send = producer.produce
    stamps = np.where(columns.timestamps == 0, sendable_time(0), columns.timestamps).tolist()
    # Two names for one argument follow the partitions: with a None as the first, the client ignores the second.
    callbacks = repeat(on_delivery), repeat(None)
    fields: list[Iterable[object]] = [columns.values, columns.keys, columns.partitions.tolist(), *callbacks, stamps]
    if columns.headers is not None:
        fields.append(map(list, columns.headers))
    for arguments in zip(repeat(columns.topic), *fields, strict=False):  # naming them doubles the cost of the call
        while True:
            try:
                send(*arguments)
                break
            except BufferError:  # full: delivered or timed out records make room
                refuse_closing(closing)
                producer.poll(0.05)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.MSG_SIZE_TOO_LARGE:
                    raise
                size = f'topic "{columns.topic}", a value of {len(arguments[1] or b""):,} bytes'
                text = f"{error.args[0].str()} ({size})"
                raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, text)) from error


def flushed(producer: Producer, patience_s: float, closing: threading.Event | None = None) -> int:
    """Wait for the outcomes of all records, or until none has come for some seconds; return how many are unknown.

    A quota or a slow network may delay records for longer than any limit on the whole wait.

    Raises: ApplicationStateError if ``closing`` is set.
    """
    left, end = len(producer), time.monotonic() + patience_s
    while left and time.monotonic() < end:
        now = producer.flush(min(_FLUSH_S, patience_s))
        refuse_closing(closing)
        left, end = now, time.monotonic() + patience_s if now < left else end
    return left


def refuse_closing(closing: threading.Event | None) -> None:
    """Raise ApplicationStateError if a writer was closed by another thread."""
    if closing is not None and closing.is_set():
        raise ApplicationStateError("the writer was closed while it published a batch")
