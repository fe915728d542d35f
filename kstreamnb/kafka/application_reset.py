"""Forget an application: what it keeps in Kafka, and its checkpoint, so that its next deployment begins anew.

Its input and output topics stay as they are. Where the next deployment is to begin is written as the group's offsets,
as Kafka's application reset tool does; the deployment takes them up when its checkpoint is new.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

from kstreamnb.core.time import duration_ms
from kstreamnb.errors import ApplicationStateError, CheckpointError, ConfigError, UnknownTopicError, unknown
from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.batch_offsets import Offsets
from kstreamnb.kafka.checkpoint_lock import in_use
from kstreamnb.kafka.client import Servers, client, connection, kafka_error
from kstreamnb.topology.partitions import owned_topics
from kstreamnb.topology.topology import Topology

__all__ = ["ResetPlan", "committed_positions", "offsets_at", "plan_reset", "reset", "reset_positions"]

_INTERNAL = ("-changelog", "-repartition")
_UNKNOWN_GROUP = {KafkaError.GROUP_ID_NOT_FOUND}
_CALL_S = 30.0
_ASK_S = 5.0
_MARK = "set by a reset"
_PAGE = "kstreamnb.json"  # the deployment's page in its checkpoint


@dataclass(frozen=True)
class ResetPlan:
    """What a reset takes away and sets.

    Attributes:
        topics: topics that are deleted.
        group: whether the group's offsets are deleted.
        checkpoint: the folder that is removed.
        positions: where the next deployment begins; topics that are not named follow its own ``starting``.
        downstream: what consumers of the application's output have to know.
    """

    application: str
    topics: tuple[str, ...]
    group: bool
    checkpoint: Path | None = None
    positions: Offsets = field(default_factory=dict)
    downstream: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f'reset of "{self.application}":']
        lines += [f"  delete topic {topic}" for topic in self.topics]
        lines += [f"  delete the offsets of group {self.application}"] if self.group else []
        lines += [f"  delete checkpoint {self.checkpoint.name}"] if self.checkpoint is not None else []
        for topic, parts in self.positions.items():
            where = ", ".join(f"{partition}: {offset}" for partition, offset in parts.items())
            lines.append(f"  begin topic {topic} at offsets {where}")
        lines = lines if len(lines) > 1 else [*lines, "  nothing to delete"]
        return "\n".join([*lines, *self.downstream])


def plan_reset(
    servers: Servers,
    application: str,
    *,
    topology: Topology | None = None,
    checkpoint: Path | str | None = None,
    input_topics: Iterable[str] | Mapping[str, Any] = (),
    intermediate_topics: Iterable[str] = (),
    internal_topics: Iterable[str] = (),
    to: Any = "earliest",
    shift_by: int | None = None,
    by_duration: Any = None,
    force: bool = False,
) -> ResetPlan:
    """What a reset would take away and set; changes nothing.

    With the topology exactly its own topics are found. Without it they are found by their names, ``<application>-…``
    with an ending that says what they are; an application whose id is the beginning of another's takes that one's
    with it, so look at the plan.

    Args:
        servers: ``host:port``, or librdkafka's settings.
        application: the application's id.
        topology: the topology, which knows its topics.
        checkpoint: the deployment's folder.
        input_topics: where the next deployment begins: names, which ``to`` is for, or a mapping from names to a word,
            an instant, one offset or offsets by partition.
        intermediate_topics: topics that the application writes and reads: the next deployment begins at their end.
        internal_topics: only these of its internal topics are deleted.
        to: "earliest", "latest", an instant, or one offset for every partition.
        shift_by: begin so many offsets after (or before) the committed ones.
        by_duration: begin at this long before now, such as "1h".
        force: go on although the application is in use.

    Raises:
        ApplicationStateError: the application is in use.
        CheckpointError: the folder is not a checkpoint, or belongs to another application.
        UnknownTopicError: an input topic does not exist.

    Example:
        >>> from kstreamnb.kafka import Admin, local_broker
        >>> with local_broker() as broker:
        ...     Admin(broker.bootstrap_servers).create_topic("orders")
        ...     print(plan_reset(broker.bootstrap_servers, "shop", input_topics={"orders": "earliest"}))
        reset of "shop":
          begin topic orders at offsets 0: 0
    """
    admin, folder = Admin(servers), None if checkpoint is None else Path(checkpoint)
    there = admin.topics()
    _refuse_running(admin, application, folder, force=force)
    if folder is not None and folder.exists() and not (folder / "metadata").is_file():
        raise CheckpointError(
            f'folder "{folder.name}" is no checkpoint', detail="a checkpoint of Spark has a file named metadata"
        )
    exists = folder is not None and folder.exists()
    if folder is not None:
        _refuse_foreign(application, folder)
    if by_duration is not None:
        to = int(time.time() * 1000) - duration_ms(by_duration, "by_duration")  # noqa: TID251 - "before now"
        to = _Instant(to)
    asked = input_topics if isinstance(input_topics, Mapping) else dict.fromkeys(input_topics, to)
    wanted = {**asked, **dict.fromkeys(intermediate_topics, "latest")}
    for topic in wanted:
        if topic not in there:
            raise unknown("topic", topic, there, error=UnknownTopicError)
    positions = {topic: offsets_at(admin, topic, where) for topic, where in sorted(wanted.items())}
    if shift_by is not None:
        positions = _shifted(admin, application, asked, positions, shift_by)
    return ResetPlan(
        application,
        _owned(application, topology, there, tuple(internal_topics)),
        _has_group(admin, application),
        folder if exists else None,
        positions,
        _downstream(admin, topology, there),
    )


def reset(
    servers: Servers,
    application: str,
    *,
    topology: Topology | None = None,
    checkpoint: Path | str | None = None,
    **options: Any,
) -> ResetPlan:
    """Take away and set what `plan_reset` says, with the same options; gives the plan that was carried out.

    A deployment that still runs elsewhere is fenced first: it fails with its next batch and publishes nothing more.

    Example:
        >>> from kstreamnb.kafka import local_broker
        >>> with local_broker() as broker:
        ...     print(reset(broker.bootstrap_servers, "shop"))
        reset of "shop":
          nothing to delete
    """
    plan = plan_reset(servers, application, topology=topology, checkpoint=checkpoint, **options)
    if f"{application}-commits" in plan.topics:
        _fence(servers, application)
    admin = Admin(servers)
    admin.delete_topics(*plan.topics)
    if plan.group:
        _of_group(admin, application, lambda: admin.client.delete_consumer_groups([application]))
    if plan.positions:
        places = [
            TopicPartition(topic, partition, offset, _MARK)
            for topic, parts in plan.positions.items()
            for partition, offset in parts.items()
        ]
        asked = [ConsumerGroupTopicPartitions(application, places)]
        _of_group(admin, application, lambda: admin.client.alter_consumer_group_offsets(asked))
    if plan.checkpoint is not None:
        shutil.rmtree(plan.checkpoint)
    return plan


class _Instant(int):
    """An instant in ms, told apart from an offset."""


def offsets_at(admin: Admin, topic: str, where: Any) -> dict[int, int]:
    """Offsets of a topic: a word, an instant, one offset for all partitions, or offsets by partition."""
    first = admin.offsets([topic], "earliest")[topic]
    if isinstance(where, Mapping):
        return {**first, **{int(partition): int(offset) for partition, offset in where.items()}}
    if isinstance(where, int) and not isinstance(where, _Instant):
        last = admin.offsets([topic], "latest")[topic]
        return {part: max(begin, min(last[part], where)) for part, begin in first.items()}
    return admin.offsets([topic], int(where) if isinstance(where, _Instant) else where)[topic]


def committed_positions(admin: Admin, application: str) -> Offsets:
    """The group's offsets, asked for by a consumer that joins nothing.

    An admin client could ask, too, but librdkafka then ends the whole process when the group's coordinator has moved
    or is not there yet, as after a broker's start (librdkafka's issue 5040).
    """
    places = [TopicPartition(name, part) for name, count in admin.topics().items() for part in range(count)]
    if not places:
        return {}
    settings = connection(
        admin.servers, group_id=application, enable_auto_commit=False, isolation_level="read_uncommitted"
    )
    consumer = client(Consumer, settings)

    def asked() -> list[TopicPartition]:
        try:
            return consumer.committed(places, _ASK_S)
        except KafkaException as error:
            said = consumer.poll(0)  # a coordinator that turns us away says so here
            raise (error if said is None or said.error() is None else KafkaException(said.error())) from error

    try:
        found = admin.retry(asked, f'asking for group "{application}"')
    finally:
        consumer.close()
    return _by_topic(found)


def reset_positions(admin: Admin, application: str) -> Offsets:
    """Where a reset has told the next deployment to begin."""
    if not committed_positions(admin, application):
        return {}
    # Marks reach only admin clients. The coordinator has just answered: it is there.
    asked = [ConsumerGroupTopicPartitions(application)]
    found = _of_group(admin, application, lambda: admin.client.list_consumer_group_offsets(asked))
    return {} if found is None else _by_topic(place for place in found.topic_partitions if _is_marked(place))


def _is_marked(place: TopicPartition) -> bool:
    """Whether a reset has set an offset: librdkafka copies the text without its end, so more may follow it."""
    try:
        said = place.metadata or ""
    except UnicodeDecodeError as error:
        said = error.object[: error.start].decode()
    return said.startswith(_MARK)


def _by_topic(places: Iterable[TopicPartition]) -> Offsets:
    offsets: Offsets = {}
    for place in places:
        if place.offset >= 0:
            offsets.setdefault(place.topic, {})[place.partition] = place.offset
    return offsets


def _shifted(
    admin: Admin, application: str, asked: Mapping[str, Any], positions: Offsets, shift_by: int
) -> dict[str, dict[int, int]]:
    committed = committed_positions(admin, application)
    missing = sorted(asked.keys() - committed.keys())
    if missing:
        raise ConfigError(f'group "{application}" has no offsets of topic "{missing[0]}" that could be shifted')
    first, last = admin.offsets(asked, "earliest"), admin.offsets(asked, "latest")
    shifted = {
        topic: {part: max(first[topic][part], min(last[topic][part], n + shift_by)) for part, n in parts.items()}
        for topic, parts in committed.items()
        if topic in asked
    }
    return {**positions, **shifted}


def _owned(
    application: str, topology: Topology | None, there: Mapping[str, int], chosen: tuple[str, ...]
) -> tuple[str, ...]:
    if topology is not None:
        owned = {topic.name for topic in owned_topics(topology, application)}
        found = [name for name in there if name in owned]
    else:
        found = [name for name in there if name.startswith(f"{application}-") and name.endswith(_INTERNAL)]
    if chosen:
        unknown = sorted(set(chosen) - set(found))
        if unknown:
            raise ConfigError(
                f'topic "{unknown[0]}" is no internal topic of "{application}"',
                detail=f"there are {', '.join(found) or 'none'}",
            )
        found = [name for name in found if name in chosen]
    marker = f"{application}-commits"
    return tuple(sorted([*found, *([marker] if marker in there else [])]))


def _downstream(admin: Admin, topology: Topology | None, there: Mapping[str, int]) -> tuple[str, ...]:
    """A warning for who reads the output: what is there stays, and comes once more."""
    from kstreamnb.topology.nodes import Sink

    nodes = () if topology is None else topology.nodes.values()
    topics = sorted({n.topic for n in nodes if isinstance(n, Sink) and isinstance(n.topic, str) and n.topic in there})
    lines = []
    first, last = admin.offsets(topics, "earliest"), admin.offsets(topics, "latest")
    for topic in topics:
        ranges = ", ".join(f"{part}: {first[topic][part]} to {end}" for part, end in last[topic].items())
        lines.append(f"  output topic {topic} keeps offsets {ranges}; consumers get results of the new run after them")
    return tuple(lines)


def _refuse_running(admin: Admin, application: str, folder: Path | None, *, force: bool) -> None:
    if force:
        return
    if folder is not None and folder.exists() and in_use(folder):
        raise ApplicationStateError(
            f'application "{application}" is running',
            detail=f'a process works on checkpoint "{folder.name}"',
            hint="stop it first",
        )
    members = _members(admin, application)
    if members:
        raise ApplicationStateError(
            f'group "{application}" has {members} active members', hint="stop the application first"
        )


def _refuse_foreign(application: str, folder: Path) -> None:
    """Refuse to delete what another application has counted; a page that cannot be read says nothing."""
    owner = application
    with suppress(OSError, ValueError):
        owner = json.loads((folder / _PAGE).read_text()).get("application", application)
    if owner != application:
        raise CheckpointError(
            f'checkpoint "{folder.name}" belongs to application "{owner}", not to "{application}"',
            hint="give the application's own folder, or the id that it belongs to",
        )


def _fence(servers: Servers, application: str) -> None:
    producer = client(Producer, connection(servers, transactional_id=f"{application}.sink"))
    try:
        producer.init_transactions(_CALL_S)
    except KafkaException as error:
        raise kafka_error(f'fencing "{application}"', error, servers) from error


def _described(admin: Admin, application: str) -> Any:
    return _of_group(admin, application, lambda: admin.client.describe_consumer_groups([application]))


def _members(admin: Admin, application: str) -> int:
    described = _described(admin, application)
    return 0 if described is None else len(described.members)


def _has_group(admin: Admin, application: str) -> bool:
    """Whether the group has committed offsets."""
    described = _described(admin, application)
    return described is not None and bool(described.state.name != "DEAD")


def _of_group(admin: Admin, group: str, call: Callable[[], Any]) -> Any:
    """What the cluster says of a group, None where it knows none; a coordinator that still loads is waited for."""

    def asked() -> Any:
        try:
            return call()[group].result(_CALL_S)
        except KafkaException as error:
            if error.args[0].code() in _UNKNOWN_GROUP:
                return None
            raise

    return admin.retry(asked, f'asking for group "{group}"')
