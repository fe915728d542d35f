"""Simulates a producer: batches, lingering, a bounded buffer, and delivery reports."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, NamedTuple

from kstreamnb.core.arguments import check_arguments
from kstreamnb.core.codec import StreamPartitioner, partition_for
from kstreamnb.core.formatting import pluralize
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.time import duration_ms, format_duration
from kstreamnb.errors import BufferExhaustedError, ConfigError, EngineError, KStreamError
from kstreamnb.kafka.partitioners import Content, DeliveryCallback, checked_partition, complete, record_bytes
from kstreamnb.topology.nodes import grouped

if TYPE_CHECKING:  # a log makes its producers
    from kstreamnb.simulation.log.log import Log

_NUMBERED = 5


@dataclass
class _Waiting:
    """A record that has not been sent."""

    topic: str
    number: int
    key: object
    value: object
    size: int
    since_ms: int
    future: Future[TopicRecord]
    delivered: DeliveryCallback | None

    @property
    def partition(self) -> str:
        """The name of the partition, such as "logs-0"."""
        return f"{self.topic}-{self.number}"


class _Answer(NamedTuple):
    """The broker's answer to one record of a request, which reaches the producer at ``at_ms``."""

    at_ms: int
    request: int
    broker: int
    record: _Waiting
    outcome: TopicRecord | KStreamError


@dataclass(eq=False)
class _Batch:
    """Records for one partition that are sent together; after a lost request they are resent at ``again_ms``."""

    records: list[_Waiting] = field(default_factory=list)
    request: int = 0
    again_ms: int = 0

    @property
    def partition(self) -> str:
        """The name of the partition."""
        return self.records[0].partition

    @property
    def size(self) -> int:
        """Size of keys and values in bytes."""
        return sum(each.size for each in self.records)


