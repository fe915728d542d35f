"""A backlog of any size is processed, however short the transaction timeout."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Producer

import kstreamnb as ks
from kstreamnb.kafka.bounded_reader import fetch, pieces_between
from tests.kafka.apps import START_MS, Bench, settle

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]
RECORDS, PARTITIONS, TIMEOUT_MS = 5_000_000, 4, 10_000


def _fill(bench: Bench, topic: str) -> None:
    bench.admin.create_topic(topic, partitions=PARTITIONS)
    producer = Producer(
        {"bootstrap.servers": bench.servers, "queue.buffering.max.messages": 1_000_000, "enable.idempotence": True}
    )
    for at in range(RECORDS):
        while True:
            try:
                producer.produce(topic, at.to_bytes(8, "big"), b"k", at % PARTITIONS, timestamp=START_MS + at)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def test_five_million_records_behind_a_short_timeout_go_through(bench: Bench) -> None:
    """Batches are bounded by default; each record is published once, in partition order."""
    _fill(bench, "behind-in")
    bench.admin.create_topic("behind-out", partitions=PARTITIONS)
    builder = ks.StreamsBuilder("behind")
    stream = builder.stream("behind-in", value_serde="long")
    stream.to("behind-out", value_serde="long", partitioner=lambda topic, key, value, partitions: value % partitions)
    options: dict[str, Any] = {"available_now": True, "producer": {"transaction.timeout.ms": TIMEOUT_MS}}
    query = bench.deploy(builder.build(), **options)
    assert query.await_termination(3000)
    assert RECORDS == sum(figures.consumed for figures in query.recent())
    assert RECORDS // 500_000 <= len(query.recent())
    settle(bench.admin, "behind-out")
    pieces = pieces_between(bench.admin.offsets(["behind-out"], "earliest"), bench.admin.offsets(["behind-out"]))
    expected = dict.fromkeys(range(PARTITIONS), 0)
    for _, partition, records in fetch(bench.servers, pieces):
        first = expected[partition]
        numbers = range(first, first + len(records))
        assert [number * PARTITIONS + partition for number in numbers] == [int.from_bytes(row[3]) for row in records]
        expected[partition] += len(records)
    assert [RECORDS // PARTITIONS] * PARTITIONS == list(expected.values())
