"""Properties of every deployment: replays, partitions, bytes, tasks that only run when they have data."""

from __future__ import annotations

import operator
import time
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import Producer

import kstreamnb as ks
from kstreamnb.spark.telemetry.metrics import BatchFigures
from tests.kafka.apps import PATIENCE_S, START_MS, Bench, counting, counts, final, rows, settle
from tests.kafka.crashes import committed

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def forget_last_commit(query: Any) -> None:
    """Simulate that the process died after publishing and before Spark's commit log was written."""
    commits = query.checkpoint / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)


def billing() -> ks.Topology:
    """The amount that each customer owes: the sum of the invoices."""
    builder = ks.StreamsBuilder("invoices")
    amounts = builder.stream("invoices-in", value_serde="long").group_by_key()
    amounts.reduce(operator.add, store="owed").to_stream().to("invoices-out", value_serde="long")
    return builder.build()


def test_a_batch_that_comes_again_is_published_once_under_exactly_once(bench: Bench) -> None:
    """S4-13, S4-15, S0-04: 100 invoices and three crashes after Kafka's commit: 100 records, and sums are exact.

    Kafka has the batch's marker: its replay is suppressed.
    """
    records = bench.fill("invoices-in", 40)
    query = bench.run(billing(), max_records=25)
    for more in (30, 30, 0):
        forget_last_commit(query)
        records += bench.fill("invoices-in", more, begin=len(records))
        query = bench.run(billing(), max_records=25)
        replayed = query.recent()[0]
        assert (True, 0) == (replayed.suppressed, replayed.published)
    owed: dict[str, int] = {}
    for record in records:
        owed[record.key] = owed.get(record.key, 0) + record.value
    assert 100 == len(records) == len(bench.read("invoices-out"))
    assert owed == final(bench.read("invoices-out")) == dict(query.store("owed").all())


def test_a_batch_that_comes_again_is_doubled_but_never_lost_under_at_least_once(bench: Bench) -> None:
    """S1-44, S3-19: the records of the last batch appear twice in the output; no count is lost."""
    records = bench.fill("doubled-in", 100)
    query = bench.run(counting("doubled"), max_records=40, guarantee="at_least_once")
    last = query.recent()[-1].published
    forget_last_commit(query)
    bench.run(counting("doubled"), max_records=40, guarantee="at_least_once")
    found = bench.read("doubled-out")
    assert 100 + last == len(found)
    assert found[-last:] == found[-2 * last : -last]
    assert counts(records) == final(found)


def test_records_pass_with_their_bytes_times_headers_and_partitions(bench: Bench) -> None:
    """S1-35, S1-36: unchanged records are byte for byte equal; keys go where Kafka's partitioner puts them."""
    bench.admin.create_topic("bytes-in")
    bench.admin.create_topic("bytes-out", partitions=4)
    producer = Producer({"bootstrap.servers": bench.servers})
    sent = [(f"KEY-{at}", None if at % 7 == 3 else f"VALUE-{at} ü".encode(), START_MS + at) for at in range(10)]
    for key, value, at in sent:
        producer.produce("bytes-in", value, key, timestamp=at, headers=[("h", b"\x00\xff"), ("h", None)])
    producer.flush()
    builder = ks.StreamsBuilder("bytes")
    builder.stream("bytes-in", value_serde="string").to("bytes-out", value_serde="string")
    bench.run(builder.build())
    settle(bench.admin, "bytes-out")
    found = committed(bench.admin, "bytes-out")
    headers = (("h", b"\x00\xff"), ("h", None))
    assert {(key.encode(), value, at, headers) for key, value, at in sent} == {r for p in found.values() for r in p}
    where = {key.decode(): partition for partition, part in found.items() for key, *_ in part if key}
    assert [0, 2, 1, 3, 0, 0, 1, 1, 1, 1] == [where[f"KEY-{at}"] for at in range(10)]
    sample = ks.Sample.capture(bench.servers, "bytes-out", value_serde=ks.Serdes.string(), seconds=PATIENCE_S)
    assert {(("h", b"\x00\xff"), ("h", None))} == {tuple(record.headers) for record in sample}


def test_only_tasks_with_data_are_called(bench: Bench) -> None:
    """S0-49: eight partitions, records in two of them: two tasks report work."""
    bench.admin.create_topic("few-in", partitions=8)
    producer = Producer({"bootstrap.servers": bench.servers})
    for partition in (2, 5):
        producer.produce("few-in", (7).to_bytes(8, "big"), b"k%d" % partition, partition, timestamp=START_MS)
    producer.flush()
    query = bench.run(counting("few"))
    called = {dict(each.tags)["task-id"] for each in query.metrics() if each.group == "stream-task-metrics"}
    assert {"0_2", "0_5"} == called


