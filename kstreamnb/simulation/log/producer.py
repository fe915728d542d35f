"""A producer over a simulated log: batches, lingering, a buffer that may be full, and outcomes told once each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from kstreamnb.core.codec import StreamPartitioner
from kstreamnb.core.formatting import pluralize
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.time import duration_ms, format_duration
from kstreamnb.errors import BufferExhaustedError, ConfigError, EngineError, KStreamError
from kstreamnb.kafka.partitioners import record_bytes

if TYPE_CHECKING:  # a log makes its producers
    from kstreamnb.simulation.log.log import Log

__all__ = ["LogProducer"]

_NUMBERED = 5
Delivered: TypeAlias = Callable[[TopicRecord | None, Exception | None], None]


@dataclass
class _Waiting:
    """A record that has not been sent."""

    topic: str
    partition: int
    key: Any
    value: Any
    size: int
    since_ms: int
    future: Future[TopicRecord]
    delivered: Delivered | None


@dataclass(eq=False)
class _Batch:
    """Records for one partition, sent together; a batch of a lost request is sent once more at ``again_ms``."""

    records: list[_Waiting] = field(default_factory=list)
    request: int = 0
    again_ms: int = 0

    @property
    def partition(self) -> tuple[str, int]:
        """Topic and partition."""
        return self.records[0].topic, self.records[0].partition

    @property
    def size(self) -> int:
        """Bytes of keys and values."""
        return sum(each.size for each in self.records)


class LogProducer:
    """Sends records to a `Log` in batches, on the log's own clock; what `RecordProducer` does on a real broker.

    A batch goes when it is full or has lingered; all batches that are ready for one broker go in one request. A request
    that was lost is sent again, while others may already be on their way: that is when order is at stake. An idempotent
    producer numbers its batches, and a broker refuses one whose predecessor is not there. Sizes count the bytes of keys
    and values alone.

    Args:
        log: where to.
        batch_bytes: when a batch is full; 0 sends each record by itself.
        linger: how long a batch waits for more.
        buffer_bytes: what may wait in all.
        max_block: how long `send` waits for room in the buffer before it raises BufferExhaustedError.
        delivery_timeout: after how long a record that could not be sent is given up.
        acks: "all" replicas in sync, or the "leader" alone.
        idempotent: whether batches are numbered.
        max_in_flight: how many requests may be on their way to a broker at once; idempotent producers have at most 5.
        retry_backoff: after how long a lost request is sent again.
        partitioner: ``(topic, key, value, partitions)`` to a partition, or None for the key's.

    Example:
        >>> from kstreamnb.simulation import Log
        >>> log = Log()
        >>> log.create_topic("logs")
        >>> producer = log.producer(linger="5ms")
        >>> sent = [producer.send("logs", None, line) for line in range(100)]
        >>> log.advance_wall_clock_time("5ms")
        >>> producer.requests, sent[99].result().offset
        (1, 99)

    Raises: ConfigError when an idempotent producer is to have more than 5 requests in flight.
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
        if idempotent and max_in_flight > _NUMBERED:
            raise ConfigError(
                f"{max_in_flight} requests in flight are too many for an idempotent producer",
                detail=f"a broker remembers the numbers of the last {_NUMBERED} batches",
                java="Must set max.in.flight.requests.per.connection to at most 5 to use the idempotent producer.",
            )
        self.log, self.acks, self.requests = log, acks, 0
        self._idempotent, self._max_in_flight, self._to_lose = idempotent, max_in_flight, 0
        self._batch_bytes, self._buffer_bytes, self._partitioner = batch_bytes, buffer_bytes, partitioner
        self._linger_ms = duration_ms(linger, "linger")
        self._block_ms = duration_ms(max_block, "longest wait for room")
        self._timeout_ms = duration_ms(delivery_timeout, "delivery timeout")
        self._retry_ms = duration_ms(retry_backoff, "wait before a request is sent again")
        self._batches: list[_Batch] = []

    def __repr__(self) -> str:
        waiting = sum(len(batch.records) for batch in self._batches)
        return f"<producer: {pluralize(self.requests, 'request')} made, {pluralize(waiting, 'record')} waiting>"

    @property
    def buffered_bytes(self) -> int:
        """What waits."""
        return sum(batch.size for batch in self._batches)

    def send(
        self, topic: str, key: Any, value: Any, *, partition: int | None = None, delivered: Delivered | None = None
    ) -> Future[TopicRecord]:
        """Take a record; its future and ``delivered(record, error)`` tell once where it lies, or why it does not."""
        data = record_bytes(topic, key, value, self.log.key_serde, self.log.value_serde)
        self.log.describe(topic)
        chosen = partition
        if chosen is None:
            chosen = self.log._partition_for(topic, key, value, data[0], self._partitioner)  # noqa: SLF001 - its other half
        size = sum(len(side) for side in data if side is not None)
        if self.buffered_bytes + size > self._buffer_bytes:
            self._make_room(topic, size)
        record = _Waiting(topic, chosen, key, value, size, self.log.clock.now_ms, Future(), delivered)
        self._batch_for(record).records.append(record)
        self.work()
        return record.future

    def lose(self, requests: int = 1) -> None:
        """Let the next requests be lost on their way.

        Example: B overtakes A, for this producer does not number what it sends.
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
        self._to_lose += requests

    def flush(self) -> None:
        """Send what waits, as far as its leaders are there; what was lost waits until it is sent again."""
        self._send(self._batches)

    def due(self) -> Iterator[int]:
        """When there will be something to do: a batch has lingered, or a record is given up."""
        now = self.log.clock.now_ms
        for batch in self._batches:
            since = batch.records[0].since_ms
            ready = max(since + self._linger_ms, batch.again_ms)
            leader = self._leader(batch)
            if ready > now or (leader is not None and self._may_send(leader)):
                yield ready
            yield since + self._timeout_ms

    def work(self) -> None:
        """Send the batches that are ready, and give up on records that have waited too long."""
        now = self.log.clock.now_ms
        ready = [
            batch
            for batch in self._batches
            if batch.size >= self._batch_bytes or batch.records[0].since_ms + self._linger_ms <= now
        ]
        self._send(ready)
        for batch in list(self._batches):
            reason = "has no leader" if self._leader(batch) is None else "was not reached"
            for each in [each for each in batch.records if each.since_ms + self._timeout_ms <= now]:
                batch.records.remove(each)
                _notify(each, EngineError(
                    f'a record for topic "{each.topic}" was not delivered within {format_duration(self._timeout_ms)}',
                    detail=f'partition "{each.topic}-{each.partition}" {reason}', java="TimeoutException",
                ))  # fmt: skip
            if not batch.records:
                self._batches.remove(batch)

    def _batch_for(self, record: _Waiting) -> _Batch:
        for batch in self._batches:
            has_room = batch.size + record.size <= self._batch_bytes and not batch.request
            if has_room and batch.partition == (record.topic, record.partition):
                return batch
        self._batches.append(_Batch())
        return self._batches[-1]

    def _make_room(self, topic: str, size: int) -> None:
        """Send everything; where that does not help, wait as long as may be, and give up."""
        self.flush()
        if self.buffered_bytes + size <= self._buffer_bytes:
            return
        self.log.advance_wall_clock_time(f"{self._block_ms}ms")
        if self.buffered_bytes + size > self._buffer_bytes:
            raise BufferExhaustedError(
                f'the producer\'s buffer has no room for a record of topic "{topic}"',
                detail=f"{self.buffered_bytes} of {self._buffer_bytes} bytes wait, after {self._block_ms} ms",
                hint="what waits is sent, or its futures fail; send more slowly, or give it a larger buffer",
            )

    def _leader(self, batch: _Batch) -> int | None:
        return self.log._leader(*batch.partition)  # noqa: SLF001 - its other half

    def _may_send(self, broker: int) -> bool:
        """Whether one more request may be on its way to a broker."""
        lost = {batch.request for batch in self._on_their_way() if self._leader(batch) == broker}
        return len(lost) < self._max_in_flight

    def _on_their_way(self) -> list[_Batch]:
        """Batches of which the producer does not know yet that they were lost or refused."""
        return [batch for batch in self._batches if batch.again_ms > self.log.clock.now_ms]

    def _send(self, batches: list[_Batch]) -> None:
        under_way = self._on_their_way()
        by_broker: dict[int, list[_Batch]] = {}
        for batch in batches:
            leader = self._leader(batch)
            if leader is not None and batch not in under_way:
                by_broker.setdefault(leader, []).append(batch)
        for broker, together in by_broker.items():
            if self._may_send(broker):
                self._request(together)

    def _request(self, together: list[_Batch]) -> None:
        """Send batches to their broker; what is lost, or refused as its predecessor is not there, is sent again."""
        self.requests += 1
        lost, self._to_lose = self._to_lose > 0, max(0, self._to_lose - 1)
        for batch in together:
            if lost or (self._idempotent and self._misses_one(batch)):
                batch.request, batch.again_ms = self.requests, self.log.clock.now_ms + self._retry_ms
                continue
            self._batches.remove(batch)
            for each in batch.records:
                self._append(each)

    def _misses_one(self, batch: _Batch) -> bool:
        """Whether a batch that was made before this one, for the same partition, has not arrived."""
        earlier = self._batches[: self._batches.index(batch)]
        return any(each.partition == batch.partition and each in earlier for each in self._on_their_way())

    def _append(self, each: _Waiting) -> None:
        options = {"partition": each.partition, "at": each.since_ms, "acks": self.acks}
        try:
            result = self.log.append(each.topic, each.key, each.value, **options)  # type: ignore[arg-type]
        except KStreamError as error:
            _notify(each, error)
        else:
            _notify(each, result)


def _notify(each: _Waiting, outcome: TopicRecord | Exception) -> None:
    if isinstance(outcome, Exception):
        each.future.set_exception(outcome)
    else:
        each.future.set_result(outcome)
    if each.delivered is not None:
        each.delivered(*((None, outcome) if isinstance(outcome, Exception) else (outcome, None)))
