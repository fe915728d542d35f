"""The state that an application has in Kafka: offsets, stream times, records in repartition topics, and stores."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import starmap
from typing import TYPE_CHECKING, Any

from kstreamnb.core.formatting import pluralize
from kstreamnb.core.operator import EMITTED
from kstreamnb.core.progress import under_way
from kstreamnb.errors import KStreamError, SerdeError
from kstreamnb.kafka.batch_offsets import Offsets
from kstreamnb.kafka.offset_metadata import NO_TIME, OffsetMetadata, decode_metadata
from kstreamnb.runtime.context.config import Config
from kstreamnb.runtime.task.task import Task
from kstreamnb.spark.execution.cyclic_task import AnyTask, single_tasks
from kstreamnb.spark.execution.seed import PendingRecords
from kstreamnb.spark.io.changelog_topics import changelog_topics
from kstreamnb.spark.operations import state_checks as checks
from kstreamnb.spark.operations.application_topics import topics_for
from kstreamnb.spark.operations.topic_discovery import application_over
from kstreamnb.spark.planning.deployment import ApplicationPlan, Deployment
from kstreamnb.spark.state.changelog_restore import Entries, logged_stores, read_topics, restore_store, restore_tasks
from kstreamnb.spark.state.store_view import stores_named, tasks_with
from kstreamnb.state.query_views import SessionView, WindowView, view_of
from kstreamnb.topology.partitions import OwnedTopic, uneven_fact, uneven_stores
from kstreamnb.topology.topology import Topology

if TYPE_CHECKING:  # Kafka's client is loaded by connections alone
    from kstreamnb.kafka.admin import Admin


@dataclass
class FoundState:
    """The state of an application, what prevents continuing from it, and what else is worth knowing.

    ``offsets`` are those of input topics, and ``inner`` those of repartition topics.
    """

    deployment: Deployment
    tasks: dict[str, AnyTask] = field(default_factory=dict)
    times: dict[tuple[str, int], OffsetMetadata] = field(default_factory=dict)
    offsets: Offsets = field(default_factory=dict)
    inner: Offsets = field(default_factory=dict)
    pending: PendingRecords = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def find_state(admin: Admin, deployment: Deployment, *, running: bool = False) -> FoundState:
    """Return the state of an application; ``running``: allow that it has members."""
    from kstreamnb.kafka.application_reset import group_offsets, metadata_of, refuse_members

    application, state = deployment.application, FoundState(deployment)
    if not running:
        refuse_members(admin, application.id)
    committed = Offsets()
    for each in group_offsets(admin, application.id):
        committed.setdefault(each.topic, {})[each.partition] = each.offset
        state.times[each.topic, each.partition] = decode_metadata(metadata_of(each))
    _set_offsets(state, admin, committed)
    with under_way(f'restoring "{application.id}": records of repartition topics'):
        _find_pending(state, admin, committed)
    with under_way(f'restoring "{application.id}": stores from their changelogs'):
        _restore(state, admin)
    return state


def _set_offsets(state: FoundState, admin: Admin, committed: Offsets) -> None:
    """Set the offsets of the input topics, and note partitions without."""
    application = state.deployment.application
    state.offsets = {topic: committed[topic] for topic in application.external if topic in committed}
    if not state.offsets:
        state.problems.append(f'group "{application.id}" has no committed offsets')
        return
    if all(times == OffsetMetadata() for times in state.times.values()):
        state.notes.append("the offsets have no stream times: Kafka Streams has not committed them")
    ends = (admin.offsets(application.external, at) for at in ("earliest", "latest"))
    state.notes += [
        *checks.missing_offsets(application, committed, *ends),
        *starmap(uneven_fact, uneven_stores(application.topology, application.partitions).items()),
    ]


def _find_pending(state: FoundState, admin: Admin, committed: Offsets) -> None:
    """Find the records of repartition topics that the application has written and not read yet."""
    application, existing = state.deployment.application, admin.topics()
    inner = {topic: application.partitions[topic] for topic in application.internal_topics}
    state.problems += checks.other_partitions(inner, existing)
    state.inner, state.pending = _waiting(admin, sorted(inner.keys() & existing.keys()), committed)
    unread = checks.unread_topics(application, committed, existing)
    _, lost = _waiting(admin, [topic for topic in unread if checks.is_repartition(application, topic)], committed)
    for topic in unread:
        count = sum(len(records) for (of, _), records in lost.items() if of == topic)
        waiting = f"; {pluralize(count, 'waiting record')} would be lost" if count else ""
        findings = state.problems if count else state.notes
        findings.append(f'the application has read topic "{topic}", but this topology does not{waiting}')


def _waiting(admin: Admin, topics: list[str], committed: Offsets) -> tuple[Offsets, PendingRecords]:
    """Return the next offsets of repartition topics, and their records that are not processed yet."""
    from kstreamnb.kafka.bounded_reader import BoundedReader, fetch, pieces_between
    from kstreamnb.kafka.capture import ends_of

    pending: PendingRecords = {}
    if not topics:
        return {}, pending
    reader = BoundedReader(admin.servers, topics)
    first, end = reader.beginning(), ends_of(reader)
    begin = {t: {p: max(at, committed.get(t, {}).get(p, at)) for p, at in parts.items()} for t, parts in first.items()}
    for topic, partition, records in fetch(admin.servers, pieces_between(begin, end)):
        rows = pending.setdefault((topic, partition), [])
        rows.extend((at, key, value, tuple(headers)) for _, at, key, value, headers in records)
    return begin, {partition: rows for partition, rows in pending.items() if rows}


def _restore(state: FoundState, admin: Admin) -> None:
    """Restore the tasks, and note what does not fit."""
    deployment, existing = state.deployment, admin.topics()
    application, topics = deployment.application, logged_stores(deployment)
    for name in sorted(application.topology.stores.keys() - topics.keys()):
        state.notes.append(f'store "{name}" has no changelog: it starts empty, as it would after a restart in Java')
    state.problems += [f'store "{n}": topic "{t}" is missing' for n, t in sorted(topics.items()) if t not in existing]
    state.notes += checks.foreign_topics(application, topics.values(), existing)
    owned = {topic.name: topic for topic in changelog_topics(deployment) if topic.name in existing}
    counts = {name: topic.partitions for name, topic in owned.items() if topic.partitions is not None}
    state.problems += checks.other_partitions(counts, existing)
    settings = admin.settings(owned, checks.SETTINGS | {name for topic in owned.values() for name, _ in topic.config})
    for topic in owned.values():
        state.problems += checks.other_policy(topic, settings[topic.name])
        state.notes += checks.other_settings(topic, settings[topic.name])
    known = {name: topic for name, topic in topics.items() if topic in existing}
    _restore_stores(state, known, read_topics(admin.servers, known, state.offsets))
    for task in single_tasks(state.tasks.values()):
        _set_times(state, task)
    _note_deletions(state, admin, owned, settings)


def _restore_stores(state: FoundState, topics: Mapping[str, str], entries: Entries) -> None:
    """Restore store by store, so that an error can name the one with another serde or kind."""
    state.tasks = restore_tasks(state.deployment, {}, {})
    readable = checks.readable_stores(state.deployment.application)
    for name, topic in sorted(topics.items()):
        kind = state.deployment.application.topology.stores[name].kind
        keys = (key for (of, _), rows in entries.items() if of == topic for key, *_ in rows)
        other = next(checks.other_keys(kind, keys), None)
        try:
            if other is not None:
                raise SerdeError(other)
            restore_store(state.deployment, state.tasks, name, topic, entries)
            if name in readable:
                state.notes += checks.doubts(name, checks.first_rows(name, stores_over(state, name)))
        except (KStreamError, ValueError, LookupError, TypeError) as error:
            state.problems.append(f'store "{name}": topic "{topic}" cannot be read: {error}')


def _note_deletions(
    state: FoundState, admin: Admin, owned: Mapping[str, OwnedTopic], settings: Mapping[str, Mapping[str, str]]
) -> None:
    """Note changelogs of which the broker may have deleted rows that the application still has.

    The broker compares the times of records with its clock, a store compares them with its stream time.
    """
    now_ms = int(time.time() * 1000)  # noqa: TID251 - what the broker compares with
    reached = max((task.context.stream_time[0] for task in single_tasks(state.tasks.values())), default=NO_TIME)
    stores = state.deployment.application.topology.stores
    timed = {name: stores[topic.store].retention_ms for name, topic in owned.items() if topic.store is not None}
    for name, first in admin.offsets([name for name, kept_ms in timed.items() if kept_ms], "earliest").items():
        kept_ms, deleted_ms = timed[name] or 0, int(settings[name][checks.RETENTION])
        if any(first.values()) and deleted_ms >= 0 and reached - kept_ms < now_ms - deleted_ms:
            state.notes.append(
                f'store "{owned[name].store}": rows may be missing, because the broker has deleted records of topic '
                f'"{name}" that are older than {checks.RETENTION} {deleted_ms}'
            )


def _set_times(state: FoundState, task: Task) -> None:
    """Set a task's stream time, and up to where it has emitted windows, as Java does at a start."""
    application, plan = state.deployment.application, task.plan
    topics = application.reads[plan.subtopologies[0]]
    times = [state.times[topic, plan.partition] for topic in topics if (topic, plan.partition) in state.times]
    task.context.stream_time[0] = max((each.stream_time_ms for each in times), default=NO_TIME)
    for (node, name), state_var in task.context.state_vars.items():
        if name == EMITTED:
            emitted = [each.emitted_ms.get(application.topology.nodes[node].stores[0]) for each in times]
            state_var[0] = max([time for time in emitted if time is not None], default=state_var[0])


def row_counts(state: FoundState) -> dict[str, int]:
    """Count the rows that a query returns, by store; window stores hold expired rows until their segment is dropped."""
    counts = dict.fromkeys(sorted(state.deployment.application.topology.stores), 0)
    for task in single_tasks(state.tasks.values()):
        for name, store in task.stores.items():
            view = view_of(name, [store])
            rows = view.all() if isinstance(view, WindowView | SessionView) else store.raw
            counts[name] += sum(row is not None for row in rows)
    return counts


def application_on(
    admin: Admin, topology: Topology, application_id: str | None, config: Config | Mapping[str, object] | None
) -> ApplicationPlan:
    """Return the application with this id, or with that of its settings or topology, over the topics of a broker."""
    settings = Config.of(config)
    if application_id is not None:
        settings = replace(settings, application_id=application_id)
    return application_over(topology, settings, topics_for(admin, topology, settings))


def stores_over(state: FoundState, name: str) -> list[Any]:
    """Return a store of every partition."""
    tasks = (state.tasks[placed.name] for placed in tasks_with(state.deployment, name))
    return [store for task in tasks for store in stores_named(task, name)]
