"""Simulates topics by offsets alone: start, high watermark and end of each partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kstreamnb.errors import EngineError
from kstreamnb.hints import expect_known


@dataclass
class PartitionOffsets:
    """``start`` is the oldest record, ``end`` the next to be written; readers see records below ``high``."""

    start: int = 0
    high: int = 0
    end: int = 0


class OffsetLog:
    """Partitions to append to; any number of groups read them independently.

    Example:
        >>> log = OffsetLog({"logs": 2})
        >>> log.append("logs-0", 6)
        >>> log.append("logs-0", 3, replicated=False)
        >>> log["logs-0"]
        PartitionOffsets(start=0, high=6, end=9)
    """

    def __init__(self, topics: Mapping[str, int]) -> None:
        self._partitions: dict[str, PartitionOffsets] = {}
        for topic, partitions in topics.items():
            self.add_partitions(topic, partitions)

    def __getitem__(self, partition: str) -> PartitionOffsets:
        expect_known("partition", [partition], self._partitions, error=EngineError)
        return self._partitions[partition]

    @property
    def partitions(self) -> tuple[str, ...]:
        """All partitions, such as ``logs-0``."""
        return tuple(self._partitions)

    def append(self, partition: str, records: int = 1, *, replicated: bool = True) -> None:
        """Append records; readers see them once they are replicated."""
        self[partition].end += records
        if replicated:
            self.replicate(partition)

    def replicate(self, partition: str) -> None:
        """Replicate: move the high watermark to the end."""
        self[partition].high = self[partition].end

    def expire(self, partition: str, before: int) -> None:
        """Expire records older than an offset, as retention does."""
        self[partition].start = max(self[partition].start, min(before, self[partition].high))

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Increase a topic's partition count."""
        for number in range(partitions):
            self._partitions.setdefault(f"{topic}-{number}", PartitionOffsets())
