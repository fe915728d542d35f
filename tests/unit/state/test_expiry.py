"""When window and session stores refuse, hide and expire rows."""

from __future__ import annotations

import time
from random import Random
from typing import Any

import pytest

from kstreamnb.core.record import Windowed
from kstreamnb.core.serdes import Serdes
from kstreamnb.errors import StateError
from tests.unit.state.stores_for_tests import StoreTask

WINDOW = {"retention_ms": 100_000, "window_size_ms": 10}


def window_store(**options: Any) -> tuple[StoreTask, Any]:
    """A window store with 100 s of retention."""
    task = StoreTask()
    return task, task.make("window", **{**WINDOW, **options})


def test_a_memory_store_refuses_exactly_what_is_older_than_its_retention() -> None:
    """A window is refused once it starts a whole retention before the latest, and the drop states the reason."""
    task, store = window_store(persistent=False)
    store.put("a", 1, 200_000)
    task.now = 42
    store.put("a", 2, 100_000)
    store.put("a", 3, 100_001)
    details = {
        "window_start": 100_000,
        "window_end": 100_010,
        "stream_time_ms": 200_000,
        "retention_ms": 100_000,
        "store": "s",
    }
    assert [("s", "a", 2, 42, details)] == task.dropped
    assert [(100_001, 3), (200_000, 1)] == list(store.fetch_between("a", 0, 300_000))


def test_a_memory_store_without_retention_refuses_every_row() -> None:
    """A row is as old as the retention when it is put, also the newest."""
    for kind, row in (("window", ("a", 1, 5)), ("session", (Windowed("a", 5, 5), 1))):
        task = StoreTask()
        store = task.make(kind, retention_ms=0, persistent=False)
        store.put(*row)
        assert [5] == [drop[4]["stream_time_ms"] for drop in task.dropped]
        assert [] == list(store.fetch("a", 0, 9) if kind == "window" else store.fetch("a"))


def test_a_persistent_store_refuses_whole_segments_and_hides_the_rest() -> None:
    """Segments are half a retention, at least a minute; an expired row of a live segment is kept but not shown."""
    task, store = window_store()
    store.put("a", 1, 200_000)
    store.put("a", 2, 60_000)
    store.put("a", 3, 59_999)
    assert ["s"] == [drop[0] for drop in task.dropped]
    assert store.fetch("a", 60_000) is None
    assert [(200_000, 1)] == list(store.fetch_between("a", 0, 300_000))
    assert 2 == len([raw_key for raw_key in store.raw if raw_key is not None])


@pytest.mark.parametrize("duplicates", [False, True])
def test_a_row_at_the_time_of_the_next_expiry_expires_a_segment(duplicates: bool) -> None:
    """From that time on, no put into the segment is accepted."""
    task, store = window_store(retention_ms=120_000, retain_duplicates=duplicates)
    store.put("a", 1, 179_999)
    store.put("a", 2, 59_999)
    assert [] == task.dropped
    store.put("a", 3, 180_000)
    store.put("a", 4, 59_999)
    assert [4] == [value for _, _, value, *_ in task.dropped]


def test_a_segment_is_as_long_as_half_the_retention() -> None:
    """With 400 s of retention segments are 200 s."""
    task, store = window_store(retention_ms=400_000)
    store.put("a", 1, 800_000)
    store.put("a", 2, 400_000)
    store.put("a", 3, 399_999)
    assert [399_999] == [drop[4]["window_start"] for drop in task.dropped]


@pytest.mark.parametrize("persistent", [True, False])
def test_old_rows_are_forgotten(persistent: bool) -> None:
    """Memory holds little more than the readable rows."""
    _, store = window_store(persistent=persistent, retention_ms=10)
    for start in range(0, 1_000_000, 100):
        store.put("a", 1, start)
    assert len(store.raw) < 700
    assert [(999_900, 1)] == list(store.fetch_between("a", 0, 10**7))


