"""Displays of a consumer group: events, positions and pauses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kstreamnb.core.formatting import pluralize
from kstreamnb.core.tables import Tabular
from kstreamnb.core.time import format_duration
from kstreamnb.recording.offset_table import OffsetRow, OffsetTable
from kstreamnb.recording.timeline import Timeline


@dataclass(frozen=True)
class GroupEvent:
    """One event of a group.

    Attributes:
        at_ms: the clock time.
        kind: "joined", "left", "crashed", "timed out", "polled too late", "rebalanced", "probed", "revoked",
            "assigned", "warming up", "warmed up", "polled", "committed", "out of range" or "reset".
        member: the member; "" for the group.
        partitions: the partitions concerned.
        words: details as text.
        moved: of a rebalance, the number of partitions that changed owners.
        paused: the number of partitions that were paused.
    """

    at_ms: int
    kind: str
    member: str = ""
    partitions: tuple[str, ...] = ()
    words: str = ""
    moved: int = 0
    paused: int = 0


class GroupEvents(Timeline[GroupEvent]):
    """The timeline of a group; ``events("rebalanced")`` selects events by kind."""

    header = ("after", "what", "member", "partitions", "")

    def table(self) -> Iterator[tuple[str, ...]]:
        """Yield each event as text."""
        for event in self._items:
            yield format_duration(event.at_ms), event.kind, event.member, ", ".join(event.partitions), event.words


class Position(NamedTuple):
    """A partition as its group sees it; None for an offset that does not exist."""

    partition: str
    owner: str
    committed: int | None
    position: int | None
    start: int
    high: int
    end: int
    metadata: str

    @property
    def lag(self) -> int | None:
        """Visible records that the group has not committed."""
        return None if self.committed is None else self.high - self.committed


class KeyHolder(NamedTuple):
    """Where a key is: its partition, the member that owns it, "" for none, and the members with a standby copy."""

    partition: str
    member: str
    standbys: tuple[str, ...]


class GroupPositions(OffsetTable, tuple[Position, ...]):
    """The positions of a group in each partition."""

    header = ("partition", "owner", "committed", "position", "high watermark", "end", "lag", "metadata")

    @property
    def title(self) -> str:
        """Count partitions and lag."""
        lags = [each.lag for each in self if each.lag is not None]
        return f"{pluralize(len(self), 'partition')}, {f'lag {sum(lags):,}' if lags else 'nothing committed'}"

    def table(self) -> Iterator[tuple[str, ...]]:
        """Yield one row per partition."""
        for each in self:
            numbers = (each.committed, each.position, each.high, each.end, each.lag)
            texts = ("" if number is None else str(number) for number in numbers)
            yield each.partition, each.owner, *texts, each.metadata

    @property
    def offset_rows(self) -> Iterator[OffsetRow]:
        """A row for each partition, with the group's offsets."""
        for each in self:
            yield OffsetRow(each.partition, each.start, each.high, each.end, each.owner, each.committed, each.position)


class Pause(NamedTuple):
    """A pause of a partition: its start, when it was noticed, and when processing resumed."""

    partition: str
    member: str
    from_ms: int
    noticed_ms: int
    restored: int
    until_ms: int

    @property
    def length_ms(self) -> int:
        """The total length (ms)."""
        return self.until_ms - self.from_ms


class GroupPauses(Tabular, tuple[Pause, ...]):
    """Pauses caused by rebalances: each partition, its new owner, and the wait."""

    header = ("partition", "taken over by", "not noticed for", "records restored", "restored for", "paused for")

    @property
    def longest_ms(self) -> int:
        """The longest pause (ms); 0 if there was none."""
        return max((each.length_ms for each in self), default=0)

    @property
    def title(self) -> str:
        """Count the pauses, and name the longest."""
        return f"{pluralize(len(self), 'pause')}, the longest {format_duration(self.longest_ms)}"

    def table(self) -> Iterator[tuple[str, ...]]:
        """Yield one row per pause."""
        for each in self:
            spans = each.noticed_ms - each.from_ms, each.until_ms - each.noticed_ms, each.length_ms
            noticed, restoring, paused = map(format_duration, spans)
            yield each.partition, each.member, noticed, f"{each.restored:,}", restoring, paused
