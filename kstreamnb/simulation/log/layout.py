"""Describes a topic: leaders, replicas and offsets per partition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kstreamnb.core.formatting import pluralize
from kstreamnb.recording.offset_table import OffsetRow, OffsetTable


class PartitionLayout(NamedTuple):
    """One partition; ``leader`` is None and ``in_sync`` empty while it is offline."""

    partition: str
    leader: int | None
    brokers: tuple[int, ...]
    in_sync: tuple[int, ...]
    start: int
    high: int
    end: int


@dataclass(frozen=True)
class TopicLayout(OffsetTable):
    """A topic, as ``kafka-topics --describe`` shows it."""

    name: str
    replicas: int
    layout: tuple[PartitionLayout, ...]

    header = ("partition", "leader", "replicas", "in sync", "start", "high watermark", "end")

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return len(self.layout)

    @property
    def title(self) -> str:
        """Return name, partitions and replicas."""
        return f'topic "{self.name}": {pluralize(self.partitions, "partition")}, {pluralize(self.replicas, "replica")}'

    def table(self) -> Iterator[tuple[str, ...]]:
        """Yield one row per partition."""
        for each in self.layout:
            leader = "none" if each.leader is None else str(each.leader)
            copies = (", ".join(map(str, brokers)) for brokers in (each.brokers, each.in_sync))
            yield each.partition, leader, *copies, str(each.start), str(each.high), str(each.end)

    @property
    def offset_rows(self) -> Iterator[OffsetRow]:
        """Each partition with what is written and visible."""
        for each in self.layout:
            yield OffsetRow(each.partition, each.start, each.high, each.end)
