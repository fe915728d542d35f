"""Views of a query's stores: one row, rows of all partitions, sessions, versions."""

from __future__ import annotations

from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.spark.store_view import StoreView


@pytest.fixture
def views() -> dict[str, StoreView]:
    """Views of a store of each kind after four records."""
    builder = ks.StreamsBuilder("kinds")
    stream = builder.stream("in", value_serde="long")
    grouped = stream.group_by_key()
    grouped.count(store="counts")
    grouped.windowed_by(ks.TimeWindows.of_size_with_no_grace("1h")).count(store="windows")
    grouped.windowed_by(ks.SessionWindows.of_inactivity_gap_with_no_grace("1h")).count(store="sessions")
    history = ks.Materialized(ks.Stores.persistent_versioned_key_value_store("versions", history="1h"))
    stream.to_table(value_serde="long", materialized=history)
    driver = ks.TopologyTestDriver(builder.build(), partitions=2)
    driver.pipe(ks.TopicRecord("in", -1, at, 5 + at, key, at) for at, key in enumerate("abca"))
    tasks = driver.engine.tasks.values()
    names = ("counts", "windows", "sessions", "versions")
    return {name: StoreView(name, [task.stores[name] for task in tasks if name in task.stores]) for name in names}


def test_a_look_up_gives_the_row_of_the_partition_that_has_it(views: dict[str, StoreView]) -> None:
    """S0-56: a row that is a tuple is one row; a key that is nowhere is None."""
    row = ks.ValueAndTimestamp(2, 8)
    assert row == views["counts"]["a"] == views["windows"].fetch("a", 0)
    assert (2, 3) == (views["sessions"].fetch_session("a", 5, 8), views["versions"].get("a").value)
    assert [None, None] == [views["counts"].get("z"), views["windows"].fetch("z", 0)]
    with pytest.raises(KeyError):
        views["counts"]["z"]


def test_rows_of_all_partitions_come_one_after_the_other(views: dict[str, StoreView]) -> None:
    """S0-56: every kind that has rows can be gone through, sessions too."""
    found: dict[str, Any] = {name: sorted(views[name].all(), key=str) for name in ("counts", "windows", "sessions")}
    assert ["a", "b", "c"] == [key for key, _ in found["counts"]]
    assert ["a", "b", "c"] == [window.key for window, _ in found["windows"]]
    assert [("a", 2), ("b", 1), ("c", 1)] == [(window.key, count) for window, count in found["sessions"]]
    assert 3 == len(views["sessions"])


def test_a_view_cannot_be_written(views: dict[str, StoreView]) -> None:
    """S2-49: what writes is not there, and the error says what it was asked of."""
    with pytest.raises(AttributeError, match=r'a view of store "counts" .* has no "put"'):
        views["counts"].put("a", 1)
