"""Group members, and the steps from the current to a wanted assignment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from kstreamnb.simulation.consumer_group.assignors import TasksOf
from kstreamnb.simulation.consumer_group.state import TaskStates

Listener = Callable[[str, tuple[str, ...]], None]
"""Called with "revoked", then with "assigned", each with the partitions."""


@dataclass
class Member:
    """A group member: its assignment, positions and last heartbeat.

    ``silent_since_ms`` is when its heartbeats stopped, ``busy_since_ms`` when it received its current records.
    """

    name: str
    capacity: int
    listener: Listener | None
    owned: tuple[str, ...] = ()
    positions: dict[str, int] = field(default_factory=dict)
    silent_since_ms: int | None = None
    busy_since_ms: int | None = None


def settle(wanted: TasksOf, before: Mapping[str, str], states: TaskStates) -> tuple[TasksOf, dict[str, str]]:
    """Return the assignment to make now, and the members that must warm up first, by partition.

    A partition stays with its live owner until the new one has read nearly all of its state.
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


def choose_standbys(members: Iterable[Member], replicas: int) -> TasksOf:
    """Choose standbys for each partition: the least loaded members that do not own it."""
    members = list(members)
    standbys: dict[str, tuple[str, ...]] = {member.name: () for member in members}
    for partition, owner in [(partition, member) for member in members for partition in member.owned]:
        others = [member for member in members if member is not owner]
        others.sort(key=lambda member: (len(member.owned) + len(standbys[member.name])) / member.capacity)
        for member in others[:replicas]:
            standbys[member.name] += (partition,)
    return standbys
