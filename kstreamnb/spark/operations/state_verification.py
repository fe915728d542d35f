"""Stores of a query beside what they are made from: its log in the checkpoint, and its changelog topics in Kafka."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kstreamnb.errors import ApplicationStateError
from kstreamnb.spark.execution.state_codec import unpack_delta
from kstreamnb.spark.execution.worker_cache import empty_task
from kstreamnb.spark.io.changelog_topics import Changelogs
from kstreamnb.spark.io.sinks import KafkaSink
from kstreamnb.spark.planning.deployment import Deployment
from kstreamnb.spark.state.checkpoint_reader import last_batch, read_states
from kstreamnb.spark.state.store_view import stores_named, tasks_with
from kstreamnb.state.versioned import VersionedRows

if TYPE_CHECKING:  # a query knows nothing of it
    from kstreamnb.spark.query.query import Query

__all__ = ["Beside", "stores_beside"]

Beside = tuple[str, Any, Any, str]
"""Task, its store as this process keeps it up to date, the same store made anew, and of what: "log" or "changelog"."""

_COMMIT_S = 30.0


def stores_beside(query: Query) -> Iterator[Beside]:
    """Every store of every task, made anew; nothing is published meanwhile, so that all are of one batch.

    Raises: ApplicationStateError where a batch was published that the checkpoint has not committed.
    """
    with query.control.action.busy:
        _await_commit(query)
        states = read_states(query.spark, query.deployment, query.checkpoint)
        again = {}
        for placed in query.deployment.tasks:
            again[placed.name] = empty_task(query.deployment, placed)
            for delta in states.get(placed.name, ()):
                again[placed.name].apply_delta(unpack_delta(delta, trust=True))
        for name in sorted(query.topology.stores):
            placed_tasks = tasks_with(query.deployment, name)
            labels = [placed.plan.task_id for placed in placed_tasks for _ in stores_named(again[placed.name], name)]
            _, kept = query.control.action.stores.ask(name, list)
            made = [store for placed in placed_tasks for store in stores_named(again[placed.name], name)]
            yield from ((*each, "log") for each in zip(labels, kept, made, strict=True))
        sink = query.control.action.sink
        if isinstance(sink, KafkaSink) and sink.changelogs is not None:
            yield from _beside_changelogs(query.deployment, sink.writer.servers, again)


def _await_commit(query: Query) -> None:
    """The batch that was published last may still be on its way into Spark's log of commits."""
    number, end = query.control.action.last.number, time.monotonic() + _COMMIT_S
    while last_batch(query.checkpoint) < number:
        if time.monotonic() > end or not query.is_active():
            raise ApplicationStateError(
                f"batch {number} is published, but not committed in the checkpoint",
                hint="query.restart() takes it up again; compare after that",
            )
        time.sleep(0.02)


def _beside_changelogs(deployment: Deployment, servers: Any, again: dict[str, Any]) -> Iterator[Beside]:
    """The stores that the log makes, beside new ones that their changelog topics make."""
    from kstreamnb.kafka.bounded_reader import BoundedReader, fetch, pieces_between
    from kstreamnb.kafka.capture import ends_of

    topics = {topic.store: topic.name for topic in Changelogs(deployment).topics}
    reader = BoundedReader(servers, topics.values())
    entries: dict[tuple[str, int], list[tuple[Any, Any, int]]] = {}
    for topic, partition, records in fetch(servers, pieces_between(reader.beginning(), ends_of(reader))):
        entries.setdefault((topic, partition), []).extend((key, value, at) for _, at, key, value, _ in records)
    for placed in deployment.tasks:
        made = empty_task(deployment, placed).stores
        for full, store in again[placed.name].stores.items():
            member, _, name = full.rpartition("/")
            if name in topics and not isinstance(store, VersionedRows):  # the topic has their latest versions only
                partition = int(member.rpartition("_")[2]) if member else placed.plan.partition
                made[full].restore_changelog(entries.get((topics[name], partition), ()))
                yield placed.plan.task_id, store, made[full], "changelog"
