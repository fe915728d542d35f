"""Compares the stores of applications with their changelogs and with the committed input."""

from __future__ import annotations

from collections.abc import Mapping

from kstreamnb.simulation.cluster.broker import Broker
from kstreamnb.simulation.cluster.restore import folded
from kstreamnb.simulation.cluster.shadow_task import ShadowTask
from kstreamnb.simulation.cluster.stream_task import StreamTask
from kstreamnb.testdriver.execution.state_consistency import StateCheck, StateDifference, differences


def check_state(tasks: Mapping[str, StreamTask], broker: Broker, shadow_tasks: Mapping[str, ShadowTask]) -> StateCheck:
    """Compare every store with its changelog and, if there are shadow tasks, with the committed input."""
    result: list[StateDifference] = []
    looked = 0
    for task_id, task in tasks.items():
        for name, store in task.task.stores.items():
            expected = folded(task.task, store, broker)
            if expected is not None:
                looked += 1
                result += differences(task_id, store, expected, "changelog")
            # With a cache a buffer's old values depend on when entries were evicted, which a restart changes.
            caches = store.spec.kind == "internal" and task.task.plan.config.cache_max_bytes > 0
            if task_id in shadow_tasks and not caches:
                result += differences(task_id, store, shadow_tasks[task_id].task.stores[name], "input")
    return StateCheck(tuple(result), looked)
