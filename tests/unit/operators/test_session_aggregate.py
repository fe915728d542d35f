"""Aggregating in sessions: merges, deletions, late records and final results."""

from __future__ import annotations

from typing import Any

import pytest

from kstreamnb.core.record import Change, Windowed
from kstreamnb.core.stores import StoreSpec
from kstreamnb.core.windows import SessionWindows
from kstreamnb.operators.aggregates import SessionAggregate
from tests.unit.operators.fake_context import FakeContext, Fed


def bind(gap_ms: int, grace_ms: int = 0, *, reduce: bool = False, **options: Any) -> tuple[FakeContext, Fed]:
    """A task that concatenates the texts of each session."""
    context = FakeContext(StoreSpec("sessions", "session", retention_ms=10**9, extra={"time_ordered": True}))
    windows = SessionWindows(gap_ms, grace_ms)
    if reduce:
        operator = SessionAggregate("sessions", windows, None, lambda text, v: f"{text}{v}", **options)
    else:
        merger = lambda key, left, right: f"{left}|{right}"  # noqa: E731
        operator = SessionAggregate("sessions", windows, str, lambda k, v, text: f"{text}{v}", merger=merger, **options)
    return context, context.bind(operator)


@pytest.mark.parametrize("send_old", [False, True])
def test_records_at_most_a_gap_apart_are_one_session(send_old: bool) -> None:
    """The growing session is deleted first; results have no headers and the time of the session's end."""
    _, feed = bind(5, send_old=send_old)
    assert [(Windowed("k", 10, 10), Change("a"), 10)] == feed("k", "a", 10, (("h", b""),))
    old = "a" if send_old else None
    assert [
        (Windowed("k", 10, 10), Change(None, old), 10),
        (Windowed("k", 10, 15), Change("|ab"), 15),
    ] == feed("k", "b", 15)
    assert [(Windowed("k", 21, 21), Change("c"), 21)] == feed("k", "c", 21)


def test_a_record_between_two_sessions_makes_them_one() -> None:
    """Both are deleted, oldest first, and merged before the record is added."""
    _, feed = bind(5, 100)
    feed("k", "a", 10)
    feed("k", "c", 20)
    assert [
        (Windowed("k", 10, 10), Change(None), 10),
        (Windowed("k", 20, 20), Change(None), 20),
        (Windowed("k", 10, 20), Change("|a|cb"), 20),
    ] == feed("k", "b", 15)


def test_the_same_moment_again_overwrites_its_session() -> None:
    """Nothing is deleted if the session does not grow."""
    _, feed = bind(5)
    feed("k", "a", 10)
    assert [(Windowed("k", 10, 10), Change("|ab"), 10)] == feed("k", "b", 10)


def test_a_reduction_merges_sessions_as_it_adds_values() -> None:
    """The first value is the aggregate; null values are passed to the reducer."""
    _, feed = bind(5, 100, reduce=True)
    assert [(Windowed("k", 10, 10), Change("a"), 10)] == feed("k", "a", 10)
    feed("k", "c", 20)
    assert (Windowed("k", 10, 20), Change("acb"), 20) == feed("k", "b", 15)[-1]
    assert (Windowed("k", 10, 21), Change("acbNone"), 21) == feed("k", None, 21)[-1]


def test_a_late_record_is_dropped_unless_it_reaches_an_open_session() -> None:
    """The end of the merged session counts."""
    context, feed = bind(5, 2)
    feed("k", "a", 20)
    feed("x", "z", 28)
    assert [] == feed("k", "b", 14)
    expected = {
        "window_start": 14,
        "window_end": 14,
        "close_ms": 21,
        "gap_ms": 5,
        "grace_ms": 2,
        "stream_time_ms": 28,
    }
    assert [("late", expected)] == [(drop.reason, drop.details) for drop in context.dropped]
    feed("k", "c", 23)
    assert (Windowed("k", 18, 23), Change("||acd"), 23) == feed("k", "d", 18)[-1]


def test_a_record_without_a_key_is_dropped_and_does_not_move_time() -> None:
    """It makes nothing late."""
    context, feed = bind(5)
    assert [] == feed(None, "a", 100)
    assert 1 == len(feed("k", "a", 10))
    assert ["null key"] == context.reasons()


def test_on_close_a_session_comes_out_once() -> None:
    """Emitted once stream time is more than a gap and the grace past its end; its headers are the closing record's."""
    _, feed = bind(5, 2, emit_on_close=True)
    assert [] == feed("k", "a", 10) + feed("j", "b", 12) + feed("x", "c", 17)
    closer = (("closer", b""),)
    assert [(Windowed("k", 10, 10), Change("a"), 10, closer)] == feed("x", "d", 18, closer)
    assert [] == feed("x", "d", 18)
    assert [(Windowed("j", 12, 12), Change("b"), 12)] == feed("y", "e", 20)
