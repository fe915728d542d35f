"""Resets an application: deletes its topics, offsets and checkpoint, so that its next deployment starts over.

Its input and output topics stay unchanged. The positions at which the next deployment begins are written as the group's
offsets, as Kafka's application reset tool does; a deployment with a new checkpoint reads them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

from kstreamnb.core.arguments import check_arguments
from kstreamnb.core.formatting import pluralize
from kstreamnb.core.time import Duration, Instant, duration_ms, format_ms
from kstreamnb.errors import ApplicationStateError, CheckpointError, ConfigError, UnknownTopicError, expect_known
from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.batch_offsets import Offsets, by_partition
from kstreamnb.kafka.client import Servers, client, connection, kafka_error
from kstreamnb.kafka.output_batch import commits_topic
from kstreamnb.kafka.storage.checkpoint_files import MANIFEST, Checkpoint, CheckpointFiles, to_files
from kstreamnb.kafka.storage.claims import SHARED_PARTITIONS, TopicClaim
from kstreamnb.kafka.transaction_end import repeat_call
from kstreamnb.kafka.transactional_writer import transactional_id
from kstreamnb.topology.partitions import owned_topics
from kstreamnb.topology.topology import Topology

T = TypeVar("T")
Beginning: TypeAlias = Instant | Mapping[int, int]
"""An instant, "earliest", "latest", one offset for every partition, or offsets by partition."""
_INTERNAL = ("-changelog", "-repartition")
_UNKNOWN_GROUP = {KafkaError.GROUP_ID_NOT_FOUND}
_CALL_S = 10.0
_FENCE_S = 60.0
_ASK_S = 5.0
_MARK = "set by a reset"
_TOO_LONG = 32_000 * "x"


@dataclass(frozen=True)
class ResetPlan:
    """The changes that a reset makes.

    Attributes:
        application: id of the application.
        topics: topics that are deleted.
        group: whether the group's offsets are deleted.
        checkpoint: the checkpoint that is deleted.
        positions: offsets at which the next deployment begins; other topics follow its own ``starting``.
        downstream: warnings for consumers of the application's output.
    """

    application: str
    topics: tuple[str, ...]
    group: bool
    checkpoint: CheckpointFiles | None = None
    positions: Offsets = field(default_factory=dict)
    downstream: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f'reset of "{self.application}":']
        lines += [f"  delete topic {topic}" for topic in self.topics]
        lines += [f"  delete the offsets of group {self.application}"] if self.group else []
        lines += [f"  delete checkpoint {self.checkpoint}"] if self.checkpoint is not None else []
        for topic, parts in self.positions.items():
            offsets = ", ".join(f"{partition}: {offset}" for partition, offset in parts.items())
            lines.append(f"  begin topic {topic} at offsets {offsets}")
        if len(lines) == 1:
            lines.append("  nothing to delete")
        return "\n".join([*lines, *self.downstream])


def reset(
    servers: Servers,
    application: str,
    *,
    topology: Topology | None = None,
    checkpoint: Checkpoint | None = None,
    input_topics: Iterable[str] | Mapping[str, Beginning] = (),
    intermediate_topics: Iterable[str] = (),
    internal_topics: Iterable[str] = (),
    to: Beginning = "earliest",
    shift_by: int | None = None,
    by_duration: Duration | None = None,
    force: bool = False,
    dry_run: bool = False,
) -> ResetPlan:
    """Delete what an application has in Kafka, and its checkpoint; return what was changed.

    A deployment that still runs elsewhere is fenced first: it fails with its next batch and publishes nothing more.

    With the topology, exactly its own topics are found. Without it they are found by their names, ``<application>-…``
    with the ending of a changelog or repartition topic. If the id is a prefix of another application's id, that
    application's topics are found, too, so check the plan of ``dry_run=True`` first.

    Args:
        servers: ``host:port``, or librdkafka's settings.
        application: the application's id.
        topology: the topology, which knows its topics. Default: None, topics are found by their names.
        checkpoint: the deployment's folder, or what `kstreamnb.spark.checkpoint_files` returns for an address. Default:
            None, no checkpoint is deleted.
        input_topics: topics whose positions are set: names, set to ``to``, or a mapping from names to "earliest",
            "latest", an instant, one offset or offsets by partition. Default: none.
        intermediate_topics: topics that the application writes and reads: the next deployment begins at their end.
            Default: none.
        internal_topics: delete only these internal topics; by default all.
        to: "earliest" (default), "latest", an instant, or one offset for every partition.
        shift_by: begin this number of offsets after the committed ones, before them if negative. Default: None.
        by_duration: begin at the time this long before now, such as "1h". Default: None.
        force: reset an application that is in use, or was deployed to Spark and has lost its checkpoint; default False.
        dry_run: only return the changes, without making them; default False.

    Raises:
        ApplicationStateError: the application is in use, or it was deployed to Spark and no checkpoint is given (only
            its lock shows whether the application runs).
        CheckpointError: the folder does not exist, is not a checkpoint, or it belongs to another application.
        UnknownTopicError: an input topic does not exist.

    Example:
        >>> from kstreamnb.kafka import Admin, local_broker
        >>> with local_broker() as broker:
        ...     Admin(broker.bootstrap_servers).create_topic("orders")
        ...     print(reset(broker.bootstrap_servers, "shop", input_topics={"orders": "earliest"}, dry_run=True))
        reset of "shop":
          begin topic orders at offsets 0: 0
    """
    check_arguments(reset, locals())
    if not input_topics and (to != "earliest" or shift_by is not None or by_duration is not None):
        fact = "to, shift_by and by_duration need input_topics: they choose where those topics begin"
        raise ConfigError(fact, hint="name the topics in input_topics, or leave the position out")
    admin, files = Admin(servers), None if checkpoint is None else to_files(checkpoint)
    topics = admin.topics()
    if files is not None and not files.exists():
        fact = f'checkpoint "{files}" does not exist'
        raise CheckpointError(fact, hint="correct its path; if it no longer exists, leave it out and pass force")
    if not force:
        _refuse_running(admin, application, files, deployed=commits_topic(application) in topics)
    if files is not None and not files.exists("metadata"):
        detail = "a checkpoint of Spark has a file named metadata"
        raise CheckpointError(f'folder "{files}" is not a checkpoint', detail=detail)
    if files is not None:
        _refuse_foreign(application, files)
    if by_duration is not None:
        now_ms = int(time.time() * 1000)  # noqa: TID251 - "before now"
        to = format_ms(max(0, now_ms - duration_ms(by_duration, "by_duration")))
    asked = input_topics if isinstance(input_topics, Mapping) else dict.fromkeys(input_topics, to)
    wanted = {**asked, **dict.fromkeys(intermediate_topics, "latest")}
    expect_known("topic", wanted, topics, error=UnknownTopicError)
    positions = {topic: offsets_at(admin, topic, position) for topic, position in sorted(wanted.items())}
    if shift_by is not None:
        positions = _shifted(admin, application, asked, positions, shift_by)
    owned = _owned(application, topology, topics, tuple(internal_topics))
    downstream, has_offsets = _downstream(admin, topology, topics), bool(group_offsets(admin, application))
    plan = ResetPlan(application, owned, has_offsets, files, positions, downstream)
    if not dry_run:
        _carry_out(admin, plan)
    return plan


def _carry_out(admin: Admin, plan: ResetPlan) -> None:
    """Make the changes of a plan."""
    if commits_topic(plan.application) in plan.topics:
        fence(admin.servers, plan.application)
    admin.delete_topics(*plan.topics)
    if plan.group:
        _of_group(admin, plan.application, lambda: admin.client.delete_consumer_groups([plan.application]))
    if plan.positions:
        partitions = [TopicPartition(*each, offset, _MARK) for each, offset in by_partition(plan.positions).items()]
        wanted = [ConsumerGroupTopicPartitions(plan.application, partitions)]
        _of_group(admin, plan.application, lambda: admin.client.alter_consumer_group_offsets(wanted))
    if plan.checkpoint is not None:
        plan.checkpoint.delete()


def offsets_at(admin: Admin, topic: str, position: Beginning) -> dict[int, int]:
    """Return the offsets of a topic at "earliest", "latest", an instant, or given offsets."""
    if not isinstance(position, Mapping | int):
        return admin.offsets([topic], position)[topic]
    first = admin.offsets([topic], "earliest")[topic]
    wanted = position if isinstance(position, Mapping) else dict.fromkeys(first, position)
    return _within(admin, topic, {**first, **{int(part): int(offset) for part, offset in wanted.items()}})


def _within(admin: Admin, topic: str, offsets: Mapping[int, int]) -> dict[int, int]:
    """Limit offsets to those that a topic has; raise ConfigError for another partition."""
    first, last = (admin.offsets([topic], end)[topic] for end in ("earliest", "latest"))
    expect_known(f'partition of topic "{topic}":', offsets, first, error=ConfigError)
    return {part: max(first[part], min(last[part], offset)) for part, offset in offsets.items()}


def committed_positions(admin: Admin, application: str, topics: Iterable[str] | None = None) -> Offsets:
    """Return the group's offsets of some topics, or of all, requested by a consumer that does not join the group.

    librdkafka ends the process if an admin client requests them while the group's coordinator moves or is missing,
    as after a broker's start (librdkafka's issue 5040).
    """
    partitions = [TopicPartition(name, part) for name, count in admin.topics(topics).items() for part in range(count)]
    if not partitions:
        return {}
    own: dict[str, Any] = {"enable_auto_commit": False, "isolation_level": "read_uncommitted"}
    with closing(client(Consumer, connection(admin.servers, group_id=application, **own))) as consumer:

        def ask() -> list[TopicPartition]:
            try:
                return consumer.committed(partitions, _ASK_S)
            except KafkaException as error:
                reply = consumer.poll(0)  # has the reason if the coordinator refuses access
                refusal = None if reply is None else reply.error()
                raise (error if refusal is None else KafkaException(refusal)) from error

        return _by_topic(admin.retry(ask, f'asking for group "{application}"'))


def reset_positions(admin: Admin, application: str, topics: Iterable[str] | None = None) -> Offsets:
    """Return the positions that a reset has set for the next deployment, if the group has offsets of these topics."""
    return _by_topic(each for each in group_offsets(admin, application, topics) if metadata_of(each).startswith(_MARK))


def group_offsets(admin: Admin, application: str, topics: Iterable[str] | None = None) -> list[TopicPartition]:
    """Return the offsets that a group has committed, if it has any of these topics; see `metadata_of`."""
    if not committed_positions(admin, application, topics):
        return []
    # Only admin clients see metadata. The coordinator has just answered, so the request is safe.
    wanted = [ConsumerGroupTopicPartitions(application)]
    group = _of_group(admin, application, lambda: admin.client.list_consumer_group_offsets(wanted))
    committed = [] if group is None else [each for each in group.topic_partitions if each.offset >= 0]
    return sorted(committed, key=lambda each: (each.topic, each.partition))


def metadata_of(partition: TopicPartition) -> str:
    """Return the metadata of a committed offset. librdkafka copies it without its end: other characters may follow."""
    try:
        return partition.metadata or ""
    except UnicodeDecodeError as error:
        return error.object[: error.start].decode()


def _by_topic(partitions: Iterable[TopicPartition]) -> Offsets:
    offsets: Offsets = {}
    for each in partitions:
        if each.offset >= 0:
            offsets.setdefault(each.topic, {})[each.partition] = each.offset
    return offsets


def _shifted(
    admin: Admin, application: str, asked: Mapping[str, object], positions: Offsets, shift_by: int
) -> dict[str, dict[int, int]]:
    committed = committed_positions(admin, application)
    missing = sorted(asked.keys() - committed.keys())
    if missing:
        raise ConfigError(f'group "{application}" has no offsets of topic "{missing[0]}" to shift')
    moved = {topic: {part: offset + shift_by for part, offset in committed[topic].items()} for topic in asked}
    return {**positions, **{topic: _within(admin, topic, offsets) for topic, offsets in moved.items()}}


def _owned(
    application: str, topology: Topology | None, topics: Mapping[str, int], chosen: tuple[str, ...]
) -> tuple[str, ...]:
    if topology is not None:
        owned = {topic.name for topic in owned_topics(topology, application)}
        internal = [name for name in topics if name in owned]
    else:
        internal = [name for name in topics if name.startswith(f"{application}-") and name.endswith(_INTERNAL)]
    if chosen:
        expect_known(f'internal topic of "{application}":', sorted(chosen), internal, error=ConfigError)
        internal = [name for name in internal if name in chosen]
    marker = commits_topic(application)
    return tuple(sorted([*internal, *([marker] if marker in topics else [])]))


def _downstream(admin: Admin, topology: Topology | None, existing: Mapping[str, int]) -> tuple[str, ...]:
    """Warn consumers of the output: old results stay in the topics, and the new run adds its own."""
    written = set() if topology is None else {sink.topic for sink in topology.sinks() if isinstance(sink.topic, str)}
    topics, lines = sorted(existing.keys() & written), []
    first, last = admin.offsets(topics, "earliest"), admin.offsets(topics, "latest")
    for topic in topics:
        ranges = ", ".join(f"{part}: {first[topic][part]} to {end}" for part, end in last[topic].items())
        lines.append(f"  output topic {topic} keeps offsets {ranges}; consumers read new results after the old ones")
    return tuple(lines)


def _refuse_running(admin: Admin, application: str, files: CheckpointFiles | None, *, deployed: bool) -> None:
    if files is None and deployed:  # its group has no members: only the checkpoint shows if it runs
        detail = f'topic "{commits_topic(application)}" exists, so it was deployed to Spark, and no checkpoint is given'
        hint = "pass the deployment's checkpoint; if it no longer exists, stop the application and pass force"
        raise ApplicationStateError(f'application "{application}" may be running', detail=detail, hint=hint)
    if files is not None and files.in_use():
        fact = f'application "{application}" is running'
        raise ApplicationStateError(fact, detail=f'a process is using checkpoint "{files}"', hint="stop it first")
    refuse_members(admin, application)


def _refuse_foreign(application: str, files: CheckpointFiles) -> None:
    """Refuse to delete the checkpoint of another application; an unreadable manifest does not stop a reset."""
    owner = application
    with suppress(OSError, ValueError):
        owner = json.loads(files.read(MANIFEST) or b"{}").get("application", application)
    if owner != application:
        fact = f'checkpoint "{files}" belongs to application "{owner}", not to "{application}"'
        raise CheckpointError(fact, hint="give the application's own folder, or the id that it belongs to")


def fence(servers: Servers, application: str) -> None:
    """End a deployment that may run elsewhere: its next batch fails, and it does not restart automatically."""
    TopicClaim(servers, application)
    marker = commits_topic(application)
    slots = Admin(servers).topics([marker])[marker] - SHARED_PARTITIONS
    for slot in (None, *range(slots)):
        producer = client(Producer, connection(servers, transactional_id=transactional_id(application, slot)))
        try:
            repeat_call(producer.init_transactions, _CALL_S, patience_s=_FENCE_S)
        except KafkaException as error:
            raise kafka_error(f'fencing "{application}"', error, servers) from error


def refuse_members(admin: Admin, application: str, topics: Iterable[str] | None = None) -> None:
    """Raise ApplicationStateError if the application's group has members; it commits offsets of these topics."""
    described = _of_group(admin, application, lambda: admin.client.describe_consumer_groups([application]))
    members = 0 if described is None else len(described.members)
    unseen = described is None or described.state == ConsumerGroupState.DEAD
    if members or (unseen and _refuses_commits(admin, application, topics)):
        fact = f'group "{application}" has {pluralize(members, "active member") if members else "active members"}'
        hint = "stop all instances of the application first; those that crashed leave after session.timeout.ms"
        raise ApplicationStateError(fact, hint=hint)


