"""Event time and wall-clock time: results use the record's time, and the machine's clock only on request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kstreamnb as ks
from tests.semantics.scenario import Engine, Row, Scenario, records

DAY_MS = 86_400_000


def per_five_seconds(extractor: Any = None) -> ks.Topology:
    """Calls in five seconds."""
    builder = ks.StreamsBuilder()
    calls = builder.stream("calls", timestamp_extractor=extractor).group_by_key()
    counts = calls.windowed_by(ks.TimeWindows.of(size="5s")).count(store="calls")
    counts.to_stream(lambda window, count: f"{window.key}@{window.start}").to("counts", value_serde="long")
    return builder.build()


@pytest.mark.parametrize("wall_clock", [0, DAY_MS, 20_000 * DAY_MS])
def test_windows_follow_the_record_s_timestamp_whatever_the_clock_says(wall_clock: int) -> None:
    """S1-26, S2-52: shifting the machine's clock by a day changes nothing."""
    driver = ks.TopologyTestDriver(per_five_seconds(), wall_clock=wall_clock)
    for row in records("calls: ann→x@1000, ann→y@4999, ann→z@5000"):
        driver.create_input_topic("calls").pipe_input(row.key, row.value, at=row.timestamp)
    counts = driver.create_output_topic("counts").read_key_values_to_list()
    assert counts == [("ann@0", 1), ("ann@0", 2), ("ann@5000", 1)]


def busiest(extractor: Any) -> int:
    """The greatest count within five seconds over a day with one call a minute, processed in one batch."""
    driver = ks.TopologyTestDriver(per_five_seconds(extractor), wall_clock=DAY_MS)
    calls = [ks.TopicRecord("calls", 0, n, n * 60_000, "ann", "x") for n in range(24 * 60)]
    driver.pipe(calls)
    return max(driver.create_output_topic("counts").read_values_to_list())


def test_history_read_at_one_go_is_a_burst_only_by_the_wall_clock() -> None:
    """S2-55, S2-56: one call a minute never makes five in five seconds; by the driver's clock all calls coincide."""
    assert (1, 24 * 60) == (busiest(None), busiest(ks.WallclockTimestampExtractor()))


def by_value(record: ks.TopicRecord, partition_time_ms: int) -> int:
    """The value is the time."""
    return int(record.value)


def timed(extractor: Any) -> ks.Topology:
    """Records with the time that an extractor returns."""
    builder = ks.StreamsBuilder()
    builder.stream("in", timestamp_extractor=extractor).to("out")
    return builder.build()


def test_an_extractor_of_the_user_s_gives_the_time(engine: Engine) -> None:
    """S2-57: "777" is 777 ms; a negative time drops the record."""
    rows = (Row("in", "a", "777", 5), Row("in", "b", "-3", 6), Row("in", "c", "778", 7))
    engine.check(Scenario(lambda: timed(by_value), rows, {"out": [("a", "777", 777), ("c", "778", 778)]}))


def test_a_record_dropped_for_its_time_is_counted() -> None:
    """S2-57: the drop is counted in the metric."""
    driver = ks.TopologyTestDriver(timed(by_value))
    driver.create_input_topic("in").pipe_input("b", "-3", at=6)
    assert 1 == sum(driver.metrics()["dropped-records-total"].values())


@pytest.mark.parametrize(
    ("extractor", "times"),
    [
        (ks.LogAndSkipOnInvalidTimestamp(), [10, 12]),
        (ks.UsePartitionTimeOnInvalidTimestamp(), [10, 10, 12]),
    ],
)
def test_what_becomes_of_a_negative_timestamp_is_a_choice(extractor: Any, times: list[int]) -> None:
    """S2-57: the record is skipped, or takes the partition's time."""
    driver = ks.TopologyTestDriver(timed(extractor))
    source = driver.create_input_topic("in")
    for at in (10, -1, 12):
        source.pipe_input("a", "x", at=at)
    assert times == [record.timestamp for record in driver.create_output_topic("out").read_records()]


