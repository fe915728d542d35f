"""The least-recently-used store."""

from __future__ import annotations

import pytest

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
    with pytest.raises(StateError, match="keeps the last used keys"):
        StoreTask().make("lru")
