"""Cutting batches by event time, compared with an explicit merge."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreamnb.errors import ConfigError
from kstreamnb.kafka.batch_offsets import batch_end_by_time, count_between, ranges

LOGS = st.dictionaries(
    st.sampled_from(["a", "b"]),
    st.lists(st.lists(st.integers(0, 30), max_size=25), min_size=1, max_size=3),
    min_size=1,
)


def _merged(logs):
    """All records in the order of (greatest timestamp so far, topic, partition, offset)."""
    rows = [
        (greatest, topic, partition, offset)
        for topic, parts in logs.items()
        for partition, times in enumerate(parts)
        for offset, greatest in enumerate(accumulate(times, max))
    ]
    return [row[1:] for row in sorted(rows)]


def _at_time(logs):
    """Return the first offsets at or after a time, as a broker looks them up; the end if there are none."""

    def look_up(time):
        return {
            topic: {
                partition: next((n for n, at in enumerate(times) if at >= time), len(times))
                for partition, times in enumerate(parts)
            }
            for topic, parts in logs.items()
        }

    return look_up


@given(LOGS, st.integers(1, 20), st.integers(0, 30), st.sampled_from([1, 10**4]))
def test_batches_are_prefixes_of_the_merge(logs, limit, short, unit):
    """Batch after batch takes the next records of the merge, at most the limit and at least one.

    Brokers before Kafka 3.0 return a lower time than the highest.
    """
    logs = {topic: [[at * unit for at in times] for times in parts] for topic, parts in logs.items()}
    end = {topic: {n: len(times) for n, times in enumerate(parts)} for topic, parts in logs.items()}
    start = {topic: dict.fromkeys(parts, 0) for topic, parts in end.items()}
    merged, low = _merged(logs), 0
    last = max((at for parts in logs.values() for times in parts for at in times), default=0)
    while start != end:
        times = low, max(low, last - short * unit)
        ends, low = batch_end_by_time(start, end, limit, at_time=_at_time(logs), times_ms=times)
        taken = {
            (topic, partition, offset)
            for topic, partition, first, final in ranges(start, ends)
            for offset in range(first, final)
        }
        assert 1 <= len(taken) <= limit
        assert set(merged[: len(taken)]) == taken
        merged, start = merged[len(taken) :], ends
    assert [] == merged


def test_what_fits_is_taken_whole_without_asking():
    """No lookup by time is made if everything known fits."""

    def never(time):
        raise AssertionError(f"asked for {time}")

    end = {"a": {0: 5, 1: 5}}
    assert (end, 3) == batch_end_by_time({"a": {0: 0, 1: 0}}, end, 10, at_time=never, times_ms=(3, 9))


def test_few_look_ups_find_the_cut():
    """Distant times do not need one lookup for each halving of the whole time range."""
    logs = {"a": [list(range(0, 10**9, 10**5))] * 4}
    calls = []

    def look_up(time):
        calls.append(time)
        return _at_time(logs)(time)

    end = {"a": dict.fromkeys(range(4), 10_000)}
    ends, _ = batch_end_by_time({"a": dict.fromkeys(range(4), 0)}, end, 1000, at_time=look_up, times_ms=(0, 10**9))
    assert 500 < count_between({}, ends) <= 1000
    assert len(calls) <= 4


def test_few_look_ups_find_the_cut_if_the_highest_time_is_unknown():
    """The time of a first record says nothing about the others."""
    logs, calls = {"a": [list(range(0, 10**9, 10**5))] * 4}, []

    def look_up(time):
        calls.append(time)
        return _at_time(logs)(time)

    end = {"a": dict.fromkeys(range(4), 10_000)}
    ends, _ = batch_end_by_time({"a": dict.fromkeys(range(4), 0)}, end, 1000, at_time=look_up, times_ms=(0, 0))
    assert 500 < count_between({}, ends) <= 1000
    assert 1 == len({*ends["a"].values()})
    assert len(calls) <= 20


def test_a_batch_of_nothing_is_refused():
    """A limit below one record makes no progress."""
    with pytest.raises(ConfigError, match="must have at least 1 record, got a limit of 0"):
        batch_end_by_time({}, {"a": {0: 1}}, 0, at_time=dict, times_ms=(0, 0))
