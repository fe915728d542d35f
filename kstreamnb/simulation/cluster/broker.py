"""Topics as a broker keeps them: partitions of bytes with offsets, transactions, and committed offsets of groups.

Offsets count records alone: the markers by which a broker ends a transaction take none here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from kstreamnb.core.record import Headers
from kstreamnb.errors import EngineError

__all__ = ["Broker", "Isolation", "LogRecord", "Partition"]

Isolation: TypeAlias = Literal["read_committed", "read_uncommitted"]


class LogRecord(NamedTuple):
    """A record in a topic, in bytes; ``sequence`` tells the order over all topics."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    transaction: int | None
    sequence: int


@dataclass
class Partition:
    """The log of one partition; ``open`` maps unfinished transactions to their first offset here."""

    records: list[LogRecord] = field(default_factory=list)
    open: dict[int, int] = field(default_factory=dict)
    aborted: dict[int, None] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """The offset that the next record will get."""
        return len(self.records)

    def visible_end(self, isolation: Isolation) -> int:
        """Where a reader has to stop: before the first unfinished transaction, if it reads only what is committed."""
        if isolation == "read_committed" and self.open:
            return min(self.open.values())
        return self.end

    def read(self, start: int, limit: int | None, isolation: Isolation) -> tuple[list[LogRecord], int]:
        """Records from an offset on, and the offset to go on from."""
        result: list[LogRecord] = []
        at, end = start, self.visible_end(isolation)
        while at < end and (limit is None or len(result) < limit):
            record = self.records[at]
            if isolation == "read_uncommitted" or record.transaction not in self.aborted:
                result.append(record)
            at += 1
        return result, at


class Broker:
    """All topics, and the offsets that groups have committed."""

    def __init__(self) -> None:
        self.topics: dict[str, list[Partition]] = {}
        self.committed: dict[tuple[str, str, int], int] = {}
        self.task_states: dict[tuple[str, str], bytes] = {}
        self.held: dict[tuple[str, int], bool] = {}
        self._transactions = 0
        self._appended = 0

    def create(self, topic: str, partitions: int) -> None:
        """Make a topic, unless it is there; an existing one keeps its partitions."""
        self.topics.setdefault(topic, [Partition() for _ in range(partitions)])

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Let a topic have more partitions; records stay where they are."""
        result = self.topics[topic]
        if partitions < len(result):
            raise EngineError(f'topic "{topic}" has {len(result)} partitions, and cannot have fewer')
        result.extend(Partition() for _ in range(partitions - len(result)))

    def forget(self, group: str, *topics: str) -> None:
        """Take topics away as far as they are there, and what a group has committed of them, and its notes."""
        for topic in topics:
            self.topics.pop(topic, None)
        self.committed = {key: offset for key, offset in self.committed.items() if key[1] not in topics}
        self.task_states = {key: note for key, note in self.task_states.items() if key[0] != group}

    def counts(self) -> dict[str, int]:
        """Partitions by topic."""
        return {topic: len(partitions) for topic, partitions in self.topics.items()}

    def partition(self, topic: str, number: int) -> Partition:
        """One partition; raises EngineError when there is none."""
        partitions = self.topics.get(topic)
        if partitions is None or not 0 <= number < len(partitions):
            detail = f"topics are {', '.join(self.topics) or 'none'}" if partitions is None else None
            raise EngineError(f'there is no partition {number} of topic "{topic}"', detail=detail)
        return partitions[number]

    def append(
        self,
        topic: str,
        number: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        transaction: int | None = None,
    ) -> int:
        """Append a record and give its offset."""
        partition = self.partition(topic, number)
        offset = partition.end
        if transaction is not None:
            partition.open.setdefault(transaction, offset)
        self._appended += 1
        partition.records.append(LogRecord(offset, timestamp, key, value, headers, transaction, self._appended))
        return offset

    def begin(self) -> int:
        """A new transaction."""
        self._transactions += 1
        return self._transactions

    def end(self, transaction: int, *, aborts: bool) -> None:
        """Let the records of a transaction be seen, or never."""
        for partition in self._partitions():
            if partition.open.pop(transaction, None) is not None and aborts:
                partition.aborted[transaction] = None

    def is_delayed(self, topic: str, partition: int) -> bool:
        """Whether fetches of a partition do not come back now."""
        return (topic, partition) in self.held

    def lag(self, topic: str, number: int, position: int, isolation: Isolation) -> int | None:
        """How many records a reader has not fetched, as far as it knows; None while it has heard nothing."""
        if self.held.get((topic, number)) is False:
            return None
        return self.partition(topic, number).visible_end(isolation) - position

    def _partitions(self) -> Iterator[Any]:
        return (partition for partitions in self.topics.values() for partition in partitions)
