"""Moves an application's state to another number of partitions."""

from __future__ import annotations

from typing import Any

from kstreamnb.core.codec import key_partitioner
from kstreamnb.core.record import Headers
from kstreamnb.core.serdes import WindowedSerde
from kstreamnb.core.time import Clock
from kstreamnb.errors import EngineError
from kstreamnb.runtime.task.task import Task
from kstreamnb.simulation.cluster.broker import Broker, PartitionLog
from kstreamnb.simulation.cluster.restore import changelog_of, folded
from kstreamnb.simulation.cluster.thread_context import EventLog
from kstreamnb.state.codec import headers_of


def move_state(tasks: list[Task], count: int, broker: Broker, clock: Clock, log_event: EventLog) -> int:
    """Rewrite every changelog with ``count`` partitions, each row in its key's partition; return the rows moved."""
    moved = 0
    for name in dict.fromkeys(name for task in tasks for name in task.stores):
        own = [(task, task.stores[name]) for task in tasks if name in task.stores]
        topic = changelog_of(*own[0])
        if topic is None or not own[0][1].spec.logged:
            continue
        if own[0][1].spec.kind == "internal":
            raise EngineError(f'store "{name}" buffers records and cannot be moved', hint="drain the input first")
        rows: list[tuple[int, Any, Any, Headers]] = []
        for task, store in own:
            source = folded(task, store, broker)
            serde = source.spec.key_serde  # windowed tables are where their records came from: by the inner key
            partition_of = key_partitioner(serde, count, by_inner=isinstance(serde, WindowedSerde))
            for raw_key, row in source.raw.items():
                if raw_key is not None:
                    key = raw_key if source.spec.kind in _BY_KEY else raw_key[0]
                    target = partition_of(key)
                    moved += target != task.plan.partition
                    entry = source.changelog_entry(raw_key, row)
                    rows.append((target, entry, _time(source, row, clock), headers_of(row)))
        broker.topics[topic] = [PartitionLog() for _ in range(count)]
        for target, entry, time, headers in rows:
            broker.append(topic, target, time, entry, headers)
        log_event("moved", "", topic, partitions=count, rows=len(rows))
    return moved


_BY_KEY = ("key_value", "timestamped_key_value", "lru")


def _time(store: Any, row: Any, clock: Clock) -> int:
    return int(row[1]) if store.timestamped else clock.now_ms
