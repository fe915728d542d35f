"""`adopt`: continue a Kafka Streams application, written in Java, as a deployment of the same topology."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kstreamnb.core.arguments import check_arguments
from kstreamnb.core.operator import EMITTED
from kstreamnb.core.progress import under_way
from kstreamnb.core.tables import Tabular
from kstreamnb.errors import ApplicationStateError, CheckpointError, KStreamError
from kstreamnb.kafka.batch_offsets import Offsets
from kstreamnb.kafka.offset_metadata import NO_TIME, OffsetMetadata, decode_metadata
from kstreamnb.kafka.storage.checkpoint_files import CheckpointFiles, LocalFiles, local_folder
from kstreamnb.runtime.context.config import Config
from kstreamnb.runtime.task.task import Task
from kstreamnb.spark.contracts import from_json, to_json
from kstreamnb.spark.execution.cyclic_task import CyclicTask
from kstreamnb.spark.execution.seed import FOLDER, PendingRecords, write_pending, write_seed
from kstreamnb.spark.execution.worker_cache import AnyTask
from kstreamnb.spark.io.changelog_topics import changelog_topics
from kstreamnb.spark.operations.topic_discovery import application_over
from kstreamnb.spark.planning.deployment import Deployment
from kstreamnb.spark.planning.placement import plan_deployment, useful_partitions
from kstreamnb.spark.state.changelog_restore import Entries, logged_stores, read_topics, restore_tasks, stores_of
from kstreamnb.spark.state.checkpoint_manifest import manifest_of, write_manifest
from kstreamnb.spark.state.store_view import StoreView, stores_named, tasks_with
from kstreamnb.state.versioned import VersionedRows
from kstreamnb.topology.topology import Topology

if TYPE_CHECKING:  # Kafka's client is loaded by connections alone
    from kstreamnb.kafka.admin import Admin
    from kstreamnb.kafka.client import Servers

_OFFSETS_FILE = "offsets.json"
_LOOKED_AT = 100


@dataclass(frozen=True, repr=False)
class Adoption(Tabular):
    """An application's state as found; printing it shows what fits and what does not.

    Attributes:
        application: id of the application.
        stores: rows by store.
        offsets: the committed offsets of the input topics.
        pending: records of repartition topics that are not processed yet, by topic.
        stream_times: stream time (ms) by task, for those that have one.
        problems: what prevents continuing; empty if everything fits.
        notes: worth knowing, without consequences.
        checkpoint: the folder that was written; None after a dry run.
    """

    application: str
    stores: Mapping[str, int]
    offsets: Offsets = field(repr=False)
    pending: Mapping[str, int]
    stream_times: Mapping[str, int] = field(repr=False)
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    checkpoint: Path | None = None

    header: Sequence[str] = ("kind", "name", "found")

    @property
    def title(self) -> str:
        """Application and the number of problems."""
        fits = f"{len(self.problems)} problems" if self.problems else "everything fits"
        return f'state of "{self.application}": {fits}'

    def table(self) -> Iterator[Sequence[str]]:
        """Yield stores, input topics and repartition topics."""
        for name, rows in self.stores.items():
            yield "store", name, f"{rows:,} rows"
        for topic, parts in self.offsets.items():
            yield "input topic", topic, ", ".join(f"{part}: {offset}" for part, offset in parts.items())
        for topic, count in self.pending.items():
            yield "repartition topic", topic, f"{count:,} records wait"

    def more(self) -> Iterator[str]:
        """Yield problems, notes and the checkpoint."""
        yield from (f"does not fit: {problem}" for problem in self.problems)
        yield from (f"note: {note}" for note in self.notes)
        if self.checkpoint is not None:
            yield f'written to checkpoint "{self.checkpoint.name}": deploy(…, checkpoint=…) continues from it'


@dataclass
class FoundState:
    """The state of an application: restored tasks, times by task, and records that wait."""

    deployment: Deployment
    tasks: dict[str, AnyTask]
    times: dict[tuple[str, int], OffsetMetadata]
    offsets: Offsets
    inner: Offsets
    pending: PendingRecords
    problems: list[str]
    notes: list[str]


def adopt(
    topology: Topology,
    application_id: str | None = None,
    *,
    checkpoint: str | Path,
    bootstrap_servers: Servers,
    config: Config | Mapping[str, object] | None = None,
    spark_partitions: int | None = None,
    dry_run: bool = False,
) -> Adoption:
    """Read the state of a stopped Kafka Streams application into a new checkpoint, from which `deploy` continues.

    It reads changelogs, committed offsets with their stream times, and the records of repartition topics that were not
    processed yet. Nothing of the Java application is changed. Its processors' fields, and stream times inside of its
    window operators, were in its memory alone: after each restart Java begins without them, too.

    Args:
        topology: the same topology, with the same names of stores and repartition topics.
        application_id: the application's id, unless the config or the topology's name says it. Default: None.
        checkpoint: the folder of the new checkpoint; it must not have one.
        bootstrap_servers: ``host:port``, or librdkafka's settings with ``bootstrap.servers`` among them.
        config: the application's settings; serdes and handlers as in Java. Default: that of `Config`.
        spark_partitions: state partitions of the query. Default: as many as this machine has cores, but no more than
            the widest level has tasks.
        dry_run: only look, and return the findings. Default: False.

    Raises:
        ApplicationStateError: the application's group has members.
        CheckpointError: something does not fit, or the folder has a checkpoint.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from kstreamnb import StreamsBuilder
        >>> from kstreamnb.kafka import Admin, local_broker
        >>> builder = StreamsBuilder("visits")
        >>> counts = builder.stream("pages").group_by_key().count(store="counts")
        >>> with local_broker() as broker, TemporaryDirectory() as folder:
        ...     servers = broker.bootstrap_servers
        ...     Admin(servers).create_topic("pages")
        ...     found = adopt(builder.build(), bootstrap_servers=servers, checkpoint=f"{folder}/new", dry_run=True)
        >>> found.problems
        ('group "visits" has no committed offsets', 'store "counts": there is no topic "visits-counts-changelog"')
    """
    check_arguments(adopt, locals())
    from kstreamnb.kafka.admin import Admin

    folder = local_folder(checkpoint)
    if folder is None:
        raise CheckpointError(
            f'checkpoint "{checkpoint}" is not a folder of this machine',
            detail="the state of another application is adopted through files of a folder",
            hint="give a folder that all machines of the cluster reach",
        )
    admin, settings = Admin(bootstrap_servers), Config.of(config or {})
    if application_id is not None:
        settings = replace(settings, application_id=application_id)
    application = application_over(topology, settings, admin.topics())
    query = str(uuid.uuid4())  # noqa: TID251 - a new checkpoint is a new identity
    slots = spark_partitions or useful_partitions(application, os.cpu_count() or 1)
    found = find_state(admin, plan_deployment(query, [application], slots))
    adoption = _described(found)
    if dry_run:
        return adoption
    if folder.exists() and any(folder.iterdir()):
        raise CheckpointError(f'folder "{folder.name}" is not empty', hint="choose a new one for the checkpoint")
    if adoption.problems:
        raise CheckpointError(
            f'application "{application.id}" does not fit this topology',
            detail="; ".join(adoption.problems),
            hint="adopt(…, dry_run=True) shows what was found; use Java's names, serdes and settings",
        )
    _write(folder, found, admin)
    return replace(adoption, checkpoint=folder)


def find_state(admin: Admin, deployment: Deployment, *, running: bool = False) -> FoundState:
    """Return the state of an application; ``running``: allow that it has members."""
    from kstreamnb.kafka.application_reset import group_members, group_offsets, metadata_of

    application = deployment.application
    members = group_members(admin, application.id)
    if members and not running:
        raise ApplicationStateError(
            f'group "{application.id}" has {members} active members',
            hint="stop all instances of the application first; those that crashed leave after session.timeout.ms",
        )
    committed, times = Offsets(), {}
    for each in group_offsets(admin, application.id):
        committed.setdefault(each.topic, {})[each.partition] = each.offset
        times[each.topic, each.partition] = decode_metadata(metadata_of(each))
    external = {topic: committed[topic] for topic in application.external if topic in committed}
    problems = [] if external else [f'group "{application.id}" has no committed offsets']
    found = FoundState(deployment, {}, times, external, {}, {}, problems, [])
    with under_way(f'restoring "{application.id}": records of repartition topics'):
        _find_pending(found, admin, committed)
    with under_way(f'restoring "{application.id}": stores from their changelogs'):
        _restore(found, admin)
    return found


def _find_pending(found: FoundState, admin: Admin, committed: Offsets) -> None:
    """Find the records of repartition topics that the application has written and not read yet."""
    from kstreamnb.kafka.bounded_reader import BoundedReader, fetch, pieces_between
    from kstreamnb.kafka.capture import ends_of

    application, existing = found.deployment.application, admin.topics()
    inner = sorted(topic for topic in application.internal_topics if topic in existing)
    for topic in inner:
        if existing[topic] != application.partitions[topic]:
            found.problems.append(
                f'topic "{topic}" has {existing[topic]} partitions, expected {application.partitions[topic]}'
            )
    if not inner:
        return
    reader = BoundedReader(admin.servers, inner)
    first, end = reader.beginning(), ends_of(reader)
    begin = {t: {p: max(at, committed.get(t, {}).get(p, at)) for p, at in parts.items()} for t, parts in first.items()}
    found.inner = begin
    for topic, partition, records in fetch(admin.servers, pieces_between(begin, end)):
        rows = found.pending.setdefault((topic, partition), [])
        rows.extend((at, key, value, tuple(headers)) for _, at, key, value, headers in records)
    found.pending = {partition: rows for partition, rows in found.pending.items() if rows}


def _restore(found: FoundState, admin: Admin) -> None:
    """Restore the tasks, and note what does not fit."""
    deployment, existing = found.deployment, admin.topics()
    application, topics = deployment.application, logged_stores(deployment)
    for name in sorted(application.topology.stores.keys() - topics.keys()):
        found.notes.append(f'store "{name}" has no changelog: it begins empty, as after a restart of Java')
    for name, topic in sorted(topics.items()):
        if topic not in existing:
            found.problems.append(f'store "{name}": there is no topic "{topic}"')
    expected = {topic.name: topic.partitions for topic in changelog_topics(deployment)}
    known = {name: topic for name, topic in topics.items() if topic in existing}
    for name, topic in sorted(known.items()):
        if existing[topic] != (wanted := expected.get(topic, existing[topic])):
            found.problems.append(
                f'store "{name}": topic "{topic}" has {existing[topic]} partitions, expected {wanted}'
            )
    found.tasks = _restored(found, known, read_topics(admin.servers, known, found.offsets))
    for task in single_tasks(found.tasks.values()):
        _set_times(found, task)


def single_tasks(tasks: Iterable[AnyTask]) -> list[Task]:
    """Return the tasks with those of cycles one by one."""
    return [each for task in tasks for each in (task.members.values() if isinstance(task, CyclicTask) else [task])]


def _set_times(found: FoundState, task: Task) -> None:
    """Set a task's stream time, and up to where it has emitted windows, as Java does at a start."""
    application, plan = found.deployment.application, task.plan
    topics = application.reads[plan.subtopologies[0]]
    times = [found.times[topic, plan.partition] for topic in topics if (topic, plan.partition) in found.times]
    task.context.stream_time[0] = max((each.stream_time_ms for each in times), default=NO_TIME)
    for (node, name), state_var in task.context.state_vars.items():
        if name == EMITTED:
            emitted = [each.emitted_ms.get(application.topology.nodes[node].stores[0]) for each in times]
            state_var[0] = max([time for time in emitted if time is not None], default=state_var[0])


