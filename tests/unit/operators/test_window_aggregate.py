"""Aggregating in windows aligned to the epoch: which windows, in which order, and what is late."""

from __future__ import annotations

from typing import Any

import pytest

from kstreamnb.core.record import Change, Windowed
from kstreamnb.core.serdes import Serdes
from kstreamnb.core.stores import StoreSpec
from kstreamnb.core.windows import TimeWindows, UnlimitedWindows
from kstreamnb.operators.aggregates import WindowAggregate, _locating
from kstreamnb.operators.folding import count_up, zero
from tests.unit.operators.fake_context import FakeContext, Fed

FOREVER_MS = 10**9


def bind(
    windows: Any, *, retention_ms: int = FOREVER_MS, text: bool = False, **options: Any
) -> tuple[FakeContext, Fed]:
    """A task that counts, or concatenates texts, in windows."""
    serde = Serdes.string() if text else Serdes.long()
    spec = StoreSpec(
        "windows",
        "timestamped_window",
        value_serde=serde,
        retention_ms=retention_ms,
        window_size_ms=windows.size_ms,
        extra={"time_ordered": options.get("emit_on_close", False)},
    )
    context = FakeContext(spec)
    functions: tuple[Any, Any] = (None, lambda text, v: f"{text}+{v}") if text else (zero, count_up)
    return context, context.bind(WindowAggregate("windows", windows, *functions, **options))


def windows_of(size_ms: int, grace_ms: int = 0, advance_ms: int = 0) -> TimeWindows:
    """Windows in milliseconds."""
    return TimeWindows(size_ms, grace_ms, advance_ms)


def test_a_tumbling_window_holds_its_start_but_not_its_end() -> None:
    """A record at the end of a window is in the next one."""
    _, count = bind(windows_of(10))
    assert [(Windowed("a", 0, 10), Change(1), 0, (("h", b""),))] == count("a", "x", 0, (("h", b""),))
    assert [(Windowed("a", 0, 10), Change(2), 9)] == count("a", "x", 9)
    assert [(Windowed("a", 10, 20), Change(1), 10)] == count("a", "x", 10)


@pytest.mark.parametrize("send_old", [False, True])
def test_hopping_windows_are_updated_from_the_earliest(send_old: bool) -> None:
    """Every window that contains a record gets it; none begins before zero."""
    _, count = bind(windows_of(10, 0, 4), send_old=send_old)
    first = 0 if send_old else None
    assert [(Windowed("a", 0, 10), Change(1, first), 3)] == count("a", "x", 3)
    assert [
        (Windowed("a", 0, 10), Change(2, 1 if send_old else None), 9),
        (Windowed("a", 4, 14), Change(1, first), 9),
        (Windowed("a", 8, 18), Change(1, first), 9),
    ] == count("a", "x", 9)


@pytest.mark.parametrize("send_old", [False, True])
def test_a_late_record_is_dropped_with_the_numbers_that_explain_it(send_old: bool) -> None:
    """The window [0, 10) is closed once stream time - grace has reached 10."""
    context, count = bind(windows_of(10, 5), send_old=send_old)
    count("a", "x", 14)
    assert [(Windowed("b", 0, 10), 3)] == [record[::2] for record in count("b", "x", 3)]
    count("a", "x", 15)
    assert [] == count("b", "x", 9)
    expected = {"window_start": 0, "window_end": 10, "close_ms": 10, "grace_ms": 5, "stream_time_ms": 15}
    assert [("late", "b", 9, expected)] == [(d.reason, d.key, d.timestamp, d.details) for d in context.dropped]


def test_a_record_may_be_late_for_some_of_its_windows_only() -> None:
    """Each closed window drops it once."""
    context, count = bind(windows_of(10, 0, 5))
    count("a", "x", 22)
    assert [(Windowed("b", 15, 25), Change(1), 19)] == count("b", "x", 19)
    assert [10] == [drop.details["window_start"] for drop in context.dropped if drop.details]


def test_records_without_a_key_do_not_move_time_and_null_values_are_aggregated() -> None:
    """A count counts them; a reduction passes them on."""
    context, count = bind(windows_of(10))
    assert [] == count(None, "x", 100)
    assert [(Windowed("a", 0, 10), Change(1), 5)] == count("a", None, 5)
    assert ["null key"] == context.reasons()
    context, joined = bind(windows_of(10), text=True)
    assert [(Windowed("a", 0, 10), Change(None), 1)] == joined("a", None, 1)
    assert [(Windowed("a", 0, 10), Change("x"), 2)] == joined("a", "x", 2)
    assert [(Windowed("a", 0, 10), Change("x+None"), 3)] == joined("a", None, 3)


def test_the_time_of_a_window_never_goes_back() -> None:
    """The time is that of its latest record."""
    _, count = bind(windows_of(10, 10))
    count("a", "x", 8)
    assert [(Windowed("a", 0, 10), Change(2), 8)] == count("a", "x", 2)


def test_an_unlimited_window_begins_at_its_start_and_never_ends() -> None:
    """Earlier records are skipped silently."""
    context, count = bind(UnlimitedWindows(100), retention_ms=2**62)
    assert [] == count("a", "x", 99)
    assert [(Windowed("a", 100, 2**63 - 1), Change(1), 100)] == count("a", "x", 100)
    assert [] == context.reasons()


def test_on_close_each_window_comes_out_once_and_complete() -> None:
    """In the order of start and key, with the headers of the record that closed it."""
    _, count = bind(windows_of(10), emit_on_close=True)
    assert [] == count("b", "x", 5) + count("a", "x", 6) + count("b", "x", 7)
    closer = (("closer", b""),)
    expected = [(Windowed("a", 0, 10), Change(1), 6, closer), (Windowed("b", 0, 10), Change(2), 7, closer)]
    assert expected == count("c", "x", 12, closer)
    assert [] == count("c", "x", 13)
    assert [(Windowed("c", 10, 20), Change(2), 13)] == count("c", "x", 20)


def test_on_close_hopping_windows_close_one_after_the_other() -> None:
    """A record that closes no window emits nothing."""
    _, count = bind(windows_of(10, 0, 5), emit_on_close=True)
    assert [] == count("a", "x", 7)
    assert [Windowed("a", 0, 10)] == [record[0] for record in count("a", "x", 11)]
    assert [] == count("a", "x", 14)
    assert [Windowed("a", 5, 15), Windowed("a", 10, 20)] == [record[0] for record in count("a", "x", 24)]


def test_on_close_what_the_store_has_forgotten_never_comes_out() -> None:
    """If stream time jumps beyond the retention, the windows in between are lost."""
    _, count = bind(windows_of(10), emit_on_close=True, retention_ms=10)
    count("a", "x", 5)
    assert [] == count("a", "x", 45)


def test_windows_of_many_keys_are_not_all_kept() -> None:
    """The newest window of a key is computed again after 50,000 other keys, so memory does not follow their number."""
    places: dict[object, Any] = {}
    locate = _locating(places, 10, keeps=True)
    for number in range(50_001):
        locate(number, 25)
    assert list(places) == [50_000]
    assert locate(0, 25)[:3] == (20, 30, (0, 20))
    assert list(places) == [50_000, 0]
