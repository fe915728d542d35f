"""S4-04, S0-59: the contract of every store: in memory, behind a cache, or a user's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from kstreamnb.core.record import ValueAndTimestamp, Windowed
from kstreamnb.core.serde import Serde
from kstreamnb.core.serdes import Serdes
from kstreamnb.core.stores import StoreSpec
from kstreamnb.errors import ConfigError, SerdeError, StateError
from kstreamnb.state.make import make_store
from tests.cases import for_every
from tests.unit.state.stores_for_tests import KINDS, StoreTask, implementations, seen, title

KEY_VALUE = implementations("key_value", "timestamped_key_value")
WINDOW = [spec for spec in implementations("window", "timestamped_window") if not spec.retain_duplicates]
SESSION = implementations("session")
ALL = implementations(*KINDS)

on_key_values = for_every(KEY_VALUE, title)
on_windows = for_every(WINDOW, title)
on_sessions = for_every(SESSION, title)
on_all = for_every(ALL, title)


def made(spec: StoreSpec) -> Any:
    """Create a store with a separate task."""
    return make_store(spec, StoreTask())


def row(store: Any, value: Any, time: int = 5) -> Any:
    """Return a value in the form that the store takes."""
    return (value, time) if store.spec.kind.startswith("timestamped") else value


def write(store: Any, key: str, value: Any, time: int) -> None:
    """Put a value into a store of any kind."""
    kind = store.spec.kind
    if kind == "versioned":
        store.put(key, value, time)
    elif kind == "session":
        store.put(Windowed(key, time, time), value)
    elif "window" in kind:
        store.put(key, None if value is None else row(store, value, time), time)
    else:
        store.put(key, None if value is None else row(store, value, time))


def fill(store: Any) -> None:
    """Write a sequence with deletions, replacements, late rows and expiry."""
    for key, value, time in (
        ("b", 1, 3), ("a", 2, 5), ("ab", 3, 5), ("a", 4, 12), ("b", None, 3), ("B", 5, 12), ("a", 6, 5),
        ("b", [7], 14), ("ab", {"x": 8}, 20), ("a", None, 12), ("a", 9, 40), ("b", 10, 11), ("b", 11, 9), ("B", 12, 41),
    ):  # fmt: skip
        write(store, key, value, time)


@on_key_values
def test_rows_come_and_go(spec: StoreSpec) -> None:
    """S4-04: a put is visible at once, another replaces it, None deletes, deletions return the old value."""
    store = made(spec)
    one, two = row(store, 1), row(store, 2)
    store.put("a", one)
    assert (one, None) == (store.get("a"), store.get("b"))
    store.put("a", two)
    assert two == store.put_if_absent("a", one)
    assert store.put_if_absent("b", one) is None
    store.put_all([("c", one), ("d", two)])
    assert two == store.delete("a")
    assert store.delete("a") is None
    store.put("d", None)
    store.flush()
    assert [("b", one), ("c", one)] == list(store.all())
    assert 2 == store.approximate_num_entries()


@on_key_values
def test_ranges_follow_the_bytes_of_keys(spec: StoreSpec) -> None:
    """Upper case before lower, short before long, both bounds inclusive, None open, reversed bounds empty."""
    store = made(spec)
    for key in ("b", "é", "ab", "B", "a", "", "aa"):
        store.put(key, row(store, key))
    keys = lambda rows: [key for key, _ in rows]  # noqa: E731 - only here
    assert ["", "B", "a", "aa", "ab", "b", "é"] == keys(store.all())
    assert ["é", "b", "ab", "aa", "a", "B", ""] == keys(store.reverse_all())
    assert ["aa", "ab", "b"] == keys(store.range("aa", "b"))
    assert ["", "B", "a"] == keys(store.range(None, "a"))
    assert ["é", "b"] == keys(store.reverse_range("b", None))
    assert ["a", "aa", "ab"] == keys(store.prefix_scan("a"))
    assert [] == keys(store.range("b", "a"))
    store.delete("aa")
    store.put("aaa", row(store, 1))
    assert ["a", "aaa", "ab"] == keys(store.prefix_scan("a"))


@on_key_values
def test_only_a_persistent_store_without_a_cache_scans_an_empty_prefix(spec: StoreSpec) -> None:
    """Kafka's other stores fail on it, as they compute the next prefix."""
    store = made(spec)
    store.put("a", row(store, 1))
    if spec.persistent and not spec.cached and spec.kind != "lru":
        assert [("a", row(store, 1))] == list(store.prefix_scan(""))
    else:
        with pytest.raises(StateError, match="cannot scan the prefix b''"):
            store.prefix_scan("")