def _restored(found: FoundState, topics: Mapping[str, str], entries: Entries) -> dict[str, AnyTask]:
    """Restore store by store, so that one whose bytes are of another serde is named."""
    try:
        tasks = restore_tasks(found.deployment, topics, entries)
    except (KStreamError, ValueError, LookupError, TypeError) as error:
        found.problems.append(f"changelogs cannot be read: {error}")
        return restore_tasks(found.deployment, {}, {})
    for name in sorted(readable_stores(found.deployment.application.topology) & topics.keys()):
        try:
            _read_first_rows(_stores_of(found.deployment, tasks, name))
        except (KStreamError, ValueError, TypeError, UnicodeError) as error:
            found.problems.append(f'store "{name}": its serdes cannot read topic "{topics[name]}": {error}')
    return tasks


def _read_first_rows(stores: Iterable[Any]) -> None:
    """Decode some rows of every partition; a versioned store lists no keys, but has the history of each."""
    for store in stores:
        if isinstance(store, VersionedRows):
            for raw_key in islice(filter(None, store.raw), _LOOKED_AT):
                list(store.history(store.keys.decode(raw_key[0])))
        else:
            list(islice(StoreView(store.name, [store]), _LOOKED_AT))


def readable_stores(topology: Topology) -> set[str]:
    """Return the stores that have views; the buffers of operators have none."""
    return {name for name, store in topology.stores.items() if store.kind != "internal"}


