"""`deploy`: run a topology on Spark Structured Streaming, from Kafka to Kafka."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from pyspark.sql import SparkSession

from kstreamnb import hooks
from kstreamnb.core.time import Duration, Instant, duration_ms, instant_ms
from kstreamnb.errors import ConfigError, UnknownTopicError, unknown
from kstreamnb.kafka.batch_offsets import Offsets
from kstreamnb.runtime.context.config import Config
from kstreamnb.spark.contracts import OffsetSource, QuerySink, StreamSettings
from kstreamnb.spark.io.changelog_topics import Changelogs
from kstreamnb.spark.io.offset_source import KafkaOffsetSource, Starting
from kstreamnb.spark.io.sinks import KafkaSink
from kstreamnb.spark.jvm.constants import LARGEST_FUNCTION
from kstreamnb.spark.jvm.session import find_java, require_session, spark_session
from kstreamnb.spark.operations.restart_policy import RestartPolicy
from kstreamnb.spark.operations.topic_discovery import TopicDiscovery, application_over
from kstreamnb.spark.operations.topic_watcher import TopicWatcher, refuse_replaced_topics
from kstreamnb.spark.planning.deployment import Application, Deployment, WorkerOptions
from kstreamnb.spark.planning.output_topics import output_topics
from kstreamnb.spark.planning.placement import plan_deployment
from kstreamnb.spark.planning.preflight import refuse_what_cannot_run, refuse_what_is_too_large
from kstreamnb.spark.query.query import Query
from kstreamnb.spark.state.checkpoint_manifest import (
    Manifest,
    check_compatible,
    checkpoint_folder,
    manifest_of,
    read_manifest,
    write_manifest,
)
from kstreamnb.spark.state.checkpoint_reader import last_begun
from kstreamnb.topology.topology import Topology

if TYPE_CHECKING:  # Kafka's client is loaded when a query connects
    from kstreamnb.kafka.admin import Admin
    from kstreamnb.kafka.at_least_once_writer import AtLeastOnceWriter
    from kstreamnb.kafka.client import Servers
    from kstreamnb.kafka.transactional_writer import TransactionalWriter

__all__ = ["deploy", "start_query"]

Guarantee: TypeAlias = Literal["exactly_once", "at_least_once"]
_REPLICAS = 3
_COMMIT_INTERVAL = {"commit.interval.ms", "commit_interval_ms", "commit_interval"}


def deploy(
    topology: Topology,
    *,
    spark: SparkSession | None = None,
    bootstrap_servers: Servers | None = None,
    checkpoint: str | Path,
    config: Config | Mapping[str, object] | None = None,
    application_id: str | None = None,
    guarantee: Guarantee | None = None,
    starting: Instant | Mapping[str, Mapping[int, int]] = "earliest",
    trigger: Duration | Literal[0] | None = None,
    available_now: bool = False,
    max_records: int = 500_000,
    tick: Duration = "1s",
    spark_partitions: int | None = None,
    memory_limit: int = 1 << 30,
    fail_on_loss: bool = True,
    create_topics: bool = True,
    sink: QuerySink | None = None,
    changelogs: bool = False,
    discover: Duration = "30s",
    parity: bool = True,
    verify: bool = False,
    producer: Mapping[str, object] | None = None,
) -> Query:
    r"""Run a topology as a streaming query that reads and writes Kafka; continues from the checkpoint if there is one.

    Args:
        topology: what ``builder.build()`` returned.
        spark: the session; without one, `spark_session` starts one.
        bootstrap_servers: ``host:port``, or librdkafka's settings with ``bootstrap.servers`` among them.
        checkpoint: a folder that all of Spark's processes reach; it belongs to this application alone.
        config: the application's settings, as for the driver; they may hold ``bootstrap.servers``. Settings of clients,
            such as ``security.protocol`` or ``consumer.…``, reach them; those of ``bootstrap_servers`` win.
        application_id: the application's id, unless the config or the topology's name says it.
        guarantee: "exactly_once" publishes each batch in one transaction; "at_least_once" may publish one twice. The
            config's ``processing.guarantee`` by default.
        starting: where a new query begins: "earliest", "latest", which is now, an instant, or offsets by topic and
            partition.
        trigger: the time between batches, "0s" for at once; by default the config's
            ``commit.interval.ms`` if it is set, else at once.
        available_now: end when all records that exist now are processed.
        max_records: records a batch at most, those first by event time; 0 for no limit. The default lets a backlog of
            any size through in batches whose transactions end in time.
        tick: how often wall-clock punctuators are looked at where the topology has processors of the user's own.
        spark_partitions: state partitions of the query, fixed by its first start; as many as cores by default.
        memory_limit: bytes of state that one worker keeps in memory.
        fail_on_loss: end the query when records were removed before they were read.
        create_topics: create output topics that do not exist, with the partitions of the widest input.
        sink: where the output goes instead of Kafka, such as a `DatabaseSink`.
        changelogs: write the stores' changes to compacted changelog topics, too, for others to read; of versioned
            stores the latest versions.
        discover: how often to look for new topics where a source reads topics by a pattern.
        parity: in a notebook, compare driver and Spark on the builder's sample before a new query starts.
        verify: before each batch compare every store that a worker remembers with what was committed, and end the
            query where they differ; costs as much as reading the whole state.
        producer: further settings of the producer.

    Raises:
        CheckpointError: the checkpoint belongs to another topology, or the application to another checkpoint.
        UnknownTopicError: an input topic does not exist. Nothing has been changed after either error.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from kstreamnb import Sample, StreamsBuilder
        >>> from kstreamnb.kafka import Admin, local_broker, produce
        >>> builder = StreamsBuilder("large-orders")
        >>> builder.stream("orders").filter(lambda key, pieces: pieces > 1).to("large")
        >>> sample = Sample.from_text("topic | key | value | time\norders | a | 1 | 5\norders | b | 3 | 6")
        >>> with local_broker() as broker, TemporaryDirectory() as checkpoint:
        ...     servers = broker.bootstrap_servers
        ...     Admin(servers).create_topic("orders")
        ...     sent = produce(servers, sample)
        ...     query = deploy(builder.build(), bootstrap_servers=servers, checkpoint=checkpoint, available_now=True)
        ...     done = query.await_termination()
        ...     [(record.key, record.value) for record in Sample.capture(servers, "large")]
        [('b', 3)]
    """
    _refuse_other_kinds(topology, spark, sink)
    _refuse_nonsense(max_records=max_records, spark_partitions=spark_partitions, memory_limit=memory_limit)
    settings = _settings(config, topology, application_id)
    if spark is None and SparkSession.getActiveSession() is None:
        find_java()  # it is missed before a broker is waited for
    folder = checkpoint_folder(checkpoint)
    old = read_manifest(folder)
    servers = _servers(settings, bootstrap_servers)
    from kstreamnb.kafka.admin import Admin
    from kstreamnb.kafka.application_reset import reset_positions

    admin = Admin(servers)
    topics = admin.topics()
    missing = _missing_outputs(topology, settings, topics, create=create_topics) if sink is None else {}
    application = application_over(topology, settings, {**topics, **missing})
    refuse_what_cannot_run(application)
    if sink is not None and application.looped:
        raise ConfigError(f'topic "{application.looped[0]}" is written and read back: that needs Kafka as its sink')
    is_new = last_begun(folder) < 0  # an earlier deployment may have got no further than its manifest
    start = _start(application, starting, reset_positions(admin, application.id) if is_new else {})
    session = require_session(spark or spark_session())
    name = old.query if old is not None else str(uuid.uuid4())  # noqa: TID251 - a new checkpoint is a new identity
    own = {**_with_prefix(settings, "producer."), **(producer or {})}
    sink = sink or KafkaSink(_writer(servers, application, name, guarantee, own))
    parallelism = session.sparkContext.defaultParallelism
    options = WorkerOptions(kafka=sink.kafka, memory_limit=memory_limit, verify=verify)
    slots = spark_partitions or (old.spark_partitions if old is not None else parallelism)
    deployment = _placed(name, application, slots, options, old)
    stream = StreamSettings(
        folder,
        None if available_now else _trigger_ms(trigger, settings, config),
        max_records,
        duration_ms(tick, "tick") if any(task.punctuates for task in deployment.tasks) else 0,
        parallelism,
    )
    discover_ms = duration_ms(discover, "discover")
    if parity and old is None and (pre_deploy := hooks.current().pre_deploy):
        pre_deploy(topology, session, settings, application.partitions)
    ids = admin.identities(application.inputs)
    if old is not None and fail_on_loss:
        refuse_replaced_topics(old.topic_ids, ids, application.id)
    _create_topics(admin, missing, settings.replication_factor)
    manifest = replace(manifest_of(deployment), topic_ids=ids)
    write_manifest(folder, manifest)
    source = KafkaOffsetSource(servers, application.external, application.global_topics, start, fail_on_loss)
    source = source.resolved() if is_new else source
    written = _written(topology, settings) if isinstance(sink, KafkaSink) else []
    if changelogs:
        written += _keep_changelogs(sink, deployment, admin, topics)
    query = query_of(session, deployment, source, sink, stream)
    watcher = TopicWatcher(query, admin, ids, written, fail_on_loss=fail_on_loss)
    query.control.companions += [RestartPolicy(query, settings.uncaught_handler), watcher]
    if any(each.pattern for each in topology.sources()):
        query.control.companions.append(
            TopicDiscovery(query, settings, admin, discover_ms, old=manifest, source=source)
        )
    query.restart()
    _warn_of_few_replicas(admin, sink)
    return query


def _refuse_other_kinds(topology: object, spark: object, sink: object) -> None:
    for value, kind, name, hint in (
        (topology, Topology, "topology", "pass what builder.build() returns"),
        (spark, SparkSession, "Spark session", "pass what spark_session() returns"),
        (sink, QuerySink, "sink", "FunctionSink(function) passes each batch to a function"),
    ):
        if not isinstance(value, kind) and (value is not None or kind is Topology):
            raise ConfigError(f"expected a {name}, got {type(value).__name__}", hint=hint)


def _refuse_nonsense(**numbers: object) -> None:
    for name, number in numbers.items():
        if number is not None and not (isinstance(number, int) and number >= 0):
            raise ConfigError(f"{name} must be a whole number from 0, got {number!r}")


def _written(topology: Topology, settings: Config) -> list[str]:
    """Return the topics that the query writes, which must exist while it runs."""
    letters = settings.dead_letter_topic
    return [*output_topics(topology), *([] if letters is None else [letters])]


def _keep_changelogs(sink: QuerySink, deployment: Deployment, admin: Admin, topics: Mapping[str, int]) -> list[str]:
    """Make the sink write changelogs, and create their topics; returns the topics' names."""
    if not isinstance(sink, KafkaSink):
        raise ConfigError("changelog topics need Kafka as the sink")
    changelogs = Changelogs(deployment)
    for topic in changelogs.topics:
        if topic.name not in topics:
            admin.create_topic(
                topic.name,
                partitions=topic.partitions or 1,
                replicas=deployment.application.config.replication_factor,
                config=dict(topic.config),
                exists_ok=True,
            )
    sink.changelogs = changelogs.records
    return [topic.name for topic in changelogs.topics]