def test_by_default_a_negative_timestamp_is_an_error() -> None:
    """S2-57: the error carries Java's text."""
    driver = ks.TopologyTestDriver(timed(None))
    with pytest.raises(ks.KStreamError, match="negative timestamp"):
        driver.create_input_topic("in").pipe_input("a", "x", at=-1)


def by_field(record: ks.TopicRecord, partition_time_ms: int) -> int:
    """The event time is a field of the value."""
    return int(record.value["at"])


def clicks_with_plan() -> ks.Topology:
    """Clicks joined with the account at their time; both carry their event time in the value."""
    builder = ks.StreamsBuilder("clicks")
    accounts = builder.table("accounts", timestamp_extractor=by_field)
    clicks = builder.stream("clicks", timestamp_extractor=by_field)
    clicks.left_join(accounts, lambda click, account: account and account["plan"]).to("plans")
    return builder.build()


CLICK = ks.TopicRecord("clicks", 0, 0, 5, "c", {"at": 200})
ACCOUNT = ks.TopicRecord("accounts", 0, 0, 9, "c", {"at": 100, "plan": "pro"})
PLANS = [("c", "pro", 200)]


def test_driver_and_replay_merge_partitions_by_extracted_timestamps() -> None:
    """By the broker's timestamps the click came first, by event time the account."""
    driver = ks.TopologyTestDriver(clicks_with_plan())
    driver.pipe([CLICK, ACCOUNT])
    produced = [driver.create_output_topic("plans").read_records(), ks.replay(clicks_with_plan(), [CLICK, ACCOUNT])]
    produced[1] = produced[1].output("plans")
    assert [[(r.key, r.value, r.timestamp) for r in records] for records in produced] == [PLANS, PLANS]