class _ClockedFuture(Future[TopicRecord]):
    """A future that advances the log's clock while it is waited for, as time passes for a real one."""

    def __init__(self, producer: LogProducer) -> None:
        super().__init__()
        self._producer = producer

    def result(self, timeout: float | None = None) -> TopicRecord:
        """Advance the clock until the record is delivered or has failed, by ``timeout`` seconds at most."""
        self._advance(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Advance the clock as `result` does, and return the error."""
        self._advance(timeout)
        return super().exception(0)

    def _advance(self, timeout: float | None) -> None:
        clock = self._producer.log.clock
        end = None if timeout is None else clock.now_ms + int(timeout * 1000)
        while not self.done() and (end is None or clock.now_ms < end):
            steps = [time for time in (*self._producer.due(), *([] if end is None else [end])) if time > clock.now_ms]
            self._producer.log.advance_wall_clock_time(f"{min(steps) - clock.now_ms}ms")


def written_to(
    log: Log, topic: str, key: object, value: object, chosen: int | None, partitioner: StreamPartitioner | None
) -> tuple[Content, int]:
    """Return the bytes of a record, and its partition: the chosen one, the partitioner's choice, or that of the key.

    Raises: EngineError if the topic does not exist.
    """
    data, count = record_bytes(topic, key, value, log.key_serde, log.value_serde), len(log.describe(topic).layout)
    if chosen is None:
        chosen = checked_partition(partitioner or log.partitioner, topic, key, value, count)
    return data, chosen if chosen is not None else 0 if data[0] is None else partition_for(data[0], count)


class LogProducer:
    """Sends records to a `Log` in batches, on the log's clock; `RecordProducer` sends them to a real broker.

    A batch is sent when it is full or its linger time is over; all ready batches for one broker share a request. A lost
    request is retried while others may be in flight, which may reorder records. An idempotent producer numbers its
    batches, and brokers reject a batch whose predecessor is missing. Sizes count only the bytes of keys and values.

    Args:
        log: the log to write to.
        batch_bytes: the size of a full batch; 0 sends each record on its own; default 16,384.
        linger: how long a batch waits for more records; default 5 ms.
        buffer_bytes: the size of the buffer; default 32 MiB.
        max_block: how long `send` waits for room in the buffer before it raises BufferExhaustedError; default 1 minute.
        delivery_timeout: time after which an undelivered record fails; default 2 minutes.
        acks: "all" in-sync replicas (default), or the "leader" only.
        idempotent: number the batches, so that brokers reject duplicates and gaps; default True.
        max_in_flight: concurrent requests per broker; at most 5 for an idempotent producer; default 5.
        retry_backoff: the delay before a lost request is retried; default 100 ms.
        partitioner: function ``(topic, key, value, partitions)`` that returns the partition, or None for the key's.

    Example:
        >>> from kstreamnb.simulation import Log
        >>> log = Log()
        >>> log.create_topic("logs")
        >>> producer = log.producer(linger="5ms")
        >>> sent = [producer.send("logs", None, line) for line in range(100)]
        >>> log.advance_wall_clock_time("5ms")
        >>> producer.requests, sent[99].result().offset
        (1, 99)

    Raises: ConfigError if an idempotent producer may have more than 5 requests in flight.
    """

    def __init__(
        self,
        log: Log,
        *,
        batch_bytes: int = 16_384,
        linger: timedelta | str = "5ms",
        buffer_bytes: int = 33_554_432,
        max_block: timedelta | str = "1m",
        delivery_timeout: timedelta | str = "2m",
        acks: Literal["all", "leader"] = "all",
        idempotent: bool = True,
        max_in_flight: int = 5,
        retry_backoff: timedelta | str = "100ms",
        partitioner: StreamPartitioner | None = None,
    ) -> None:
        check_arguments(LogProducer.__init__, locals())
        if idempotent and max_in_flight > _NUMBERED:
            fact = f"max_in_flight must be at most {_NUMBERED} for an idempotent producer, got {max_in_flight}"
            java = "Must set max.in.flight.requests.per.connection to at most 5 to use the idempotent producer."
            raise ConfigError(fact, detail=f"a broker remembers the numbers of the last {_NUMBERED} batches", java=java)
        self.log, self.acks, self.requests = log, acks, 0
        self._idempotent, self._max_in_flight, self._to_lose = idempotent, max_in_flight, 0
        self._batch_bytes, self._buffer_bytes, self._partitioner = batch_bytes, buffer_bytes, partitioner
        self._linger_ms = duration_ms(linger, "linger")
        self._block_ms = duration_ms(max_block, "longest wait for room")
        self._timeout_ms = duration_ms(delivery_timeout, "delivery timeout")
        self._retry_ms = duration_ms(retry_backoff, "wait before a request is sent again")
        self._batches: list[_Batch] = []
        self._answers: list[_Answer] = []
        self._latencies_ms: list[int] = []

    def __repr__(self) -> str:
        waiting = sum(len(batch.records) for batch in self._batches)
        return f"<producer: {pluralize(self.requests, 'request')} made, {pluralize(waiting, 'record')} waiting>"

    @property
    def buffered_bytes(self) -> int:
        """Size of all records in bytes that are not acknowledged."""
        return sum(batch.size for batch in self._batches) + sum(answer.record.size for answer in self._answers)

    @property
    def latencies_ms(self) -> tuple[int, ...]:
        """The time (ms) between `send` and acknowledgement of each delivered record, in order of acknowledgement.

        Example: all replicas must answer, or the leader alone.
            >>> from kstreamnb.simulation import Log
            >>> log = Log(brokers=3, round_trip="2ms")
            >>> log.create_topic("logs", replicas=3)
            >>> for acks in ("all", "leader"):
            ...     producer = log.producer(acks=acks, linger="0ms")
            ...     offset = producer.send("logs", None, "line").result().offset
            ...     print(acks, producer.latencies_ms)
            all (4,)
            leader (2,)
        """
        return tuple(self._latencies_ms)

    def send(
        self,
        topic: str,
        key: object,
        value: object,
        *,
        partition: int | None = None,
        delivered: DeliveryCallback | None = None,
    ) -> Future[TopicRecord]:
        """Buffer a record; the returned future and ``delivered(record, error)`` report its offset or its failure.

        Waiting for the future advances the log's clock.

        Args:
            topic: the topic.
            key: the key; None for none.
            value: the value.
            partition: the partition. Default: the one that the producer's partitioner chooses.
            delivered: function ``(record, error)`` that is called once. Default: none.
        """
        check_arguments(LogProducer.send, locals())
        data, chosen = written_to(self.log, topic, key, value, partition, self._partitioner)
        _ = self.log.offsets[f"{topic}-{chosen}"]  # raises for an unknown partition
        size = sum(len(side) for side in data if side is not None)
        if self.buffered_bytes + size > self._buffer_bytes:
            self._make_room(topic, size)
        record = _Waiting(topic, chosen, key, value, size, self.log.clock.now_ms, _ClockedFuture(self), delivered)
        self._batch_for(record).records.append(record)
        self.work()
        return record.future

    def lose(self, requests: int = 1) -> None:
        """Lose the next requests on their way to the broker.

        Args:
            requests: the number of requests. Default: 1.

        Example: B overtakes A, because this producer is not idempotent.
            >>> from kstreamnb.simulation import Log
            >>> log = Log()
            >>> log.create_topic("logs")
            >>> producer = log.producer(linger="0ms", idempotent=False)
            >>> producer.lose()
            >>> sent = [producer.send("logs", None, value) for value in ("A", "B")]
            >>> log.advance_wall_clock_time("1s")
            >>> [record.value for record in log.records("logs-0")]
            ['B', 'A']
        """
        check_arguments(LogProducer.lose, locals())
        self._to_lose += requests

    def flush(self) -> None:
        """Send buffered records whose leaders are online; lost batches wait for their retry."""
        self._send(self._batches)

    def due(self) -> Iterator[int]:
        """Yield the times (ms) at which work is due: an answer arrives, a batch has lingered, or a record expires."""
        now = self.log.clock.now_ms
        yield from (answer.at_ms for answer in self._answers)
        for batch in self._batches:
            since = batch.records[0].since_ms
            ready = max(since + self._linger_ms, batch.again_ms)
            leader = self._leader(batch)
            if ready > now or (leader is not None and self._may_send(leader)):
                yield ready
            yield since + self._timeout_ms

    def work(self) -> None:
        """Take answers that have arrived, send ready batches, and give up on expired records."""
        now = self.log.clock.now_ms
        self._take_answers()
        due_ms = now - self._linger_ms
        ready = [each for each in self._batches if each.size >= self._batch_bytes or each.records[0].since_ms <= due_ms]
        self._send(ready)
        for batch in list(self._batches):
            reason = "has no leader" if self._leader(batch) is None else "was not reached"
            for each in [each for each in batch.records if each.since_ms + self._timeout_ms <= now]:
                batch.records.remove(each)
                fact = f'a record for topic "{each.topic}" was not delivered within {format_duration(self._timeout_ms)}'
                detail = f'partition "{each.partition}" {reason}'
                error = EngineError(fact, detail=detail, java="TimeoutException")
                complete(each.future, error, each.delivered)
            if not batch.records:
                self._batches.remove(batch)

    def _batch_for(self, record: _Waiting) -> _Batch:
        for batch in self._batches:
            has_room = batch.size + record.size <= self._batch_bytes and not batch.request
            if has_room and batch.partition == record.partition:
                return batch
        self._batches.append(_Batch())
        return self._batches[-1]

    def _make_room(self, topic: str, size: int) -> None:
        """Flush; if the buffer is still full, wait up to ``max_block`` and raise."""
        self.flush()
        if self.buffered_bytes + size <= self._buffer_bytes:
            return
        self.log.advance_wall_clock_time(f"{self._block_ms}ms")
        if self.buffered_bytes + size > self._buffer_bytes:
            fact = f'the producer\'s buffer has no room for a record of topic "{topic}"'
            detail = f"{self.buffered_bytes} of {self._buffer_bytes} bytes are in use after {self._block_ms} ms"
            hint = "send more slowly, or increase buffer_bytes; buffered records are still sent"
            raise BufferExhaustedError(fact, detail=detail, hint=hint)

    def _leader(self, batch: _Batch) -> int | None:
        return self.log.replicas[batch.partition].leader

    def _may_send(self, broker: int) -> bool:
        """Return whether another request may be in flight to a broker."""
        in_flight = {batch.request for batch in self._on_their_way() if self._leader(batch) == broker}
        in_flight |= {answer.request for answer in self._answers if answer.broker == broker}
        return len(in_flight) < self._max_in_flight

    def _on_their_way(self) -> list[_Batch]:
        """Return batches whose loss or rejection the producer does not know of yet."""
        return [batch for batch in self._batches if batch.again_ms > self.log.clock.now_ms]

    def _send(self, batches: list[_Batch]) -> None:
        under_way = self._on_their_way()
        waiting = [batch for batch in batches if batch not in under_way]
        for broker, together in grouped(waiting, self._leader).items():
            if broker is not None and self._may_send(broker):
                self._request(together)

    def _request(self, together: list[_Batch]) -> None:
        """Send batches to their broker; lost and rejected batches are retried."""
        self.requests += 1
        lost, self._to_lose = self._to_lose > 0, max(0, self._to_lose - 1)
        for batch in together:
            if lost or (self._idempotent and self._misses_one(batch)):
                batch.request, batch.again_ms = self.requests, self.log.clock.now_ms + self._retry_ms
                continue
            self._batches.remove(batch)
            for each in batch.records:
                self._append(each)
        self._take_answers()

    def _misses_one(self, batch: _Batch) -> bool:
        """Return whether an earlier batch for the same partition has not arrived."""
        earlier = self._batches[: self._batches.index(batch)]
        return any(each.partition == batch.partition and each in earlier for each in self._on_their_way())

    def _append(self, each: _Waiting) -> None:
        """Write a record; its leader answers after a round trip, or two if it waits for its followers to fetch it."""
        log, replicas, acks = self.log, self.log.replicas[each.partition], self.acks
        broker = replicas.leader or 0
        outcome: TopicRecord | KStreamError
        try:
            outcome = log.append(each.topic, each.key, each.value, partition=each.number, at=each.since_ms, acks=acks)
        except KStreamError as error:
            outcome = error
        trips = 2 if acks == "all" and len(replicas.in_sync) > 1 else 1
        at_ms = log.clock.now_ms + trips * log.round_trip_ms
        self._answers.append(_Answer(at_ms, self.requests, broker, each, outcome))

    def _take_answers(self) -> None:
        """Complete the futures of records whose answers have arrived."""
        now = self.log.clock.now_ms
        arrived = sorted((each for each in self._answers if each.at_ms <= now), key=lambda each: each.at_ms)
        self._answers = [each for each in self._answers if each.at_ms > now]
        for answer in arrived:
            if isinstance(answer.outcome, TopicRecord):
                self._latencies_ms.append(now - answer.record.since_ms)
            complete(answer.record.future, answer.outcome, answer.record.delivered)