def _placed(
    name: str, application: Application, spark_partitions: int, options: WorkerOptions, old: Manifest | None
) -> Deployment:
    """Return the deployment; raise CheckpointError if it cannot use the state of its checkpoint."""
    keys = None if old is None else old.groups
    deployment = plan_deployment(name, [application], spark_partitions, options=options, known_keys=keys)
    if old is not None:
        check_compatible(old, manifest_of(deployment))
    return deployment


def _create_topics(admin: Admin, topics: Mapping[str, int], replicas: int) -> None:
    for topic, partitions in topics.items():
        admin.create_topic(topic, partitions=partitions, replicas=replicas, exists_ok=True)


def _warn_of_few_replicas(admin: Admin, sink: QuerySink) -> None:
    from kstreamnb.kafka.transactional_writer import TransactionalWriter

    if isinstance(sink, KafkaSink) and isinstance(sink.writer, TransactionalWriter):
        topic = sink.writer.marker_topic
        few = few_replicas(topic, *admin.replication(topic))
        if few is not None:
            warnings.warn(few, stacklevel=3)


def few_replicas(topic: str, replicas: int, brokers: int) -> str | None:
    """Return a warning if a cluster of 3 or more brokers keeps fewer than 3 copies of the marker topic.

    Example:
        >>> few_replicas("shop-commits", 1, 3)
        'topic "shop-commits" has 1 replica on 3 brokers: if that is lost, nobody knows which batches Kafka has; ...
        >>> few_replicas("shop-commits", 1, 1)
    """
    if brokers < _REPLICAS or replicas >= _REPLICAS:
        return None
    return (
        f'topic "{topic}" has {replicas} {"replica" if replicas == 1 else "replicas"} on {brokers} brokers: if '
        f"{'that is' if replicas == 1 else 'they are'} lost, nobody knows which batches Kafka has; set "
        f'"replication.factor" to {_REPLICAS} for new topics, and reassign this one (kafka-reassign-partitions)'
    )


