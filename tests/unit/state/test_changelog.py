"""The bytes of Kafka's changelog topics."""

from __future__ import annotations

from typing import Any

import pytest

from kstreamnb.core.record import RecordMetadata, Windowed
from kstreamnb.core.serdes import Serdes
from kstreamnb.core.time import MAX_TIME_MS
from kstreamnb.state.store import ChangelogBytes
from tests.unit.state.stores_for_tests import StoreTask


def entries(store: Any) -> list[tuple[str, str | None, int]]:
    """Key and value of the logged records in hexadecimal, and their times."""
    found = []
    for raw_key, row, time, _ in store.changes:
        key, value = store.changelog_entry(raw_key, row)
        found.append((key.hex(), None if value is None else value.hex(), time))
    return found


def made(kind: str, **options: Any) -> tuple[StoreTask, Any]:
    """A store of longs."""
    task = StoreTask()
    task.now = 9
    return task, task.make(kind, value_serde=Serdes.long(), **options)


def test_a_row_is_its_key_and_value() -> None:
    """Deletions are tombstones with the current record's time."""
    _, store = made("key_value")
    store.put("a", 258)
    store.delete("a")
    assert [("61", "0000000000000102", 9), ("61", None, 9)] == entries(store)


@pytest.mark.parametrize("inner", [Serdes.string(), Serdes.long(), Serdes.json()])
def test_a_windowed_key_is_logged_as_its_serde_writes_it(inner: Any) -> None:
    """Keys of text that is ASCII or not, of numbers and of JSON; windows before and after time 0."""
    serde = Serdes.time_windowed(inner, "10ms")
    store = StoreTask().make("key_value", key_serde=serde, value_serde=Serdes.long())
    texts = ("", "shoe", "größe", "a\x00") if inner != Serdes.long() else (-1, 2**62)
    keys = [Windowed(key, start, start + 10) for key in texts for start in (-20, 0, 1_700_000_000_000)]
    for key in keys:
        store.put(key, 1)
    assert [serde.serialize(key).hex() for key in keys] == [key for key, _, _ in entries(store)]


def test_the_time_of_a_timestamped_row_is_the_records() -> None:
    """The value's bytes do not contain it."""
    _, store = made("timestamped_key_value")
    store.put("a", (1, 5))
    store.put("a", None)
    assert [("61", "0000000000000001", 5), ("61", None, 9)] == entries(store)


def test_a_window_is_key_start_and_sequence() -> None:
    """The sequence is 0 without duplicates and counts them otherwise."""
    for duplicates, sequences in ((False, (0, 0)), (True, (1, 2))):
        _, store = made("window", retention_ms=10, window_size_ms=5, retain_duplicates=duplicates)
        store.put("a", 1, 258)
        store.put("a", 2, 258)
        keys = [f"61{258:016x}{sequence:08x}" for sequence in sequences]
        assert keys == [key for key, _, _ in entries(store)]


def test_a_session_is_key_end_and_start() -> None:
    """Removing one writes a tombstone."""
    _, store = made("session", retention_ms=10)
    store.put(Windowed("a", 1, 258), 7)
    store.remove(Windowed("a", 1, 258))
    key = f"61{258:016x}{1:016x}"
    assert [(key, f"{7:016x}", 9), (key, None, 9)] == entries(store)


def test_a_refused_put_is_logged_all_the_same() -> None:
    """As in Kafka; replaying refuses it again."""
    task, store = made("window", retention_ms=10, window_size_ms=5, persistent=False)
    store.put("a", 1, 100)
    store.put("a", 2, 5)
    assert 1 == len(task.dropped)
    assert [f"{1:016x}", f"{2:016x}"] == [value for _, value, _ in entries(store)]


