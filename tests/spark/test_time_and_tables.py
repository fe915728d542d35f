"""Global tables, punctuation and record caches in a streaming query."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.spark.execution.record_batch import WALL
from tests.spark.streams import Row, batched, by_partition, driven, outputs, placed, query_over, streamed
from tests.spark.test_streaming import disordered

pytestmark = pytest.mark.spark


def with_global_table() -> ks.Topology:
    """Records joined with a global table, before and after a repartition."""
    builder = ks.StreamsBuilder("named")
    names = builder.global_table("names", store="names")
    rows = builder.stream("in")
    rows.left_join(names, lambda key, value: key, lambda value, name: f"{name}:{value}").to("first")
    regrouped = rows.select_key(lambda key, value: f"k{value % 12}").repartition()
    regrouped.join(names, lambda key, value: key, lambda value, name: f"{name}:{value}").to("second")
    return builder.build()


def test_a_global_table_is_there_before_the_first_record(spark: Any, tmp_path: Path) -> None:
    """Each task of every level sees the whole table, whatever partition its rows are in."""
    topology = with_global_table()
    rows: list[Row] = [("names", f"k{n}", f"name {n}", n) for n in range(9)] + disordered(["in"], 120)
    expected = driven(topology, rows, 3, ["first", "second"])
    assert [expected] * 2 == streamed(spark, tmp_path, topology, rows, 3, ["first", "second"], batches=[1, 4])


class Counter(ks.Processor[str, int, str, int]):
    """Counts records and forwards the count by stream time, and the time by wall clock."""

    def init(self, context: ks.ProcessorContext) -> None:
        """Schedule both kinds."""
        super().init(context)
        self.store = context.get_state_store("seen")
        context.schedule("100ms", ks.PunctuationType.STREAM_TIME, self.by_stream_time)
        context.schedule("1s", ks.PunctuationType.WALL_CLOCK_TIME, self.by_wall_clock)

    def process(self, record: ks.Record[str, int]) -> None:
        """Count."""
        self.store.put("n", (self.store.get("n") or 0) + 1)

    def by_stream_time(self, now_ms: int) -> None:
        """Tell the count."""
        self.context.forward(ks.Record("stream", self.store.get("n") or 0, now_ms))

    def by_wall_clock(self, now_ms: int) -> None:
        """Tell the time."""
        self.context.forward(ks.Record("wall", self.context.current_system_time_ms(), now_ms))


def punctuated() -> ks.Topology:
    """Counters on two levels."""
    builder = ks.StreamsBuilder("punctuated")
    builder.add_state_store(ks.Stores.in_memory_key_value_store("seen", key_serde="string", value_serde="long"))
    rows = builder.stream("in")
    rows.process(Counter, "seen").to("ticks", value_serde="long")
    return builder.build()


def test_stream_time_punctuators_fire_as_in_the_driver(spark: Any, tmp_path: Path) -> None:
    """Due times persist from batch to batch."""
    topology, rows = punctuated(), disordered(["in"], 150)
    expected = driven(topology, rows, 2, ["ticks"])
    assert [expected] * 2 == streamed(spark, tmp_path, topology, rows, 2, ["ticks"], batches=[1, 5])


def test_wall_clock_punctuators_fire_at_the_ticks_of_the_source(spark: Any, tmp_path: Path) -> None:
    """A tick reaches tasks that received no records, and the processor sees its time."""
    topology, rows = punctuated(), disordered(["in"], 60)
    deployment = placed(topology, 2)
    batches = batched(deployment, rows, 3)
    driver = ks.TopologyTestDriver(topology, partitions=2)
    for number, batch in enumerate(batches, 1):
        driver.pipe(
            ks.TopicRecord(topic, partition, at, time, key, value)
            for (topic, partition), records in batch.items()
            for at, (time, key, value, _) in enumerate(records)
        )
        driver.advance_wall_clock_time("1500ms")
        start = [(0, "set", None, ())] if number == 1 else []
        batch[WALL, 0] = [*start, (1500 * number, None, None, ())]
    query, sink = query_over(spark, tmp_path, deployment, [*batches, {(WALL, 0): [(9000, None, None, ())]}])
    assert query.await_termination(300)
    driver.advance_wall_clock_time("4500ms")
    expected = by_partition(driver.create_output_topic("ticks").read_records())
    assert {"ticks": expected} == outputs(deployment, sink, ["ticks"])
    assert any(key == "wall" for key, _, _ in expected[0])


def test_a_record_cache_holds_updates_back_until_the_batch_is_committed(spark: Any, tmp_path: Path) -> None:
    """One update per key and batch is sent: the last one."""
    builder = ks.StreamsBuilder("cached")
    builder.stream("in").group_by_key().count(store="counts").to_stream().to("out", value_serde="long")
    rows: list[Row] = [("in", f"k{at % 3}", at, 100 + at) for at in range(60)]
    topology = builder.build()
    (written,) = streamed(spark, tmp_path, topology, rows, 1, ["out"], batches=[2], cache_max_bytes=1_000_000)
    assert [(f"k{n}", count) for count in (10, 20) for n in range(3)] == [
        (key, value) for key, value, _ in written["out"][0]
    ]