def _refuses_commits(admin: Admin, application: str, topics: Iterable[str] | None) -> bool:
    """Return whether a group has members that librdkafka cannot see, as with ``group.protocol=streams``.

    Only an empty group accepts offsets from outside. Metadata of this size is refused for every partition, but after
    the check of members, so the request changes nothing.
    """
    committed = group_offsets(admin, application, topics)[:1]
    long = [TopicPartition(each.topic, each.partition, each.offset, _TOO_LONG) for each in committed]
    if not long:
        return False
    wanted = [ConsumerGroupTopicPartitions(application, long)]
    answer = _of_group(admin, application, lambda: admin.client.alter_consumer_group_offsets(wanted))
    errors = [] if answer is None else [part.error for part in answer.topic_partitions if part.error is not None]
    return any(error.code() == KafkaError.UNKNOWN_MEMBER_ID for error in errors)


def _of_group(admin: Admin, group: str, call: Callable[[], Mapping[str, Future[T]]]) -> T | None:
    """Return the cluster's answer about a group, None if it knows none; wait for a coordinator that still loads."""

    def ask() -> T | None:
        try:
            return call()[group].result(_CALL_S)
        except KafkaException as error:
            if error.args[0].code() in _UNKNOWN_GROUP:
                return None
            raise

    return admin.retry(ask, f'asking for group "{group}"')
