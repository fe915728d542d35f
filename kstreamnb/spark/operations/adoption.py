"""`adopt`: continue a Kafka Streams application, written in Java, as a deployment of the same topology."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kstreamnb.core.arguments import check_arguments
from kstreamnb.core.formatting import pluralize
from kstreamnb.core.tables import Tabular
from kstreamnb.errors import CheckpointError
from kstreamnb.kafka.batch_offsets import Offsets, by_partition
from kstreamnb.kafka.storage.checkpoint_files import CheckpointFiles, LocalFiles, local_folder
from kstreamnb.runtime.context.config import Config
from kstreamnb.spark.contracts import from_json, to_json
from kstreamnb.spark.execution.cyclic_task import stream_times
from kstreamnb.spark.execution.seed import FOLDER, write_pending, write_seed
from kstreamnb.spark.operations.application_state import FoundState, application_on, find_state, row_counts
from kstreamnb.spark.planning.placement import plan_deployment, useful_partitions
from kstreamnb.spark.state.checkpoint_manifest import manifest_of, write_manifest
from kstreamnb.topology.topology import Topology

if TYPE_CHECKING:  # Kafka's client is loaded by connections alone
    from kstreamnb.kafka.admin import Admin
    from kstreamnb.kafka.client import Servers

_OFFSETS_FILE, _SERDES_FILE = "offsets.json", "serdes"


@dataclass(frozen=True, repr=False)
class Adoption(Tabular):
    """An application's state as found; printing it shows what fits and what does not.

    Attributes:
        application: id of the application.
        stores: the number of rows that a query returns, by store; expired rows of windows are not among them.
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
        fits = pluralize(len(self.problems), "problem") if self.problems else "everything fits"
        return f'state of "{self.application}": {fits}'

    def table(self) -> Iterator[Sequence[str]]:
        """Yield stores, input topics and repartition topics."""
        for name, rows in self.stores.items():
            yield "store", name, pluralize(rows, "row")
        for topic, parts in self.offsets.items():
            yield "input topic", topic, ", ".join(f"{part}: {offset}" for part, offset in parts.items())
        for topic, count in self.pending.items():
            yield "repartition topic", topic, f"{pluralize(count, 'record')} to process"

    def more(self) -> Iterator[str]:
        """Yield problems, notes and the checkpoint."""
        yield from (f"does not fit: {problem}" for problem in self.problems)
        yield from (f"note: {note}" for note in self.notes)
        if self.checkpoint is not None:
            yield f'written to checkpoint "{self.checkpoint}": deploy(…) continues from it, with the same config='


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
    processed yet. The Java application is not changed. Fields of its processors and stream times within its window
    operators exist only in its memory and are lost, as they are when Java restarts.

    Args:
        topology: the same topology, with the same names of stores and repartition topics.
        application_id: the application's id. Default: None, that of the config, else the topology's name.
        checkpoint: the folder of the new checkpoint; it must not contain one yet.
        bootstrap_servers: ``host:port``, or librdkafka's settings with ``bootstrap.servers`` among them.
        config: the application's settings; serdes and handlers as in Java. Default: `Config()`.
        spark_partitions: state partitions of the query. Default: as many as this machine has cores, but no more than
            the widest level has tasks.
        dry_run: only check, and return the findings. Default: False.

    Raises:
        ApplicationStateError: the application's group has members.
        CheckpointError: the state does not fit the topology, or the folder already has a checkpoint.

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
        ('group "visits" has no committed offsets', 'store "counts": topic "visits-counts-changelog" is missing')
    """
    check_arguments(adopt, locals())
    from kstreamnb.kafka.admin import Admin

    folder = local_folder(checkpoint)
    if folder is None:
        fact = f'checkpoint "{checkpoint}" is not a folder of this machine'
        detail = "the state of another application can be adopted only into a local or mounted folder"
        raise CheckpointError(fact, detail=detail, hint="give a folder that every machine of the cluster can reach")
    admin = Admin(bootstrap_servers)
    application = application_on(admin, topology, application_id, config)
    query = str(uuid.uuid4())  # noqa: TID251 - a new checkpoint is a new identity
    slots = spark_partitions or useful_partitions(application, os.cpu_count() or 1)
    state = find_state(admin, plan_deployment(query, [application], slots))
    adoption = _described(state)
    if dry_run:
        return adoption
    if folder.exists() and any(folder.iterdir()):
        raise CheckpointError(f'folder "{folder}" is not empty', hint="choose a new one for the checkpoint")
    if adoption.problems:
        fact = f'application "{application.id}" does not fit this topology'
        hint = "adopt(…, dry_run=True) shows the findings; use Java's names and serdes, and its settings as config="
        raise CheckpointError(fact, detail="; ".join(adoption.problems), hint=hint)
    _write(folder, state, admin)
    return replace(adoption, checkpoint=folder)


def _described(state: FoundState) -> Adoption:
    waiting: dict[str, int] = {}
    for (topic, _), records in state.pending.items():
        waiting[topic] = waiting.get(topic, 0) + len(records)
    times, remarks = stream_times(state.tasks.values()), (tuple(state.problems), tuple(state.notes))
    return Adoption(state.deployment.application.id, row_counts(state), state.offsets, waiting, times, *remarks)


def _write(folder: Path, state: FoundState, admin: Admin) -> None:
    """Write the checkpoint, the manifest last, and make its query the application's."""
    from kstreamnb.kafka.application_reset import fence
    from kstreamnb.kafka.transactional_writer import TransactionalWriter

    deployment, seed = state.deployment, folder / FOLDER
    seed.mkdir(parents=True)
    for placed in deployment.tasks:
        if placed.name in state.tasks:
            task = state.tasks[placed.name]
            read = {topic for plan in placed.plans for topic in deployment.application.reads[plan.subtopologies[0]]}
            positions = by_partition({topic: parts for topic, parts in state.inner.items() if topic in read})
            write_seed(seed, placed.name, task.delta_of(task.state_keys()), positions)
    write_pending(seed, state.pending)
    (seed / _OFFSETS_FILE).write_text(json.dumps(to_json(state.offsets)), encoding="utf-8")
    (seed / _SERDES_FILE).write_text(_default_serdes(deployment.application.config), encoding="utf-8")
    application, replicas = deployment.application, deployment.application.config.replication_factor
    fence(admin.servers, application.id)
    TransactionalWriter(admin.servers, application.id, deployment.name, replicas=replicas).take_over()
    ids = admin.identities(deployment.application.inputs)
    write_manifest(LocalFiles(folder), replace(manifest_of(deployment), topic_ids=ids, changelogs=True))


def adopted_offsets(checkpoint: CheckpointFiles) -> Offsets | None:
    """Return the offsets at which an adopted application continues; None for a checkpoint of another origin."""
    content = checkpoint.read(f"{FOLDER}/{_OFFSETS_FILE}")
    return None if content is None else from_json(json.loads(content))


def refuse_other_serdes(checkpoint: CheckpointFiles, config: Config) -> None:
    """Raise CheckpointError if the default serdes are not those with which the state was adopted."""
    before, now = checkpoint.read(f"{FOLDER}/{_SERDES_FILE}"), _default_serdes(config)
    if before is not None and before.decode() != now:
        fact = "the state was adopted with different default serdes"
        detail = f"those of keys and values were {before.decode()}, and are {now} now"
        raise CheckpointError(fact, detail=detail, hint="pass the config= that adopt was given")


def _default_serdes(config: Config) -> str:
    return f"{config.default_key_serde.name} and {config.default_value_serde.name}"
