"""The record cache: what is held back, what is emitted, in which order, and when."""

from __future__ import annotations

from typing import Any

import pytest

from kstreamnb.core.record import Windowed
from kstreamnb.core.serdes import Serdes
from kstreamnb.state.cache import CacheBudget, InCache
from tests.unit.state.stores_for_tests import StoreTask


class Told:
    """A cached store and the changes its listener received."""

    def __init__(self, kind: str, *, send_old: bool = True, budget: CacheBudget | None = None, **options: Any) -> None:
        self.task = StoreTask()
        self.store = self.task.make(kind, budget, cached=True, **options)
        self.changes: list[tuple[Any, ...]] = []
        assert self.store.set_flush_listener(lambda *change: self.changes.append(change), send_old=send_old)

    def at(self, time: int, headers: Any = ()) -> Any:
        """The store while a record of that time is processed."""
        self.task.set_record(time, headers)
        return self.store

    def flushed(self) -> list[tuple[Any, ...]]:
        """Return the changes of a flush."""
        self.store.flush()
        told, self.changes[:] = self.changes[:], []
        return told


def test_only_the_last_value_of_a_key_is_told_with_the_value_before_the_last_flush() -> None:
    """Time and headers are those of the last write; the old value is the store's."""
    told = Told("timestamped_key_value")
    told.at(1).put("a", (1, 1))
    told.at(2, (("h", b"x"),)).put("a", (2, 9))
    assert (2, 9) == told.store.get("a")
    assert [("a", 2, None, 9, (("h", b"x"),))] == told.flushed()
    told.at(5).put("a", (3, 5))
    told.at(6).put("a", None)
    assert [("a", None, 2, 6, ())] == told.flushed()
    assert [] == told.flushed()


def test_keys_are_told_in_the_order_in_which_they_were_last_written() -> None:
    """Writing a key again moves it to the end; reading it does not."""
    told = Told("key_value")
    for key in "abca":
        told.at(1).put(key, key)
    told.store.get("b")
    assert ["b", "c", "a"] == [change[0] for change in told.flushed()]


@pytest.mark.parametrize("persistent", [False, True])
def test_only_a_store_in_memory_shows_rows_that_are_flushed_while_it_is_read(persistent: bool) -> None:
    """A fetch of a persistent store sees it as it was before; in either one the next cached row was read ahead."""
    told = Told("window", retention_ms=1000, window_size_ms=10, persistent=persistent)
    told.at(0).put("a", "stored", 0)
    told.store.flush()
    told.store.clear_cache()
    for start in (20, 30):
        told.store.put("a", start, start)
    rows = iter(told.store.rows_between("a", 0, 100))
    shown = [next(rows)]
    told.store.flush()
    told.store.clear_cache()
    assert [(0, "stored"), (20, 20), *[(30, 30)] * (not persistent)] == shown + list(rows)


def test_a_key_that_came_and_went_is_not_mentioned() -> None:
    """Neither the listener nor the store nor the changelog sees it."""
    told = Told("key_value")
    told.at(1).put("a", 1)
    told.at(2).delete("a")
    assert [] == told.flushed()
    assert [] == told.store.changes


def test_without_a_listener_everything_is_written() -> None:
    """A cached store of a user's processor also writes a deletion of an unknown row."""
    task = StoreTask()
    store = task.make("key_value", cached=True)
    store.put("a", 1)
    store.put("a", None)
    assert [] == store.changes
    store.flush()
    assert [("a", None)] == [entry[:2] for entry in store.changes]


def test_old_values_can_be_left_out() -> None:
    """If old values are not needed none is read; a deletion is still emitted."""
    told = Told("key_value", send_old=False)
    told.at(1).put("a", 1)
    told.flushed()
    told.at(2).put("a", 2)
    assert [("a", 2, None, 2, ())] == told.flushed()
    told.at(3).put("a", None)
    assert [("a", None, None, 3, ())] == told.flushed()


def test_the_changelog_is_written_at_the_times_of_the_cached_records() -> None:
    """A flush sets each cached record as the current one, and restores the previous one afterwards."""
    told = Told("key_value")
    told.at(3).put("a", 1)
    told.at(8).put("b", 2)
    told.task.set_record(20, ())
    told.flushed()
    assert [("a", 3), ("b", 8)] == [(raw_key, time) for raw_key, _, time, _ in told.store.changes]
    assert 20 == told.task.timestamp()


def test_ranges_see_the_cache_over_the_store() -> None:
    """New, changed and deleted rows show as if they had been written."""
    told = Told("key_value")
    for key in "abd":
        told.at(1).put(key, "old")
    told.flushed()
    told.store.clear_cache()
    told.at(2).put("a", "new")
    told.store.delete("b")
    told.store.put("c", "new")
    assert [("a", "new"), ("c", "new"), ("d", "old")] == list(told.store.all())
    assert [("c", "new"), ("a", "new")] == list(told.store.reverse_range("a", "c"))
    assert [("a", "new")] == list(told.store.prefix_scan("a"))


def test_a_descending_range_finds_unflushed_deletions_by_the_accident_of_kafka() -> None:
    """As None above the rows of the store, and not at all below one that the cache does not have."""
    told = Told("key_value")
    for key in "bd":
        told.at(1).put(key, "old")
    told.flushed()
    told.store.clear_cache()
    told.at(2).put("c", None)
    told.store.put("e", None)
    assert [("e", None), ("d", "old"), ("b", "old")] == list(told.store.reverse_all())
    told.store.delete("b")
    assert [("e", None), ("d", "old"), ("b", "old")] == list(told.store.reverse_all())
    told.flushed()
    assert [("d", "old")] == list(told.store.reverse_all())