def start_query(
    spark: SparkSession, deployment: Deployment, source: OffsetSource, sink: QuerySink, settings: StreamSettings
) -> Query:
    """Start the query of a deployment over any source of records, into any sink."""
    return query_of(spark, deployment, source, sink, settings).restart()


def query_of(
    spark: SparkSession, deployment: Deployment, source: OffsetSource, sink: QuerySink, settings: StreamSettings
) -> Query:
    """Return the query of a deployment, not started yet."""
    refuse_what_is_too_large(len(deployment.packed), spark.sparkContext.getConf().get(LARGEST_FUNCTION, "1m") or "1m")
    sink.attach(deployment, spark)
    return Query(spark, deployment, source, sink, settings)


def _settings(config: Config | Mapping[str, object] | None, topology: Topology, application_id: str | None) -> Config:
    settings = Config.of(config)
    if application_id is not None:
        settings = replace(settings, application_id=application_id)
    if settings.application_id is None and topology.name is None:
        raise ConfigError(
            "the application has no id",
            detail="it names the internal topics, the transactions and the consumer group",
            hint='deploy(…, application_id="…"), or StreamsBuilder("…")',
        )
    return settings


def _servers(settings: Config, servers: Servers | None) -> Servers:
    """Return the settings of every client: those of the config, then those given with the address."""
    from kstreamnb.kafka.client import as_settings

    if servers is None and settings.bootstrap_servers is None:
        raise ConfigError("no broker address is set", hint='deploy(…, bootstrap_servers="host:port")')
    given = as_settings(settings.bootstrap_servers if servers is None else servers)  # type: ignore[arg-type]
    plain = {name: value for name, value in settings.client_settings("admin").items() if "." in name}
    return {**plain, **_with_prefix(settings, "consumer."), **given}