@on_key_values
def test_a_range_shows_what_the_store_held_when_it_was_asked(spec: StoreSpec) -> None:
    """Deleting while iterating, as punctuators do, is safe."""
    store = made(spec)
    for key in "abc":
        store.put(key, row(store, key))
    keys = []
    for key, _ in store.all():
        store.delete(key)
        store.put("new" + key, row(store, 1))
        keys.append(key)
    assert ["a", "b", "c"] == keys
    assert ["newa", "newb", "newc"] == [key for key, _ in store.all()]


@on_key_values
def test_an_iterator_can_be_used_as_in_java(spec: StoreSpec) -> None:
    """Peek, next, close."""
    store = made(spec)
    for key in "abc":
        store.put(key, row(store, key))
    with store.all() as rows:
        assert rows.has_next()
        assert "a" == rows.peek_next_key()
        assert ("a", row(store, "a")) == next(rows)
        assert rows.has_next()
        assert ["b", "c"] == [key for key, _ in rows]
        assert not rows.has_next()
    rows = store.all()
    rows.close()
    assert [] == list(rows)


@on_windows
def test_windows_are_found_by_key_and_start(spec: StoreSpec) -> None:
    """Ranges of starts are inclusive, and a window has the store's size."""
    store = made(spec)
    for key, start in (("a", 0), ("b", 0), ("a", 20), ("a", 10), ("ab", 10)):
        write(store, key, f"{key}{start}", start)
    value = lambda text, start: row(store, text, start)  # noqa: E731 - only here
    assert value("a10", 10) == store.fetch("a", 10)
    assert store.fetch("a", 11) is None
    assert [(0, value("a0", 0)), (10, value("a10", 10))] == list(store.fetch_between("a", 0, 19))
    assert [(0, value("a0", 0)), (10, value("a10", 10))] == list(store.fetch("a", 0, 19))
    assert [20, 10] == [start for start, _ in store.backward_fetch("a", 5, 100)]
    between = list(store.fetch_keys("ab", None, 0, 10))
    assert {Windowed("ab", 10, 20), Windowed("b", 0, 10)} == {window for window, _ in between}
    assert [window for window, _ in store.fetch_all(0, 10)][::-1] == [w for w, _ in store.backward_fetch_all(0, 10)]
    assert [] == list(store.fetch_keys("b", "a", 0, 100))
    write(store, "a", None, 10)
    assert store.fetch("a", 10) is None
    assert [0, 20] == [start for start, _ in store.fetch_between("a", 0, 100)]


@on_sessions
def test_sessions_are_found_by_their_ends(spec: StoreSpec) -> None:
    """A session is found if it ends late enough and starts early enough."""
    store = made(spec)
    for key, start, end in (("a", 0, 4), ("a", 8, 8), ("b", 2, 3), ("a", 10, 20)):
        store.put(Windowed(key, start, end), f"{start}-{end}")
    assert "0-4" == store.fetch_session("a", 0, 4)
    assert store.fetch_session("a", 0, 5) is None
    assert ["0-4", "8-8"] == [value for _, value in store.find_sessions("a", 4, 9)]
    assert ["8-8", "0-4"] == [value for _, value in store.backward_find_sessions("a", 4, 9)]
    assert ["8-8", "10-20"] == [value for _, value in store.find_sessions("a", 5, 10)]
    assert {"0-4", "2-3", "8-8", "10-20"} == {value for _, value in store.fetch("a", "b")}
    store.remove(Windowed("a", 8, 8))
    store.put(Windowed("a", 0, 4), None)
    assert [(Windowed("a", 10, 20), "10-20")] == list(store.fetch("a"))
    assert [Windowed("b", 2, 3)] == [session for session, _ in store.backward_fetch(None, None) if session.key == "b"]


