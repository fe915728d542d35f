"""Aggregating in sliding windows: those that a record ends, falls into, and begins."""

from __future__ import annotations

from typing import Any

import pytest

from kstreamnb.core.record import Change, Windowed
from kstreamnb.core.serdes import Serdes
from kstreamnb.core.stores import StoreSpec
from kstreamnb.core.windows import SlidingWindows
from kstreamnb.errors import ProcessingError
from kstreamnb.operators.sliding_aggregate import SlidingAggregate
from tests.unit.operators.fake_context import FakeContext, Fed


def bind(
    difference_ms: int, grace_ms: int = 1000, *, retention_ms: int = 10**9, **options: Any
) -> tuple[FakeContext, Fed]:
    """A task that concatenates the texts of each window."""
    spec = StoreSpec(
        "windows",
        "timestamped_window",
        value_serde=Serdes.string(),
        retention_ms=retention_ms,
        window_size_ms=difference_ms,
        extra={"time_ordered": options.get("emit_on_close", False)},
    )
    context = FakeContext(spec)
    windows = SlidingWindows(difference_ms, grace_ms)
    return context, context.bind(SlidingAggregate("windows", windows, str, lambda k, v, text: text + v, **options))


def texts(records: list[Any]) -> list[tuple[int, int, str, int]]:
    """Start, end, text and time of each change."""
    return [(key.start, key.end, change.new, timestamp) for key, change, timestamp, *_ in records]


def test_a_record_ends_one_window_and_a_later_one_in_reach_begins_another() -> None:
    """The window right of the earlier record contains only the later one."""
    _, feed = bind(10)
    assert [(10, 20, "a", 20)] == texts(feed("k", "a", 20))
    assert [(21, 31, "b", 25), (15, 25, "ab", 25)] == texts(feed("k", "b", 25))


def test_an_earlier_record_gets_a_right_window_of_what_is_already_there() -> None:
    """It joins its windows, newest first; the copy keeps its time."""
    _, feed = bind(10)
    feed("k", "b", 25)
    assert [(15, 25, "ba", 25), (10, 20, "a", 20), (21, 31, "b", 25)] == texts(feed("k", "a", 20))


def test_a_second_record_of_the_same_time_makes_no_new_windows() -> None:
    """It joins the existing ones."""
    _, feed = bind(10)
    feed("k", "a", 20)
    assert [(10, 20, "aa", 20)] == texts(feed("k", "a", 20))


def test_early_records_share_the_window_that_begins_at_zero() -> None:
    """No window begins before zero."""
    _, feed = bind(10)
    assert [(0, 10, "a", 3)] == texts(feed("k", "a", 3))
    assert [(4, 14, "b", 7), (0, 10, "ab", 7)] == texts(feed("k", "b", 7))
    assert [(4, 14, "bc", 7), (6, 16, "b", 7), (0, 10, "abc", 7)] == texts(feed("k", "c", 5))


def test_when_both_new_windows_are_the_same_it_comes_out_twice() -> None:
    """The window right of the earlier record is the left one of the new record."""
    _, feed = bind(10)
    feed("k", "a", 15)
    feed("k", "b", 20)
    assert [(21, 31, "c", 31), (21, 31, "c", 31)] == texts(feed("k", "c", 31))


@pytest.mark.parametrize("send_old", [False, True])
def test_old_values_are_what_a_window_began_with(send_old: bool) -> None:
    """A new window's old value is the aggregate already in reach."""
    _, feed = bind(10, send_old=send_old)
    feed("k", "a", 20)
    changes = [record[1] for record in feed("k", "b", 25, (("h", b""),))]
    assert [Change("b", ""), Change("ab", "a")] if send_old else [Change("b"), Change("ab")] == changes


def test_a_record_is_late_when_all_its_windows_have_closed() -> None:
    """The last candidate is the right window of a record at its own time."""
    context, feed = bind(10, 5)
    feed("k", "a", 50)
    assert [] == feed("k", "b", 34)
    expected = {"window_start": 24, "window_end": 34, "close_ms": 45, "grace_ms": 5, "stream_time_ms": 50}
    assert [("late", expected)] == [(drop.reason, drop.details) for drop in context.dropped]


def test_a_record_may_be_late_for_its_left_window_only() -> None:
    """A window accepts records while its end is not before stream time - grace."""
    context, feed = bind(10, 5)
    feed("k", "b", 46)
    feed("x", "z", 50)
    assert [(36, 46, "bc", 46), (41, 51, "b", 46)] == texts(feed("k", "c", 40))
    assert [(30, 40)] == [(d["window_start"], d["window_end"]) for drop in context.dropped if (d := drop.details)]
    assert [(35, 45, "d", 45)] == texts(feed("j", "d", 45))


def test_nulls_are_dropped() -> None:
    """Records with a null key or a null value are in no window."""
    context, feed = bind(10)
    assert [] == feed(None, "a", 5) + feed("k", None, 5)
    assert ["null key", "null value"] == context.reasons()


def test_a_time_difference_of_nothing_fails_with_the_first_record() -> None:
    """As in Kafka Streams, windows have a length."""
    _, feed = bind(0)
    with pytest.raises(ProcessingError, match="0 ms"):
        feed("k", "a", 5)


def test_on_close_a_window_comes_out_a_millisecond_after_its_end() -> None:
    """Because its end is inclusive."""
    _, feed = bind(10, 0, emit_on_close=True)
    assert [] == feed("k", "a", 20) + feed("j", "b", 20)
    assert [(Windowed("j", 10, 20), "b", 20), (Windowed("k", 10, 20), "a", 20)] == [
        (key, change.new, timestamp) for key, change, timestamp in feed("j", "c", 21)
    ]
    assert [] == feed("j", "d", 21)
    assert [(11, 21, "bcd", 21)] == texts(feed("x", "e", 22))
