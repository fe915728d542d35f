"""A member of a consumer group, and how a wanted assignment becomes what can be done now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from kstreamnb.simulation.consumer_group.state import TaskStates

__all__ = ["Listener", "Member", "choose_standbys", "settle"]

Listener = Callable[[str, tuple[str, ...]], None]
"""Told "revoked", then "assigned", each with partitions."""


@dataclass
class Member:
    """Somebody who reads: what it owns, from where it goes on, and when it was last heard of.

    ``silent_since_ms`` is when its heartbeats ended, ``busy_since_ms`` when it was given the records it works on.
    """

    name: str
    capacity: int
    listener: Listener | None
    owned: tuple[str, ...] = ()
    positions: dict[str, int] = field(default_factory=dict)
    silent_since_ms: int | None = None
    busy_since_ms: int | None = None


def settle(
    wanted: Mapping[str, tuple[str, ...]], before: Mapping[str, str], states: TaskStates
) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """What is done of an assignment now, and which members shall read ahead first, by partition.

    A partition whose owner lives stays there until the one who shall have it has read its state but for a little.
    """
    now: dict[str, list[str]] = {member: [] for member in wanted}
    warmups: dict[str, str] = {}
    for member, partitions in wanted.items():
        for partition in partitions:
            owner = before.get(partition)
            stays = owner in wanted and owner != member and not states.is_ready(member, partition)
            if stays:
                warmups[partition] = member
            now[owner if stays and owner is not None else member].append(partition)
    return {member: tuple(partitions) for member, partitions in now.items()}, warmups


def choose_standbys(members: Iterable[Member], replicas: int) -> dict[str, tuple[str, ...]]:
    """Who keeps a copy of whose state: for each partition those that have least to do and do not own it."""
    members = list(members)
    standbys: dict[str, tuple[str, ...]] = {member.name: () for member in members}
    for partition, owner in [(partition, member) for member in members for partition in member.owned]:
        others = [member for member in members if member is not owner]
        others.sort(key=lambda member: (len(member.owned) + len(standbys[member.name])) / member.capacity)
        for member in others[:replicas]:
            standbys[member.name] += (partition,)
    return standbys
