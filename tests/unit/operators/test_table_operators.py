"""Tables: how changes with an old and a new value pass from one table to the next."""

from __future__ import annotations

from typing import Any

import pytest

from kstreamnb.core.record import Change
from kstreamnb.core.stores import StoreSpec
from kstreamnb.errors import ProcessingError
from kstreamnb.operators.derived_tables import TableFilter, TableGroupBy, TableMapValues, TableTransformValues
from kstreamnb.operators.tables import TableSource
from tests.unit.operators.fake_context import FakeContext

ROWS = StoreSpec("rows", "timestamped_key_value")
HISTORY = StoreSpec("rows", "versioned", history_ms=100)


def is_open(key: Any, state: Any) -> bool:
    """Return whether an order is still open; must never be called for a deleted row."""
    assert state is not None
    return bool(state.startswith("open"))


def test_a_table_without_a_store_knows_no_old_values() -> None:
    """Every record is an upsert or a deletion of an unknown row."""
    context = FakeContext()
    table = context.bind(TableSource())
    assert [("o1", Change("open"), 5, (("h", None),))] == table("o1", "open", 5, (("h", None),))
    assert [("o1", Change(None), 6)] == table("o1", None, 6)
    assert [] == table(None, "open", 7)
    assert ["null key"] == context.reasons()


@pytest.mark.parametrize("send_old", [False, True])
def test_a_stored_table_knows_what_a_row_was(send_old: bool) -> None:
    """Out-of-order records still replace their row."""
    context = FakeContext(ROWS)
    table = context.bind(TableSource("rows", send_old))
    old = ("open", "paid") if send_old else (None, None)
    assert [("o1", Change("open"), 5)] == table("o1", "open", 5)
    assert [("o1", Change("paid", old[0]), 3)] == table("o1", "paid", 3)
    assert ("paid", 3) == context.store("rows").get("o1")
    assert [("o1", Change(None, old[1]), 8)] == table("o1", None, 8)
    assert context.store("rows").get("o1") is None
    assert [] == table(None, "open", 9)
    assert ["null key"] == context.reasons()


def test_a_versioned_table_says_which_change_is_the_latest_and_refuses_what_is_too_old() -> None:
    """An out-of-order record enters the history."""
    table = FakeContext(HISTORY).bind(TableSource("rows", True))
    assert [("o1", Change("paid", None, True), 500)] == table("o1", "paid", 500)
    assert [("o1", Change("open", "paid", False), 400)] == table("o1", "open", 400)
    assert [] == table("o1", "lost", 399)


def test_a_filter_without_old_values_forwards_a_deletion_for_every_miss() -> None:
    """It cannot know whether the row existed."""
    keep = FakeContext().bind(TableFilter(is_open))
    assert [("o1", Change("open"), 0)] == keep("o1", Change("open"))
    assert [("o2", Change(None), 0)] == keep("o2", Change("paid"))
    assert [("o2", Change(None), 0)] == keep("o2", Change(None))


def test_a_filter_with_old_values_forwards_only_what_changes_the_result() -> None:
    """A row that was never in the result is not deleted from it."""
    keep = FakeContext().bind(TableFilter(is_open, send_old=True))
    assert [] == keep("o1", Change("paid", "sent"))
    assert [("o1", Change(None, "open"), 0)] == keep("o1", Change("paid", "open"))
    assert [("o1", Change("open", None, False), 0)] == keep("o1", Change("open", "paid", False))


@pytest.mark.parametrize("send_old", [False, True])
def test_a_stored_filter_takes_old_values_from_its_own_store(send_old: bool) -> None:
    """Its parent's old value does not matter."""
    context = FakeContext(ROWS)
    keep = context.bind(TableFilter(is_open, negate=True, store="rows", send_old=send_old))
    assert [("o1", Change("paid"), 4)] == keep("o1", Change("paid", "?"), 4)
    assert [("o1", Change("sent", "paid" if send_old else None), 5)] == keep("o1", Change("sent"), 5)
    assert ("sent", 5) == context.store("rows").get("o1")
    assert [("o1", Change(None, "sent" if send_old else None), 6)] == keep("o1", Change("open"), 6)
    assert ([] if send_old else [("o1", Change(None), 7)]) == keep("o1", Change("open"), 7)


@pytest.mark.parametrize("store", [None, "rows"])
@pytest.mark.parametrize("send_old", [False, True])
def test_mapped_values_keep_deletions(store: str | None, send_old: bool) -> None:
    """The mapper sees only non-null values."""
    mapped = FakeContext(ROWS).bind(TableMapValues(str.upper, store=store, send_old=send_old))
    assert [("o1", Change("OPEN"), 1)] == mapped("o1", Change("open"), 1)
    assert [("o1", Change("PAID", "OPEN" if send_old else None), 2)] == mapped("o1", Change("paid", "open"), 2)
    assert [("o1", Change(None, "PAID" if send_old else None), 3)] == mapped("o1", Change(None, "paid"), 3)


