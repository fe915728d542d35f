"""Restores stores: first from the state directory, then from the changelog."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kstreamnb.core.time import Clock
from kstreamnb.runtime.context.task_context import TaskContext, make_stores
from kstreamnb.runtime.task.task import Task
from kstreamnb.simulation.cluster.broker import Broker, LogRecord
from kstreamnb.simulation.cluster.thread_context import ThreadContext
from kstreamnb.state.store import ChangelogBytes, Store
from kstreamnb.topology.partitions import changelog_topic


def changelog_of(task: Task, store: Store) -> str | None:
    """Return the topic that a store is restored from; None if it is not logged."""
    if not store.spec.logged and store.spec.changelog_topic is None:
        return None
    return changelog_topic(task.plan.application_id, store.spec)


def restore_store(task: Task, store: Store, context: ThreadContext) -> None:
    """Fill a store from the state directory and the tail of its changelog."""
    topic, task_id = changelog_of(task, store), task.plan.task_id
    rows, start = context.state_directory.read(task_id, store.name)
    if rows:
        store.restore(rows)
    if topic is None:
        return
    records, end = _log_of(task, store, topic, context.cluster.broker, start)
    store.restore_changelog(_entries(records))
    if end:
        context.log_event("restored", task_id, store.name, records=len(records), from_offset=start, to_offset=end)


def folded(task: Task, store: Store, broker: Broker) -> Any:
    """Return a new store built from the changelog alone; None if it is not logged."""
    topic = changelog_of(task, store)
    if topic is None:
        return None
    result = make_stores(TaskContext(task.plan, Clock(), None), [store.spec])[store.name]
    result.restore_changelog(_entries(_log_of(task, store, topic, broker, 0)[0]))
    return result


def _log_of(task: Task, store: Store, topic: str, broker: Broker, start: int) -> tuple[list[LogRecord], int]:
    """Return records of a changelog after an offset; of an input topic used as changelog, only those processed."""
    key = topic, task.plan.partition
    if task.plan.partition >= len(broker.topics.get(topic, ())):
        return [], 0
    partition = broker.partition(*key)
    if store.spec.logged:
        return partition.read(start, None, "read_committed")
    done = broker.committed.get((task.plan.application_id, *key), 0)
    return partition.read(start, max(done - start, 0), "read_committed")[0], done


def _entries(records: Iterable[LogRecord]) -> Iterable[ChangelogBytes]:
    return ((record.key or b"", record.value, record.timestamp, record.headers) for record in records)
