"""Where the copies of a partition lie: a leader, replicas in sync with it, and who leads when it fails."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Replicas", "spread"]


@dataclass
class Replicas:
    """The copies of one partition.

    Attributes:
        brokers: who keeps a copy, the preferred leader first.
        leader: who is written to and read from; None while no replica in sync is there.
        in_sync: who has all that is committed.
        ends: the next offset of each copy.
    """

    brokers: tuple[int, ...]
    leader: int | None = field(init=False)
    in_sync: list[int] = field(init=False)
    ends: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        self.leader, self.in_sync, self.ends = self.brokers[0], list(self.brokers), dict.fromkeys(self.brokers, 0)

    @property
    def end(self) -> int:
        """The next offset of the leader's copy, or of the last one's that was in sync."""
        return self.ends[self.leader if self.leader is not None else self.in_sync[0]]

    @property
    def high(self) -> int:
        """Up to where every replica in sync has the records: what is committed, and what readers see."""
        return min(self.ends[broker] for broker in self.in_sync)

    def write(self, *, to_all: bool) -> None:
        """One more record: in the leader's copy, and in those of all others in sync."""
        if self.leader is not None:
            self.ends[self.leader] += 1
        if to_all:
            self.catch_up()

    def catch_up(self) -> None:
        """Let every replica in sync fetch what the leader has."""
        self.ends |= dict.fromkeys(self.in_sync, self.end)

    def lose(self, broker: int) -> None:
        """A broker fails: another replica in sync leads, and what only the old leader had is gone with it."""
        if broker not in self.in_sync:
            return
        others = [each for each in self.in_sync if each != broker]
        if not others:
            self.leader = None
            return
        self.in_sync = others
        if self.leader == broker:
            self.leader = others[0]

    def regain(self, broker: int) -> None:
        """A broker comes back: it leads again if nobody else could, else it follows from what is there now."""
        if broker not in self.brokers or (broker in self.in_sync and self.leader is not None):
            return
        if self.leader is None:
            if broker in self.in_sync:
                self.leader = broker
            return
        self.ends[broker] = self.end
        self.in_sync = [each for each in self.brokers if each in self.in_sync or each == broker]


def spread(partitions: int, replicas: int, brokers: int) -> list[Replicas]:
    """Copies of a topic's partitions over brokers 1 to ``brokers``: each leads as many as any other, but for one.

    Example:
        >>> [copies.brokers for copies in spread(4, 2, 3)]
        [(1, 2), (2, 3), (3, 1), (1, 2)]
    """
    return [Replicas(tuple((number + copy) % brokers + 1 for copy in range(replicas))) for number in range(partitions)]
