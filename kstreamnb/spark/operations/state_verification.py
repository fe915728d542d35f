"""Pairs the stores of a running query with the same stores rebuilt from the checkpoint and from changelog topics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

from kstreamnb.core.arguments import expect
from kstreamnb.spark.execution.cyclic_task import AnyTask
from kstreamnb.spark.io.changelog_topics import changelog_topics
from kstreamnb.spark.io.sinks import KafkaSink
from kstreamnb.spark.planning.deployment import Deployment
from kstreamnb.spark.query.query import Query
from kstreamnb.spark.state.changelog_restore import read_topics, restore_tasks
from kstreamnb.spark.state.checkpoint_reader import await_commit, read_tasks
from kstreamnb.spark.state.store_view import stores_named, tasks_with
from kstreamnb.state.store import Store
from kstreamnb.state.versioned import VersionedRows

if TYPE_CHECKING:  # Kafka's client is loaded by connections alone
    from kstreamnb.kafka.client import Servers


RebuiltStore: TypeAlias = tuple[str, Store, Store, str]
"""A task, its store, the same store rebuilt, and from what: "log" (the checkpoint) or "changelog"."""


def rebuilt_stores(query: Query) -> Iterator[RebuiltStore]:
    """Rebuild every store of every task; nothing is published meanwhile, so that all belong to the same batch.

    Raises:
        ApplicationStateError: a batch was published that the checkpoint has not committed.
    """
    expect(query, Query, "query", hint="pass what deploy() returns")
    query.control.action.refuse_caller("verify_state")
    with query.control.action.busy:
        await_commit(query.control.files, query.control.action.last.number)
        rebuilt = read_tasks(query.spark, query.deployment, query.control.files)
        for name in sorted(query.deployment.application.running.stores):
            tasks = ((placed.plan.task_id, rebuilt[placed.name]) for placed in tasks_with(query.deployment, name))
            pairs = [(task, store) for task, again in tasks for store in stores_named(again, name)]
            _, current = query.control.action.stores.ask(name, list)
            for (task, again), store in zip(pairs, current, strict=True):
                yield task, store, again, "log"
        sink = query.control.action.sink
        if isinstance(sink, KafkaSink) and query.deployment.options.changelogs:
            yield from _of_changelogs(query.deployment, sink.writer.servers, rebuilt)


def _of_changelogs(deployment: Deployment, servers: Servers, rebuilt: Mapping[str, AnyTask]) -> Iterator[RebuiltStore]:
    """Pair the stores that the log makes with the same stores made from their changelog topics."""
    topics = {topic.store: topic.name for topic in changelog_topics(deployment) if topic.store is not None}
    restored = restore_tasks(deployment, topics, read_topics(servers, topics, {}))
    for placed in (each for each in deployment.tasks if each.stateful):
        for full, store in rebuilt[placed.name].stores.items():
            # Compaction of a topic forgets versions sooner than a store does.
            if full.rpartition("/")[2] in topics and not isinstance(store, VersionedRows):
                yield placed.plan.task_id, store, restored[placed.name].stores[full], "changelog"