@on_all
def test_nobody_can_change_a_row_from_outside(spec: StoreSpec) -> None:
    """Values passed in and returned may be mutated; the row is unchanged."""
    store, value = made(spec), {"items": [1]}
    write(store, "a", value, 5)
    value["items"].append(2)
    before = seen(store, ("a",), 10)
    for rows in (before, seen(store, ("a",), 10)):
        assert "[1]" in repr(rows)
        assert "[1, 2]" not in repr(rows)
    if spec.kind == "key_value":
        store.get("a")["items"].append(3)
        next(store.all())[1]["items"].append(4)
    elif spec.kind == "timestamped_key_value":
        store.get("a")[0]["items"].append(3)
    assert before == seen(store, ("a",), 10)


@on_all
def test_a_key_or_value_that_cannot_be_written_is_refused(spec: StoreSpec) -> None:
    """A value that could not be read back is refused."""
    store = made(spec)
    with pytest.raises(StateError) as refused:
        write(store, None, 1, 5)  # type: ignore[arg-type]
    assert "key cannot be null" == refused.value.java
    with pytest.raises(SerdeError):
        write(store, 5, 1, 5)  # type: ignore[arg-type]
    with pytest.raises(SerdeError):
        write(store, "a", {1, 2}, 5)
    assert "1" not in repr(seen(store, ("a",), 10).get("all"))


@on_all
def test_a_snapshot_is_the_store(spec: StoreSpec) -> None:
    """A store restored from a snapshot is indistinguishable from the original."""
    store, other = made(spec), made(spec)
    fill(store)
    write(other, "z", 1, 2)
    other.restore(store.snapshot())
    assert seen(store) == seen(other)
    for one in (store, other):
        write(one, "ab", "on", 45)
        one.flush()
    assert seen(store) == seen(other)


@on_all
def test_a_journal_undoes_and_redoes(spec: StoreSpec) -> None:
    """Undo restores every earlier state, redo every later one."""
    store = made(spec)
    store.journal = []
    states, marks = [seen(store)], [0]
    for key, value, time in (("a", 1, 3), ("b", 2, 15), ("a", None, 3), ("a", 3, 30), ("ab", 4, 50), ("b", 5, 49)):
        write(store, key, value, time)
        store.flush()
        journal = store.journal
        store.journal = None
        states.append(seen(store))
        store.journal = journal
        marks.append(len(journal))
    journal, store.journal = store.journal, None
    for step in reversed(range(len(states) - 1)):
        for raw_key, old, _ in reversed(journal[marks[step] : marks[step + 1]]):
            store.apply(raw_key, old)
        assert states[step] == seen(store), f"back to step {step}"
    for step in range(1, len(states)):
        for raw_key, _, new in journal[marks[step - 1] : marks[step]]:
            store.apply(raw_key, new)
        assert states[step] == seen(store), f"forward to step {step}"


@on_all
def test_the_changelog_is_the_store(spec: StoreSpec) -> None:
    """A store that replayed the changelog is indistinguishable from the original."""
    store, other = made(spec), made(spec)
    fill(store)
    store.flush()
    entries = [(*store.changelog_entry(raw_key, row), time, headers) for raw_key, row, time, headers in store.changes]
    other.restore_changelog(entries)
    if spec.cached:
        store.clear_cache()
    assert seen(store) == seen(other)


@on_all
def test_an_unlogged_store_keeps_no_changelog(spec: StoreSpec) -> None:
    """Nothing is recorded for a store that is not logged, or without a reader."""
    store = make_store(StoreSpec(**{**spec.__dict__, "logged": False}), StoreTask())
    fill(store)
    assert store.changes is None
    store = made(spec)
    store.changes = None
    fill(store)
    store.flush()
    assert store.changes is None


@for_every(implementations("timestamped_key_value", "timestamped_window"), title)
def test_users_get_rows_with_names(spec: StoreSpec) -> None:
    """In a user's processor a row has a value and a timestamp."""
    store = made(spec)
    mine = store.for_user
    if spec.kind == "timestamped_window":
        mine.put("a", ValueAndTimestamp({"n": 1}, 7), 3)
        found, listed = mine.fetch("a", 3), list(mine.all())
    else:
        mine.put("a", ValueAndTimestamp({"n": 1}, 7))
        found, listed = mine.get("a"), list(mine.all())
    assert ({"n": 1}, 7) == (found.value, found.timestamp)
    assert 7 == listed[0][1].timestamp
    assert "s" == mine.name


class Sparse(Serde[str]):
    """Writes text, but no bytes for "nothing"."""

    name = "sparse"

    def _write(self, value: str) -> Any:
        return None if value == "nothing" else value.encode()

    def _read(self, data: bytes) -> str:
        return data.decode()