def test_the_watchers_of_the_last_batch_have_returned_when_a_bounded_run_has_ended(bench: Bench) -> None:
    """It is published beside the stream, which ends without it."""
    mark, seen = bench.folder / "mark", list[int]()
    mark.touch()

    def wait(value: int) -> int:
        while mark.exists():
            time.sleep(0.01)
        return value

    def watch(figures: BatchFigures) -> None:
        time.sleep(1)
        seen.append(figures.consumed)

    bench.fill("bounded-in", 10)
    builder = ks.StreamsBuilder("bounded")
    builder.stream("bounded-in", value_serde="long").map_values(wait).to("bounded-out", value_serde="long")
    query = bench.deploy(builder.build(), available_now=True)
    query.watch(watch)
    mark.unlink()
    assert query.await_termination(PATIENCE_S)
    assert query.control.action.pipeline is not None
    assert [10] == seen


class Heartbeat(ks.Processor):
    """Forwards a heartbeat by the wall clock."""

    def init(self, context: ks.ProcessorContext) -> None:
        """Once a second."""
        context.schedule(
            "1s", ks.PunctuationType.WALL_CLOCK_TIME, lambda now: context.forward(ks.Record("beat", 1, now))
        )

    def process(self, record: ks.Record) -> None:
        """Input is ignored."""


def test_what_a_punctuator_produces_is_committed_without_input(bench: Bench) -> None:
    """S0-35: no record comes in, and the output grows."""
    bench.fill("quiet-in", 1)
    builder = ks.StreamsBuilder("quiet")
    beats = builder.stream("quiet-in", value_serde="long").process(Heartbeat)
    beats.to("quiet-out", key_serde="string", value_serde="long")
    query = bench.deploy(builder.build(), tick="500ms")
    assert query.await_input(PATIENCE_S)
    seen = len(bench.read("quiet-out"))
    end = time.monotonic() + PATIENCE_S
    while len(bench.read("quiet-out")) < seen + 2 and time.monotonic() < end:
        time.sleep(0.1)
    assert len(bench.read("quiet-out")) >= seen + 2
    assert {"quiet-in": {0: 1}} == bench.group("quiet")


def test_a_deployment_gives_what_the_driver_gives_for_its_capture(bench: Bench) -> None:
    """S0-29: capture the input of an out-of-order run and replay it: the same output, partition by partition."""
    records = rows("history-in", 60, 2)
    disordered = [records[at ^ 3] for at in range(len(records))]
    bench.admin.create_topic("history-in", partitions=2)
    from kstreamnb.kafka.producer import produce

    produce(bench.servers, disordered, value_serde=ks.Serdes.long(), keep_partitions=True)
    builder = ks.StreamsBuilder("history")
    windows = ks.TimeWindows.of_size_and_grace("10ms", "1ms")
    grouped = builder.stream("history-in", value_serde="long").group_by_key().windowed_by(windows)
    grouped.count(store="windows").to_stream(lambda key, value: f"{key.key}@{key.start}").to(
        "history-out", value_serde="long"
    )
    topology = builder.build()
    query = bench.run(topology, max_records=13)
    sample = ks.Sample.capture(bench.servers, "history-in", value_serde=ks.Serdes.long(), seconds=PATIENCE_S)
    settle(bench.admin, "history-out")
    driver = ks.TopologyTestDriver(topology, partitions={"history-in": 2, "history-out": 2})
    driver.pipe(sample)
    wanted: dict[int, list[object]] = {}
    for record in driver.create_output_topic("history-out").read_records():
        row = record.key.encode(), record.value.to_bytes(8, "big"), record.timestamp, tuple(record.headers)
        wanted.setdefault(record.partition, []).append(row)
    assert dict(sorted(wanted.items())) == committed(bench.admin, "history-out")
    dropped = sum(driver.metrics()["dropped-records-total"].values())
    assert dropped == sum(figures.dropped for figures in query.recent())
    assert dropped > 0


def test_a_run_over_parquet_gives_the_last_values_and_tables_of_the_deployment(bench: Bench) -> None:
    """S1-46: history in Parquet files, the same topology: final tables and last values by key equal the stream's."""
    records = bench.fill("told-in", 200, 2)
    query = bench.run(counting("told"), max_records=30)
    files = str(bench.folder / "history")
    rows_of_it = [(record.key, record.value, record.timestamp) for record in records]
    frame = bench.spark.createDataFrame(rows_of_it, "key string, value long, timestamp long")
    frame.repartition(3).write.parquet(files)
    history = {"told-in": bench.spark.read.parquet(files)}
    with closing(ks.run(counting("told"), spark=bench.spark, inputs=history, partitions=2)) as result:
        last = {record.key: record.value for part in result.records("told-out").values() for record in part}
        assert final(bench.read("told-out")) == last == counts(records)
        streamed, run_over = (each.store("counts", timestamps=True) for each in (query, result))
        assert sorted(streamed.all()) == sorted(run_over.all())
