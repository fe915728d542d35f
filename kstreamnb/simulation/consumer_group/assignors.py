"""Assigns partitions to members: pure functions of loads, capacities and the previous assignment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from kstreamnb.errors import EngineError

TasksOf: TypeAlias = dict[str, tuple[str, ...]]
"""The tasks of each member."""

Assignor = Callable[[Mapping[str, int], Mapping[str, int], Mapping[str, tuple[str, ...]]], Mapping[str, Iterable[str]]]
"""Maps the load of each task, the capacity of each member and its previous tasks to its new tasks."""


def sticky(loads: Mapping[str, int], capacities: Mapping[str, int], before: Mapping[str, tuple[str, ...]]) -> TasksOf:
    """Share tasks by capacity; members keep previous tasks where possible.

    A member that gives up tasks gives up its latest, so a returning member gets its own back.

    Example:
        >>> sticky({"in-0": 1, "in-1": 1, "in-2": 1}, {"a": 1, "b": 1}, {"a": ("in-0", "in-1", "in-2")})
        {'a': ('in-0', 'in-1'), 'b': ('in-2',)}
    """
    shares = _shares(len(loads), capacities, before)
    still = {member: [task for task in before.get(member, ()) if task in loads] for member in capacities}
    kept = {member: tasks[: shares[member]] for member, tasks in still.items()}
    taken = {task for tasks in kept.values() for task in tasks}
    free = [task for task in loads if task not in taken]
    for member, tasks in kept.items():
        more = shares[member] - len(tasks)
        tasks += free[:more]
        free = free[more:]
    return {member: tuple(tasks) for member, tasks in kept.items()}


def _shares(count: int, capacities: Mapping[str, int], before: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    """Return each member's number of tasks; remainders go to the largest fraction, then to the largest owner."""
    total = sum(capacities.values())
    split = {member: divmod(count * capacity, total) for member, capacity in capacities.items()}
    shares = {member: whole for member, (whole, _) in split.items()}
    waiting = sorted(split, key=lambda member: (-split[member][1], -len(before.get(member, ()))))
    for member in waiting[: count - sum(shares.values())]:
        shares[member] += 1
    return shares


def check_assignment(assigned: Mapping[str, Iterable[str]], tasks: Iterable[str], members: Iterable[str]) -> TasksOf:
    """Return an assignment in which each task appears once and all members are known; raise EngineError otherwise."""
    result = {member: tuple(assigned.get(member, ())) for member in members}
    given = [task for own in result.values() for task in own]
    wanted = list(tasks)
    wrong = {
        "assigned twice": [task for task in wanted if given.count(task) > 1],
        "not assigned": [task for task in wanted if task not in given],
        "unknown tasks": sorted({task for task in given if task not in wanted}),
        "unknown members": sorted(set(assigned) - set(result)),
    }
    detail = "; ".join(f"{what}: {', '.join(which)}" for what, which in wrong.items() if which)
    if detail:
        fact = "the assignor returned an invalid assignment"
        raise EngineError(fact, detail=detail, hint="assign each task to exactly one member")
    return result