@for_every([spec for spec in implementations(*KINDS) if spec.headers == "none"], title)
def test_a_value_without_bytes_is_no_row(spec: StoreSpec) -> None:
    """As in Kafka Streams, a serde may write None for a value, which deletes the row; duplicates ignore it."""
    store, plain = made(replace(spec, value_serde=Sparse())), made(replace(spec, value_serde=Sparse()))
    for key, value, time in (("a", "x", 1), ("b", "nothing", 2), ("a", "nothing", 1), ("b", "y", 3)):
        write(store, key, value, time)
        write(plain, key, None if value == "nothing" else value, time)
    assert seen(plain) == seen(store)


def test_keys_that_python_takes_for_equal_stay_apart() -> None:
    """1, True and 1.0 have different bytes, so they are different rows."""
    store = StoreTask().make("key_value", key_serde=Serdes.json())
    for key in (1, True, 1.0, "1"):
        store.put(key, repr(key))
    assert ["1", "True", "1.0", "'1'"] == [store.get(key) for key in (1, True, 1.0, "1")]
    assert ["'1'", "1", "1.0", "True"] == [value for _, value in store.all()]


def test_equal_bytes_are_one_row() -> None:
    """A key of a subclass, or one deserialized from bytes, finds the row of the plain key."""

    class Sku(str):
        __slots__ = ()

    store = StoreTask().make("key_value")
    store.put(Sku("a"), 1)
    assert 1 == store.get("a") == store.get(Sku("a"))
    store.put("a", 2)
    assert [("a", 2)] == list(store.all())
    raw = StoreTask().make("key_value", key_serde=Serdes.bytes())
    raw.put(bytearray(b"x"), 1)
    assert 1 == raw.get(b"x")


def at_instants(store: Any, instant: Callable[[int], Any]) -> Iterator[Any]:
    """Yield what each method of a store with times answers to instants from 5 to 12 ms, in one form."""
    low, high = instant(5), instant(12)
    if store.spec.kind == "versioned":
        yield from (store.get("a", low), list(store.history("a", low, high)))
    elif store.spec.kind == "session":
        yield store.fetch_session("a", low, low)
        for name in ("find_sessions", "backward_find_sessions"):
            yield list(getattr(store, name)("a", low, high))
        for name in ("find_sessions_between", "backward_find_sessions_between"):
            yield list(getattr(store, name)("a", "b", low, high))
    else:
        yield store.fetch("a", low)
        for name in ("fetch", "backward_fetch"):
            yield list(getattr(store, name)("a", low, high))
        for name in ("fetch_keys", "backward_fetch_keys"):
            yield list(getattr(store, name)("a", "b", low, high))
        yield from (list(store.fetch_all(low, high)), list(store.backward_fetch_all(low, high)))


@for_every(implementations("window", "timestamped_window", "versioned"), title)
def test_a_row_is_put_at_a_time_in_any_form(spec: StoreSpec) -> None:
    """As it is read: milliseconds, text, a datetime, a number of numpy; anything else is refused in words."""
    expected = made(spec)
    for at in (5, 12, 12):
        expected.put("a", row(expected, at), at)
    for instant in (
        lambda ms: datetime.fromtimestamp(ms / 1000, UTC),
        lambda ms: f"1970-01-01T00:00:00.{ms:03}Z",
        np.int64,
    ):
        store = made(spec)
        for at in (5, 12, 12):
            store.put("a", row(store, at), instant(at))
        assert store.snapshot() == expected.snapshot()
        with pytest.raises(ConfigError, match="is not an instant"):
            store.put("a", row(store, 1), "noon")
    if spec.kind == "versioned":
        assert store.delete("a", instant(12)) == expected.delete("a", 12)


@for_every([*WINDOW, *SESSION, *implementations("versioned")], title)
def test_a_store_is_asked_for_times_in_milliseconds_text_and_datetimes(spec: StoreSpec) -> None:
    """As views of it are; a datetime once found no window, and said nothing."""
    store = made(spec)
    write(store, "a", 1, 5)
    write(store, "a", 2, 12)
    expected = list(at_instants(store, int))
    assert None not in expected
    assert expected == list(at_instants(store, lambda ms: datetime.fromtimestamp(ms / 1000, UTC)))
    assert expected == list(at_instants(store, lambda ms: f"1970-01-01T00:00:00.{ms:03}Z"))