@pytest.mark.parametrize("duplicates", [True, False])
def test_rows_of_expired_segments_leave_every_index_and_an_undo_brings_them_back(duplicates: bool) -> None:
    """Reads by key and by time find what is left, and after the journal is undone what was there."""

    def values() -> tuple[list[int], list[int]]:
        return [row[1] for row in store.fetch_between("a", 0, 300_000)], [row[1] for row in store.fetch_all(0, 300_000)]

    _, store = window_store(retain_duplicates=duplicates)
    for at, key in enumerate("abab"):
        store.put(key, at, at * 31_000)
    before = store.snapshot()
    assert ([0, 2], [0, 1, 2, 3]) == values()
    store.journal = journal = list[Any]()
    store.put("b", 4, 161_000)
    assert ([2], [2, 3, 4]) == values()
    for raw_key, old, _ in reversed(journal):
        store.apply(raw_key, old)
    assert before == store.snapshot()
    assert ([0, 2], [0, 1, 2, 3]) == values()


@pytest.mark.parametrize("persistent", [True, False])
def test_rows_of_a_short_join_leave_memory_soon_and_reads_show_the_same(persistent: bool) -> None:
    """A store with duplicates holds little more than a second of rows; one without keeps them for a minute."""
    stores = [
        window_store(retain_duplicates=duplicates, persistent=persistent, retention_ms=50)[1]
        for duplicates in (True, False)
    ]
    for start in (*range(0, 30_000, 10), *range(29_001, 29_990, 10)):  # the last ones are late
        key = "ab"[start % 20 // 10]
        shown = []
        for store in stores:
            store.put(key, start, start)
            rows = list(store.fetch_between(key, 0, 40_000)), list(store.fetch_all(0, 40_000))
            shown.append([[row[1] for row in each] for each in rows])
        assert shown[0] == shown[1]
    short, long = (len(store.raw) for store in stores)
    assert short < 350 < 2_500 < long


def test_a_time_ordered_store_shows_rows_one_ms_longer() -> None:
    """The store behind aggregations that emit on window close."""
    for extra, shown in (({}, []), ({"time_ordered": True}, [100_000])):
        _, store = window_store(extra=extra)
        store.put("a", 1, 100_000)
        store.put("a", 1, 200_000)
        assert shown == [window.start for window, _ in store.fetch_all(0, 150_000)]


def test_the_order_of_all_rows_depends_on_how_they_are_kept() -> None:
    """Persistent stores iterate by segment and then by key, the others by time."""
    for options, expected in (
        ({}, [("a", 1), ("a", 5), ("b", 0), ("a", 70_000)]),
        ({"persistent": False}, [("b", 0), ("a", 1), ("a", 5), ("a", 70_000)]),
        ({"extra": {"time_ordered": True}}, [("b", 0), ("a", 1), ("a", 5), ("a", 70_000)]),
    ):
        _, store = window_store(**options)
        for key, start in (("a", 5), ("b", 0), ("a", 70_000), ("a", 1)):
            store.put(key, 1, start)
        assert expected == [window[:2] for window, _ in store.all()]
        assert expected[::-1] == [window[:2] for window, _ in store.backward_all()]


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        ({}, ["a", "a", "b"]),
        ({"persistent": False}, ["b", "a", "a"]),
        ({"extra": {"time_ordered": True, "indexed": True}}, ["a", "a", "b"]),
        ({"extra": {"time_ordered": True, "indexed": False}}, ["b", "a", "a"]),
    ],
)
def test_the_order_of_a_range_of_keys_depends_on_the_index(options: dict[str, Any], keys: list[str]) -> None:
    """Stores without an index by key read a range of keys in the order of time."""
    _, store = window_store(**options)
    for key, start in (("a", 5), ("b", 0), ("a", 1)):
        store.put(key, 1, start)
    assert keys == [window.key for window, _ in store.fetch_keys("a", "b", 0, 9)]
    assert keys[::-1] == [window.key for window, _ in store.backward_fetch_keys("a", "b", 0, 9)]


