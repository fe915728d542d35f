"""Stores compared with their changelogs and the input, after every commit."""

from __future__ import annotations

from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.errors import ProcessingError, StateError


def kept(**options: Any) -> ks.TopologyTestDriver:
    """Counts by key, in windows, in sessions, and in a versioned table, each in a separate store."""
    builder = ks.StreamsBuilder("kept")
    grouped = builder.stream("in", value_serde="long").group_by_key()
    grouped.count(store="counts")
    grouped.windowed_by(ks.TimeWindows.of(size="10ms", grace="5ms")).count(store="windows")
    grouped.windowed_by(ks.SessionWindows.of(gap="5ms", grace="5ms")).count(store="sessions")
    held = grouped.windowed_by(ks.TimeWindows.of(size="20ms", grace="5ms")).count(store="long-windows")
    held.suppress(ks.Suppressed.until_window_closes()).to_stream().to("closed")
    return ks.TopologyTestDriver(builder.build(), partitions=2, **options)


def feed(driver: ks.TopologyTestDriver) -> None:
    """Records of three keys, some out of order, some late."""
    topic = driver.create_input_topic("in")
    for number, time in enumerate((0, 4, 3, 12, 11, 30, 29, 2, 61, 40)):
        topic.pipe_input("abc"[number % 3], number, at=time)


def test_a_changelog_that_is_read_after_an_error_is_compared_as_a_whole() -> None:
    """Records that were read are removed from the log; the next comparison missed those of before the error."""
    builder = ks.StreamsBuilder("kept")
    numbers = builder.stream("in", value_serde="string").map_values(int)
    numbers.group_by_key().count(store="counts")
    driver = ks.TopologyTestDriver(builder.build(), verify=True, changelogs=True)
    with pytest.raises(ProcessingError):
        driver.pipe(ks.Sample.from_records([("in", 0, 0, 1, "a", "1"), ("in", 0, 1, 2, "a", "one")]))
    changelog = driver.create_output_topic("kept-counts-changelog", value_serde="long")
    assert [("a", 1)] == changelog.read_key_values_to_list()
    driver.create_input_topic("in", value_serde="string").pipe_input("b", "2", at=3)
    assert [("b", 1)] == changelog.read_key_values_to_list()


@pytest.mark.parametrize("cache", [False, True])
def test_after_every_commit_stores_are_the_folds_of_changelogs_and_input(cache: bool) -> None:
    """S0-09: the switch reports nothing, and the complete comparison finds nothing, for every kind of store."""
    driver = kept(cache=cache, verify=True)
    feed(driver)
    found = driver.verify_state()
    assert not found
    assert found.stores == 10


def test_a_store_that_was_changed_behind_the_changelog_is_noticed_at_the_next_commit() -> None:
    """S0-09: the error names task, store and key, with both values; the comparison with the input agrees."""
    driver = kept(verify=True)
    feed(driver)
    task = next(task for task in driver.tasks.by_id.values() if task.stores["counts"].raw)
    raw_key, row = next(iter(task.stores["counts"].raw.items()))
    task.stores["counts"].apply(raw_key, None)
    with pytest.raises(StateError, match="stores differ from their changelogs") as caught:
        driver.create_input_topic("in").pipe_input("z", 1, at=62)
    assert "counts" in "".join(caught.value.__notes__)
    assert row is not None
    assert {"input"} == {each.against for each in driver.verify_state()}


def test_changelogs_that_are_only_compared_are_not_kept() -> None:
    """Topic names are known as before; their records are kept only on request."""
    driver, keeping = kept(verify=True), kept(verify=True, changelogs=True)
    for each in (driver, keeping):
        feed(each)
    assert driver.produced_topic_names() == keeping.produced_topic_names()
    assert not driver.tasks.logs["kept-counts-changelog"].rows
    assert keeping.tasks.logs["kept-counts-changelog"].rows


def test_records_that_were_read_are_not_kept() -> None:
    """A driver that gets more and more records does not grow by what was read; offsets and comparisons continue."""
    driver = kept(verify=True, changelogs=True)
    names = "kept-counts-changelog", "closed"
    counts, closed = (driver.create_output_topic(name, "bytes", "bytes") for name in names)
    feed(driver)
    rows = driver.tasks.logs["kept-counts-changelog"].rows
    first = [counts.read_record() for _ in range(6)]
    assert len(rows) < 10
    written = driver.produced_topic_names()
    first += [*counts.read_records(), *closed.read_records()][:4]
    assert [] == rows == driver.tasks.logs["closed"].rows
    assert written == driver.produced_topic_names()
    feed(driver)
    assert not driver.verify_state()
    later = {(record.partition, record.offset) for record in counts.read_records()}
    assert len(later) == 10
    assert not later & {(record.partition, record.offset) for record in first}


@pytest.mark.parametrize("store_type", ["persistent", "in_memory"])
def test_a_null_in_a_joined_stream_takes_no_row_from_what_the_changelog_makes_again(store_type: Any) -> None:
    """A null is logged and deletes nothing: a join restored from its changelogs still has the row."""
    builder = ks.StreamsBuilder("joined")
    left, right = builder.stream("left"), builder.stream("right")
    windows = ks.JoinWindows.of(difference="10ms", grace="0ms")
    options = ks.StreamJoined(store_type=store_type)
    left.join(right, lambda one, other: [one, other], windows, options).to("out")
    driver = ks.TopologyTestDriver(builder.build(), verify=True)
    topic = driver.create_input_topic("left")
    topic.pipe_input("k", "kept", at=5)
    topic.pipe_input("k", None, at=5)
    assert not driver.verify_state()
