"""Stateless operators: what they forward, and that time and headers stay with the record."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from kstreamnb.core.record import Change
from kstreamnb.errors import ProcessingError
from kstreamnb.operators.stateless import (
    Branch,
    Filter,
    FlatMap,
    FlatMapValues,
    Foreach,
    Map,
    MapValues,
    PassThrough,
    Peek,
    Print,
    RepartitionFilter,
    SelectKey,
    TableToStream,
)
from tests.unit.operators.fake_context import FakeContext

HEADERS = (("shop", b"7"),)


def is_big(key: Any, quantity: Any) -> bool:
    """Return whether a sale is of several pieces; a sale without a quantity is not."""
    return quantity is not None and quantity >= 3


def feed(operator: Any, key: Any, value: Any) -> list[tuple[Any, ...]]:
    """Return the records that one sale becomes."""
    return FakeContext().bind(operator)(key, value, 5, HEADERS)


@pytest.mark.parametrize(
    ("operator", "key", "value", "expected"),
    [
        (Filter(is_big), "shoe", 3, [("shoe", 3)]),
        (Filter(is_big), "shoe", None, []),
        (Filter(is_big, negate=True), "shoe", 3, []),
        (Filter(is_big, negate=True), None, None, [(None, None)]),
        (Map(lambda k, v: (v, k)), "shoe", 3, [(3, "shoe")]),
        (MapValues(lambda v: v and v + 1), "shoe", 3, [("shoe", 4)]),
        (MapValues(lambda v: v and v + 1), "shoe", None, [("shoe", None)]),
        (MapValues(lambda k, v: f"{k}={v}", with_key=True), "shoe", 3, [("shoe", "shoe=3")]),
        (FlatMap(lambda k, v: [(k, n) for n in range(v)]), "shoe", 2, [("shoe", 0), ("shoe", 1)]),
        (FlatMapValues(lambda v: iter("ab"[:v])), "shoe", 2, [("shoe", "a"), ("shoe", "b")]),
        (FlatMapValues(lambda k, v: [k] * v, with_key=True), "shoe", 1, [("shoe", "shoe")]),
        (FlatMapValues(lambda v: ()), "shoe", 2, []),
        (SelectKey(lambda k, v: v), "shoe", 3, [(3, 3)]),
        (PassThrough(), None, None, [(None, None)]),
        (RepartitionFilter(), None, 3, []),
        (RepartitionFilter(), "shoe", None, [("shoe", None)]),
        (TableToStream(), "shoe", Change(None, 3), [("shoe", None)]),
    ],
)
def test_a_record_becomes_what_the_operator_says(operator: Any, key: Any, value: Any, expected: list[Any]) -> None:
    """Keys and values change as specified, time and headers never."""
    assert [(k, v, 5, HEADERS) for k, v in expected] == feed(operator, key, value)


def test_peek_looks_before_the_record_goes_on_and_foreach_ends_the_stream() -> None:
    """The action sees every record; only peek forwards it."""
    seen: list[Any] = []
    assert [("shoe", 3, 5, HEADERS)] == feed(Peek(lambda k, v: seen.append((k, v))), "shoe", 3)
    assert [] == feed(Foreach(lambda k, v: seen.append((k, v))), "hat", None)
    assert [("shoe", 3), ("hat", None)] == seen


def test_print_writes_one_line_for_each_record() -> None:
    """The label comes first; a mapper makes another text."""
    lines: list[str] = []
    feed(Print("sales", lines.append), "shoe", None)
    feed(Print("sales", lines.append, lambda k, v: f"{v} x {k}"), "shoe", 3)
    assert ["[sales]: shoe, None", "[sales]: 3 x shoe"] == lines


def test_a_record_takes_the_first_branch_that_wants_it() -> None:
    """Later branches do not see it; unmatched records take the default branch."""
    branch = Branch((is_big, lambda k, v: k == "shoe"), ("bulk", "shoes", "rest"))
    split = FakeContext(children=("bulk", "shoes", "rest")).bind(branch)
    assert [("bulk", "shoe", 3, 0)] == split("shoe", 3)
    assert [("shoes", "shoe", 1, 0)] == split("shoe", 1)
    assert [("rest", "hat", 1, 0)] == split("hat", 1)


def test_without_a_default_branch_the_rest_is_gone() -> None:
    """Nothing is forwarded and nothing counts as dropped."""
    context = FakeContext(children=("bulk",))
    assert [] == context.bind(Branch((is_big,), ("bulk", None)))("hat", 1)
    assert [] == context.reasons()


@pytest.mark.parametrize("result", ["xy", b"xy", ["x", "y"], {"x": 1, "y": 2}, ("x",), ("x", "y", "z"), None, 5])
def test_map_and_flat_map_take_pairs_only(result: Any) -> None:
    """Other values that unpack into two, such as text of two letters, are not a key and value."""
    for operator, returned in (
        (Map(lambda key, value: result), "map"),
        (FlatMap(lambda key, value: [result]), "flat_map"),
    ):
        with pytest.raises(ProcessingError, match=rf"^{returned} must (return|yield) \(key, value\)") as caught:
            FakeContext().bind(operator)("k", "v")
        assert repr(result) in str(caught.value)
        assert caught.value.hint


def test_a_named_tuple_of_two_is_a_pair() -> None:
    """Its fields are key and value."""

    class Pair(NamedTuple):
        key: str
        value: int

    assert FakeContext().bind(Map(lambda key, value: Pair("a", 1)))("k", "v") == [("a", 1, 0)]
    assert FakeContext().bind(FlatMap(lambda key, value: [Pair("a", 1)]))("k", "v") == [("a", 1, 0)]


@pytest.mark.parametrize("values", [{("a", 1)}, frozenset({("a", 1), ("b", 2)})])
def test_flat_maps_refuse_sets(values: Any) -> None:
    """Their order differs from process to process: a batch that is repeated after a crash would have other records."""
    for operator in (FlatMap(lambda key, value: values), FlatMapValues(lambda value: values)):
        with pytest.raises(ProcessingError, match="must return a list, got a set, which has no order") as caught:
            FakeContext().bind(operator)("k", "v")
        assert caught.value.hint == "return sorted(…)"
