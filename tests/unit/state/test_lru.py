"""The least-recently-used store."""

from __future__ import annotations

import pytest

import kstreamnb as ks
from kstreamnb.errors import StateError
from tests.unit.state.stores_for_tests import StoreTask


def test_the_key_used_least_recently_goes() -> None:
    """Reading counts as use; iterating does not."""
    store = StoreTask().make("lru", max_entries=2)
    store.put("a", [1])
    store.put("b", 2)
    assert [1] == store.get("a")
    list(store.all())
    store.put("c", 3)
    assert [("a", [1]), ("c", 3)] == list(store.all())
    assert [("c", 3), ("a", [1])] == list(store.reverse_range(None, None))
    store.put("a", None)
    store.put("d", 4)
    assert ["c", "d"] == [key for key, _ in store.all()]


def test_the_order_of_use_survives_undo_and_snapshots() -> None:
    """A store that was undone, or restored, evicts the same key next."""
    store, other = (StoreTask().make("lru", max_entries=2) for _ in range(2))
    store.put("a", 1)
    store.put("b", 2)
    store.get("a")
    other.restore(store.snapshot())
    store.journal = []
    store.get("b")
    store.put("c", 3)
    for raw_key, old, _ in reversed(store.journal):
        store.apply(raw_key, old)
    for one in (store, other):
        one.put("z", 9)
        assert ["a", "z"] == [key for key, _ in one.all()]


def test_a_changelog_gives_the_same_keys() -> None:
    """Evictions are tombstones there."""
    store, other = (StoreTask().make("lru", max_entries=2) for _ in range(2))
    for key in "abcabd":
        store.put(key, key)
    other.restore_changelog([(*store.changelog_entry(raw_key, row), 0, ()) for raw_key, row, _, _ in store.changes])
    assert list(store.all()) == list(other.all())


def test_how_many_must_be_said() -> None:
    """A least-recently-used store needs a size."""
    with pytest.raises(StateError, match="needs max_entries"):
        StoreTask().make("lru")


@pytest.mark.parametrize("value", [1, [1]])
def test_a_timestamped_store_evicts_in_the_same_order(value: object) -> None:
    """Also after undo, from a snapshot and from the changelog; a value may be kept as bytes."""
    store, copied, restored = (StoreTask().make("timestamped_key_value", max_entries=2) for _ in range(3))
    store.put("a", (value, 5))
    store.put("b", (2, 6))
    assert (value, 5) == store.get("a")
    copied.restore(store.snapshot())
    store.journal = []
    store.get("b")
    for raw_key, old, _ in reversed(store.journal):
        store.apply(raw_key, old)
    for one in (store, copied):
        one.put("c", (3, 7))
        assert [("a", (value, 5)), ("c", (3, 7))] == list(one.all())
    log = [(*store.changelog_entry(raw_key, row), time, ()) for raw_key, row, time, _ in store.changes]
    restored.restore_changelog(log)
    assert list(store.all()) == list(restored.all())


def test_a_table_in_an_lru_map_keeps_as_many_rows() -> None:
    """A join's look-up is a use, and an evicted row has no partner, as in Java."""
    builder = ks.StreamsBuilder("few")
    store = ks.Stores.lru_map("few", 2)
    table = builder.table("in", materialized=ks.Materialized.as_(store))
    builder.stream("asks").left_join(table, lambda left, right: right).to("out")
    with ks.TopologyTestDriver(builder.build(), verify=True) as driver:
        rows = driver.create_input_topic("in")
        rows.pipe_key_value_list([("a", 1), ("b", 2)])
        asks = driver.create_input_topic("asks")
        asks.pipe_input("a", None)
        asks.pipe_input("a", "?")
        rows.pipe_input("c", 3)
        assert ["a", "c"] == [key for key, _ in driver.get_key_value_store("few").all()]
        asks.pipe_input("b", "?")
        assert [1, None] == driver.create_output_topic("out").read_values_to_list()[-2:]
        assert (3, 2) == (driver.get_timestamped_key_value_store("few").get("c").value, 2)
