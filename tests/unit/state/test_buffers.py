"""Buffers of suppress, of stream-table joins with grace, and of left and outer stream joins."""

from __future__ import annotations

from typing import Any

from kstreamnb.core.record import RecordMetadata
from kstreamnb.core.serdes import Serdes
from kstreamnb.core.time import MAX_TIME_MS
from tests.unit.state.stores_for_tests import StoreTask

HERE = RecordMetadata("in", 0, 0)


def suppress(**options: Any) -> Any:
    """A suppress buffer of texts."""
    return StoreTask().make("internal", value_serde=Serdes.string(), extra={"type": "suppress"}, **options)


def take(buffer: Any) -> tuple[object, ...]:
    """Remove and return the first change of a suppress buffer."""
    leaving = buffer.release(MAX_TIME_MS)
    first: tuple[object, ...] = next(leaving)
    next(leaving, None)
    return first


def is_due(buffer: Any, time: int) -> bool:
    """Return whether a change is not after a time, without removing it."""
    return next(buffer.release(time), None) is not None


def test_a_change_keeps_the_place_of_the_first_one_of_its_key() -> None:
    """Later changes replace it there; the last one is emitted, with its own old value, time and headers."""
    buffer = suppress()
    buffer.put(10, "b", "b1", None, 10, (), HERE)
    buffer.put(5, "a", "a1", None, 5, (), HERE)
    buffer.put(20, "b", "b2", "b1", 20, (("h", b"x"),), HERE)
    buffer.put(5, "Z", "z1", "z0", 5, (), HERE)
    assert (False, True, 3) == (is_due(buffer, 4), is_due(buffer, 5), buffer.count())
    assert [(True, None), (True, "z0"), (False, None)] == [buffer.prior(key) for key in ("b", "Z", "q")]
    assert ["Z", "a"] == [take(buffer)[0], take(buffer)[0]]
    assert ("b", "b2", "b1", 20, (("h", b"x"),), HERE) == take(buffer)
    assert not is_due(buffer, MAX_TIME_MS)


def test_the_size_of_a_buffer_is_kafkas_estimate() -> None:
    """Time, key, values (prior and old once if equal) and 20 bytes of context with the topic's name and headers."""
    buffer = suppress()
    buffer.put(1, "ab", "new", "old", 1, (("h", b"xyz"),), HERE)
    expected = 8 + 2 + 3 + 3 + 20 + 2 + 4
    assert expected == buffer.size_bytes()
    buffer.put(1, "ab", "new", "other", 1, (), HERE)
    assert 8 + 2 + 3 + 3 + 5 + 20 + 2 == buffer.size_bytes()
    take(buffer)
    assert 0 == buffer.size_bytes()


def test_a_buffer_can_be_undone() -> None:
    """Order, size and content are restored."""
    buffer = suppress()
    buffer.put(3, "a", "x", None, 3, (), HERE)
    before, size = buffer.snapshot(), buffer.size_bytes()
    buffer.journal = []
    take(buffer)
    buffer.put(1, "b", "y", None, 1, (), HERE)
    buffer.put(7, "a", "z", None, 7, (), HERE)
    for raw_key, old, _ in reversed(buffer.journal):
        buffer.apply(raw_key, old)
    assert (before, size, False, True) == (buffer.snapshot(), buffer.size_bytes(), is_due(buffer, 2), is_due(buffer, 3))
    assert "x" == take(buffer)[1]
    assert not is_due(buffer, 7)


def test_many_changes_of_one_key_cost_no_memory() -> None:
    """The time index stays small however often a buffer is filled and emptied."""
    buffer = suppress()
    for time in range(1000):
        buffer.put(time, "a", "x", None, time, (), HERE)
        if time % 3 == 0:
            take(buffer)
    assert len(buffer.heap) < 20


def test_a_stream_record_waits_for_the_grace_of_the_table() -> None:
    """It is emitted once stream time is that much later, ordered by time, key bytes and arrival."""
    buffer = StoreTask().make("internal", extra={"type": "join_buffer", "grace_ms": 10})
    for time, key in ((5, "b"), (5, "a"), (3, "z"), (5, "a")):
        assert buffer.put(time, key, f"{key}{time}", (), HERE)
    assert [] == [*buffer.evict()]
    assert buffer.put(15, "q", "q15", (), HERE)
    assert [(3, "z"), (5, "a"), (5, "a"), (5, "b")] == [found[:2] for found in buffer.evict()]
    assert not buffer.put(4, "late", "x", (), HERE)
    assert buffer.put(5, "in time", "x", (), HERE)
    assert ["in time"] == [found[1] for found in buffer.evict()]
    assert 1 == buffer.count()


def test_pending_records_come_by_time_with_the_right_side_first() -> None:
    """Records of one key, side and time stay in order; entries may be discarded during iteration."""
    pending = StoreTask().make("internal", extra={"type": "pending_joins"})
    for time, is_left, key, value in (
        (5, True, "a", 1), (5, False, "b", 2), (5, False, "a", [3]), (2, True, "z", 4), (5, True, "a", 5),
    ):  # fmt: skip
        pending.add(time, is_left, key, value)
    expected = [(2, True, "z", [4]), (5, False, "a", [[3]]), (5, False, "b", [2]), (5, True, "a", [1, 5])]
    assert expected == list(pending.entries())
    assert 5 == pending.count()
    seen = []
    for time, is_left, key, _ in pending.entries():
        seen.append(key)
        pending.discard(time, is_left, key)
    assert ["z", "a", "b", "a"] == seen
    assert [] == list(pending.entries())
    pending.discard(1, True, "nobody")


def test_subscriptions_are_found_by_the_prefix_of_their_foreign_key() -> None:
    """Length, foreign key, primary key: a scan returns the subscribers of one foreign key, by primary key."""
    store = StoreTask().make("timestamped_key_value", key_serde=Serdes.bytes(), value_serde=Serdes.string())
    for foreign, primary in (("f", "2"), ("f", "10"), ("ff", "1"), ("e", "3")):
        store.put(len(foreign).to_bytes(4) + foreign.encode() + primary.encode(), (primary, 1))
    assert ["10", "2"] == [row[0] for _, row in store.prefix_scan(b"\x00\x00\x00\x01f")]
