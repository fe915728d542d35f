"""Restores stores from their changelog topics: of this query, or of an application in Java."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kstreamnb.kafka.batch_offsets import Offsets
from kstreamnb.spark.execution.cyclic_task import AnyTask
from kstreamnb.spark.execution.worker_cache import empty_task
from kstreamnb.spark.planning.deployment import Deployment, TaskPlacement
from kstreamnb.state.store import ChangelogBytes
from kstreamnb.topology.partitions import changelog_topic

if TYPE_CHECKING:  # Kafka's client is loaded by connections alone
    from kstreamnb.kafka.client import Servers

Entries = dict[tuple[str, int], list[ChangelogBytes]]
"""By topic and partition: key, value, timestamp and headers of its records."""


def logged_stores(deployment: Deployment) -> dict[str, str]:
    """Return the topics from which stores can be restored, by store: changelogs, or the topic that a table reads."""
    application = deployment.application
    stores = application.topology.stores.items()
    kept = ((name, store) for name, store in stores if store.logged or store.changelog_topic is not None)
    return {name: changelog_topic(application.id, store) for name, store in kept}


def read_topics(servers: Servers, topics: Mapping[str, str], until: Offsets) -> Entries:
    """Read topics, each once, up to the last stable offset, or up to given offsets."""
    from kstreamnb.kafka.bounded_reader import BoundedReader, fetch, pieces_between
    from kstreamnb.kafka.capture import ends_of

    names = sorted(set(topics.values()))
    if not names:
        return {}
    reader = BoundedReader(servers, names)
    end = {topic: {**parts, **until.get(topic, {})} for topic, parts in ends_of(reader).items()}
    entries: Entries = {}
    for topic, partition, records in fetch(servers, pieces_between(reader.beginning(), end)):
        rows = ((key or b"", value, at, headers) for _, at, key, value, headers in records)
        entries.setdefault((topic, partition), []).extend(rows)
    return entries


def stores_of(placed: TaskPlacement, task: AnyTask) -> Iterator[tuple[str, int, Any]]:
    """Yield name, partition and store of all stores of a task; those of a cycle have a member before their names."""
    for full, store in task.stores.items():
        member, _, name = full.rpartition("/")
        yield name, int(member.rpartition("_")[2]) if member else placed.plan.partition, store


def restore_tasks(deployment: Deployment, topics: Mapping[str, str], entries: Entries) -> dict[str, AnyTask]:
    """Return every task with state, by name, with its stores restored from these topics."""
    tasks = {placed.name: empty_task(deployment, placed) for placed in deployment.tasks if placed.stateful}
    for name, topic in topics.items():
        restore_store(deployment, tasks, name, topic, entries)
    return tasks


def restore_store(deployment: Deployment, tasks: Mapping[str, AnyTask], name: str, topic: str, logs: Entries) -> None:
    """Restore one store in all tasks that have it."""
    for placed in deployment.tasks:
        for own, partition, store in stores_of(placed, tasks[placed.name]) if placed.name in tasks else ():
            if own == name:
                store.restore_changelog(logs.get((topic, partition), ()))
