"""Windowed counts of shuffled records equal a short specification over the whole set of records."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kstreamnb.core.serdes import Serdes
from kstreamnb.core.stores import StoreSpec
from kstreamnb.core.windows import SessionWindows, SlidingWindows, TimeWindows
from kstreamnb.operators.aggregates import SessionAggregate, WindowAggregate
from kstreamnb.operators.folding import add_counts, count_up, zero
from kstreamnb.operators.sliding_aggregate import SlidingAggregate
from tests.unit.operators.fake_context import FakeContext

GRACE_MS = 1000
RETENTION_MS = 10_000

records = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 60)), max_size=40)
sizes = st.integers(1, 15)
Records = list[tuple[str, int]]
Windows = dict[tuple[str, int, int], int]


def counted(operator: Any, kind: Any, fed: Records, size_ms: int = 0) -> Windows:
    """Return the table that the operator's changes produce after all records."""
    long = Serdes.long()
    spec = StoreSpec("counts", kind, value_serde=long, retention_ms=RETENTION_MS, window_size_ms=size_ms)
    context = FakeContext(spec)
    feed = context.bind(operator)
    table: Windows = {}
    for key, timestamp in fed:
        for window, change, *_ in feed(key, "x", timestamp):
            table[window] = change.new
    assert [] == context.dropped
    return {window: count for window, count in table.items() if count}


def times_by_key(fed: Records) -> dict[str, list[int]]:
    """The timestamps of each key, sorted."""
    times = defaultdict(list)
    for key, timestamp in sorted(fed):
        times[key].append(timestamp)
    return times


@given(records, sizes, st.data())
def test_hopping_and_tumbling_windows_count_the_records_within_them(fed: Records, size: int, data: Any) -> None:
    """A window [start, start + size) begins at every multiple of the advance."""
    advance = data.draw(st.integers(1, size))
    operator = WindowAggregate("counts", TimeWindows(size, GRACE_MS, advance), zero, count_up)
    expected = Counter(
        (key, start, start + size)
        for key, timestamp in fed
        for start in range(0, timestamp + 1, advance)
        if timestamp < start + size
    )
    assert dict(expected) == counted(operator, "timestamped_window", fed, size)


@given(records, st.integers(1, 15))
def test_sliding_windows_count_the_records_within_them(fed: Records, difference: int) -> None:
    """A window ends at each record, and one begins after it if it contains a record; none begins before zero."""
    operator = SlidingAggregate("counts", SlidingWindows(difference, GRACE_MS), zero, count_up)
    expected: Windows = {}
    for key, times in times_by_key(fed).items():
        for start in {max(0, t - difference) for t in times} | {t + 1 for t in times}:
            within = sum(start <= t <= start + difference for t in times)
            if within:
                expected[key, start, start + difference] = within
    assert expected == counted(operator, "timestamped_window", fed, difference)


@given(records, st.integers(0, 15))
def test_sessions_count_records_that_follow_each_other_within_the_gap(fed: Records, gap: int) -> None:
    """A gap longer than the inactivity gap begins a new session."""
    operator = SessionAggregate("counts", SessionWindows(gap, GRACE_MS), zero, count_up, merger=add_counts)
    expected: Windows = {}
    for key, times in times_by_key(fed).items():
        cuts = [i for i in range(1, len(times)) if times[i] - times[i - 1] > gap]
        for low, high in zip([0, *cuts], [*cuts, len(times)], strict=True):
            expected[key, times[low], times[high - 1]] = high - low
    assert expected == counted(operator, "session", fed)


@given(records, sizes)
def test_on_close_gives_what_the_last_updates_gave(fed: Records, size: int) -> None:
    """In time order, without loss, and only closed windows."""
    fed = sorted(fed, key=lambda record: record[1])
    closing = [*fed, ("end", 500)]
    updates = WindowAggregate("counts", TimeWindows(size, 10), zero, count_up)
    finals = WindowAggregate("counts", TimeWindows(size, 10), zero, count_up, emit_on_close=True)
    expected = counted(updates, "timestamped_window", fed, size)
    assert expected == counted(finals, "timestamped_window", closing, size)
