"""Simulates the replicas of a partition: leader, in-sync replicas and failover."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Replicas:
    """The replicas of one partition.

    Attributes:
        brokers: brokers with a replica, the preferred leader first.
        leader: the broker that serves writes and reads; None while no in-sync replica is online.
        in_sync: brokers that have everything committed.
        ends: the next offset of each replica.
    """

    brokers: tuple[int, ...]
    leader: int | None = field(init=False)
    in_sync: list[int] = field(init=False)
    ends: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        self.leader, self.in_sync, self.ends = self.brokers[0], list(self.brokers), dict.fromkeys(self.brokers, 0)

    @property
    def end(self) -> int:
        """The next offset of the leader, or of the last in-sync replica."""
        return self.ends[self.leader if self.leader is not None else self.in_sync[0]]

    @property
    def high(self) -> int:
        """The high watermark: the end of what all in-sync replicas have."""
        return min(self.ends[broker] for broker in self.in_sync)

    def write(self, *, to_all: bool) -> None:
        """Append one record to the leader, and with ``to_all`` to all in-sync replicas."""
        if self.leader is not None:
            self.ends[self.leader] += 1
        if to_all:
            self.catch_up()

    def catch_up(self) -> None:
        """Let every in-sync replica fetch what the leader has."""
        self.ends |= dict.fromkeys(self.in_sync, self.end)

    def lose(self, broker: int) -> None:
        """Fail a broker: another in-sync replica leads, and what only the old leader had is lost."""
        others = [each for each in self.in_sync if each != broker]
        if not others:
            self.leader = None
            return
        self.in_sync = others
        if self.leader == broker:
            self.leader = others[0]

    def regain(self, broker: int) -> None:
        """Restart a broker: it leads if nothing else can, otherwise it follows."""
        if self.leader is None:
            self.leader = broker if broker in self.in_sync else None
        elif broker in self.brokers and broker not in self.in_sync:
            self.ends[broker] = self.end
            self.in_sync = [each for each in self.brokers if each in self.in_sync or each == broker]


def spread(partitions: int, replicas: int, brokers: int) -> list[Replicas]:
    """Distribute the replicas of a topic evenly over brokers 1 to ``brokers``.

    Example:
        >>> [copies.brokers for copies in spread(4, 2, 3)]
        [(1, 2), (2, 3), (3, 1), (1, 2)]
    """
    return [Replicas(tuple((number + copy) % brokers + 1 for copy in range(replicas))) for number in range(partitions)]