def test_duplicates_stay_side_by_side() -> None:
    """Rows of one key and start keep the order of their arrival; None deletes nothing."""
    for persistent in (True, False):
        _, store = window_store(retain_duplicates=True, persistent=persistent)
        for value in ("x", "y", None, "x"):
            store.put("a", value, 5)
        store.put("a", "z", 3)
        assert [(3, "z"), (5, "x"), (5, "y"), (5, "x")] == list(store.fetch_between("a", 0, 9))
        assert "z" == store.fetch("a", 3) if persistent else store.fetch("a", 3) is None
        assert store.fetch("a", 5) is None


def test_none_among_duplicates_is_noted_in_the_changelog_only() -> None:
    """Kafka's in-memory store also records its time."""
    for persistent, dropped in ((True, 0), (False, 1)):
        task, store = window_store(retain_duplicates=True, persistent=persistent)
        store.put("a", 1, 5)
        store.put("a", None, 100_005)
        store.put("a", 2, 5)
        assert [1, None, 2] == [row for _, row, _, _ in store.changes]
        assert dropped == len(task.dropped)


def test_a_session_expires_by_its_end() -> None:
    """A session that ends a whole retention before the latest end is refused (in memory) or hidden."""
    for persistent in (True, False):
        task = StoreTask()
        by_time = {"time_ordered": True, "indexed": True} if persistent else {}
        store = task.make("session", retention_ms=100_000, persistent=persistent, extra=by_time)
        store.put(Windowed("a", 0, 100_000), 1)
        store.put(Windowed("a", 0, 100_001), 2)
        store.put(Windowed("a", 0, 200_000), 3)
        assert [2, 3] == [value for _, value in store.fetch("a")]
        assert store.fetch_session("a", 0, 100_000) is None
        store.put(Windowed("b", 0, 100_000), 4)
        assert [] == list(store.fetch("b"))
        assert (0 if persistent else 1) == len(task.dropped)
        found = [value for _, value in store.find_sessions_by_end(0, 150_000)]
        assert ([1, 4, 2] if persistent else [2]) == found


def test_sessions_are_listed_by_end_only_in_memory_without_a_cache_or_if_emitted_on_close() -> None:
    for options, refused in (
        ({}, True),
        ({"persistent": False}, False),
        ({"persistent": False, "cached": True}, True),
        ({"extra": {"time_ordered": True, "indexed": True}}, False),
    ):
        store = StoreTask().make("session", retention_ms=100, **options)
        store.put(Windowed("a", 0, 5), 1)
        if refused:
            with pytest.raises(StateError, match="by their end"):
                store.find_sessions_by_end(0, 5)
        else:
            assert [(Windowed("a", 0, 5), 1)] == list(store.find_sessions_by_end(0, 5))


def test_removing_a_session_moves_time_only_where_it_is_kept_on_disk() -> None:
    """An accident of Kafka's persistent store that determines which rows are refused later."""
    for persistent, dropped in ((True, 1), (False, 0)):
        task = StoreTask()
        store = task.make("session", retention_ms=100_000, persistent=persistent)
        store.remove(Windowed("a", 0, 500_000))
        store.put(Windowed("a", 0, 0), 1)
        assert dropped == len(task.dropped)