@pytest.mark.parametrize("kind", ["levels", pytest.param("stream", marks=pytest.mark.spark)])
def test_streams_merge_partitions_by_extracted_timestamps(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """One micro-batch holds both records, without an order."""
    from kstreamnb.core.codec import encoder
    from kstreamnb.core.serdes import Serdes
    from kstreamnb.spark.planning.placement import plan_application, plan_deployment
    from tests.semantics.engines import on_levels, on_spark, outputs
    from tests.spark.file_source import FileOffsetSource

    application = plan_application(clicks_with_plan(), ks.Config(), {}, direct=True, default_partitions=1)
    deployment = plan_deployment("clicks", [application], 2)
    write_key, write_value = encoder(Serdes.string()), encoder(Serdes.json())
    batch: dict[tuple[str, int], list[tuple[Any, ...]]] = {
        (f"0/{record.topic}", 0): [(record.timestamp, write_key(record.key), write_value(record.value), ())]
        for record in (CLICK, ACCOUNT)
    }
    feed = FileOffsetSource.write(tmp_path / "feed", [batch])
    runner = on_levels if kind == "levels" else on_spark(request.getfixturevalue("spark"))
    sink, _ = runner(deployment, feed, tmp_path / "state")
    assert outputs(sink, application, "plans", 0) == PLANS


@pytest.mark.spark
def test_frames_merge_partitions_by_extracted_timestamps(spark: Any) -> None:
    """Static data are also merged by event time, in several partitions, whether or not an order is given."""
    records = [
        ks.TopicRecord(topic, -1, -1, n, f"k{n % 7}", {"at": at, "plan": f"p{n}"})
        for topic, step in (("clicks", 37), ("accounts", 11))
        for n in range(40)
        for at in [(n * step) % 101]
    ]
    result = ks.run(clicks_with_plan(), spark=spark, inputs=records, partitions=3)
    driver = ks.TopologyTestDriver(clicks_with_plan(), partitions=3)
    driver.pipe(records)
    expected = driver.create_output_topic("plans").read_records()
    of_key = [
        [[(r.value, r.timestamp) for r in produced if r.key == f"k{n}"] for n in range(7)]
        for produced in (expected, [r for rows in result.records("plans").values() for r in rows])
    ]
    assert any(value is not None for value, _ in of_key[0][0])
    assert of_key[0] == of_key[1]


# --- S0-14: nulls -------------------------------------------------------------------------------------------------
def seen_by_all() -> ks.Topology:
    """Every stateless operator records what it saw."""
    builder = ks.StreamsBuilder()
    seen = (
        builder.stream("in")
        .filter(lambda key, value: True)
        .map_values(lambda key, value: f"{key}:{value}", with_key=True)
        .peek(lambda key, value: None)
        .merge(builder.stream("other"))
    )
    seen.to("seen")
    seen.group_by_key().count(store="counts").to_stream().to("counts", value_serde="long")
    return builder.build()


def test_nulls_reach_the_user_s_functions_and_only_grouping_drops_a_null_key(engine: Engine) -> None:
    """S0-14: three records in, three seen with their times and headers, two counted."""
    rows = tuple(Row("in", key, value, at) for at, (key, value) in enumerate([(None, "a"), ("k", None), ("k", "b")]))
    engine.check(
        Scenario(
            seen_by_all,
            rows,
            {"seen": [(None, "None:a", 0), ("k", "k:None", 1), ("k", "k:b", 2)], "counts": [("k", 1, 1), ("k", 2, 2)]},
        )
    )


def test_a_null_key_dropped_by_a_grouping_is_counted_and_headers_stay() -> None:
    """S0-14: the metric is one; headers are preserved."""
    driver = ks.TopologyTestDriver(seen_by_all())
    driver.create_input_topic("in").pipe_input(None, "a", at=0, headers=(("trace", b"1"),))
    assert (("trace", b"1"),) == driver.create_output_topic("seen").read_record().headers
    assert 1 == sum(driver.metrics()["dropped-records-total"].values())


# --- S2-58 --------------------------------------------------------------------------------------------------------
def test_a_record_goes_through_everything_below_before_the_next_is_taken() -> None:
    """S2-58: the trace is depth first: both children of a node see a record before any sees the next."""
    order: list[tuple[str, str]] = []
    builder = ks.StreamsBuilder()
    source = builder.stream("in")
    for child in ("left", "right"):
        source.peek(lambda key, value, child=child: order.append((child, value))).to(child)
    driver = ks.TopologyTestDriver(builder.build())
    driver.pipe([ks.TopicRecord("in", 0, n, n, "a", value) for n, value in enumerate("12")])
    assert [("left", "1"), ("right", "1"), ("left", "2"), ("right", "2")] == order


# --- S0-51: what the cache saves ----------------------------------------------------------------------------------
def words() -> list[str]:
    """1,000 words, the n-th most frequent 1/n as often as the first."""
    ranks = [f"word{rank}" for rank in range(1, 60) for _ in range(round(240 / rank))]
    return [ranks[n * 617 % len(ranks)] for n in range(1000)]


@pytest.mark.parametrize("cached", [False, True])
def test_a_commit_every_thousand_words_sends_each_word_once(cached: bool) -> None:
    """S0-51: without a cache 1,000 updates; with one, as many as there are distinct words; the table is the same."""
    builder = ks.StreamsBuilder("words")
    builder.stream("words").group_by(lambda key, word: word).count(store="counts").to_stream().to(
        "out", value_serde="long"
    )
    config = {
        "cache_max_bytes": 10_000_000 if cached else 0,
        "commit_interval": "1m",
        "processing_guarantee": "at_least_once",
    }
    driver = ks.simulation.ClusterDriver(builder.build(), config)
    text = words()
    source = driver.create_input_topic("words")
    for at, word in enumerate(text):
        source.pipe_input(None, word, at=at)
    driver.run_ready()
    driver.advance_wall_clock_time("1m")
    updates = driver.create_output_topic("out").read_key_values_to_list()
    assert len(updates) == (len(set(text)) if cached else 1000)
    assert dict(updates) == {word: text.count(word) for word in text}
