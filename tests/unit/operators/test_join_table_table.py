"""Tables joined by key: each change of either side produces at most one change of the result."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreamnb.core.record import Change
from kstreamnb.core.stores import StoreSpec
from kstreamnb.operators.table_joins import JoinView, TableJoinMerge, TableTableJoin
from kstreamnb.operators.tables import MaterializedView, TableSource
from tests.unit.operators.fake_context import FakeContext


def pair(left: Any, right: Any) -> str:
    """Both values as text, ``-`` for a missing one."""
    return f"{left or '-'}{right or '-'}"


class Tables:
    """Two joined tables: feed ``left`` and ``right`` with rows, get the result's changes."""

    def __init__(self, how: Any, *, send_old: bool = True, versioned: bool = False) -> None:
        kind: Any = "versioned" if versioned else "timestamped_key_value"
        names = ("left", "right")
        specs = [StoreSpec(name, kind, history_ms=100) for name in names]
        self.context = FakeContext(*specs, StoreSpec("joined", "timestamped_key_value"))
        merge = TableJoinMerge(None, send_old)
        sides = []
        for name, other in zip(names, reversed(names), strict=True):
            join = TableTableJoin(name == "left", how, MaterializedView(other, versioned), pair, send_old, versioned)
            merged = self.context.bind(merge, node="merge")._process
            joined = self.context.bind(join, node=f"join-{name}", forward=merged)._process
            sides.append(self.context.bind(TableSource(name, True), node=name, forward=joined))
        self.left, self.right = sides
        view = JoinView(how, MaterializedView("left", versioned), MaterializedView("right", versioned), pair)
        self.look_up = view.bind(self.context)


def test_an_inner_join_needs_both_rows() -> None:
    """Nothing is emitted until both sides have the key; a deleted row deletes the result."""
    t = Tables("inner")
    assert t.left("k", "a", 5) == []
    assert t.right("k", "x", 3) == [("k", Change("ax", None), 5)]
    assert t.left("k", "b", 4) == [("k", Change("bx", "ax"), 4)]
    assert t.right("k", None, 9) == [("k", Change(None, "bx"), 9)]
    assert t.right("k", None, 9) == [("k", Change(None, None), 9)]
    assert t.left("k", None, 10) == []
    assert t.right("k", "y", 11) == []


def test_a_joiner_gets_old_values_only_if_the_result_is_sent_with_old_values() -> None:
    """Otherwise it is called once for a change, as in Kafka Streams."""
    calls = []

    def joiner(left: Any, right: Any) -> str:
        calls.append((left, right))
        return pair(left, right)

    context = FakeContext(*(StoreSpec(name, "timestamped_key_value") for name in ("left", "right")))
    join = TableTableJoin(True, "inner", MaterializedView("right"), joiner, send_old=False)
    left = context.bind(TableSource("left", True), forward=context.bind(join)._process)
    context.store("right").put("k", ("x", 1))
    assert [("k", Change("ax", None), 2), ("k", Change("bx", None), 3)] == left("k", "a", 2) + left("k", "b", 3)
    assert [("a", "x"), ("b", "x")] == calls


def test_an_inner_join_sends_a_tombstone_whenever_the_other_row_exists() -> None:
    """Deleting an unknown row still reaches the result if the other side has the key."""
    t = Tables("inner", send_old=False)
    t.right("k", "x", 1)
    assert t.left("k", None, 2) == [("k", Change(None), 2)]


def test_a_left_join_keeps_left_rows_without_partner() -> None:
    """The left row decides whether there is a result; the right one only fills it."""
    t = Tables("left")
    assert t.right("k", "x", 9) == []
    assert t.left("q", None, 1) == []
    assert t.left("k", "a", 5) == [("k", Change("ax", None), 9)]
    assert t.right("k", None, 10) == [("k", Change("a-", "ax"), 10)]
    assert t.left("k", "b", 11) == [("k", Change("b-", "a-"), 11)]
    assert t.left("k", None, 12) == [("k", Change(None, "b-"), 12)]


def test_an_outer_join_keeps_both_sides() -> None:
    """A result exists as long as either row does."""
    t = Tables("outer")
    assert t.right("k", "x", 9) == [("k", Change("-x", None), 9)]
    assert t.left("k", "a", 5) == [("k", Change("ax", "-x"), 9)]
    assert t.right("k", None, 10) == [("k", Change("a-", "ax"), 10)]
    assert t.left("k", None, 12) == [("k", Change(None, "a-"), 12)]
    assert t.left("k", None, 13) == []


def test_without_old_values_none_are_made() -> None:
    """Old results are computed only on request."""
    t = Tables("outer", send_old=False)
    t.left("k", "a", 1)
    assert t.right("k", "x", 2) == [("k", Change("ax", None), 2)]


def test_null_keys_are_dropped() -> None:
    """A table has no row without a key."""
    t = Tables("outer")
    assert t.left(None, "a", 1) == []
    assert t.context.reasons() == ["null key"]


def test_out_of_order_changes_of_a_versioned_table_join_nothing() -> None:
    """Only the latest version of a row is joined; older ones only enter the history."""
    t = Tables("inner", versioned=True)
    t.right("k", "x", 1)
    assert t.left("k", "b", 5) == [("k", Change("bx", None), 5)]
    assert t.left("k", "a", 3) == []
    assert t.context.reasons() == ["out of order"]


def test_a_materialized_join_keeps_its_rows() -> None:
    """The joined table's own store holds the result with its time."""
    context = FakeContext(StoreSpec("joined", "timestamped_key_value"))
    merge = context.bind(TableJoinMerge("joined", False))
    assert merge("k", Change("ax", "a-"), 7) == [("k", Change("ax", None), 7)]
    assert context.store("joined").get("k") == ("ax", 7)
    assert merge("k", Change(None, "ax"), 8) == [("k", Change(None, None), 8)]
    assert context.store("joined").get("k") is None


updates = st.lists(
    st.tuples(st.booleans(), st.sampled_from("ab"), st.one_of(st.none(), st.sampled_from("xyz")), st.integers(0, 9)),
    max_size=30,
)


@pytest.mark.parametrize("how", ["inner", "left", "outer"])
@given(updates)
def test_the_joined_table_is_the_join_of_both_tables(how: str, rows: list[tuple[bool, str, str | None, int]]) -> None:
    """After any updates, the folded changes and the view both equal the join of the final rows."""
    t = Tables(how)
    left: dict[str, str] = {}
    right: dict[str, str] = {}
    for is_left, key, value, at in rows:
        table = left if is_left else right
        for _, change, _ in (t.left if is_left else t.right)(key, value, at):
            before = joined(how, left, right).get(key)
            assert before == change.old
        table.update({key: value}) if value is not None else table.pop(key, None)
    folded = {key: change.new for key, change, _ in t.context.forwarded}
    expected = joined(how, left, right)
    assert expected == {key: value for key, value in folded.items() if value is not None}
    seen = {key: t.look_up(key) for key in "ab"}
    assert expected == {key: row[0] for key, row in seen.items() if row is not None}


def joined(how: str, left: dict[str, str], right: dict[str, str]) -> dict[str, str]:
    """Join two dicts."""
    keys = {"inner": left.keys() & right.keys(), "left": left.keys(), "outer": left.keys() | right.keys()}[how]
    return {key: pair(left.get(key), right.get(key)) for key in keys}
