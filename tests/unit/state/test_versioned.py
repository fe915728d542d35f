"""The store that remembers which value was valid when."""

from __future__ import annotations

import pytest

from kstreamnb.core.stores import LATEST, NOT_PUT, VersionedRecord
from kstreamnb.errors import StateError
from tests.unit.state.stores_for_tests import StoreTask


def test_a_put_says_until_when_it_is_valid() -> None:
    """The latest version is open, one inserted in between ends where the next begins, one too old is refused."""
    task = StoreTask()
    store = task.make("versioned", history_ms=20)
    assert LATEST == store.put("a", 1, 100)
    assert LATEST == store.put("a", 2, 110)
    assert 110 == store.put("a", 3, 105)
    assert 100 == store.put("a", 4, 90)
    assert NOT_PUT == store.put("a", 5, 89)
    assert [("s", "a", 5, 89)] == [drop[:4] for drop in task.dropped]
    assert LATEST == store.put("a", 6, 110)


def test_every_time_within_the_history_has_its_value() -> None:
    """A lookup as of a time finds the version valid then; deletions leave gaps."""
    store = StoreTask().make("versioned", history_ms=100)
    for value, time in (("x", 10), ("y", 20), (None, 30), ("w", 35)):
        store.put("a", value, time)
    found = [store.get("a", at) for at in (9, 10, 19, 20, 30, 34, 35, 99)]
    assert [None, "x", "x", "y", None, None, "w", "w"] == [version and version.value for version in found]
    assert VersionedRecord("w", 35) == store.get("a")
    assert ("w", 35) == store.row("a")
    assert VersionedRecord("w", 35) == store.delete("a", 40)
    assert store.get("a") is None
    assert VersionedRecord("w", 35) == store.get("a", 39)


def test_the_past_ends_with_the_history_but_the_latest_version_stays() -> None:
    """A lookup before the history finds only what is still valid."""
    store = StoreTask().make("versioned", history_ms=10)
    store.put("a", 1, 0)
    store.put("a", 2, 5)
    store.put("b", 3, 0)
    store.put("c", 4, 100)
    assert store.get("a", 4) is None
    assert VersionedRecord(2, 5) == store.get("a", 50)
    assert VersionedRecord(3, 0) == store.get("b", 20)


def test_the_history_lists_versions_with_their_ends() -> None:
    """Versions valid between two times, oldest or newest first."""
    store = StoreTask().make("versioned", history_ms=1000)
    for value, time in (("x", 10), ("y", 20), (None, 30), ("w", 35), ("late", 15)):
        store.put("a", value, time)
    x, late = VersionedRecord("x", 10, 15), VersionedRecord("late", 15, 20)
    y, w = VersionedRecord("y", 20, 30), VersionedRecord("w", 35)
    assert [x, late, y, w] == list(store.history("a"))
    assert [w, y, late, x] == list(store.history("a", ascending=False))
    assert [late, y] == list(store.history("a", 15, 25))
    assert [w] == list(store.history("a", 30))
    assert [] == list(store.history("b"))


def test_versions_are_forgotten_by_segments_of_their_ends() -> None:
    """Versions that ended long ago are removed from memory; those that ended in a live segment are still listed."""
    store = StoreTask().make("versioned", history_ms=6_000)
    for time in range(0, 100_000, 100):
        store.put("a", time, time)
    assert len(store.raw) < 10
    ends = [version.valid_to for version in store.history("a")]
    assert 92_000 == ends[0]
    assert len(store.raw) - 2 == len({end // 2_000 for end in ends[:-1]})


def test_a_deletion_of_nothing_is_remembered() -> None:
    """A version that arrives late ends where the key was deleted earlier."""
    store = StoreTask().make("versioned", history_ms=1000)
    assert LATEST == store.put("a", None, 50)
    assert 50 == store.put("a", "late", 40)
    assert store.get("a") is None
    assert VersionedRecord("late", 40) == store.get("a", 45)
    assert [VersionedRecord("late", 40, 50)] == list(store.history("a"))


def test_a_version_put_at_a_remembered_deletion_takes_its_place() -> None:
    """Also in what is written to a new changelog, after later versions have ended it."""
    store, again = (StoreTask().make("versioned", history_ms=1000) for _ in range(2))
    for value, time in ((None, 50), ("x", 50), ("y", 55)):
        store.put("a", value, time)
    records = store.changelog_snapshot(0)
    again.restore_changelog([(*store.changelog_entry(raw_key, row), *rest) for raw_key, row, *rest in records])
    assert [VersionedRecord("x", 50, 55), VersionedRecord("y", 55)] == list(store.history("a"))
    assert list(store.history("a")) == list(again.history("a"))


def test_the_changelog_holds_plain_values_at_their_times() -> None:
    """Every put is logged, refused ones too, with the version's own time."""
    store = StoreTask().make("versioned", history_ms=10)
    for value, time in ((1, 100), (None, 95), (2, 5)):
        store.put("a", value, time)
    entries = [(*store.changelog_entry(raw_key, row), time, headers) for raw_key, row, time, headers in store.changes]
    assert [(b"a", b"1", 100, ()), (b"a", None, 95, ()), (b"a", b"2", 5, ())] == entries


def test_the_history_reaches_back_to_its_last_millisecond() -> None:
    """A time exactly one history ago still has its value, one before it has none."""
    store = StoreTask().make("versioned", history_ms=10)
    for key, time in (("a", 0), ("a", 8), ("b", 15)):
        store.put(key, time, time)
    assert VersionedRecord(0, 0) == store.get("a", 5)
    assert store.get("a", 4) is None


def test_a_logged_store_refuses_times_before_the_epoch() -> None:
    """The record of the changelog would have that time, which Kafka's clients refuse."""
    with pytest.raises(StateError, match="must not be negative, got -1 ms") as caught:
        StoreTask().make("versioned", history_ms=10).put("a", 1, -1)
    assert caught.value.java == "Invalid timestamp: -1. Timestamp should always be non-negative or null."
    assert LATEST == StoreTask().make("versioned", history_ms=10, logged=False).put("a", 1, -1)
