"""Properties that hold for any input of an application that polls, commits and crashes."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kstreamnb as ks
from kstreamnb.testdriver.races.race_detector import find_races

KEYS = ("a", "b", "c")
EXACTLY = {"processing_guarantee": "exactly_once_v2"}

rows = st.lists(st.tuples(st.sampled_from(KEYS), st.none() | st.integers(0, 9), st.integers(0, 60)), max_size=25)


def stores() -> ks.Topology:
    """One store of each kind below one topic."""
    builder = ks.StreamsBuilder("stores")
    stream = builder.stream("in")
    grouped = stream.group_by_key()
    grouped.count(store="key-value")
    grouped.windowed_by(ks.TimeWindows.of(size="10ms", grace="20ms")).count(store="window")
    grouped.windowed_by(ks.SessionWindows.of(gap="5ms", grace="20ms")).count(store="session")
    stream.to_table(store=ks.Stores.persistent_versioned_key_value_store("versioned", history="30ms"))
    return builder.build()


def piped(driver: ks.simulation.ClusterDriver, records: list[Any]) -> None:
    """Produce records to the topic without processing them."""
    for key, value, at in records:
        driver.create_input_topic("in").pipe_input(key, value, at=at)


def content(driver: ks.simulation.ClusterDriver) -> dict[str, Any]:
    """Rows of all stores that can be listed."""
    names = ("key-value", "window", "session")
    return {name: list(driver.application.store(name).all()) for name in names} | {
        "versioned": [driver.application.store("versioned").get(key) for key in KEYS]
    }


@settings(max_examples=10)
@given(rows, st.data())
def test_a_store_that_was_thrown_away_comes_back_from_its_changelog(records: list[Any], data: st.DataObject) -> None:
    """S1-14: after any record every store equals the fold of its changelog; lost and restored, it holds the same
    rows.
    """
    driver = ks.simulation.ClusterDriver(stores(), EXACTLY, partitions=2, trace=False)
    for record in records:
        piped(driver, [record])
        driver.run_ready()
        driver.application.commit()
        assert not driver.application.verify_state()
        if data.draw(st.booleans()):
            before = content(driver)
            driver.application.crash()
            driver.application.lose_store()
            driver.application.restart()
            assert before == content(driver)


@settings(max_examples=25)
@given(rows)
def test_a_compacted_log_gives_the_same_table_as_the_full_one(records: list[Any]) -> None:
    """S1-16: the last record of each key is all that a table needs."""
    builder = ks.StreamsBuilder("table")
    builder.table("in", store="rows")
    topology = builder.build()
    last = {key: number for number, (key, _, _) in enumerate(records)}
    compacted = [record for number, record in enumerate(records) if last[record[0]] == number]
    found = []
    for log in (records, compacted):
        driver = ks.simulation.ClusterDriver(topology, EXACTLY, trace=False)
        piped(driver, log)
        driver.run_ready()
        found.append(list(driver.application.store("rows").all()))
    assert found[0] == found[1]


@settings(max_examples=15, deadline=None)
@given(rows, st.integers(0, 1_000))
def test_an_order_that_is_no_race_gives_what_the_test_driver_gives(records: list[Any], seed: int) -> None:
    """Counting by key, each task reads one partition: the order of work changes nothing."""
    builder = ks.StreamsBuilder("count")
    builder.stream("in").group_by_key().count(store="n").to_stream().to("out")
    made = [ks.TopicRecord("in", -1, -1, at, key, value) for key, value, at in records]
    assert not find_races(builder.build(), made, schedules=10, seed=seed, partitions=3)


def joined(builder: ks.StreamsBuilder) -> None:
    """Clicks joined with the table's row at their time of arrival."""
    builder.stream("a").left_join(builder.table("b"), lambda left, right: [left, right]).to("out")


def third(builder: ks.StreamsBuilder) -> None:
    """The third record of a key, from two topics: two records are not yet a race."""
    both = builder.stream("a").merge(builder.stream("b"))
    sums = both.group_by_key().aggregate(list, lambda _, value, seen: [*seen, value][:3], store="seen")
    sums.to_stream().filter(lambda _, seen: len(seen) == 3).map_values(lambda seen: seen[2]).to("out")


@pytest.mark.parametrize("declare", [joined, third])
@settings(max_examples=12, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("kq"), st.integers(0, 9)), min_size=2, max_size=5))
def test_a_race_is_shrunk_to_the_fewest_records_that_show_it(declare: Any, rows: list[Any]) -> None:
    """No smaller subset of the sample shows a difference of this kind."""
    builder = ks.StreamsBuilder("race")
    declare(builder)
    topology = builder.build()
    sample = [ks.TopicRecord(topic, -1, -1, at, key, n) for n, (topic, key, at) in enumerate(rows)]
    found = find_races(topology, sample, schedules=30)
    if found.race is not None:
        for size in range(2, len(found.race.sample)):
            for fewer in combinations(sample, size):
                other = find_races(topology, fewer, schedules=12)
                assert found.race.kind not in other.counts