def test_sessions_of_one_end_come_latest_start_first_from_memory() -> None:
    """Kafka's persistent store returns them by their bytes, the earliest start first."""
    for persistent, starts in ((True, [0, 3, 7]), (False, [7, 3, 0])):
        store = StoreTask().make("session", retention_ms=100_000, persistent=persistent)
        for start in (3, 7, 0):
            store.put(Windowed("a", start, 10), start)
        assert starts == [start for _, start in store.fetch("a")]
        assert starts == [start for _, start in store.find_sessions("a", 10, 10)]
        assert starts[::-1] == [start for _, start in store.backward_find_sessions("a", 10, 10)]


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize(("serde", "keys"), [("string", ("a", "é")), ("long", (1, 2)), ("json", ("a", {"x": 1}))])
def test_operators_find_the_sessions_that_users_find(persistent: bool, serde: str, keys: tuple[Any, ...]) -> None:
    """The newest of a key and earlier ones, hidden and expired ones; what was removed is not found."""
    random = Random(11)
    store = StoreTask().make("session", retention_ms=100, persistent=persistent, key_serde=Serdes.named(serde))
    store.changes = None  # as in a driver that keeps no changelogs
    for now in range(0, 70_000, 97):
        end = max(0, now - random.choice((0, 0, 0, 40, 90)))
        store.put(Windowed(random.choice(keys), max(0, end - random.randrange(60)), end), now)
        for key in keys:
            latest = max(0, now + random.randrange(-60, 60))
            found = list(store.find_sessions(key, now - 150, latest))
            assert found == store.rows_between(key, now - 150, latest)
            if found and random.random() < 0.5:
                gone = random.choice(found)
                store.remove(gone[0])
                found.remove(gone)
                assert found == store.rows_between(key, now - 150, latest)
                assert found == list(store.find_sessions(key, now - 150, latest))
    assert len(store.raw) < 200  # rows of expired segments have left


def test_a_persistent_store_keeps_windows_before_zero_and_reads_them_key_by_key() -> None:
    """Segments are rounded towards zero, so that of time 0 has them, too; bytes of their times follow all others."""
    task, store = window_store()
    store.put("a", 1, -5)
    store.put("a", 2, 7)
    assert [] == task.dropped
    assert 1 == store.fetch("a", -5)
    assert [(-5, 1)] == list(store.fetch_between("a", -9, -1))
    assert [(7, 2)] == list(store.fetch_between("a", -9, 9))
    assert [(Windowed("a", 7, 17), 2)] == list(store.all())
    with pytest.raises(StateError, match="begin before 0 ms") as caught:
        store.fetch_all(-9, 9)
    assert caught.value.java == "Window startMs time cannot be negative."
    store.put("a", 3, 200_000)
    store.put("a", 4, -1)
    assert ["s"] == [drop[0] for drop in task.dropped]


def test_a_memory_store_hides_windows_before_zero() -> None:
    """They are accepted and never shown."""
    task, store = window_store(persistent=False)
    store.put("a", 1, -5)
    assert store.fetch("a", -5) is None
    assert ([], [], []) == (list(store.fetch_between("a", -9, -1)), list(store.fetch_all(-9, 9)), task.dropped)


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("persistent", [True, False])
def test_sessions_cannot_begin_before_zero_or_end_before_they_begin(persistent: bool, cached: bool) -> None:
    """Such a session is refused by put and remove alike."""
    store = StoreTask().make("session", retention_ms=100, persistent=persistent, cached=cached)
    for session in (Windowed("a", -1, 5), Windowed("a", 5, 4)):
        with pytest.raises(StateError, match="expects 0 <= start <= end"):
            store.put(session, 1)
        with pytest.raises(StateError, match="expects 0 <= start <= end"):
            store.remove(session)


def test_closed_sessions_are_found_without_a_look_at_all_others() -> None:
    """EmitStrategy.on_window_close asks with each record: with a scan, the cost would grow with the square."""
    store = StoreTask().make("session", retention_ms=1_000_000, persistent=False)
    begin = time.process_time()
    for at in range(20_000):
        store.put(Windowed(f"k{at}", at, at), 1)
        if at % 3 == 0:
            store.remove(Windowed(f"k{at}", at, at))
        found = [(session.start, session.end) for session, _ in store.find_sessions_by_end(at - 2, at)]
        assert [(end, end) for end in range(max(0, at - 2), at + 1) if end % 3] == found
    assert time.process_time() - begin < 10, "the square of the number of sessions would take minutes"