def view_of_store(deployment: Deployment, tasks: Mapping[str, AnyTask], name: str) -> StoreView:
    """Return a store over all partitions, read only."""
    return StoreView(name, _stores_of(deployment, tasks, name))


def _stores_of(deployment: Deployment, tasks: Mapping[str, AnyTask], name: str) -> list[Any]:
    return [store for task in tasks_with(deployment, name) for store in stores_named(tasks[task.name], name)]


def _described(found: FoundState) -> Adoption:
    deployment = found.deployment
    rows = dict.fromkeys(sorted(deployment.application.topology.stores), 0)
    for placed in deployment.tasks:
        if placed.name in found.tasks:
            for name, _, store in stores_of(placed, found.tasks[placed.name]):
                rows[name] += sum(raw_key is not None for raw_key in store.raw)
    waiting: dict[str, int] = {}
    for (topic, _), records in found.pending.items():
        waiting[topic] = waiting.get(topic, 0) + len(records)
    times = {
        task.plan.task_id: task.context.stream_time[0]
        for task in single_tasks(found.tasks.values())
        if task.context.stream_time[0] != NO_TIME
    }
    return Adoption(
        deployment.application.id, rows, found.offsets, waiting, times, tuple(found.problems), tuple(found.notes)
    )


def _write(folder: Path, found: FoundState, admin: Admin) -> None:
    """Write the checkpoint, the manifest last, and make its query the application's."""
    from kstreamnb.kafka.transactional_writer import TransactionalWriter

    deployment, seed = found.deployment, folder / FOLDER
    seed.mkdir(parents=True)
    for placed in deployment.tasks:
        if placed.name in found.tasks:
            task = found.tasks[placed.name]
            read = {topic for plan in placed.plans for topic in deployment.application.reads[plan.subtopologies[0]]}
            positions = {
                (topic, partition): offset
                for topic, parts in found.inner.items()
                for partition, offset in parts.items()
                if topic in read
            }
            write_seed(seed, placed.name, task.delta_of(task.state_keys()), positions)
    write_pending(seed, found.pending)
    (seed / _OFFSETS_FILE).write_text(json.dumps(to_json(found.offsets)))
    TransactionalWriter(admin.servers, deployment.application.id, deployment.name).take_over()
    ids = admin.identities(deployment.application.inputs)
    write_manifest(LocalFiles(folder), replace(manifest_of(deployment), topic_ids=ids, changelogs=True))


def adopted_offsets(checkpoint: CheckpointFiles) -> Offsets | None:
    """Return the offsets at which an adopted application continues; None for a checkpoint of another origin."""
    content = checkpoint.read(f"{FOLDER}/{_OFFSETS_FILE}")
    return None if content is None else from_json(json.loads(content))
