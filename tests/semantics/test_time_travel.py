"""The driver's guarantees about order, state and explanation: requirements on the test driver alone."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.replays.replay import Replay
from kstreamnb.replays.replay_sample import replay
from kstreamnb.validation.preflight import check
from tests.semantics.test_captcha import CAPTCHA_INPUT, captcha_tables


def records(*rows: tuple[str, Any, Any, int]) -> list[ks.TopicRecord]:
    """Pipe records of (topic, key, value, time) to the partitions of their keys."""
    return [ks.TopicRecord(topic, -1, -1, time, key, value) for topic, key, value, time in rows]


def captcha_trace(chunk: int) -> str:
    """Return a hash over outputs, changelogs and the whole trace of the captcha application, fed in chunks."""
    rows = records(*(row[:4] for row in CAPTCHA_INPUT))
    with ks.TopologyTestDriver(captcha_tables(), changelogs=True) as driver:
        for start in range(0, len(rows), chunk):
            driver.pipe(rows[start : start + chunk])
        found = Replay.of(driver)
        logs = {name: [str(row) for row in log.rows] for name, log in sorted(driver.tasks.logs.items())}
    trace = [str(event) for step in found.steps for event in step.events]
    return hashlib.sha256(repr((logs, trace)).encode()).hexdigest()


def test_every_run_gives_the_same_bytes_however_it_is_fed() -> None:
    """S0-02: one by one, by seven or at once, under several hash seeds: one hash over outputs, changelogs, trace."""
    hashes = {captcha_trace(chunk) for chunk in (1, 7, 100)}
    program = "from tests.semantics.test_time_travel import captcha_trace; print(captcha_trace(100))"
    for seed in ("0", "1", "199"):
        done = subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        )
        hashes.add(done.stdout.strip())
    assert 1 == len(hashes)


def test_the_trace_of_a_record_goes_from_taking_to_committing() -> None:
    """S0-11: taken, handed on node by node, stored, produced, committed."""
    builder = ks.StreamsBuilder()
    builder.stream("in").group_by_key().count(store="n").to_stream().to("out")
    (step,) = replay(builder.build(), records(("in", "k", 1, 0))).steps
    kinds = [type(event).__name__ for event in step.events]
    assert [
        "RecordConsumed",
        "Forwarded",
        "StoreWritten",
        "Forwarded",
        "Forwarded",
        "RecordProduced",
        "Committed",
    ] == kinds


def test_a_store_is_the_fold_of_its_changelog_after_every_record() -> None:
    """S0-09, S1-14: discard the store after any record and replay its changelog: the rows are the same."""
    builder = ks.StreamsBuilder()
    builder.stream("in").group_by_key().count(store="n").to_stream().to("out")
    topology = builder.build()
    with ks.TopologyTestDriver(topology, changelogs=True) as driver:
        for n in range(200):
            driver.create_input_topic("in").pipe_input(f"k{n * 7 % 13}", n, at=n)
            log = driver.tasks.logs["app-n-changelog"].rows
            with ks.TopologyTestDriver(topology) as other:
                store = other.tasks.by_id["0_0"].stores["n"]
                store.restore_changelog([(bytes(row[3]), row[4] and bytes(row[4]), row[2], ()) for row in log])
                assert driver.tasks.by_id["0_0"].stores["n"].snapshot() == store.snapshot()


def test_a_mapped_table_is_in_step_with_its_source_at_every_moment() -> None:
    """S0-15: after each of 100 updates and deletions the materialized rows are the function of the source's rows."""
    builder = ks.StreamsBuilder()
    builder.table("in", store="source").map_values(lambda value: value * 2, store="mapped").to_stream().to("out")
    rows = [("in", f"k{n * 5 % 7}", None if n % 4 == 3 else n, n) for n in range(100)]
    run = replay(builder.build(), records(*rows), 2)
    for step in range(len(run.steps) + 1):
        moment = run.at(step)
        expected = {row.key: row.value * 2 for row in moment.store("source")}
        assert expected == moment.store("mapped").to_dict()


def test_the_least_head_goes_first_and_a_partition_keeps_its_order() -> None:
    """S0-28, S3-28: smallest timestamp between partitions, offset order within one, even if times go back."""

    def order(*rows: tuple[str, Any, Any, int]) -> list[tuple[str, int]]:
        builder = ks.StreamsBuilder()
        builder.stream("a").merge(builder.stream("b")).to("out")
        return [(step.record.topic, step.record.timestamp) for step in replay(builder.build(), records(*rows)).steps]  # type: ignore[union-attr]

    merged = order(*(("a", "k", "x", at) for at in (1, 5, 9)), *(("b", "k", "x", at) for at in (2, 3, 10)))
    assert [("a", 1), ("b", 2), ("b", 3), ("a", 5), ("a", 9), ("b", 10)] == merged
    assert [("a", 7), ("a", 4)] == order(("a", "k", "x", 7), ("a", "k", "x", 4))


