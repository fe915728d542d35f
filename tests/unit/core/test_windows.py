"""Windows: their arithmetic, their short forms, and Java's messages for invalid arguments."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kstreamnb.core.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows
from kstreamnb.errors import ConfigError


def test_short_forms_equal_the_factories():
    """`of` with keywords and Java's names create equal windows."""
    assert TimeWindows(10, 5, 2) == TimeWindows.of(size="10ms", grace="5ms", advance="2ms")
    assert TimeWindows(10, 5, 2) == TimeWindows.of_size_and_grace("10ms", "5ms").advance_by("2ms")
    assert TimeWindows(10, 0, 10) == TimeWindows.of_size_with_no_grace(timedelta(milliseconds=10))
    assert SlidingWindows(10, 5) == SlidingWindows.of_time_difference_and_grace("10ms", "5ms")
    assert SlidingWindows(10) == SlidingWindows.of_time_difference_with_no_grace("10ms")
    assert SessionWindows(10, 5) == SessionWindows.of_inactivity_gap_and_grace("10ms", "5ms")
    assert SessionWindows(10) == SessionWindows.of_inactivity_gap_with_no_grace("10ms")
    assert JoinWindows(10, 10, 5) == JoinWindows.of_time_difference_and_grace("10ms", "5ms")
    assert JoinWindows(10, 10) == JoinWindows.of_time_difference_with_no_grace("10ms")
    assert JoinWindows(3, 0) == JoinWindows.of(before="3ms")
    assert JoinWindows(3, 10) == JoinWindows.of(difference="10ms", before="3ms")
    assert JoinWindows(-3, 10, 1) == JoinWindows.of(difference="10ms", grace="1ms").before("-3ms")
    assert JoinWindows(10, 10, 1, eager=True) == JoinWindows.of_legacy("10ms").grace("1ms")
    assert JoinWindows(10, 3) == JoinWindows.of(difference="10ms").after("3ms")
    assert JoinWindows(10, 10, 86_399_980, eager=True) == JoinWindows.of_legacy("10ms")
    assert JoinWindows(50_000_000, 50_000_000, eager=True) == JoinWindows.of_legacy("50000s")
    assert UnlimitedWindows(7) == UnlimitedWindows.of().start_on(7)


@pytest.mark.parametrize(
    ("windows", "timestamp", "starts"),
    [
        (TimeWindows(10), 0, [0]),
        (TimeWindows(10), 9, [0]),
        (TimeWindows(10), 10, [10]),
        (TimeWindows(10, 0, 5), 3, [0]),
        (TimeWindows(10, 0, 5), 12, [5, 10]),
        (TimeWindows(10, 0, 3), 12, [3, 6, 9, 12]),
        (UnlimitedWindows(5), 4, []),
        (UnlimitedWindows(5), 5, [5]),
        (UnlimitedWindows(5), 10**15, [5]),
    ],
)
def test_a_timestamp_is_in_the_windows_that_cover_it(windows, timestamp, starts):
    """Windows are aligned to the epoch, include their start and exclude their end."""
    assert starts == list(windows.windows_for(timestamp))


@pytest.mark.parametrize(
    ("make", "java"),
    [
        (lambda: TimeWindows.of(size="0ms"), "Window size (sizeMs) must be larger than zero."),
        (lambda: TimeWindows.of(size="5ms", grace="-1ms"), "Grace period must not be negative."),
        (
            lambda: TimeWindows.of(size="5ms", advance="6ms"),
            "Window advancement interval should be more than zero and less than window duration which is 5 ms, "
            "but given advancement interval is: 6 ms",
        ),
        (
            lambda: TimeWindows.of(size="5ms", advance="0ms"),
            "Window advancement interval should be more than zero and less than window duration which is 5 ms, "
            "but given advancement interval is: 0 ms",
        ),
        (lambda: SlidingWindows.of(difference="-1ms"), "Window time difference must not be negative."),
        (lambda: SessionWindows.of(gap="-1ms"), "Gap time cannot be negative."),
        (lambda: UnlimitedWindows.of(start=-1), "Window start time (startMs) cannot be negative."),
        (
            lambda: JoinWindows.of(before="-5ms", after="4ms"),
            "Window interval (ie, beforeMs+afterMs) must not be negative.",
        ),
        (
            lambda: JoinWindows.of(difference=f"{2**62}ms"),
            "Window interval (ie, beforeMs+afterMs) must not be negative.",
        ),
        (lambda: JoinWindows.of(difference="5ms", grace="-1ms"), "Grace period must not be negative."),
        (
            lambda: JoinWindows.of_time_difference_with_no_grace("5ms").grace("1ms"),
            "Cannot call grace() after setting grace value via ofTimeDifferenceAndGrace or "
            "ofTimeDifferenceWithNoGrace.",
        ),
    ],
)
def test_windows_that_make_no_sense_are_refused_as_java_does(make, java):
    """The error carries Kafka's text for the same mistake."""
    with pytest.raises(ConfigError) as caught:
        make()
    assert java == caught.value.java


def test_a_join_window_needs_a_span():
    """Missing arguments are an error, not an empty window."""
    with pytest.raises(ConfigError, match="a join window needs a difference, or before and after"):
        JoinWindows.of()


def test_a_join_window_without_of_says_what_to_write():
    """A duration in place of milliseconds is answered with `of`, also if the second number is missing."""
    for arguments in (("5m",), (5,)):
        with pytest.raises(ConfigError, match=r"(?s)must be int, got .*Hint: give durations to of"):
            JoinWindows(*arguments)
