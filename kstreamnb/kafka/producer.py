"""Records into topics: one at a time with a future and a callback, or a whole sample at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from datetime import timedelta
from types import TracebackType
from typing import Any, Self, TypeAlias

from confluent_kafka import KafkaError, Message, Producer

from kstreamnb.core.codec import StreamPartitioner
from kstreamnb.core.record import Headers, TopicRecord
from kstreamnb.core.serde import Serde
from kstreamnb.core.serdes import Serdes
from kstreamnb.core.time import duration_ms, format_duration
from kstreamnb.errors import BufferExhaustedError
from kstreamnb.kafka.client import Servers, client, connection, kafka_error, sendable_time
from kstreamnb.kafka.partitioners import checked_partition, record_bytes

__all__ = ["Delivered", "RecordProducer", "produce"]

Delivered: TypeAlias = Callable[[TopicRecord | None, Exception | None], None]
"""``delivered(record, error)``: the record with its partition and offset, or what went wrong."""

_TUNING = {"linger.ms": 5, "compression.type": "lz4", "enable.idempotence": True}


class RecordProducer:
    """Sends records; keys choose partitions as those of a Java producer do. Leaving a ``with`` block flushes.

    It is librdkafka's producer: ``servers`` takes its settings, and Java's names for batches and buffer:
    ``batch.size`` (0: each record by itself), ``linger.ms``, ``buffer.memory``, ``delivery.timeout.ms``, ``acks``.

    Args:
        servers: ``host:port,…``, or settings with ``bootstrap.servers`` among them.
        key_serde: how keys become bytes; text unless said otherwise.
        value_serde: how values become bytes; JSON unless said otherwise.
        partitioner: ``(topic, key, value, partitions)`` to a partition, or None for the key's; `RoundRobin` is one.
            Without one, records without a key go where librdkafka likes.
        max_block: how long `send` waits for room in a full buffer before it raises BufferExhaustedError.
        patience_s: how many seconds a flush waits.

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
        key_serde: Serde | None = None,
        value_serde: Serde | None = None,
        partitioner: StreamPartitioner | None = None,
        max_block: timedelta | str = "1m",
        patience_s: float = 60.0,
    ) -> None:
        self.servers, self.patience_s = servers, patience_s
        self._partitioner, self._counts = partitioner, dict[str, int]()
        self._block_ms = duration_ms(max_block, "longest wait for room")
        self.key_serde, self.value_serde = key_serde or Serdes.string(), value_serde or Serdes.json()
        self._producer = client(Producer, connection(servers, defaults=_TUNING, partitioner="murmur2_random"))

    def __repr__(self) -> str:
        return f"<RecordProducer to {connection(self.servers)['bootstrap.servers']}>"

    def send(
        self,
        topic: str,
        key: Any,
        value: Any,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Headers = (),
        delivered: Delivered | None = None,
    ) -> Future[TopicRecord]:
        """Send a record; the future gives it with partition and offset once the broker has it.

        ``timestamp`` is in ms; without one the client's clock decides. ``delivered`` is called when the outcome is
        known, from within a later `send` or `flush`.
        """
        future: Future[TopicRecord] = Future()
        data = record_bytes(topic, key, value, self.key_serde, self.value_serde)
        if partition is None and self._partitioner is not None:
            partition = checked_partition(self._partitioner, topic, key, value, self._count(topic))

        def report(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failure = kafka_error(f'sending to topic "{topic}"', error, self.servers)
                future.set_exception(failure)
            else:
                future.set_result(
                    TopicRecord(
                        topic, message.partition(), message.offset(), message.timestamp()[1], key, value, headers
                    )
                )
            if delivered is not None:
                delivered(None, failure) if error is not None else delivered(future.result(), None)

        arguments: dict[str, Any] = {"headers": list(headers), "on_delivery": report}
        if partition is not None:
            arguments["partition"] = partition
        if timestamp is not None:
            arguments["timestamp"] = sendable_time(timestamp)
        self._put(topic, (data[1], data[0]), arguments)
        self._producer.poll(0)
        return future

    def _put(self, topic: str, data: tuple[bytes | None, bytes | None], arguments: dict[str, Any]) -> None:
        end = time.monotonic() + self._block_ms / 1000
        while True:
            try:
                self._producer.produce(topic, *data, **arguments)
                return
            except BufferError as error:  # full: delivered records make room
                left = end - time.monotonic()
                if left <= 0:
                    raise BufferExhaustedError(
                        f'the producer\'s buffer has no room for a record of topic "{topic}"',
                        detail=f"{len(self._producer):,} records wait, after {format_duration(self._block_ms)}",
                        hint="what waits is sent, or its futures fail; send more slowly, or give it a larger buffer",
                    ) from error
                self._producer.poll(min(left, 0.05))

    def _count(self, topic: str) -> int:
        """Partitions of a topic, asked for once."""
        if topic not in self._counts:
            found = self._producer.list_topics(topic, timeout=self.patience_s).topics[topic]
            if found.error is not None:
                raise kafka_error(f'looking for the partitions of topic "{topic}"', found.error, self.servers)
            self._counts[topic] = len(found.partitions)
        return self._counts[topic]

    def flush(self) -> None:
        """Wait until the outcome of every record is known."""
        left = self._producer.flush(self.patience_s)
        if left:
            raise kafka_error(f"sending {left} records", TimeoutError(), self.servers)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.flush()


def produce(
    servers: Servers,
    records: Iterable[TopicRecord],
    *,
    key_serde: Serde | None = None,
    value_serde: Serde | None = None,
    keep_partitions: bool = False,
) -> int:
    r"""Send records, such as those of a sample, in their order and with their timestamps; gives their number.

    Keys choose the partitions unless ``keep_partitions``. The first record that fails is raised.

    Example:
        >>> from kstreamnb import Sample
        >>> from kstreamnb.kafka import Admin, local_broker
        >>> sample = Sample.from_text("topic | key | value | time\norders | a | 1 | 0\norders | b | 3 | 5")
        >>> with local_broker() as broker:
        ...     Admin(broker.bootstrap_servers).create_topic("orders")
        ...     produce(broker.bootstrap_servers, sample)
        2
    """
    futures = []
    with RecordProducer(servers, key_serde=key_serde, value_serde=value_serde) as producer:
        for record in records:
            futures.append(
                producer.send(
                    record.topic,
                    record.key,
                    record.value,
                    partition=record.partition if keep_partitions else None,
                    timestamp=record.timestamp,
                    headers=record.headers,
                )
            )
    for future in futures:
        future.result()
    return len(futures)