def test_stream_time_stands_at_the_greatest_timestamp() -> None:
    """S3-28: offsets 0, 1, 2 with times 30, 10, 20 run in this order, and stream time is 30 after the first."""
    builder = ks.StreamsBuilder()
    builder.stream("in").to("out")
    run = replay(builder.build(), records(*(("in", "k", at, at) for at in (30, 10, 20))))
    assert [30, 10, 20] == [record.value for record in run.output("out")]
    assert [-1, 30, 30, 30] == [run.at(step).stream_time["0_0"] for step in range(4)]


def test_a_repartition_topic_has_its_records_where_their_keys_belong() -> None:
    """S0-32: four input partitions, four of the repartition topic, each record at murmur2 of its key modulo 4."""
    builder = ks.StreamsBuilder("re")
    builder.stream("in").group_by(lambda _, value: f"g{value % 5}").count(store="n").to_stream().to("out")
    run = replay(builder.build(), records(*(("in", f"k{n}", n, n) for n in range(40))), 4)
    between = run.output("n-repartition")
    assert 40 == len(between)
    for record in between:
        (place,) = run.why_partition(record.key, "re-n-repartition")
        assert record.partition == place.numbers["partition"]
        assert 4 == place.numbers["partitions"]


def test_the_same_records_are_insertions_of_a_stream_and_updates_of_a_table() -> None:
    """S1-15: the stream's sum grows by every value, the table's by the change of each row."""
    rows = (("in", "a", 10, 0), ("in", "b", 5, 1), ("in", "a", 7, 2), ("in", "b", None, 3))
    stream, table = ks.StreamsBuilder(), ks.StreamsBuilder()
    by_one = stream.stream("in").group_by(lambda _key, _value: "all")
    by_one.aggregate(lambda: 0, lambda _, value, total: total + value, store="s").to_stream().to("out")
    groups = table.table("in").group_by(lambda _, value: ("all", value))
    groups.aggregate(
        lambda: 0, lambda _, value, total: total + value, lambda _, value, total: total - value, store="t"
    ).to_stream().to("out")
    sums = [[record.value for record in replay(b.build(), records(*rows)).output("out")] for b in (stream, table)]
    assert [10, 15, 22] == sums[0]
    assert [10, 15, 12, 7] == sums[1]


def test_a_compacted_log_gives_the_same_table() -> None:
    """S1-16: a table read from the last record of each key equals the table read from all of them."""
    builder = ks.StreamsBuilder()
    builder.table("in", store="rows")
    rows = [("in", f"k{n * 3 % 5}", None if n % 6 == 5 else n, n) for n in range(60)]
    last = {key: row for row in rows for key in (row[1],)}
    compacted = [row for row in rows if last[row[1]] is row]
    full, short = (replay(builder.build(), records(*log)) for log in (rows, compacted))
    assert full.now.store("rows").to_dict() == short.now.store("rows").to_dict()


def test_late_data_is_dropped_alike_when_history_is_replayed() -> None:
    """S0-29: a live run with out-of-order records; its capture at full speed has the same output and drops."""
    builder = ks.StreamsBuilder()
    windows = builder.stream("in").group_by_key().windowed_by(ks.TimeWindows.of(size="10ms", grace="5ms"))
    windows.count(store="n").to_stream().to("out")
    topology, taken = builder.build(), list[ks.TopicRecord]()
    with ks.TopologyTestDriver(topology, partitions=2) as live:
        for record in records(*(("in", f"k{n % 3}", n, n * 37 % 90) for n in range(60))):
            live.create_input_topic("in").pipe_input(record)
        out = live.create_output_topic("out").read_records()
        recorded = Replay.of(live)
        taken = [step.record for step in recorded.steps if step.record is not None]
    for capture in (taken, ks.Sample.from_records(taken).merge()):
        again = replay(topology, capture, 2)
        for partition in (0, 1):
            assert _told(out, partition) == _told(again.output("out"), partition)
            assert _told(_dropped(recorded), partition) == _told(_dropped(again), partition)
    assert recorded.drops


def _dropped(run: ks.Replay) -> list[ks.TopicRecord]:
    return [drop.record for drop in run.drops if drop.record is not None]


def _told(found: list[ks.TopicRecord], partition: int) -> list[tuple[Any, ...]]:
    """Return the records of a partition, in order."""
    return [(each.offset, each.timestamp, each.key, each.value) for each in found if each.partition == partition]


@pytest.mark.slow
def test_two_hundred_processes_give_the_same_bytes() -> None:
    """S0-02: PYTHONHASHSEED 0 to 199."""
    program = "from tests.semantics.test_time_travel import captcha_trace; print(captcha_trace(100))"
    hashes = {captcha_trace(100)}
    for seed in range(200):
        env = {**os.environ, "PYTHONHASHSEED": str(seed)}
        done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
        hashes.add(done.stdout.strip())
    assert 1 == len(hashes)


def test_a_check_stands_before_every_start() -> None:
    """S4-42: unequal partitions of joined topics are found before anything runs."""
    builder = ks.StreamsBuilder()
    builder.stream("a").join(builder.table("b"), lambda a, b: a).to("out")
    assert check(builder.build(), partitions={"a": 4, "b": 6}).errors
    assert not check(builder.build(), partitions={"a": 4, "b": 4})