def _with_prefix(settings: Config, prefix: str) -> dict[str, object]:
    return {name.removeprefix(prefix): value for name, value in settings.others.items() if name.startswith(prefix)}


def _missing_outputs(
    topology: Topology, settings: Config, topics: Mapping[str, int], *, create: bool
) -> dict[str, int]:
    """Return output topics to create, with as many partitions as the widest input has."""
    missing = [topic for topic in output_topics(topology) if topic not in topics]
    if missing and not create:
        hint = "create it, or pass create_topics=True"
        raise unknown("output topic", missing[0], sorted(topics), error=UnknownTopicError, hint=hint)
    widest = max([topics[topic] for source in topology.sources() for topic in source.topics if topic in topics] or [1])
    letters = settings.dead_letter_topic
    dead = {letters: 1} if letters is not None and letters not in topics else {}
    return {**dead, **dict.fromkeys(missing, widest)}


def _writer(
    servers: Servers, application: Application, query: str, guarantee: Guarantee | None, producer: Mapping[str, object]
) -> TransactionalWriter | AtLeastOnceWriter:
    from kstreamnb.kafka.at_least_once_writer import AtLeastOnceWriter
    from kstreamnb.kafka.transactional_writer import TransactionalWriter

    settings = application.config
    guarantee = guarantee or ("exactly_once" if settings.exactly_once else "at_least_once")
    writer: TransactionalWriter | AtLeastOnceWriter
    if guarantee == "exactly_once":
        replicas = settings.replication_factor
        writer = TransactionalWriter(servers, application.id, query, config=producer, replicas=replicas)
    elif guarantee == "at_least_once":
        writer = AtLeastOnceWriter(servers, application.id, config=producer)
    else:
        raise unknown("guarantee", guarantee, ("exactly_once", "at_least_once"), error=ConfigError)
    if producer:
        writer.new_producer()  # settings that it does not take are refused before anything is touched
    return writer


def _trigger_ms(trigger: Duration | int | None, settings: Config, config: Config | Mapping[str, object] | None) -> int:
    """Return the time between batches: the argument, else a commit interval that was set, else 0."""
    if trigger is not None:
        return 0 if trigger in ("0s", 0) else duration_ms(trigger, "trigger")
    is_set = isinstance(config, Mapping) and bool(_COMMIT_INTERVAL & config.keys())
    interval = settings.commit_interval_ms or 0
    usual = Config(processing_guarantee=settings.processing_guarantee).commit_interval_ms
    return interval if is_set or interval != usual else 0


def _start(
    application: Application, starting: Instant | Mapping[str, Mapping[int, int]], reset: Offsets
) -> Starting | tuple[Starting, dict[str, Starting]]:
    """Return where to begin: the offsets of a reset, else a source's own word for its topics, else ``starting``."""
    own: dict[str, Starting] = {
        topic: source.offset_reset
        for source in application.topology.sources()
        if source.offset_reset is not None
        for topic in source.topics
    }
    own.update(reset)
    if isinstance(starting, Mapping):
        unknown = sorted(set(starting) - set(application.external))
        if unknown:
            raise ConfigError(
                f'offsets are given for topic "{unknown[0]}", which is not read',
                detail=f"input topics: {', '.join(application.external)}",
            )
        for topic, offsets in starting.items():
            _refuse_no_offsets(topic, offsets, application.partitions.get(topic, 1))
        return (starting, own) if own else starting
    start: Starting = starting if starting in ("earliest", "latest") else instant_ms(starting)
    return (start, own) if own else start


def _refuse_no_offsets(topic: str, offsets: object, partitions: int) -> None:
    for partition, offset in offsets.items() if isinstance(offsets, Mapping) else ():
        if partition not in range(partitions):
            raise ConfigError(
                f'an offset is given for partition {partition} of topic "{topic}"',
                detail=f"its partitions are 0 to {partitions - 1}",
            )
        if not isinstance(offset, int) or offset < 0:
            raise ConfigError(f'partition {partition} of topic "{topic}" cannot begin at offset {offset}')
