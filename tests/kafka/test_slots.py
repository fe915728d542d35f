"""Output published by executors: each record once, in the same order as from the driver."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from itertools import accumulate
from threading import Event
from time import sleep
from typing import Any

import numpy as np
import pytest

import kstreamnb as ks
from kstreamnb.errors import ApplicationStateError, CheckpointError, ConfigError, FencedError
from kstreamnb.kafka.application_reset import fence
from kstreamnb.kafka.batch_marker import last_marker
from kstreamnb.kafka.bounded_reader import fetch, pieces_between
from kstreamnb.kafka.storage.claims import TopicClaim, create_commits_topic
from kstreamnb.spark.contracts import QueryBatch
from kstreamnb.spark.execution.batch_output import BatchOutput
from kstreamnb.spark.execution.record_batch import OrderKey, RecordBatch
from kstreamnb.spark.io.slot_sink import SlotPublisher, SlotSink
from kstreamnb.spark.query.query import Query
from tests.kafka.apps import PATIENCE_S, Bench, counting, counts, final, settle

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def two_outputs(name: str) -> ks.Topology:
    """Counts by key, and by letter behind a repartition; both levels write "all", and its records change partitions."""
    builder = ks.StreamsBuilder(name)
    by_key = builder.stream("slots-in", value_serde="long").group_by_key().count(store="by-key").to_stream()
    by_letter = by_key.group_by(lambda key, count: key[0], value_serde="long").count(store="by-letter").to_stream()
    for stream in (by_key, by_letter):
        stream.to(f"{name}-all", value_serde="long", partitioner=lambda topic, key, value, partitions: value % 4)
    return builder.build()


def by_partition(bench: Bench, topic: str) -> dict[int, list[tuple[Any, ...]]]:
    """Return the committed records of a topic by partition."""
    settle(bench.admin, topic)
    found: dict[int, list[tuple[Any, ...]]] = {}
    pieces = pieces_between(bench.admin.offsets([topic], "earliest"), bench.admin.offsets([topic]))
    for _, partition, records in fetch(bench.servers, pieces):
        found.setdefault(partition, []).extend((row[2], row[3], row[1]) for row in records)
    return found


def test_executors_publish_the_records_of_the_driver_in_the_same_order(bench: Bench) -> None:
    """Two levels write one topic; each partition has the canonical order, whether driver or executors publish it."""
    bench.fill("slots-in", 2000, 4)
    for name, publish in (("from-driver", "driver"), ("from-executors", "executors")):
        bench.admin.create_topic(f"{name}-all", partitions=4)
        query = bench.run(two_outputs(name), name, publish=publish, live=publish == "driver", max_records=700)
        assert 4000 == query.book.published
        assert all(figures.latency_ms for figures in query.recent())
    expected = by_partition(bench, "from-driver-all")
    assert [0, 1, 2, 3] == sorted(expected)
    assert expected == by_partition(bench, "from-executors-all")
    markers = [last_marker(bench.admin, "from-executors-commits", partition) for partition in (0, 2, 3)]
    assert [query.status().batch] * 3 == [marker.batch for marker in markers if marker]


def test_a_batch_that_fails_publishes_no_slot(bench: Bench) -> None:
    """All tasks succeed before the first slot is published; the batch is published once its function is mended."""
    records = bench.fill("fails-in", 400, 4)
    broken = "fails-broken"

    def topology(worst: int) -> ks.Topology:
        builder = ks.StreamsBuilder("fails")
        stream = builder.stream("fails-in", value_serde="long")
        stream = stream.map_values(lambda value: value + 0 // (value - worst), name=broken)
        stream.group_by_key().count(store="counts").to_stream().to("fails-out", value_serde="long")
        return builder.build()

    with pytest.raises(ks.KStreamError, match="ZeroDivisionError") as caught:
        bench.run(topology(399), publish="executors")
    assert broken in str(caught.value)
    assert {} == by_partition(bench, "fails-out")
    query = bench.run(topology(-1), publish="executors")
    assert not any(figures.suppressed for figures in query.recent())
    assert counts(records) == final(bench.read("fails-out"))
    assert 400 == len(bench.read("fails-out"))


def test_what_was_published_before_the_driver_failed_is_not_published_again(bench: Bench, monkeypatch: Any) -> None:
    """The slots of a batch are in Kafka, and its own marker is missing: the next start completes the batch."""
    records = bench.fill("part-in", 400, 4)

    def dies(self: Any, batch: Any) -> Any:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(SlotSink, "_send", dies)
        with pytest.raises(ks.errors.SinkError):
            bench.run(counting("part"), publish="executors")
    assert 400 == len(bench.read("part-out"))
    assert last_marker(bench.admin, "part-commits") is None
    with pytest.raises(CheckpointError, match="does not fit this topology") as caught:
        bench.run(counting("part"))
    assert "executors" in (caught.value.detail or "")
    records += bench.fill("part-in", 100, 4, begin=400)
    query = bench.run(counting("part"), publish="executors")
    assert [False, False] == [figures.suppressed for figures in query.recent()]
    assert not query.book.differing
    assert 500 == len(bench.read("part-out"))
    assert counts(records) == final(bench.read("part-out"))


def test_an_executor_that_lost_its_slot_publishes_again_only_while_it_may(bench: Bench, name: str) -> None:
    """Another attempt of the same deployment is found out and continued; a newer deployment is left alone."""
    bench.admin.create_topic(name, partitions=1)
    claim = TopicClaim(bench.servers, name)
    create_commits_topic(bench.admin, f"{name}-commits", slots=1)
    publisher = SlotPublisher(bench.servers, name, "q1", {}, claim)

    def batch(number: int) -> QueryBatch:
        return QueryBatch(number, f"offsets {number}", {}, 0, BatchOutput({(0, name): [(0, 0, _one(name, number))]}))

    publisher._publish(batch(0), 0, is_open=False)
    other = publisher.open(0)  # another attempt, which has published the next batch
    other.writer.without_output = range(1)
    assert not other.publish(batch(1)).suppressed
    assert publisher._publish(batch(1), 0, is_open=True)[1].suppressed
    assert not publisher._publish(batch(3), 0, is_open=True)[1].suppressed  # the slot had no output in batch 2
    fence(bench.servers, name)
    with pytest.raises(FencedError, match="has taken over"):
        publisher._publish(batch(4), 0, is_open=True)
    assert 3 == len(by_partition(bench, name)[0])


def _one(topic: str, number: int) -> Any:
    stamps = np.asarray([1_790_000_000_000 + number], np.int64)
    return RecordBatch(topic, 0, OrderKey.of_root(0, 1), stamps, [b"k"], [b"v"], kafka=True)


def test_stores_are_read_from_the_checkpoint_if_the_driver_gets_no_changes(bench: Bench) -> None:
    """``live=False``: each read sees the last batch, also after more batches."""
    records = bench.fill("unlive-in", 200, 2)
    query = bench.deploy(counting("unlive"), live=False)
    for begin in (200, 300):
        assert query.await_input(PATIENCE_S)
        store = query.store("counts")
        assert counts(records) == dict(store.all())
        records += bench.fill("unlive-in", 100, 2, begin=begin)


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("publish", ["driver", "executors"])
def test_watchers_read_the_state_of_their_batch_or_nothing(bench: Bench, publish: str, live: bool) -> None:
    """If Spark commits a batch after its watchers were called, they need the changes that came with it."""
    name, seen = f"told-{publish}-{live}", list[tuple[int, Any]]()
    bench.fill(f"{name}-in", 0, 2)
    query = bench.deploy(counting(name), live=live, publish=publish)
    store = query.store("counts")

    def read(figures: Any) -> None:
        try:
            seen.append((figures.consumed, dict(store.all())))
        except ApplicationStateError as error:
            seen.append((figures.consumed, error.hint))

    query.watch(read)
    records = bench.fill(f"{name}-in", 200, 2)
    assert query.await_input(PATIENCE_S)
    assert counts(records) == dict(store.all())
    query.stop()
    if live or publish == "driver":
        assert list(accumulate(consumed for consumed, _ in seen)) == [sum(state.values()) for _, state in seen]
        assert counts(records) == seen[-1][1]
    else:
        assert "watchers need live=True to read stores" in seen[0][1]


class Slow:
    """A watcher that takes a second for each batch."""

    def __init__(self) -> None:
        self.begun, self.done, self.called = list[int](), list[int](), Event()

    def __call__(self, figures: Any) -> None:
        """Note the batch before and after the second."""
        self.begun.append(figures.number)
        self.called.set()
        sleep(1)
        self.done.append(figures.number)


@pytest.mark.parametrize("wait", [Query.await_input, Query.stop])
def test_a_wait_for_the_input_or_the_end_includes_the_watchers(bench: Bench, wait: Callable[[Query], Any]) -> None:
    """So a cell that waits and then shows what its watcher has collected shows the last batch, too."""
    name, collect = f"watched-by-{wait.__name__}", Slow()
    bench.fill(f"{name}-in", 0, 2)
    query = bench.deploy(counting(name))
    query.watch(collect)
    bench.fill(f"{name}-in", 5, 2)
    assert collect.called.wait(PATIENCE_S)
    wait(query)
    assert collect.begun == collect.done


@pytest.mark.parametrize("fails", [False, True])
def test_the_end_of_a_run_includes_the_watchers_of_the_batch_before(bench: Bench, *, fails: bool) -> None:
    """Both if its input ends and if a record of the next batch fails: the batch is published beside the stream."""
    name, collect = f"run-watched-{fails}", Slow()
    builder = ks.StreamsBuilder(name)
    rows = builder.stream(f"{name}-in", value_serde="long")
    rows.map_values(lambda value: value + 0 // (value - 15)).to(f"{name}-out", value_serde="long")
    bench.fill(f"{name}-in", 2)
    query = bench.run(builder.build(), max_records=10)
    query.watch(collect)
    bench.fill(f"{name}-in", 18 if fails else 10, begin=2)
    query.restart()
    with pytest.raises(ks.errors.ProcessingError) if fails else nullcontext():
        assert query.await_termination(PATIENCE_S)
    assert [1] == collect.begun == collect.done


def test_a_read_that_waits_for_a_commit_does_not_keep_the_watchers_of_its_batch_waiting(bench: Bench) -> None:
    """Spark commits the batch when its watchers have returned, and the read needs that commit."""
    bench.fill("awaited-in", 0, 2)
    query = bench.deploy(counting("awaited"), live=False, publish="executors")
    store = query.store("counts")
    watched, hints = Event(), list[str | None]()

    def read(figures: Any) -> None:
        if not figures.consumed:
            return
        watched.set()
        sleep(1)  # the other read has begun to wait
        try:
            store.all()
        except ApplicationStateError as error:
            hints.append(error.hint)

    query.watch(read)
    records = bench.fill("awaited-in", 200, 2)
    assert watched.wait(PATIENCE_S)
    assert dict(store.all())
    assert hints
    assert query.await_input(PATIENCE_S)  # the batch may have begun before all records were there
    assert counts(records) == dict(store.all())
    assert "watchers need live=True" in str(hints[0])


@pytest.mark.parametrize(
    "options", [{"sink": ks.spark.FunctionSink(lambda output, batch: None)}, {"guarantee": "at_least_once"}]
)
def test_executors_publish_to_kafka_in_transactions_alone(bench: Bench, options: dict[str, Any]) -> None:
    """Other destinations and at-least-once delivery are refused before anything starts."""
    bench.fill("alone-in", 1)
    with pytest.raises(ConfigError, match='publish="executors" needs'):
        bench.deploy(counting("alone"), publish="executors", **options)
