"""Checks of the exercises on the log, partitions and keys."""

from __future__ import annotations

import kstreamnb as ks
from kstreamnb.course.judging import called

_PARTITIONS = 4
_MACHINES = ("web-1", "web-2", "db-1", "db-2", "cache")


def _by_level(answer: object) -> str:
    for count in (_PARTITIONS, _PARTITIONS - 1):
        log = ks.simulation.Log()
        log.create_topic("logs", partitions=count)
        reached: dict[tuple[str, bool], set[int]] = {}
        for machine in _MACHINES:
            for level in ("INFO", "ERROR", "WARNING", "INFO"):
                value = {"level": level}
                chosen = called(answer, "logs", machine, value, count)
                if chosen is not None and not (isinstance(chosen, int) and 0 <= chosen < count):
                    numbers = f"{count} partitions are the whole numbers 0 to {count - 1}"
                    return f"the function returns {chosen!r}; {numbers}."
                partition = log.append("logs", machine, value, partition=chosen).partition
                reached.setdefault((machine, level == "ERROR"), set()).add(partition)
        reason = _misplaced(reached, count - 1)
        if reason:
            return reason
    return ""


def _misplaced(reached: dict[tuple[str, bool], set[int]], last: int) -> str:
    for (machine, is_error), partitions in reached.items():
        if is_error and partitions != {last}:
            return f"an error of {machine} is in partition {min(partitions)}, not in the last one, {last}."
        if not is_error and last in partitions:
            return f"a line of {machine} that is not an error is in the last partition."
        if len(partitions) > 1:
            return f"lines of {machine} are in partitions {sorted(partitions)}: their order is lost."
    if len({partition for partitions in reached.values() for partition in partitions}) < last:
        return "all other lines are in one partition: spread the machines."
    return ""


JUDGES = {"log.2": _by_level}