@pytest.mark.parametrize("persistent", [True, False])
def test_a_refused_duplicate_takes_a_sequence_number(persistent: bool) -> None:
    """Kafka counts every put, refused ones too: otherwise the keys of all later records would differ from Java's."""
    task, store = made(
        "window", retention_ms=10, window_size_ms=5, segment_ms=10, persistent=persistent, retain_duplicates=True
    )
    for value, start in ((1, 1000), (2, 5), (3, 1001), (None, 6), (4, 1001)):
        store.put("a", value, start)
    assert task.dropped
    keys = [f"61{start:016x}{number:08x}" for number, start in enumerate((1000, 5, 1001, 6, 1001), 1)]
    assert keys == [key for key, _, _ in entries(store)]


def test_the_last_used_rows_are_logged_with_what_had_to_go() -> None:
    """The tombstone of the evicted key comes before the put."""
    _, store = made("lru", max_entries=1)
    store.put("a", 1)
    store.put("b", 2)
    assert [("61", f"{1:016x}"), ("61", None), ("62", f"{2:016x}")] == [entry[:2] for entry in entries(store)]


def test_a_suppressed_change_is_logged_when_the_store_is_flushed() -> None:
    """Context, prior value, old value (or that it is the prior one), new value and time; version 3 in a header."""
    _, store = made("internal", extra={"type": "suppress"})
    metadata = RecordMetadata("in", 2, 3)
    store.put(4, "a", 1, None, 5, (("h", b"v"),), metadata)
    store.put(4, "b", 1, 6, 5, (), metadata)
    store.put(8, "b", 7, 1, 9, (), metadata)
    store.put(8, "c", 7, 7, 9, (), metadata)
    assert [] == store.changes
    store.flush()
    context = f"{5:016x}{3:016x}00000002696e{2:08x}"
    nothing, same = "ffffffff", "fffffffe"
    long = lambda number: f"00000008{number:016x}"  # noqa: E731 - only here
    later = context.replace(f"{5:016x}", f"{9:016x}", 1) + "00000000"
    assert [
        ("61", f"{context}00000001000000016800000001" + "76" + nothing + nothing + long(1) + f"{4:016x}"),
        ("62", later + long(6) + long(1) + long(7) + f"{4:016x}"),
        ("63", later + long(7) + same + long(7) + f"{8:016x}"),
    ] == [entry[:2] for entry in entries(store)]
    assert {(("v", b"\x03"),)} == {headers for _, _, _, headers in store.changes}
    store.changes.clear()
    leaving = store.release(MAX_TIME_MS)
    assert ("a", "b") == (next(leaving)[0], next(leaving)[0])
    store.flush()
    assert [("61", None, 9)] == entries(store)


def test_a_record_that_waits_for_a_table_is_time_key_and_sequence() -> None:
    """The value is a context and the record's value, without prior and old ones."""
    _, store = made("internal", extra={"type": "join_buffer", "grace_ms": 10})
    store.put(258, "a", 7, (), RecordMetadata("in", 0, 1))
    context = f"{258:016x}{1:016x}00000002696e{0:08x}{0:08x}"
    assert [(f"00{258:016x}61{1:08x}", f"{context}ffffffffffffffff00000008{7:016x}{0:016x}", 9)] == entries(store)


def test_a_record_without_a_partner_is_time_side_and_key() -> None:
    """The value is a list of sides and values."""
    _, store = made("internal", extra={"type": "pending_joins", "right_serde": Serdes.string()})
    store.add(258, True, "a", 7)
    store.add(258, False, "a", "x")
    store.add(258, False, "a", "y")
    left, right = (f"{258:016x}{side:02x}61" for side in (1, 0))
    assert [
        (left, f"01{1:08x}{9:08x}01{7:016x}"),
        (right, f"01{1:08x}{2:08x}0078"),
        (right, f"01{2:08x}{2:08x}0078{2:08x}0079"),
    ] == [entry[:2] for entry in entries(store)]


def logged(store: Any) -> list[ChangelogBytes]:
    """Return what a buffer has written to its changelog."""
    store.flush()
    return [(*store.changelog_entry(raw_key, row), time, headers) for raw_key, row, time, headers in store.changes]


