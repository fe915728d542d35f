"""Simulates a broker: partitions of bytes with offsets, transactions, and committed offsets of groups.

Offsets count records only; unlike Kafka's, transaction markers take none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import Literal, NamedTuple, TypeAlias

from kstreamnb.core.codec import decode, encoded
from kstreamnb.core.record import Headers, TopicRecord
from kstreamnb.core.serde import Serde
from kstreamnb.errors import EngineError
from kstreamnb.hints import expect_known
from kstreamnb.kafka.partitioners import Content
from kstreamnb.runtime.task.task import StateDelta

Isolation: TypeAlias = Literal["read_committed", "read_uncommitted"]


class LogRecord(NamedTuple):
    """A record in bytes; ``sequence`` gives the order across all topics."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    transaction: int | None
    sequence: int

    def read(self, topic: str, partition: int, serdes: tuple[Serde, Serde]) -> TopicRecord:
        """Return the record of a partition with its key and value as a consumer reads them."""
        key, value = map(decode, serdes, map(encoded, (self.key, self.value)))
        return TopicRecord(topic, partition, self.offset, self.timestamp, key, value, self.headers)


@dataclass
class PartitionLog:
    """The log of one partition; ``open`` maps unfinished transactions to their first offset."""

    records: list[LogRecord] = field(default_factory=list)
    open: dict[int, int] = field(default_factory=dict)
    aborted: dict[int, None] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """The offset of the next record."""
        return len(self.records)

    def visible_end(self, isolation: Isolation) -> int:
        """Return the offset at which a reader stops: with read_committed, before the first unfinished transaction."""
        if isolation == "read_committed" and self.open:
            return min(self.open.values())
        return self.end

    def read(self, start: int, limit: int | None, isolation: Isolation) -> tuple[list[LogRecord], int]:
        """Return records beginning with an offset, and the offset to continue at."""
        result: list[LogRecord] = []
        at, end = start, self.visible_end(isolation)
        while at < end and (limit is None or len(result) < limit):
            record = self.records[at]
            if isolation == "read_uncommitted" or record.transaction not in self.aborted:
                result.append(record)
            at += 1
        return result, at


class Broker:
    """Topics, and the offsets that groups have committed."""

    def __init__(self) -> None:
        self.topics: dict[str, list[PartitionLog]] = {}
        self.committed: dict[tuple[str, str, int], int] = {}
        self.task_states: dict[tuple[str, str], StateDelta] = {}
        self.held: dict[tuple[str, int], bool] = {}
        self._transactions = 0
        self._appended = 0

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic unless it exists."""
        self.topics.setdefault(topic, [PartitionLog() for _ in range(partitions)])

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Increase a topic's partition count; records stay in place."""
        result = self.partitions(topic)
        if partitions < len(result):
            raise EngineError(f'partitions of topic "{topic}" must be at least {len(result)}, got {partitions}')
        result.extend(PartitionLog() for _ in range(partitions - len(result)))

    def forget(self, group: str, *topics: str) -> None:
        """Delete topics, their committed offsets, and a group's task states."""
        for topic in topics:
            self.topics.pop(topic, None)
        self.committed = {key: offset for key, offset in self.committed.items() if key[1] not in topics}
        self.task_states = {key: note for key, note in self.task_states.items() if key[0] != group}

    def counts(self) -> dict[str, int]:
        """Return partition counts by topic."""
        return {topic: len(partitions) for topic, partitions in self.topics.items()}

    def partitions(self, topic: str) -> list[PartitionLog]:
        """Return the partitions of a topic; raise EngineError if it does not exist."""
        expect_known("topic", [topic], self.topics, error=EngineError)
        return self.topics[topic]

    def partition(self, topic: str, number: int) -> PartitionLog:
        """Return one partition; raise EngineError if there is none."""
        partitions = self.partitions(topic)
        if not 0 <= number < len(partitions):
            raise EngineError(f'partition of topic "{topic}" must be from 0 to {len(partitions) - 1}, got {number}')
        return partitions[number]

    def append(
        self, topic: str, number: int, timestamp: int, data: Content, headers: Headers, transaction: int | None = None
    ) -> int:
        """Append a record and return its offset."""
        partition = self.partition(topic, number)
        offset = partition.end
        if transaction is not None:
            partition.open.setdefault(transaction, offset)
        self._appended += 1
        partition.records.append(LogRecord(offset, timestamp, *data, headers, transaction, self._appended))
        return offset

    def begin(self) -> int:
        """Start a transaction and return its number."""
        self._transactions += 1
        return self._transactions

    def end(self, transaction: int, *, aborts: bool) -> None:
        """End a transaction: make its records visible, or hide them for good if it aborts."""
        for partition in chain.from_iterable(self.topics.values()):
            if partition.open.pop(transaction, None) is not None and aborts:
                partition.aborted[transaction] = None

    def is_delayed(self, topic: str, partition: int) -> bool:
        """Return whether fetches of a partition are delayed."""
        return (topic, partition) in self.held

    def lag(self, topic: str, number: int, position: int, isolation: Isolation) -> int | None:
        """Return the number of records that a reader knows it has not fetched; None while it knows nothing."""
        if self.held.get((topic, number)) is False:
            return None
        return self.partition(topic, number).visible_end(isolation) - position
