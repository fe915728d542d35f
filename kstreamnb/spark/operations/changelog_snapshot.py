"""Fills the changelog topics of a query that has state but did not write them so far."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from kstreamnb.kafka.output_batch import OutputRecord, columns_of
from kstreamnb.kafka.storage.checkpoint_files import CheckpointFiles
from kstreamnb.spark.io.changelog_topics import changelog_topics
from kstreamnb.spark.io.sinks import KafkaSink
from kstreamnb.spark.planning.deployment import Deployment
from kstreamnb.spark.state.changelog_restore import read_topics, stores_of
from kstreamnb.spark.state.checkpoint_reader import read_tasks, require_finished

if TYPE_CHECKING:  # Kafka's client is loaded by connections alone
    from kstreamnb.kafka.client import Servers

_MOST_RECORDS = 100_000  # in a transaction


def publish_snapshot(spark: SparkSession, deployment: Deployment, checkpoint: CheckpointFiles, sink: KafkaSink) -> None:
    """Write all rows of all stores to their changelogs, and deletions of what is in those topics and nowhere else.

    Raises:
        ApplicationStateError: the last batch was not finished: it may be in Kafka without its changes.
    """
    hint = "start it once with available_now=True and without changelogs, then with changelogs=True"
    require_finished(checkpoint, deployment.application.id, hint)
    records = _records(spark, deployment, checkpoint, sink.writer.servers)
    while part := list(islice(records, _MOST_RECORDS)):
        sink.writer.write(columns_of(part))


def _records(
    spark: SparkSession, deployment: Deployment, checkpoint: CheckpointFiles, servers: Servers
) -> Iterator[OutputRecord]:
    topics = {topic.store: topic.name for topic in changelog_topics(deployment) if topic.store is not None}
    logged = read_topics(servers, topics, {})
    tasks = read_tasks(spark, deployment, checkpoint)
    for placed in (each for each in deployment.tasks if each.stateful):
        task = tasks[placed.name]
        now_ms = max(0, task.context.stream_time[0])
        for name, partition, store in stores_of(placed, task):
            if name not in topics:
                continue
            deleted = {key: None for key, *_ in logged.get((topics[name], partition), ())}
            for raw_key, row, timestamp, headers in store.changelog_snapshot(now_ms):
                key, value = store.changelog_entry(raw_key, row)
                deleted.pop(key, None)
                yield topics[name], partition, timestamp, key, value, headers
            for key in deleted:
                yield topics[name], partition, now_ms, key, None, ()