def test_mapped_values_may_use_the_key() -> None:
    """With the key, the mapper has two arguments."""
    mapped = FakeContext().bind(TableMapValues(lambda k, v: k + v, with_key=True))
    assert [("o1", Change("o1open"), 0)] == mapped("o1", Change("open"))


class Numbering:
    """A transformer that numbers its calls, deletions too, and counts them in a store."""

    def init(self, context: Any) -> None:
        """Remember the store."""
        self.asked = context.get_state_store("asked")

    def transform(self, key: str, value: str | None) -> str:
        """Return the value with its number."""
        number = int(self.asked.get(key) or 0) + 1
        self.asked.put(key, str(number))
        return f"{value}#{number}"


@pytest.mark.parametrize(
    ("store", "expected"),
    [
        (None, [Change("open#1", "None#2"), Change("None#3", "open#4")]),
        ("rows", [Change("open#1"), Change("None#2", "open#1")]),
    ],
)
def test_a_transformer_is_asked_anew_for_old_values_unless_they_are_stored(
    store: str | None, expected: list[Change]
) -> None:
    """A stateful transformer returns another value on each call, and sees deletions."""
    context = FakeContext(ROWS, StoreSpec("asked", "key_value"))
    transformed = context.bind(TableTransformValues(Numbering, store=store, send_old=True))
    feeds = (Change("open"), Change(None, "open"))
    assert expected == [change for feed in feeds for _, change, _ in transformed("o1", feed)]


def test_a_function_is_a_transformer_and_may_not_forward() -> None:
    """Without state there is nothing to initialize; with state there is still nothing to forward."""
    plain = FakeContext().bind(TableTransformValues(lambda: lambda key, value: (key, value)))
    assert [("o1", Change(("o1", None)), 0)] == plain("o1", Change(None))

    class Forwarding(Numbering):
        def init(self, context: Any) -> None:
            from kstreamnb.core.record import Record

            context.forward(Record("o1", "open", 0))

    with pytest.raises(ProcessingError, match="may not forward"):
        FakeContext().bind(TableTransformValues(Forwarding))


def by_state(key: str, state: str) -> tuple[str | None, str]:
    """Group orders by state; an empty state has no group."""
    return state or None, key


def test_a_row_leaves_its_old_group_before_it_enters_the_new_one() -> None:
    """Two records: a subtraction and an addition."""
    group = FakeContext().bind(TableGroupBy(by_state))
    assert [("open", Change("o1"), 1)] == group("o1", Change("open"), 1)
    assert [("open", Change(None, "o1"), 2), ("paid", Change("o1"), 2)] == group("o1", Change("paid", "open"), 2)
    assert [("paid", Change(None, "o1"), 3)] == group("o1", Change(None, "paid"), 3)


def test_a_row_that_stays_in_its_group_is_one_record_with_both_values() -> None:
    """A group never misses it in between."""
    group = FakeContext().bind(TableGroupBy(by_state))
    assert [("open", Change("o1", "o1"), 0)] == group("o1", Change("open", "open"))


def test_rows_without_a_group_are_left_out_and_rows_without_a_key_are_an_error() -> None:
    """The selector is not called for nulls."""
    context = FakeContext()
    group = context.bind(TableGroupBy(by_state))
    assert [] == group("o1", Change(None, None)) + group("o1", Change(""))
    assert [("open", Change(None, "o1"), 0)] == group("o1", Change("", "open"))
    with pytest.raises(ProcessingError, match="no key"):
        group(None, Change("open"))


def test_an_update_of_the_past_changes_no_group() -> None:
    """Groups contain the latest rows only."""
    context = FakeContext()
    assert [] == context.bind(TableGroupBy(by_state, versioned=True))("o1", Change("open", "paid", False))
    assert [] == context.reasons()


def test_a_filter_of_a_versioned_table_forwards_every_miss() -> None:
    """An update of the past may have no old value although downstream has one."""
    keep = FakeContext(ROWS).bind(TableFilter(is_open, send_old=True, versioned=True))
    assert [("o1", Change(None, None, False), 0)] == keep("o1", Change("paid", "sent", False))
    stored = FakeContext(ROWS).bind(TableFilter(is_open, store="rows", send_old=True, versioned=True))
    assert [("o1", Change(None), 0)] == stored("o1", Change("paid", "sent"))


def test_the_selector_of_groups_gets_no_nulls() -> None:
    """A new row has no old value and a deleted row no new one: neither is asked for its group."""
    group = FakeContext().bind(TableGroupBy(lambda key, value: (len(value), value)))
    assert [(1, Change("a"), 0)] == group("k", Change("a"))
    assert [(1, Change(None, "a"), 0)] == group("k", Change(None, "a"))


def test_the_groups_of_a_table_s_rows_are_pairs() -> None:
    """Text of two letters is not a group and a value."""
    group = FakeContext().bind(TableGroupBy(lambda key, value: value))
    with pytest.raises(ProcessingError, match=r"group_by must return \(key, value\), got 'xy'"):
        group("k", Change("xy"))
    assert group("k", Change(None)) == []
