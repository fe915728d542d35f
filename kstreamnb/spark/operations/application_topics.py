"""Creates the topics of an application when it is deployed, and reads what they accept."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from kstreamnb.client_settings import for_librdkafka
from kstreamnb.errors import ConfigError, UnknownTopicError, unknown
from kstreamnb.kafka.storage.checkpoint_files import CheckpointFiles
from kstreamnb.runtime.codegen.record_limits import TIME_LIMITS
from kstreamnb.runtime.context.config import Config
from kstreamnb.spark.contracts import QuerySink
from kstreamnb.spark.io.changelog_topics import changelog_topics, create_owned
from kstreamnb.spark.io.sinks import KafkaSink
from kstreamnb.spark.operations.changelog_snapshot import publish_snapshot
from kstreamnb.spark.planning.deployment import Deployment
from kstreamnb.spark.planning.output_topics import output_topics
from kstreamnb.spark.state.checkpoint_manifest import Manifest
from kstreamnb.topology.topology import Topology

if TYPE_CHECKING:  # Kafka's client and pyspark are loaded when a query connects
    from pyspark.sql import SparkSession

    from kstreamnb.kafka.admin import Admin

_REPLICAS = 3
_LARGEST_MESSAGE = 1_000_000  # librdkafka's message.max.bytes


def with_limits(config: Config, topology: Topology, admin: Admin, producer: Mapping[str, object]) -> Config:
    """Add what producer and output topics refuse, so that the production handler decides about such records in tasks.

    Args:
        config: the application's settings.
        topology: the topology, which knows its output topics.
        admin: knows the limits of topics.
        producer: the settings of the producer, as the user gave them.
    """
    if config.production_handler == "fail" and config.dead_letter_topic is None:
        return config  # the query ends with Kafka's refusal
    largest = for_librdkafka(producer).get("message.max.bytes", _LARGEST_MESSAGE)
    limits: dict[str, object] = {"producer.max.request.size": largest}
    for topic, settings in admin.settings(output_topics(topology), TIME_LIMITS).items():
        limits |= {f"topic.{topic}.{name}": value for name, value in settings.items()}
    return replace(config, others={**config.others, **limits})


def topics_for(admin: Admin, topology: Topology, settings: Config) -> dict[str, int]:
    """Return the partitions of the topics that a topology names; of all topics if one of them is missing, because its
    error lists those that exist, and if patterns or functions choose topics.
    """
    sources, sinks = topology.sources(), topology.sinks()
    read = {topic for source in sources for topic in source.topics} - topology.internal_topics.keys()
    names = {*read, *written_topics(topology, settings)}
    chosen = any(source.pattern for source in sources) or not all(isinstance(sink.topic, str) for sink in sinks)
    counts = admin.topics(None if chosen else names)
    return counts if counts.keys() >= names else admin.topics()


def written_topics(topology: Topology, settings: Config) -> list[str]:
    """Return the topics that the query writes, which must exist while it runs."""
    letters = settings.dead_letter_topic
    return [*output_topics(topology), *([] if letters is None else [letters])]


def keep_changelogs(
    sink: QuerySink, plan: Deployment, admin: Admin, spark: SparkSession, files: CheckpointFiles, old: Manifest | None
) -> list[str]:
    """Create the changelog topics that do not exist, with the state so far; returns the names of all."""
    if not isinstance(sink, KafkaSink):
        raise ConfigError("changelog topics need Kafka as the sink")
    needed = changelog_topics(plan)
    existing = admin.topics(topic.name for topic in needed)
    missing = [topic for topic in needed if topic.name not in existing]
    create_owned(admin, missing, plan.application.config.replication_factor)
    if old is not None and not old.changelogs:
        publish_snapshot(spark, plan, files, sink)
    return [topic.name for topic in needed]


def create_missing(admin: Admin, topics: Mapping[str, int], replicas: int) -> None:
    """Create topics with these partition counts; -1 replicas is the broker's default."""
    for topic, partitions in topics.items():
        admin.create_topic(topic, partitions=partitions, replicas=replicas, exists_ok=True)


def fewest_replicas(admin: Admin, sink: QuerySink, written: Iterable[str]) -> int:
    """Return the fewest replicas of a topic that the query writes; warn if that of the markers has too few."""
    topics = [*written]
    if (topic := marker_topic(sink)) is not None:
        topics.append(topic)
        few = few_replicas(topic, *admin.replication(topic))
        if few is not None:
            warnings.warn(few, stacklevel=3)
    return min((admin.replication(topic)[0] for topic in topics), default=0)


def marker_topic(sink: QuerySink) -> str | None:
    """Return the topic that has the markers of a sink's batches, None if it writes none."""
    from kstreamnb.kafka.transactional_writer import TransactionalWriter

    writer = sink.writer if isinstance(sink, KafkaSink) else None
    return writer.marker_topic if isinstance(writer, TransactionalWriter) else None


def few_replicas(topic: str, replicas: int, brokers: int) -> str | None:
    """Return a warning if a cluster of 3 or more brokers keeps fewer than 3 copies of the marker topic.

    Example:
        >>> few_replicas("shop-commits", 1, 3)
        'topic "shop-commits" has 1 replica on 3 brokers: if that is lost, it is unknown which batches Kafka has; ...
        >>> few_replicas("shop-commits", 1, 1)
    """
    if brokers < _REPLICAS or replicas >= _REPLICAS:
        return None
    return (
        f'topic "{topic}" has {replicas} {"replica" if replicas == 1 else "replicas"} on {brokers} brokers: if '
        f"{'that is' if replicas == 1 else 'they are'} lost, it is unknown which batches Kafka has; set "
        f'"replication.factor" to {_REPLICAS} for new topics, and reassign this one (kafka-reassign-partitions)'
    )


def missing_outputs(topology: Topology, settings: Config, topics: Mapping[str, int], *, create: bool) -> dict[str, int]:
    """Return output topics to create, with as many partitions as the widest input has."""
    missing = [topic for topic in output_topics(topology) if topic not in topics]
    if missing and not create:
        hint = "create it, or pass create_topics=True"
        raise unknown("output topic", missing[0], sorted(topics), error=UnknownTopicError, hint=hint)
    widest = max([topics[topic] for source in topology.sources() for topic in source.topics if topic in topics] or [1])
    letters = settings.dead_letter_topic
    created = dict.fromkeys(missing, widest)
    return created if letters is None or letters in topics else {letters: 1, **created}
