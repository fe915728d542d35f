"""Stores compared with trivially correct models, and laws for any sequence of operations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreamnb.core.record import Windowed
from kstreamnb.core.stores import StoreSpec, VersionedRecord
from kstreamnb.errors import ConfigError
from kstreamnb.state.make import make_store
from tests.unit.state.stores_for_tests import KINDS, StoreTask, implementations, on_disk, seen, title

KEYS = ("a", "ab", "b", "B")
keys = st.sampled_from(KEYS)
times = st.integers(0, 60)
values = st.one_of(st.none(), st.integers(0, 9), st.lists(st.integers(0, 2), max_size=2))
writes = st.lists(st.tuples(keys, values, times, st.booleans()), max_size=25)
Write = tuple[str, Any, int, bool]


def write(store: Any, key: str, value: Any, time: int) -> None:
    """Put a value into a store of any kind; a session lasts 3 ms."""
    kind = store.spec.kind
    if kind == "versioned":
        store.put(key, value, time)
    elif kind == "session":
        store.put(Windowed(key, max(0, time - 3), time), value)
    else:
        row = (value, time) if kind.startswith("timestamped") and value is not None else value
        store.put(key, row, time) if "window" in kind else store.put(key, row)


def look(store: Any) -> dict[str, Any]:
    """Return everything that can be read from such a store."""
    return seen(store, KEYS, 64)


def live(store: Any, life: list[Write]) -> None:
    """Write everything, flushing where the sequence says so."""
    for key, value, time, flushes in life:
        write(store, key, value, time)
        if flushes:
            store.flush()


@given(life=writes, low=keys, high=keys)
def test_a_key_value_store_is_a_dict_sorted_by_bytes(life: list[Write], low: str, high: str) -> None:
    """Cached or not, flushed or not, in memory or on disk, every read equals that of the dict.

    Kafka's accident: a descending read through a cache may also find rows whose deletion has not been flushed.
    """
    for options in ({}, {"cached": True}, {"factory": on_disk}, {"factory": on_disk, "cached": True}):
        store, model = StoreTask().make("key_value", **options), {}
        for key, value, _, flushes in life:
            assert model.get(key) == store.get(key)
            store.put(key, value)
            model.pop(key, None)
            if value is not None:
                model[key] = value
            if flushes:
                store.flush()
            rows = sorted(model.items(), key=lambda row: row[0].encode())
            assert rows == list(store.all())
            back = list(store.reverse_all())
            assert rows[::-1] == [row for row in back if row[0] in model]
            assert rows[::-1] == back or ("cached" in options and not flushes)
            assert [row for row in rows if low <= row[0] <= high] == list(store.range(low, high))
            assert [row for row in rows if row[0].startswith(low)] == list(store.prefix_scan(low))


ON_DISK = [
    StoreSpec("s", kind, **options, segment_ms=segment_ms)  # type: ignore[arg-type]
    for kind, options in KINDS.items()
    for segment_ms in ((None, 10) if "key_value" not in kind else (None,))
]
ON_DISK += [replace(spec, persistent=False) for spec in ON_DISK if "window" in spec.kind or spec.kind == "session"]
ON_DISK += [
    replace(spec, extra={"time_ordered": True, "indexed": True})
    for spec in ON_DISK
    if spec.kind == "session" and spec.persistent
]
ON_DISK += [replace(spec, retain_duplicates=True) for spec in ON_DISK if spec.kind == "window"]


@pytest.mark.parametrize("spec", ON_DISK, ids=lambda spec: f"{title(spec)}-{spec.segment_ms}")
@settings(max_examples=15)
@given(life=writes)
def test_rows_on_disk_are_read_as_those_in_memory(spec: StoreSpec, life: list[Write]) -> None:
    """Whichever part of them is in the table: raw rows are the same after each write, and every read in the end."""
    in_memory, stored = make_store(spec, StoreTask()), make_store(replace(spec, factory=on_disk), StoreTask())
    for key, value, time, settles in life:
        for store in (in_memory, stored):
            write(store, key, value, time)
        if settles:
            stored.raw.write(stored.raw.changes())
            stored.raw.settle()
        assert in_memory.raw == dict(stored.raw.items())
        if spec.kind == "session" and (spec.extra or not spec.persistent):
            assert list(in_memory.find_sessions_by_end(0, time)) == list(stored.find_sessions_by_end(0, time))
    assert look(in_memory) == look(stored)


@given(life=writes, from_=times, to=times, retention=st.sampled_from([0, 10, 40]))
def test_a_window_store_is_a_list_of_what_has_not_expired(
    life: list[Write], from_: int, to: int, retention: int
) -> None:
    """In memory a row is accepted and shown while its start is less than the retention behind the latest start."""
    for duplicates in (False, True):
        store = StoreTask().make(
            "window", persistent=False, retention_ms=retention, window_size_ms=1, retain_duplicates=duplicates
        )
        model: list[tuple[str, int, Any]] = []
        latest = -1
        for key, value, time, _ in life:
            store.put(key, value, time)
            latest = max(latest, time)
            if time > latest - retention:
                if not duplicates:
                    model = [row for row in model if row[:2] != (key, time)]
                if value is not None:
                    model.append((key, time, value))
            model = [row for row in model if row[1] > latest - retention]
        model.sort(key=lambda row: (row[1], row[0].encode()))
        shown = [(window.key, window.start, value) for window, value in store.all()]
        assert model == shown
        for key in KEYS:
            expected = [(start, value) for found, start, value in model if found == key and from_ <= start <= to]
            assert expected == list(store.fetch_between(key, from_, to))
            assert expected[::-1] == list(store.backward_fetch(key, from_, to))


@given(life=writes, earliest=times, latest=times)
def test_a_session_store_is_a_list_of_sessions(life: list[Write], earliest: int, latest: int) -> None:
    """Cached or not, a session is found by key, end and start."""
    for cached in (False, True):
        store, model = StoreTask().make("session", retention_ms=1000, cached=cached), {}
        for key, value, time, flushes in life:
            session = Windowed(key, max(0, time - 3), time)
            store.put(session, value)
            model.pop(session, None)
            if value is not None:
                model[session] = value
            if flushes:
                store.flush()
        for key in KEYS:
            mine = sorted((row for row in model.items() if row[0].key == key), key=lambda row: row[0].end)
            assert mine == list(store.fetch(key))
            found = [row for row in mine if row[0].end >= earliest and row[0].start <= latest]
            assert (
                found == list(store.find_sessions(key, earliest, latest)) == store.rows_between(key, earliest, latest)
            )


@given(life=writes, history=st.sampled_from([0, 5, 30, 1000]))
def test_a_versioned_store_knows_what_was_valid_within_its_history(life: list[Write], history: int) -> None:
    """As of any time within the history, the accepted version with the greatest time up to then is found."""
    store = StoreTask().make("versioned", history_ms=history, segment_ms=7)
    accepted: dict[str, dict[int, Any]] = {key: {} for key in KEYS}
    latest = -1
    for key, value, time, _ in life:
        store.put(key, value, time)
        if time >= latest - history:
            accepted[key][time] = value
        latest = max(latest, time)
        for name, versions in accepted.items():
            for at in (*range(max(0, latest - history), latest + 2, 3), latest):
                before = [since for since in versions if since <= at]
                valid = versions[max(before)] if before else None
                expected = None if valid is None else VersionedRecord(valid, max(before))
                assert expected == store.get(name, at)
            newest = max(versions, default=None)
            assert (None if newest is None else versions[newest]) == getattr(store.get(name), "value", None)


@pytest.mark.parametrize("spec", implementations(*KINDS), ids=title)
@settings(max_examples=12)
@given(life=writes)
def test_any_life_can_be_replayed_restored_and_undone(spec: StoreSpec, life: list[Write]) -> None:
    """Changelog, snapshot, redo and undo agree with the store."""
    store, replayed, restored = (make_store(spec, StoreTask()) for _ in range(3))
    store.journal = []
    live(store, life)
    store.flush()
    restored.restore(store.snapshot())
    assert look(store) == look(restored)
    entries = [(*store.changelog_entry(raw_key, row), time, headers) for raw_key, row, time, headers in store.changes]
    replayed.restore_changelog(entries)
    journal, store.journal = store.journal, None
    for raw_key, _, new in journal:
        store.apply(raw_key, new)
    assert look(restored) == look(store)
    for raw_key, old, _ in reversed(journal):
        store.apply(raw_key, old)
    assert {} == store.snapshot()
    if spec.cached:
        restored.clear_cache()
    assert look(restored) == look(replayed)


@pytest.mark.parametrize("kind", ["key_value", "timestamped_key_value", "timestamped_window", "session"])
@given(life=writes)
def test_a_compacted_changelog_restores_the_same_store(kind: str, life: list[Write]) -> None:
    """S2-46: the last value of each key suffices; earlier ones may be purged."""
    store, whole, compacted = (StoreTask().make(kind, **KINDS[kind]) for _ in range(3))
    live(store, life)
    entries = [(*store.changelog_entry(raw_key, row), time, headers) for raw_key, row, time, headers in store.changes]
    last = {key: at for at, (key, *_) in enumerate(entries)}
    kept = [entry for at, entry in enumerate(entries) if last[entry[0]] == at]
    whole.restore_changelog(entries)
    compacted.restore_changelog(kept)
    assert look(store) == look(whole) == look(compacted)


@given(life=writes, cut=st.integers(0, 25))
def test_undo_is_the_shorter_life(life: list[Write], cut: int) -> None:
    """Undoing to a moment restores the store of that time, and it continues identically."""
    for kind, options in KINDS.items():
        store, shorter = (StoreTask().make(kind, **options) for _ in range(2))
        live(store, life[:cut])
        live(shorter, life[:cut])
        store.journal = []
        live(store, life[cut:])
        for raw_key, old, _ in reversed(store.journal):
            store.apply(raw_key, old)
        assert look(shorter) == look(store)
        live(store, life[cut:])
        live(shorter, life[cut:])
        assert look(shorter) == look(store)


def test_versions_cannot_be_asked_for_from_a_later_time_to_an_earlier_one() -> None:
    """A query whose end is before its start is an error, not an empty answer; a single instant is allowed."""
    store = StoreTask().make("versioned", history_ms=100, segment_ms=7)
    store.put("a", 1, 10)
    assert [1] == [version.value for version in store.history("a", 10, 10)]
    with pytest.raises(ConfigError, match="ends before it starts"):
        store.history("a", 11, 10)