def test_a_descending_fetch_of_windows_finds_unflushed_deletions_by_the_same_accident() -> None:
    told = Told("timestamped_window", retention_ms=1000)
    for start in (2, 4):
        told.at(1).put("k", ("old", 1), start)
    told.flushed()
    told.store.clear_cache()
    told.at(2).put("k", None, 3)
    told.store.put("k", None, 5)
    assert [(2, ("old", 1)), (4, ("old", 1))] == list(told.store.fetch_between("k", 0, 9))
    assert [(5, None), (4, ("old", 1)), (2, ("old", 1))] == list(told.store.backward_fetch("k", 0, 9))
    told.flushed()
    assert [(4, ("old", 1)), (2, ("old", 1))] == list(told.store.backward_fetch("k", 0, 9))


def test_windows_are_told_by_window() -> None:
    """The listener gets windowed keys, and ranges overlay the cache on the store."""
    told = Told("timestamped_window", retention_ms=100, window_size_ms=10)
    told.at(4).put("a", (1, 4), 0)
    told.at(14).put("a", (1, 14), 10)
    told.at(15).put("a", (2, 15), 10)
    assert [(0, (1, 4)), (10, (2, 15))] == list(told.store.fetch_between("a", 0, 20))
    assert [(Windowed("a", 0, 10), 1, None, 4, ()), (Windowed("a", 10, 20), 2, None, 15, ())] == told.flushed()


def test_the_cache_remembers_windows_that_the_store_has_forgotten() -> None:
    """Flushed rows stay readable, even if expired in the store, until the cache is cleared."""
    told = Told("window", retention_ms=10, window_size_ms=10)
    told.at(0).put("a", 1, 0)
    told.at(0).put("a", 2, 1000)
    told.flushed()
    assert 1 == told.store.fetch("a", 0)
    assert [0, 1000] == [window.start for window, _ in told.store.all()]
    told.store.clear_cache()
    assert told.store.fetch("a", 0) is None
    assert [1000] == [window.start for window, _ in told.store.all()]


def test_sessions_are_told_by_session() -> None:
    """A session that was replaced within one cycle is not emitted."""
    told = Told("session", retention_ms=100)
    told.at(1).put(Windowed("a", 0, 0), 1)
    told.flushed()
    told.at(5).remove(Windowed("a", 0, 0))
    told.at(5).put(Windowed("a", 0, 5), 2)
    told.at(6).remove(Windowed("a", 0, 5))
    told.at(6).put(Windowed("a", 0, 6), 3)
    assert [3] == [value for _, value in told.store.find_sessions("a", 0, 10)]
    assert [(Windowed("a", 0, 0), None, 1, 5, ()), (Windowed("a", 0, 6), 3, None, 6, ())] == told.flushed()


@pytest.mark.parametrize("fetch", ["fetch_between", "backward_fetch"])
def test_rows_that_a_fetch_reads_count_as_used(fetch: str) -> None:
    """In both directions; the row that no fetch has read is evicted first."""
    told = Told("window", retention_ms=1000, window_size_ms=10)
    for start in (0, 10, 20):
        told.at(start).put("a", "x", start)
    assert 2 == len(list(getattr(told.store, fetch)("a", 0, 10)))
    assert ("a", 20) == next(iter(told.store.cached))


def test_a_full_cache_evicts_what_was_used_least_recently_and_then_flushes_all() -> None:
    """The evicted entry is emitted first, then the other dirty ones."""
    size = 1 + 24 + 1 + 1 + 20 + len("in")
    budget = CacheBudget(3 * size)
    told = Told("key_value", budget=budget, value_serde=Serdes.string())
    for key in "abc":
        told.at(1).put(key, "x")
    told.store.get("a")
    assert [] == told.changes
    assert 3 * size == budget.size_bytes
    told.at(2).put("d", "y")
    assert ["b", "a", "c", "d"] == sorted((change[0] for change in told.changes), key="bacd".index)
    assert "b" == told.changes[0][0]
    assert 3 * size == budget.size_bytes
    assert ["a", "b", "c", "d"] == [key for key, _ in told.store.all()]


def test_stores_of_a_task_share_the_limit() -> None:
    """The store that is written to evicts entries."""
    budget = CacheBudget(60)
    one = Told("key_value", budget=budget)
    two = Told("key_value", budget=budget)
    one.at(1).put("a", 1)
    two.at(1).put("b", 1)
    assert ([], ["b"]) == ([change[0] for change in one.changes], [change[0] for change in two.changes])
    assert 0 < budget.size_bytes <= 60


def test_what_waits_in_the_cache_is_part_of_a_snapshot() -> None:
    """A store restored in the middle of a cycle flushes the same, in the same order."""
    told, other = Told("timestamped_key_value"), Told("timestamped_key_value")
    for time, key in enumerate("abca"):
        told.at(time).put(key, (time, time))
    rows = told.store.snapshot()
    assert all(type(key) is InCache for key in rows)
    other.store.restore(rows)
    assert other.store.budget.size_bytes == told.store.budget.size_bytes
    assert told.flushed() == other.flushed()


@pytest.mark.parametrize("kind", ["versioned", "window"])
def test_some_stores_are_never_cached(kind: str) -> None:
    """Versioned stores, and windows with duplicates."""
    options: dict[str, Any] = {"history_ms": 10} if kind == "versioned" else {"retain_duplicates": True}
    store = StoreTask().make(kind, cached=True, retention_ms=10, window_size_ms=1, **options)
    assert not store.set_flush_listener(lambda *change: None)
