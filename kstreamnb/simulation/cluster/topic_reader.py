"""Reads a topic as a consumer does: each record once, in the order of writes, as its isolation allows."""

from __future__ import annotations

from kstreamnb.core.record import TopicRecord
from kstreamnb.core.serde import Serde
from kstreamnb.simulation.cluster.broker import Broker, Isolation, LogRecord


class TopicReader:
    """Reads all partitions of one topic for an `OutputTopic`."""

    def __init__(self, broker: Broker, topic: str, isolation: Isolation) -> None:
        self._broker, self._topic, self._isolation = broker, topic, isolation
        self._positions: dict[int, int] = {}
        self._ahead: list[tuple[int, int, LogRecord]] = []

    def __len__(self) -> int:
        """Return the number of records that can be read now."""
        for number, partition in enumerate(self._broker.topics.get(self._topic, ())):
            result, self._positions[number] = partition.read(self._positions.get(number, 0), None, self._isolation)
            self._ahead += [(record.sequence, number, record) for record in result]
        self._ahead.sort()
        return len(self._ahead)

    def take(self, key_serde: Serde, value_serde: Serde) -> TopicRecord:
        """Return the next record."""
        _, number, record = self._ahead.pop(0)
        return record.read(self._topic, number, (key_serde, value_serde))
