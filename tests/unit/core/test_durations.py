"""Durations and instants as users write them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreamnb.core.time import duration_ms, format_duration, format_ms, instant_ms
from kstreamnb.errors import ConfigError


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("5m", 300_000),
        ("1500ms", 1500),
        ("1h30m", 5_400_000),
        ("1d 2h", 93_600_000),
        ("0s", 0),
        ("-3s", -3000),
        (timedelta(minutes=5), 300_000),
        (timedelta(milliseconds=-1), -1),
    ],
)
def test_durations_are_whole_milliseconds(value, expected):
    """Text with units and timedelta are equivalent."""
    assert expected == duration_ms(value)


@pytest.mark.parametrize("value", ["5", "5 minutes", "", "m", "1.5s", 5, 5.0, None])
def test_other_durations_are_refused(value):
    """A bare number has no unit; the error shows how to write one."""
    with pytest.raises(ConfigError, match=r"size .* is not a duration") as caught:
        duration_ms(value, "size")
    assert '"5m"' in caught.value.hint


@pytest.mark.parametrize(
    ("other", "ours"),
    [
        ("30min", "30m"),
        ("5 minutes", "5m"),
        ("1H", "1h"),
        ("2 hours", "2h"),
        ("1 day", "1d"),
        ("10 sec", "10s"),
        ("5 msec", "5ms"),
        ("PT1H30M", "1h30m"),
        ("1h 30min", "1h30m"),
    ],
)
def test_a_duration_in_another_spelling_is_answered_with_ours(other, ours):
    """As pandas, SQL and Java's `Duration` write them."""
    with pytest.raises(ConfigError, match="is not a duration") as caught:
        duration_ms(other)
    assert caught.value.hint == f'did you mean "{ours}"?'


@pytest.mark.parametrize("other", ["1 month", "2 milliseconds", "1.5h", "1y"])
def test_a_duration_that_is_not_recognized_is_answered_with_examples(other):
    """A month has no fixed length; a wrong guess would be worse than none."""
    with pytest.raises(ConfigError, match="is not a duration") as caught:
        duration_ms(other)
    assert "write for example" in caught.value.hint


def test_durations_have_64_bits():
    """A longer one is refused, as in Java."""
    assert 2**63 - 1 == duration_ms(f"{2**63 - 1}ms")
    with pytest.raises(ConfigError, match=r"size must be at most 9223372036854775807 ms") as caught:
        duration_ms(f"{2**63}ms", "size")
    assert "It can't be converted to milliseconds." in caught.value.java


def test_parts_of_a_millisecond_are_refused():
    """Stream time counts whole milliseconds."""
    with pytest.raises(ConfigError, match="must be a whole number of milliseconds"):
        duration_ms(timedelta(microseconds=1))
    with pytest.raises(ConfigError, match="must be a whole number of milliseconds"):
        instant_ms("1970-01-01T00:00:00.000001Z")


@given(st.integers(-(10**12), 10**12))
def test_a_formatted_duration_is_read_back(duration):
    """`format_duration` and `duration_ms` are inverses."""
    assert duration == duration_ms(format_duration(duration))


@given(st.integers(-62_000_000_000_000, 253_000_000_000_000))
def test_a_formatted_instant_is_read_back(timestamp):
    """`format_ms` and `instant_ms` are inverses."""
    assert timestamp == instant_ms(format_ms(timestamp))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-01-01T09:00Z", 1_767_258_000_000),
        ("2026-01-01 10:00:00+01:00", 1_767_258_000_000),
        (datetime(2026, 1, 1, 9, tzinfo=UTC), 1_767_258_000_000),
        (datetime(2026, 1, 1, 10, tzinfo=timezone(timedelta(hours=1))), 1_767_258_000_000),
        (1_767_258_000_000, 1_767_258_000_000),
    ],
)
def test_instants_are_milliseconds_since_the_epoch(value, expected):
    """ISO text, aware datetimes and numbers are equivalent."""
    assert expected == instant_ms(value)


@pytest.mark.parametrize("value", [datetime(2026, 1, 1), "2026-01-01T09:00", "2026-01-01"])  # noqa: DTZ001
def test_an_instant_without_a_zone_is_refused_with_the_remedy(value):
    """A naive datetime means a different moment in every time zone."""
    with pytest.raises(ConfigError, match=r"start .* has no time zone") as caught:
        instant_ms(value, "start")
    assert "tzinfo=UTC" in caught.value.hint


@pytest.mark.parametrize("value", ["noon", 1.5, None, True, date(2026, 1, 1)])
def test_other_instants_are_refused(value):
    """A value that is not a moment is named by its type or text."""
    with pytest.raises(ConfigError, match="is not an instant"):
        instant_ms(value)


def test_a_numpy_array_is_not_an_instant():
    """Unlike a number of NumPy's, it only seems to be an integer."""
    assert instant_ms(np.int64(7)) == 7
    with pytest.raises(ConfigError, match="time must be a 64-bit integer, got array"):
        instant_ms(np.array([1, 2]))


def test_an_instant_beyond_the_calendar_stays_a_number():
    """The maximum timestamp has no date."""
    assert "9223372036854775807 ms" == format_ms(2**63 - 1)
