"""Counting, reducing and aggregating by key over all time."""

from __future__ import annotations

import operator
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreamnb.core.record import Change
from kstreamnb.core.serdes import Serdes
from kstreamnb.core.stores import StoreSpec
from kstreamnb.operators.aggregates import StreamAggregate
from kstreamnb.operators.folding import count_up, zero
from tests.unit.operators.fake_context import FakeContext

LONG, TEXT = Serdes.long(), Serdes.string()


def task(serde: Any = LONG, kind: Any = "timestamped_key_value", **options: Any) -> FakeContext:
    """A task with the store of an aggregate."""
    return FakeContext(StoreSpec("sums", kind, value_serde=serde, **options))


COUNT = StreamAggregate("sums", zero, count_up)


@pytest.mark.parametrize("send_old", [False, True])
def test_each_record_is_counted_and_carries_its_headers(send_old: bool) -> None:
    """The first change has the initial value as its old one."""
    count = task().bind(StreamAggregate("sums", zero, count_up, send_old=send_old))
    old = (0, 1) if send_old else (None, None)
    assert [("shoe", Change(1, old[0]), 5, (("h", b"1"),))] == count("shoe", "x", 5, (("h", b"1"),))
    assert [("shoe", Change(2, old[1]), 6)] == count("shoe", "y", 6)


def test_the_time_of_an_aggregate_never_goes_back() -> None:
    """A late record counts, and the result keeps the latest time."""
    context = task()
    count = context.bind(COUNT)
    count("shoe", "x", 10)
    assert [("shoe", Change(2), 10)] == count("shoe", "x", 3)
    assert (2, 10) == context.store("sums").get("shoe")


@pytest.mark.parametrize(
    "operator_", [COUNT, StreamAggregate("sums", None, operator.add), StreamAggregate("sums", None, max, True)]
)
def test_records_without_key_or_value_are_dropped(operator_: Any) -> None:
    """Records without a key or a value are dropped."""
    context = task()
    feed = context.bind(operator_)
    assert [] == feed(None, 1) + feed("shoe", None) + feed(None, None)
    assert ["null key", "null value", "null key"] == context.reasons()


@pytest.mark.parametrize("send_old", [False, True])
def test_a_reduction_starts_from_the_first_value(send_old: bool) -> None:
    """The first value becomes the aggregate, without an old value."""
    reduce = task().bind(StreamAggregate("sums", None, operator.sub, send_old))
    assert [("shoe", Change(5), 1)] == reduce("shoe", 5, 1)
    assert [("shoe", Change(3, 5 if send_old else None), 2)] == reduce("shoe", 2, 2)


@pytest.mark.parametrize("send_old", [False, True])
def test_an_aggregator_that_gives_nothing_deletes_the_row(send_old: bool) -> None:
    """The deletion is forwarded, and the next record starts again from the initial value."""
    context = task(TEXT)

    def append(key: str, value: str, text: str) -> str | None:
        return None if len(text + value) > 2 else text + value

    feed = context.bind(StreamAggregate("sums", str, append, send_old))
    feed("shoe", "ab", 9)
    assert [("shoe", Change(None, "ab" if send_old else None), 9)] == feed("shoe", "c", 3)
    assert context.store("sums").get("shoe") is None
    assert [("shoe", Change("d", "" if send_old else None), 4)] == feed("shoe", "d", 4)


def test_a_versioned_aggregate_forwards_only_what_its_store_keeps() -> None:
    """A change is the latest unless its row was put after a newer one; a refused put emits nothing."""
    context = task(TEXT, "versioned", history_ms=100)
    drop_all = StreamAggregate("sums", str, lambda key, value, text: None if value == "-" else text + value, True)
    feed = context.bind(drop_all)
    assert [("shoe", Change("a", "", True), 440)] == feed("shoe", "a", 440)
    assert [("shoe", Change(None, "a", True), 500)] == feed("shoe", "-", 500)
    assert [("shoe", Change("b", "", False), 450)] == feed("shoe", "b", 450)
    assert [] == feed("shoe", "c", 300)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 50))))
def test_counts_equal_those_of_a_dictionary(records: list[tuple[str, int]]) -> None:
    """In any order, the rows hold how often each key came and when it was last seen."""
    context = task()
    count = context.bind(COUNT)
    for key, timestamp in records:
        count(key, "x", timestamp)
    expected = {key: (n, max(t for k, t in records if k == key)) for key, n in Counter(k for k, _ in records).items()}
    assert sorted(expected.items()) == list(context.store("sums").all())
