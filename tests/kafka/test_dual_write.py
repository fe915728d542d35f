"""A migration by dual write: a Spark batch over the old topic against the application that reads the new one."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Any

import pytest

import kstreamnb as ks
from tests.kafka.apps import PATIENCE_S, Bench, settle

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

DUAL_WRITE = """
import os, signal, sys
from confluent_kafka import Producer

servers, old, new, first, last, transactional, dies_at = sys.argv[1:]
producer = Producer({"bootstrap.servers": servers, **({"transactional.id": old} if transactional == "yes" else {})})
failed = []


def delivered(error, _):
    if error:
        failed.append(error)


def dual_write(key, value):
    for topic in (old, new):
        producer.produce(topic, value.to_bytes(8, "big"), key, on_delivery=delivered)
        if topic == old and str(value) == dies_at:
            producer.flush()  # the broker has the first of the two
            os.kill(os.getpid(), signal.SIGKILL)


if transactional == "yes":
    producer.init_transactions()
    producer.begin_transaction()
for number in range(int(first), int(last)):
    dual_write(f"k{number % 7}", number)
assert producer.flush() == 0 and not failed, failed
if transactional == "yes":
    producer.commit_transaction()
"""
"""Sends numbers to two topics: all of them in one transaction, or without one."""


def dual_write(bench: Bench, name: str, numbers: range, *, transaction: bool, dies_at: int | None = None) -> int:
    """Run the writer, which kills itself between the two sends of a number; return its exit code."""
    topics = f"{name}-legacy", f"{name}-realtime"
    for topic in topics:
        bench.admin.create_topic(topic, partitions=2, exists_ok=True)
    words = [*topics, numbers.start, numbers.stop, "yes" if transaction else "no", dies_at]
    return subprocess.run([sys.executable, "-c", DUAL_WRITE, bench.servers, *map(str, words)], check=False).returncode


def streamed(name: str) -> ks.Topology:
    """The application that is to be switched on: the sum of each key."""
    builder = ks.StreamsBuilder(name)
    numbers = builder.stream(f"{name}-realtime", value_serde="long").group_by_key()
    numbers.reduce(lambda total, more: total + more, store="totals")
    return builder.build()


def tables(bench: Bench, name: str) -> tuple[Any, Any]:
    """Return the table of a Spark batch over the old topic, and that of the running application, as Spark frames."""
    from pyspark.sql import functions as sql

    for topic in ("legacy", "realtime"):
        settle(bench.admin, f"{name}-{topic}")
    old = ks.Sample.capture(bench.servers, f"{name}-legacy", value_serde="long", records=None, seconds=PATIENCE_S)
    batch = old.to_spark(bench.spark).groupBy("key").agg(sql.sum("value").alias("value"))
    query = bench.deploy(streamed(name))
    assert query.await_input(PATIENCE_S)
    return batch, query.store("totals").to_spark(bench.spark).select("key", "value")


def compare(batch: Any, stream: Any) -> list[tuple[str, int | None, int | None]]:
    """Return key and both values of the rows that differ."""
    both = batch.withColumnRenamed("value", "old").join(stream.withColumnRenamed("value", "new"), "key", "full")
    return sorted(tuple(row) for row in both.where("NOT old <=> new").collect())


def test_the_batch_over_the_old_topic_equals_the_stream_over_the_new_one(bench: Bench) -> None:
    """S4-19, S2-61, S1-22: the tables are equal, also after a writer that died within its transaction."""
    name = "moved"
    assert dual_write(bench, name, range(100), transaction=True) == 0
    killed = dual_write(bench, name, range(100, 200), transaction=True, dies_at=140)
    assert killed == -signal.SIGKILL
    assert dual_write(bench, name, range(100, 200), transaction=True) == 0
    batch, stream = tables(bench, name)
    assert compare(batch, stream) == []
    sums = {f"k{key}": sum(number for number in range(200) if number % 7 == key) for key in range(7)}
    assert {row.key: row.value for row in stream.collect()} == sums
    for view, frame in (("old_totals", batch), ("new_totals", stream)):
        frame.createOrReplaceTempView(view)
    found = bench.spark.sql(
        "SELECT count(*) FROM old_totals AS o JOIN new_totals AS n ON o.key = n.key AND o.value = n.value"
    )
    assert found.first()[0] == 7


def test_a_record_that_only_the_old_topic_has_is_found_by_its_key(bench: Bench) -> None:
    """S4-19, C-15: without a transaction the record at which the writer died is in one topic only."""
    name = "torn"
    killed = dual_write(bench, name, range(100), transaction=False, dies_at=40)
    assert killed == -signal.SIGKILL
    assert dual_write(bench, name, range(41, 100), transaction=False) == 0
    (found,) = compare(*tables(bench, name))
    assert found[0] == "k5"
    assert found[1] is not None
    assert found[2] is not None
    assert found[1] - found[2] == 40
