"""Groups of table rows: old values are subtracted from the aggregate, new ones added."""

from __future__ import annotations

import operator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreamnb.core.record import Change
from kstreamnb.core.serdes import Serdes
from kstreamnb.core.stores import StoreSpec
from kstreamnb.errors import ProcessingError
from kstreamnb.operators.derived_tables import TableAggregate, TableGroupBy
from kstreamnb.operators.folding import count_down, count_up, zero
from kstreamnb.operators.tables import TableSource
from tests.unit.operators.fake_context import FakeContext

SUMS = StoreSpec("sums", "timestamped_key_value", value_serde=Serdes.long())
TEXTS = StoreSpec("sums", "timestamped_key_value")


def test_the_old_value_is_subtracted_before_the_new_one_is_added() -> None:
    """The result shows the order of both."""
    aggregate = TableAggregate(
        "sums", str, lambda k, v, text: f"{text}+{v}", lambda k, v, text: f"{text}-{v}", send_old=True
    )
    feed = FakeContext(TEXTS).bind(aggregate)
    assert [("hats", Change("+a"), 5)] == feed("hats", Change("a"), 5)
    assert [("hats", Change("+a-a+b", "+a"), 5)] == feed("hats", Change("b", "a"), 3)
    assert [("hats", Change("+a-a+b-b", "+a-a+b"), 7)] == feed("hats", Change(None, "b"), 7)


@pytest.mark.parametrize(
    "operator_",
    [
        TableAggregate("sums", zero, count_up, count_down),
        TableAggregate("sums", None, operator.add, operator.sub),
    ],
)
def test_nothing_is_subtracted_from_a_group_that_is_not_there(operator_: Any) -> None:
    """A deletion of nothing is still forwarded, with the record's time."""
    feed = FakeContext(SUMS).bind(operator_)
    assert [("hats", Change(None), 4)] == feed("hats", Change(None, 3), 4)
    with pytest.raises(ProcessingError, match="no key"):
        feed(None, Change(1), 4)


def test_a_reduction_of_a_group_starts_from_its_first_value() -> None:
    """The later time is used only if two values are combined."""
    feed = FakeContext(SUMS).bind(TableAggregate("sums", None, operator.add, operator.sub, send_old=True))
    assert [("hats", Change(5), 9)] == feed("hats", Change(5), 9)
    assert [("hats", Change(7, 5), 9)] == feed("hats", Change(2), 1)
    assert [("hats", Change(6, 7), 9)] == feed("hats", Change(1, 2), 8)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.none() | st.sampled_from(["hats", "shoes"]))))
def test_the_count_of_each_group_equals_how_many_rows_are_in_it(moves: list[tuple[str, str | None]]) -> None:
    """Articles move between departments or leave; the counts follow."""
    context = FakeContext(StoreSpec("rows", "timestamped_key_value"), SUMS)
    count = context.bind(TableAggregate("sums", zero, count_up, count_down), node="count")._process
    group = context.bind(TableGroupBy(lambda k, v: (v, k)), node="group", forward=count)._process
    table = context.bind(TableSource("rows", send_old=True), node="rows", forward=group)
    for article, department in moves:
        table(article, department)
    rows = [department for department in dict(moves).values() if department is not None]
    counted = {key: row[0] for key, row in context.store("sums").all() if row[0]}
    assert {department: rows.count(department) for department in rows} == counted
