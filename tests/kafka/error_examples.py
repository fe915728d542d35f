"""Examples that provoke the errors of deployments; the pages of these errors show their source.

Each gets a broker's address, a Spark session and an empty folder, and ends with the error it is named after.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import kstreamnb as ks
from kstreamnb.errors import (
    AccessDeniedError,
    DataLossError,
    FencedError,
    JvmGoneError,
    KStreamError,
    PartitionError,
    SinkError,
    StorageError,
    TopicDeletedError,
    TransactionTimeoutError,
    UnknownTopicError,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["EXAMPLES", "OTHER_TESTS", "copy", "send"]


def copy(name: str) -> ks.Topology:
    """Copy the topic ``name-in`` to ``name-out``."""
    builder = ks.StreamsBuilder(name)
    builder.stream(f"{name}-in").to(f"{name}-out")
    return builder.build()


def send(servers: str, topic: str, number: int) -> None:
    """Create a topic if it is missing, and send a record."""
    ks.kafka.Admin(servers).create_topic(topic, exists_ok=True)
    with ks.kafka.RecordProducer(servers) as producer:
        producer.send(topic, "shoe", number)


def unknown_topic(servers: str, spark: SparkSession, folder: Path) -> None:
    """Capture a topic whose name is mistyped."""
    ks.kafka.Admin(servers).create_topic("invoices", exists_ok=True)
    ks.Sample.capture(servers, "invioces")


def wrong_partition(servers: str, spark: SparkSession, folder: Path) -> None:
    """Let a partitioner choose a partition that the topic does not have."""
    ks.kafka.Admin(servers).create_topic("taps", partitions=3)
    with ks.kafka.RecordProducer(servers, partitioner=lambda topic, key, value, partitions: 9) as producer:
        producer.send("taps", None, "a click")


def access_denied(servers: str, spark: SparkSession, folder: Path) -> None:
    """Create a topic as a user without permission."""
    with ks.kafka.local_broker(users={"guest": "secret"}) as broker:
        ks.kafka.Admin(broker.connection("guest")).create_topic("orders")


def topic_deleted(servers: str, spark: SparkSession, folder: Path) -> None:
    """Delete the output of a running query."""
    send(servers, "deleted-in", 1)
    query = ks.deploy(copy("deleted"), spark=spark, bootstrap_servers=servers, checkpoint=folder)
    query.await_input()
    ks.kafka.Admin(servers).delete_topics("deleted-out")
    query.await_termination(180)


def records_lost(servers: str, spark: SparkSession, folder: Path) -> None:
    """Create an input again under its name while the query is stopped."""
    admin = ks.kafka.Admin(servers)
    send(servers, "recreated-in", 1)
    options = {"spark": spark, "bootstrap_servers": servers, "checkpoint": folder, "available_now": True}
    ks.deploy(copy("recreated"), **options).await_termination()
    admin.delete_topics("recreated-in")
    admin.create_topic("recreated-in")
    ks.deploy(copy("recreated"), **options)


def fenced(servers: str, spark: SparkSession, folder: Path) -> None:
    """Deploy an application a second time, from a copy of its checkpoint."""
    send(servers, "twins-in", 1)
    first = ks.deploy(copy("twins"), spark=spark, bootstrap_servers=servers, checkpoint=folder / "first")
    first.await_input()
    first.stop()  # a folder that is being written cannot be copied consistently
    shutil.copytree(folder / "first", folder / "second", ignore=shutil.ignore_patterns("*.tmp*", "*.crc"))
    first.restart()
    ks.deploy(copy("twins"), spark=spark, bootstrap_servers=servers, checkpoint=folder / "second")
    send(servers, "twins-in", 2)
    first.await_termination(180)


def broken_sink(servers: str, spark: SparkSession, folder: Path) -> None:
    """Send the output to a function that fails."""

    def store(records: object, batch: int) -> None:
        raise ConnectionError("the database is away")

    send(servers, "sunk-in", 1)
    sink = ks.spark.FunctionSink(store)
    query = ks.deploy(copy("sunk"), spark=spark, bootstrap_servers=servers, checkpoint=folder, sink=sink)
    query.await_termination(180)


def unwritable_folder(servers: str, spark: SparkSession, folder: Path) -> None:
    """Choose a folder that is not writable."""
    send(servers, "unwritable-in", 1)
    ks.deploy(copy("unwritable"), spark=spark, bootstrap_servers=servers, checkpoint="/proc/checkpoint")


EXAMPLES: dict[type[KStreamError], Callable[[str, SparkSession, Path], None]] = {
    AccessDeniedError: access_denied,
    DataLossError: records_lost,
    FencedError: fenced,
    PartitionError: wrong_partition,
    SinkError: broken_sink,
    StorageError: unwritable_folder,
    TopicDeletedError: topic_deleted,
    UnknownTopicError: unknown_topic,
}
"""Functions that provoke each error."""

OTHER_TESTS: dict[type[KStreamError], str] = {
    JvmGoneError: "tests/kafka/test_lost.py::test_a_jvm_that_dies_leaves_handles_that_answer_and_another_one_goes_on",
    TransactionTimeoutError: (
        "tests/kafka/test_publisher.py::test_a_transaction_that_outlives_its_timeout_is_published_again"
    ),
}
"""Errors that no short program provokes reliably, and the tests that do."""
