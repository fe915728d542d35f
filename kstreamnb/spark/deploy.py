"""`deploy`: run a topology on Spark Structured Streaming, from Kafka to Kafka."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pyspark.sql import SparkSession

from kstreamnb import hooks
from kstreamnb.core.arguments import at_least, check_arguments, expect
from kstreamnb.core.time import Duration, Instant, duration_ms, instant_ms
from kstreamnb.errors import CheckpointError, ConfigError, TopologyError
from kstreamnb.kafka.batch_offsets import Offsets
from kstreamnb.kafka.java import java
from kstreamnb.kafka.storage.checkpoint_files import Checkpoint, CheckpointFiles
from kstreamnb.runtime.context.config import Config
from kstreamnb.spark.contracts import OffsetSource, QuerySink, StreamSettings
from kstreamnb.spark.execution.seed import FOLDER as SEED
from kstreamnb.spark.execution.worker_progress import positions_folder
from kstreamnb.spark.io.offset_source import KafkaOffsetSource, Starting
from kstreamnb.spark.io.sinks import KafkaSink
from kstreamnb.spark.jvm.constants import LARGEST_FUNCTION
from kstreamnb.spark.jvm.session import refuse_unsupported, require_session, spark_session
from kstreamnb.spark.operations.adoption import adopted_offsets, refuse_other_serdes
from kstreamnb.spark.operations.application_topics import (
    create_missing,
    fewest_replicas,
    keep_changelogs,
    missing_outputs,
    topics_for,
    with_limits,
    written_topics,
)
from kstreamnb.spark.operations.foreign_progress import refuse_foreign_progress
from kstreamnb.spark.operations.restart_policy import RestartPolicy
from kstreamnb.spark.operations.slow_batches import SlowBatches
from kstreamnb.spark.operations.topic_discovery import TopicDiscovery, application_over
from kstreamnb.spark.operations.topic_watcher import PATIENCE_S, TopicWatcher, refuse_replaced_topics
from kstreamnb.spark.planning.deployment import ApplicationPlan, Deployment, WorkerOptions
from kstreamnb.spark.planning.deployment_plan import ONE_AT_A_TIME, warn_of_uneven_stores
from kstreamnb.spark.planning.placement import plan_deployment, useful_partitions
from kstreamnb.spark.planning.preflight import refuse_what_cannot_run, refuse_what_is_too_large
from kstreamnb.spark.query.control import QueryControl
from kstreamnb.spark.query.query import Query
from kstreamnb.spark.state.checkpoint_manifest import (
    Manifest,
    check_compatible,
    manifest_of,
    read_manifest,
    starts_empty,
    withdraw_manifest,
    write_manifest,
)
from kstreamnb.spark.state.checkpoint_reader import last_begun
from kstreamnb.spark.state.hadoop_files import checkpoint_files
from kstreamnb.spark.state.shared_storage import prove_shared
from kstreamnb.topology.topology import Topology

if TYPE_CHECKING:  # Kafka's client is loaded when a query connects
    from kstreamnb.kafka.admin import Admin
    from kstreamnb.kafka.client import Servers

Publish: TypeAlias = Literal["driver", "executors"]
Guarantee: TypeAlias = Literal["exactly_once", "at_least_once"]
_COMMIT_INTERVAL = {"commit.interval.ms", "commit_interval_ms", "commit_interval"}


def deploy(
    topology: Topology,
    *,
    spark: SparkSession | None = None,
    bootstrap_servers: Servers | None = None,
    checkpoint: Checkpoint,
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
    slow_batch: Duration = "1m",
    producer: Mapping[str, object] | None = None,
    publish: Publish = "driver",
    live: bool = True,
) -> Query:
    r"""Run a topology as a streaming query from Kafka to Kafka; continue from the checkpoint if there is one.

    Args:
        topology: the topology, from ``builder.build()``.
        spark: the session; without one, `spark_session` starts one. Default: None.
        bootstrap_servers: ``host:port``, or librdkafka's settings with ``bootstrap.servers`` among them. Default: None,
            those of ``config``.
        checkpoint: a folder that all of Spark's processes reach, or an address such as ``"s3a://bucket/shop"`` that
            the session's Hadoop knows; it belongs to this application alone.
        config: the application's settings, as for the driver; they may hold ``bootstrap.servers``. Settings of clients,
            such as ``security.protocol`` or ``consumer.…``, reach them; those of ``bootstrap_servers`` win. Default:
            `Config()`.
        application_id: the application's id. Default: None, that of the config, else the topology's name.
        guarantee: "exactly_once" publishes each batch in one transaction; "at_least_once" may publish a batch twice.
            Default: None, the config's ``processing.guarantee``.
        starting: where a new query begins: "earliest", "latest" (now), an instant, or offsets by topic and partition.
            Default: "earliest".
        trigger: the time between batches; "0s" starts each batch at once. Default: None, the config's
            ``commit.interval.ms`` if it is set, else "0s".
        available_now: process the records that exist now, then end. Default: False, run until the query is stopped.
        max_records: maximum number of records per batch, earliest event times first; 0 for no limit. The default keeps
            batches small enough for their transactions to end in time, whatever the size of the backlog.
        tick: how often wall-clock punctuators are checked, if the topology has users' processors. Default: "1s".
        spark_partitions: state partitions of the query, fixed by its first start until `ks.spark.rescale`; by default
            as many as cores, but no more than the widest level has tasks. With 1, the default in a session of the
            profile "latency", a foreign-key join stays one task.
        memory_limit: bytes of memory that state may take in all Python workers of an executor; state that exceeds it is
            kept in files in the executor's local folder. Default: 1 GiB.
        fail_on_loss: end the query if records were removed before they were read. Default: True.
        create_topics: create output topics that do not exist, with the partitions of the widest input. Default: True.
        sink: where the output goes instead of Kafka, such as a `DatabaseSink`. Default: None.
        changelogs: also write the stores' changes to changelog topics, as Kafka Streams does, so that a Java
            application can restore its stores from them. Default: False.
        discover: how often to look for new topics, if a source reads topics by a pattern, and for new partitions, if no
            task has state. Default: "30s".
        parity: in a notebook, compare driver and Spark on the builder's sample before a new query starts. Default:
            True.
        verify: before each batch compare every store that a worker remembers with what was committed, and end the query
            if they differ; costs as much as reading the whole state. Default: False.
        slow_batch: how long a batch may take before it counts as slow: `Query.status`, the log, ``/health`` and the
            panel then name the task, node and record at work. Default: "1m".
        producer: further settings of the producer. Default: none.
        publish: "driver" publishes each batch in one transaction, so that readers see a whole batch or nothing of it.
            "executors" publishes in parallel, in a transaction for each output slot, as many as the first start has
            state partitions: each record once, but readers may see a part of a batch first. Default: "driver".
        live: send the changes of stores to the driver with each batch, so that reading `Query.store` is fast. False
            saves this work, but each read goes to the checkpoint. Default: True.

    Raises:
        CheckpointError: the checkpoint belongs to another topology, or the application to another checkpoint.
        ApplicationStateError: Kafka Streams runs under this id: its group has members.
        UnknownTopicError: an input topic does not exist. Nothing has been changed after any of these errors.

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
        ...     query.stop()
        ...     [(record.key, record.value) for record in Sample.capture(servers, "large")]
        [('b', 3)]
    """
    _refuse_nonsense(locals())
    settings, discover_ms = _settings(config, topology, application_id), duration_ms(discover, "discover")
    if spark is None and SparkSession.getActiveSession() is None:
        java()  # a missing package is reported before waiting for a broker
    folder = checkpoint_files(checkpoint, spark)
    old = read_manifest(folder)
    servers = _servers(settings, bootstrap_servers)
    from kstreamnb.kafka.admin import Admin

    admin = Admin(servers)
    topics = topics_for(admin, topology, settings)
    missing = missing_outputs(topology, settings, topics, create=create_topics) if sink is None else {}
    as_given = {**_with_prefix(settings, "producer."), **(producer or {})}  # without the limits that the plan adds
    limited = settings if sink is not None else with_limits(settings, topology, admin, {**servers, **as_given})
    over = partial(application_over, topology, limited, topics | missing)
    application = over(None if old is None else old.split)
    refuse_what_cannot_run(application)
    _refuse_loops(application, sink)
    is_new = last_begun(folder) < 0  # an earlier deployment may have got no further than its manifest
    adopted, reset = _origin(admin, application, folder, is_new=is_new)
    start = _start(application, starting, adopted or reset)
    prove_shared(session := require_session(spark or spark_session()), folder)
    name = old.query if old is not None else str(uuid.uuid4())  # noqa: TID251 - a new checkpoint is a new identity
    spark_partitions = spark_partitions or (
        old.spark_partitions if old else useful_partitions(application, session.sparkContext.defaultParallelism)
    )
    application = over(()) if old is None and useful_partitions(application, spark_partitions) == 1 else application
    slots = 0 if publish == "driver" else (old and old.slots) or spark_partitions
    sink = sink or _kafka_sink(servers, application, name, guarantee, as_given, slots)
    options = WorkerOptions(sink.kafka, memory_limit, verify=verify, changelogs=changelogs, slots=slots, live=live)
    options = _of_checkpoint(options, folder, adopts=is_new and adopted is not None)
    deployment = _placed(name, application, spark_partitions, options, old)
    refuse_foreign_progress(admin, deployment, folder, adopted, reset)
    tick_ms = duration_ms(tick, "tick") * any(task.punctuates for task in deployment.tasks)
    trigger_ms = None if available_now else _trigger_ms(trigger, settings, config)
    stream = StreamSettings(folder, trigger_ms, max_records, tick_ms, session.sparkContext.defaultParallelism)
    if parity and old is None and (pre_deploy := hooks.current().pre_deploy):
        pre_deploy(topology, session, settings, application.partitions)
    ids = admin.identities(application.inputs)
    if old is not None and fail_on_loss:
        refuse_replaced_topics(old.topic_ids, ids, application.id)
    create_missing(admin, missing, settings.replication_factor)
    written = written_topics(topology, settings) if isinstance(sink, KafkaSink) else []
    if changelogs:
        written += keep_changelogs(sink, deployment, admin, session, folder, None if is_new else old)
    write_manifest(folder, manifest := replace(manifest_of(deployment), topic_ids=ids), new=old is None)
    source = KafkaOffsetSource(servers, application.external, application.global_topics, start, fail_on_loss)
    source = source.resolved() if is_new else replace(source, starting={})  # new topics from their first record
    query = query_of(session, deployment, source, sink, stream)
    query.control.companions += [
        RestartPolicy(query, settings.uncaught_handler),
        TopicWatcher(query, Admin(servers, patience_s=PATIENCE_S), ids if fail_on_loss else None, written),
        SlowBatches(query, slow_batch),
        *_discovery(query, limited, admin, discover_ms, manifest, source),
    ]
    _launch(query, folder, manifest, old, is_new=is_new)
    query.book.replicas = fewest_replicas(admin, sink, written)
    return query


def _launch(query: Query, folder: CheckpointFiles, manifest: Manifest, old: Manifest | None, *, is_new: bool) -> None:
    """Start a query; if its sink has batches of another checkpoint, a new folder is left as it was."""
    if old is not None and (empty := starts_empty(old, manifest)):
        query.control.action.log.note("has new state", empty=", ".join(empty))
    _note_joins(query, old)
    try:
        query.restart()
    except CheckpointError:
        if old is None and is_new and last_begun(folder) < 0:
            withdraw_manifest(folder)
        raise


def _note_joins(query: Query, old: Manifest | None) -> None:
    """Log which foreign-key joins that can be split are, and why."""
    application = query.deployment.application
    chosen = "its sides run at the same time" if application.split else ONE_AT_A_TIME
    because = chosen if old is None else "the checkpoint began with it"
    for join in (*application.split, *application.whole):
        layout = "split" if join in application.split else "one task"
        query.control.action.log.note("foreign-key join", node=join, layout=layout, because=because)


def _discovery(
    query: Query, settings: Config, admin: Admin, discover_ms: int, manifest: Manifest, source: KafkaOffsetSource
) -> Iterator[TopicDiscovery]:
    """Yield what looks for new topics and partitions while the query runs, if there may be any that it can read."""
    if any(each.pattern for each in query.topology.sources()) or not query.deployment.stateful:
        yield TopicDiscovery(query, settings, admin, discover_ms, old=manifest, source=source)


def _of_checkpoint(options: WorkerOptions, folder: CheckpointFiles, *, adopts: bool) -> WorkerOptions:
    """Add what workers need to know of the checkpoint: where to note their positions, and an adopted state."""
    seed = f"{folder.address}/{SEED}".removeprefix("file:") if adopts else ""
    return replace(options, positions=positions_folder(folder), seed=seed)


def _refuse_loops(application: ApplicationPlan, sink: QuerySink | None) -> None:
    if sink is not None and application.looped:
        raise ConfigError(f'topic "{application.looped[0]}" is written and read back: that needs Kafka as its sink')


def _origin(
    admin: Admin, application: ApplicationPlan, folder: CheckpointFiles, *, is_new: bool
) -> tuple[Offsets | None, Offsets]:
    """Return the offsets at which an adopted application continues, and those that a reset has set."""
    from kstreamnb.kafka.application_reset import reset_positions

    adopted = adopted_offsets(folder)
    if is_new:
        refuse_other_serdes(folder, application.config)
    return adopted, reset_positions(admin, application.id, application.external) if is_new and adopted is None else {}


def _refuse_nonsense(arguments: Mapping[str, Any]) -> None:
    refuse_unsupported(arguments["spark"])
    expect(arguments["spark"], SparkSession | None, "spark", hint="pass what spark_session() returns")
    expect(arguments["sink"], QuerySink | None, "sink", hint="FunctionSink(function) passes each batch to a function")
    check_arguments(deploy, arguments)
    for name in ("max_records", "spark_partitions", "memory_limit"):
        at_least(0, arguments[name] or 0, name)
    topology: Topology = arguments["topology"]
    if topology.stale is not None:  # it would run what the notebook no longer contains
        raise TopologyError(f"the topology is stale: {topology.stale}", hint="build it again, then run this cell")
    if topology.unwritten:
        raise TopologyError(topology.unwritten)
    if arguments["publish"] == "executors" and arguments["sink"] is not None:
        raise ConfigError('publish="executors" needs Kafka as the sink')
    if duration_ms(arguments["slow_batch"], "slow_batch") <= 0:
        raise ConfigError(f"slow_batch must be longer than 0 ms, got {arguments['slow_batch']!r}")


def _placed(
    name: str, application: ApplicationPlan, spark_partitions: int, options: WorkerOptions, old: Manifest | None
) -> Deployment:
    """Return the deployment; raise CheckpointError if it cannot use the state of its checkpoint."""
    keys = None if old is None else old.groups
    deployment = plan_deployment(name, [application], spark_partitions, options=options, known_keys=keys)
    if old is not None:
        check_compatible(old, manifest_of(deployment))
    warn_of_uneven_stores(application)
    return deployment


def query_of(
    spark: SparkSession, deployment: Deployment, source: OffsetSource, sink: QuerySink, settings: StreamSettings
) -> Query:
    """Return the query of a deployment over any source of records, into any sink; `Query.restart` starts it."""
    refuse_what_is_too_large(len(deployment.packed), spark.sparkContext.getConf().get(LARGEST_FUNCTION, "1m") or "1m")
    sink.attach(deployment, spark)
    return Query(QueryControl(spark, deployment, source, sink, settings))


def _settings(config: Config | Mapping[str, object] | None, topology: Topology, application_id: str | None) -> Config:
    settings = Config.of(config)
    if application_id is not None:
        settings = replace(settings, application_id=application_id)
    if settings.application_id is None and topology.name is None:
        fact = "the application has no id"
        detail = "it names the internal topics, the transactions and the consumer group"
        raise ConfigError(fact, detail=detail, hint='deploy(…, application_id="…"), or StreamsBuilder("…")')
    return settings


def _servers(settings: Config, servers: Servers | None) -> dict[str, object]:
    """Return the settings of every client: those of the config, then those given with the address."""
    from kstreamnb.kafka.client import as_settings

    chosen = settings.bootstrap_servers if servers is None else servers
    if chosen is None:
        raise ConfigError("no broker address is set", hint='deploy(…, bootstrap_servers="host:port")')
    plain = {name: value for name, value in settings.client_settings("admin").items() if "." in name}
    return {**plain, **_with_prefix(settings, "consumer."), **as_settings(chosen)}


def _with_prefix(settings: Config, prefix: str) -> dict[str, object]:
    return {name.removeprefix(prefix): value for name, value in settings.others.items() if name.startswith(prefix)}


def _kafka_sink(
    servers: Servers,
    application: ApplicationPlan,
    query: str,
    guarantee: Guarantee | None,
    producer: Mapping[str, object],
    slots: int,
) -> KafkaSink:
    from kstreamnb.kafka.at_least_once_writer import AtLeastOnceWriter
    from kstreamnb.kafka.transactional_writer import TransactionalWriter
    from kstreamnb.spark.io.slot_sink import SlotSink

    settings = application.config
    guarantee = guarantee or ("exactly_once" if settings.exactly_once else "at_least_once")
    if guarantee == "exactly_once":
        replicas = settings.replication_factor
        writer = TransactionalWriter(servers, application.id, query, config=producer, replicas=replicas, slots=slots)
        sink = SlotSink(writer) if slots else KafkaSink(writer)
    elif slots:
        raise ConfigError('publish="executors" needs transactions', hint='deploy(…, guarantee="exactly_once")')
    else:
        sink = KafkaSink(AtLeastOnceWriter(servers, application.id, config=producer))
    if producer:
        sink.writer.new_producer()  # settings that it refuses are reported before any change
    return sink


def _trigger_ms(trigger: Duration | int | None, settings: Config, config: Config | Mapping[str, object] | None) -> int:
    """Return the time between batches: the argument, else a commit interval that was set, else 0."""
    if trigger is not None:
        return 0 if trigger in ("0s", 0) else duration_ms(trigger, "trigger")
    is_set = isinstance(config, Mapping) and bool(_COMMIT_INTERVAL & config.keys())
    interval = settings.commit_interval_ms or 0
    usual = Config(processing_guarantee=settings.processing_guarantee).commit_interval_ms
    return interval if is_set or interval != usual else 0


def _start(
    application: ApplicationPlan, starting: Instant | Mapping[str, Mapping[int, int]], reset: Offsets
) -> dict[str, Starting]:
    """Return where topics begin: the offsets of a reset, else a source's own word for its topics, else ``starting``."""
    own: dict[str, Starting] = {}
    for source in application.topology.sources():
        if source.offset_reset is not None:
            own.update(dict.fromkeys(source.topics, source.offset_reset))
    if isinstance(starting, Mapping):
        unknown = sorted(set(starting) - set(application.external))
        if unknown:
            fact = f'offsets are given for topic "{unknown[0]}", which is not read'
            raise ConfigError(fact, detail=f"input topics: {', '.join(application.external)}")
        for topic, offsets in starting.items():
            _refuse_no_offsets(topic, offsets, application.partitions.get(topic, 1))
        return {**starting, **own, **reset}
    word = starting if starting in ("earliest", "latest") else instant_ms(starting)
    return {**dict.fromkeys(application.external, word), **own, **reset}


def _refuse_no_offsets(topic: str, offsets: object, partitions: int) -> None:
    for partition, offset in offsets.items() if isinstance(offsets, Mapping) else ():
        if partition not in range(partitions):
            fact = f'an offset is given for partition {partition} of topic "{topic}"'
            raise ConfigError(fact, detail=f"its partitions are 0 to {partitions - 1}")
        if not isinstance(offset, int) or offset < 0:
            raise ConfigError(f'partition {partition} of topic "{topic}" cannot begin at offset {offset}')
