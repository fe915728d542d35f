"""Ends a query such that an application in Java continues with its state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kstreamnb.background import wait_until
from kstreamnb.core.operator import EMITTED
from kstreamnb.errors import ApplicationStateError
from kstreamnb.kafka.batch_offsets import Offsets
from kstreamnb.kafka.offset_metadata import CommittedOffset, OffsetMetadata, commit_offsets
from kstreamnb.runtime.task.task import Task
from kstreamnb.spark.execution.cyclic_task import single_tasks, stream_times
from kstreamnb.spark.io.changelog_topics import changelog_topics, create_owned
from kstreamnb.spark.io.sinks import KafkaSink
from kstreamnb.spark.state.checkpoint_reader import last_batch, last_begun, read_tasks
from kstreamnb.topology.partitions import owned_topics

if TYPE_CHECKING:
    from kstreamnb.kafka.admin import Admin
    from kstreamnb.spark.query.query import Query

_ATTEMPTS, _END_S, _PATIENCE_S = 3, 30.0, 120.0


@dataclass(frozen=True)
class HandOver:
    """The state that an application in Java starts with; printing it says what to do.

    Attributes:
        application: value of Java's ``application.id``.
        offsets: committed offsets of input and repartition topics.
        stream_times: stream time (ms) by task.
        changelogs: the topics from which Java restores its stores.
        lost: state that is in no topic, so that Java starts without it.
    """

    application: str
    offsets: Offsets = field(repr=False)
    stream_times: Mapping[str, int] = field(repr=False)
    changelogs: tuple[str, ...]
    lost: tuple[str, ...]

    def __str__(self) -> str:
        lines = [
            f'start the same topology in Java with application.id "{self.application}"',
            "  it needs equal names of stores and repartition topics; compare topology.describe() with Java's",
            f"  it restores from {', '.join(self.changelogs) or 'no changelog: no store has one'}",
        ]
        for topic, parts in sorted(self.offsets.items()):
            lines.append(f"  {topic}: " + ", ".join(f"{part}: {offset}" for part, offset in sorted(parts.items())))
        return "\n".join([*lines, *(f"  not in Kafka: {each}" for each in self.lost)])


def hand_over(query: Query, timeout_s: float) -> HandOver:
    """Process what the input topics have now, stop, and commit offsets with stream times for Kafka Streams."""
    sink = query.control.action.sink
    if not isinstance(sink, KafkaSink) or not query.deployment.options.changelogs:
        fact = f'the query of "{query.application}" writes no changelogs, from which Java would restore'
        raise ApplicationStateError(fact, hint="deploy(…, changelogs=True) on the same checkpoint, then hand it over")
    _drain(query, timeout_s)
    query.control.action.resume(query.control.files)
    tasks = single_tasks(read_tasks(query.spark, query.deployment, query.control.files).values())
    positions = query.control.action.last.positions
    application = query.deployment.application
    from kstreamnb.kafka.admin import Admin

    admin = Admin(sink.writer.servers, patience_s=_PATIENCE_S)
    inner = _repartition_topics(query, admin)
    offsets = {topic: parts for topic, parts in positions.items() if topic in application.external} | inner
    commit_offsets(admin, application.id, list(_with_times(tasks, offsets)))
    logs = tuple(topic.name for topic in changelog_topics(query.deployment))
    return HandOver(application.id, offsets, stream_times(tasks), logs, tuple(_lost(query)))


def _drain(query: Query, timeout_s: float) -> None:
    """Stop after a batch that the checkpoint has committed, with nothing left to read."""
    files = query.control.files
    for _ in range(_ATTEMPTS):
        if not query.is_active():
            query.restart()
        if not query.await_input(timeout_s):
            fact = f'"{query.application}" has not processed its input within {timeout_s:g} s'
            hint = "call hand_over(timeout_s=…) with more time, or stop its producers first"
            raise ApplicationStateError(fact, hint=hint)
        # A query that was started again may repeat a batch although all input is processed.
        wait_until(lambda: last_begun(files) == last_batch(files) or not query.is_active(), timeout_s)
        query.stop()
        wait_until(lambda: not query.is_active(), _END_S)
        if last_begun(files) == last_batch(files):
            return
    fact = f'"{query.application}" did not finish its last batch'
    raise ApplicationStateError(fact, hint="call hand_over() again once its input is idle")


def _repartition_topics(query: Query, admin: Admin) -> Offsets:
    """Create the repartition topics, which the query itself does not use; returns their ends."""
    application = query.deployment.application
    owned = owned_topics(application.topology, application.id, application.partitions)
    inner = [topic for topic in owned if topic.kind == "repartition"]
    create_owned(admin, inner, application.config.replication_factor)
    return admin.offsets([topic.name for topic in inner], committed=False)


def _with_times(tasks: list[Task], offsets: Offsets) -> Iterator[CommittedOffset]:
    """Yield every offset with the stream time of the task that reads it, and up to where that has emitted windows."""
    times: dict[tuple[str, int], OffsetMetadata] = {}
    for task in tasks:
        nodes = task.plan.topology.nodes
        ends = ((node, state_var[0]) for (node, name), state_var in task.context.state_vars.items() if name == EMITTED)
        emitted = {nodes[node].stores[0]: end for node, end in ends if end >= 0}
        for topic in offsets:
            if task.plan.source_of(topic) is not None:
                times[topic, task.plan.partition] = OffsetMetadata(task.context.stream_time[0], emitted)
    for topic, parts in offsets.items():
        for partition, offset in parts.items():
            yield topic, partition, offset, times.get((topic, partition), OffsetMetadata())


def _lost(query: Query) -> Iterator[str]:
    topology = query.topology
    for name, store in sorted(topology.stores.items()):
        if not store.logged and store.changelog_topic is None:
            yield f'store "{name}", which has no changelog'
    for name, node in topology.nodes.items():
        if node.traits.user_code:
            yield f'attributes and punctuation times of processor "{name}"'