def test_a_suppressed_change_comes_back_from_the_changelog() -> None:
    """S0-12: new, old and prior value, time, headers and origin; a removed key stays removed."""
    options: dict[str, Any] = {"value_serde": Serdes.json(), "extra": {"type": "suppress"}}
    place = RecordMetadata("in", 2, 7)
    buffer, again = StoreTask().make("internal", **options), StoreTask().make("internal", **options)
    buffer.put(10, "b", {"n": 1}, None, 11, (("h", b"x"), ("none", None)), place)
    buffer.put(10, "b", {"n": 2}, {"n": 1}, 12, (), place)
    buffer.put(5, "a", "a1", "a0", 5, (), RecordMetadata(None, -1, -1))
    buffer.put(4, "gone", 1, None, 4, (), place)
    leaving = buffer.release(MAX_TIME_MS)
    assert ("gone", "a") == (next(leaving)[0], next(leaving)[0])
    again.restore_changelog(logged(buffer))
    assert [again.prior(key) for key in ("b", "a", "gone")] == [(True, None), (True, "a0"), (False, None)]
    first, second = again.release(MAX_TIME_MS)
    assert first == ("a", "a1", "a0", 5, (), None)
    assert second == ("b", {"n": 2}, {"n": 1}, 12, (), place)


def test_records_that_wait_for_a_table_come_back_from_the_changelog() -> None:
    """S0-12: with their time, headers and origin; later ones follow in order of arrival."""
    options: dict[str, Any] = {"extra": {"type": "join_buffer", "grace_ms": 10}}
    buffer, again = StoreTask().make("internal", **options), StoreTask().make("internal", **options)
    place, headers = RecordMetadata("in", 0, 3), (("h", b"x"),)
    buffer.put(1, "early", 0, (), place)
    buffer.put(12, "k", {"n": 1}, headers, place)
    assert len([*buffer.evict()]) == 1
    again.restore_changelog(logged(buffer))
    again.put(12, "k", {"n": 2}, (), place)
    again.put(30, "later", 0, (), place)
    assert [*again.evict()] == [(12, "k", {"n": 1}, headers, place), (12, "k", {"n": 2}, (), place)]


def test_records_without_a_partner_come_back_from_the_changelog() -> None:
    """S0-12: each side with its own serde, several of one key and time in order."""
    extra = {"type": "pending_joins", "left_serde": Serdes.long(), "right_serde": Serdes.string()}
    pending, again = StoreTask().make("internal", extra=extra), StoreTask().make("internal", extra=extra)
    for time, is_left, key, value in ((5, True, "a", 1), (5, True, "a", 2), (5, False, "b", "x"), (6, True, "gone", 3)):
        pending.add(time, is_left, key, value)
    pending.discard(6, True, "gone")
    again.restore_changelog(logged(pending))
    assert list(again.entries()) == [(5, False, "b", ["x"]), (5, True, "a", [1, 2])]


def test_rows_come_back_from_the_changelog_with_their_times() -> None:
    """S0-12: a restored row has its record's time, and deleted rows stay deleted."""
    _, store = made("timestamped_key_value")
    store.restore_changelog([(b"a", (1).to_bytes(8), 5, ()), (b"b", (2).to_bytes(8), 6, ()), (b"b", None, 7, ())])
    assert (1, 5) == store.get("a")
    assert store.get("b") is None


@pytest.mark.parametrize("persistent", [True, False])
def test_what_the_retention_has_passed_does_not_come_back_from_the_changelog(persistent: bool) -> None:
    """S0-12: a changelog may still contain such rows, before or after later ones."""
    _, store = made("window", retention_ms=10, window_size_ms=5, persistent=persistent)
    starts = (5, 10_000_000, 6)
    store.restore_changelog([(b"a" + start.to_bytes(8) + bytes(4), bytes(8), start, ()) for start in starts])
    assert [("a", 10_000_000)] == [raw_key for raw_key in store.raw if raw_key is not None]
