"""A backlog of any size is processed, however short the transaction timeout."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import Producer

import kstreamnb as ks
from kstreamnb.kafka.bounded_reader import fetch, pieces_between
from tests.kafka.apps import START_MS, Bench, settle

pytestmark = [pytest.mark.kafka, pytest.mark.spark]
PARTITIONS = 4


def _fill(bench: Bench, topic: str, count: int) -> None:
    bench.admin.create_topic(topic, partitions=PARTITIONS)
    producer = Producer(
        {"bootstrap.servers": bench.servers, "queue.buffering.max.messages": 1_000_000, "enable.idempotence": True}
    )
    for at in range(count):
        while True:
            try:
                producer.produce(topic, at.to_bytes(8, "big"), b"k", at % PARTITIONS, timestamp=START_MS + at)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


@pytest.mark.parametrize(
    ("count", "timeout_ms", "options"),
    [
        (600_000, 1_000, {}),  # one batch of them takes a few seconds
        (200_000, 1_000, {"max_records": 50_000}),
        pytest.param(5_000_000, 10_000, {}, marks=pytest.mark.slow),
    ],
)
def test_a_backlog_behind_a_short_timeout_goes_through(
    bench: Bench, count: int, timeout_ms: int, options: dict[str, Any]
) -> None:
    """Batches are bounded by default, and a transaction that expires is published again with a longer timeout.

    Each record is published once, in partition order.
    """
    name = f"behind-{count}"
    source, output = f"{name}-in", f"{name}-out"
    _fill(bench, source, count)
    bench.admin.create_topic(output, partitions=PARTITIONS)
    builder = ks.StreamsBuilder(name)
    stream = builder.stream(source, value_serde="long")
    stream.to(output, value_serde="long", partitioner=lambda topic, key, value, partitions: value % partitions)
    began = time.monotonic()
    query = bench.deploy(
        builder.build(), available_now=True, producer={"transaction.timeout.ms": timeout_ms}, **options
    )
    assert query.await_termination(3000)
    slowest = max(figures.seconds for figures in query.recent())
    print(
        f"{count:,} records in {len(query.recent())} batches, {time.monotonic() - began:.0f} s; slowest {slowest:.1f} s"
    )
    assert count == sum(figures.consumed for figures in query.recent())
    assert -(-count // options.get("max_records", 500_000)) <= len(query.recent())
    settle(bench.admin, output)
    pieces = pieces_between(bench.admin.offsets([output], "earliest"), bench.admin.offsets([output]))
    expected = dict.fromkeys(range(PARTITIONS), 0)
    for _, partition, records in fetch(bench.servers, pieces):
        first = expected[partition]
        numbers = range(first, first + len(records))
        assert [number * PARTITIONS + partition for number in numbers] == [
            int.from_bytes(row[3] or b"") for row in records
        ]
        expected[partition] += len(records)
    assert [count // PARTITIONS] * PARTITIONS == list(expected.values())
