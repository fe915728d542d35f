"""Pairs the stores of a running query with the same stores rebuilt from the checkpoint and from changelog topics."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kstreamnb.errors import ApplicationStateError
from kstreamnb.spark.execution.state_codec import unpack_delta
from kstreamnb.spark.execution.worker_cache import AnyTask, empty_task
from kstreamnb.spark.io.changelog_topics import Changelogs
from kstreamnb.spark.io.sinks import KafkaSink
from kstreamnb.spark.planning.deployment import Deployment
from kstreamnb.spark.query.query import Query
from kstreamnb.spark.state.checkpoint_reader import last_batch, read_states
from kstreamnb.spark.state.store_view import stores_named, tasks_with
from kstreamnb.state.store import Store
from kstreamnb.state.versioned import VersionedRows

if TYPE_CHECKING:  # Kafka's client is loaded by connections alone
    from kstreamnb.kafka.client import Servers

__all__ = ["RebuiltStore", "rebuilt_stores"]

_COMMIT_S = 30.0


class RebuiltStore(NamedTuple):
    """A store of a task, and the same store rebuilt from ``origin``: "log" (the checkpoint) or "changelog"."""

    task: str
    store: Store
    rebuilt: Store
    origin: str


def rebuilt_stores(query: Query) -> Iterator[RebuiltStore]:
    """Rebuild every store of every task; nothing is published meanwhile, so that all are of the same batch.

    Raises:
        ApplicationStateError: a batch was published that the checkpoint has not committed.
    """
    with query.control.action.busy:
        _await_commit(query)
        states = read_states(query.spark, query.deployment, query.checkpoint)
        rebuilt = {}
        for placed in query.deployment.tasks:
            rebuilt[placed.name] = empty_task(query.deployment, placed)
            for delta in states.get(placed.name, ()):
                rebuilt[placed.name].apply_delta(unpack_delta(delta, trust=True))
        for name in sorted(query.topology.stores):
            pairs = [
                (placed.plan.task_id, store)
                for placed in tasks_with(query.deployment, name)
                for store in stores_named(rebuilt[placed.name], name)
            ]
            _, current = query.control.action.stores.ask(name, list)
            for (task, again), store in zip(pairs, current, strict=True):
                yield RebuiltStore(task, store, again, "log")
        sink = query.control.action.sink
        if isinstance(sink, KafkaSink) and sink.changelogs is not None:
            yield from _from_changelogs(query.deployment, sink.writer.servers, rebuilt)


def _await_commit(query: Query) -> None:
    """Wait until the batch that was published last is in Spark's log of commits."""
    number, end = query.control.action.last.number, time.monotonic() + _COMMIT_S
    while last_batch(query.checkpoint) < number:
        if time.monotonic() > end or not query.is_active():
            raise ApplicationStateError(
                f"batch {number} is published, but not committed in the checkpoint",
                hint="call query.restart(), which repeats it, then compare again",
            )
        time.sleep(0.02)


def _from_changelogs(
    deployment: Deployment, servers: Servers, rebuilt: Mapping[str, AnyTask]
) -> Iterator[RebuiltStore]:
    """Pair the stores that the log makes with the same stores made from their changelog topics."""
    from kstreamnb.kafka.bounded_reader import BoundedReader, fetch, pieces_between
    from kstreamnb.kafka.capture import ends_of

    topics = {topic.store: topic.name for topic in Changelogs(deployment).topics}
    reader = BoundedReader(servers, topics.values())
    entries: dict[tuple[str, int], list[tuple[object, object, int]]] = {}
    for topic, partition, records in fetch(servers, pieces_between(reader.beginning(), ends_of(reader))):
        entries.setdefault((topic, partition), []).extend((key, value, at) for _, at, key, value, _ in records)
    for placed in deployment.tasks:
        from_topics = empty_task(deployment, placed).stores
        for full, store in rebuilt[placed.name].stores.items():
            member, _, name = full.rpartition("/")
            if name in topics and not isinstance(store, VersionedRows):  # the topic has their latest versions only
                partition = int(member.rpartition("_")[2]) if member else placed.plan.partition
                from_topics[full].restore_changelog(entries.get((topics[name], partition), ()))
                yield RebuiltStore(placed.plan.task_id, store, from_topics[full], "changelog")
