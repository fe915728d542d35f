"""Streams enriched by tables and global tables."""

from __future__ import annotations

from typing import Any

import pytest

from kstreamnb.core.operator import BindContext, Forward, Process
from kstreamnb.core.record import Headers, RecordMetadata
from kstreamnb.core.stores import StoreSpec
from kstreamnb.errors import ProcessingError
from kstreamnb.operators.stream_joins import StreamTableJoin
from kstreamnb.operators.tables import MaterializedView, TableSource
from tests.unit.operators.fake_context import FakeContext, Fed

HEADERS = (("trace", b"1"),)


def pair(left: Any, right: Any) -> str:
    """Both values as text, ``-`` for a missing row."""
    return f"{left}/{right or '-'}"


def stream_and_table(*, left: bool, grace: int | None = None, versioned: bool = False) -> tuple[FakeContext, Fed, Fed]:
    """A task with clicks joined to plans; feed either."""
    kind: Any = "versioned" if versioned else "timestamped_key_value"
    buffer = StoreSpec("buffer", "internal", extra={"type": "join_buffer", "grace_ms": grace})
    context = FakeContext(StoreSpec("plans", kind, history_ms=100), *([] if grace is None else [buffer]))
    store = None if grace is None else "buffer"
    join = StreamTableJoin(MaterializedView("plans", versioned), pair, left=left, grace_ms=grace, buffer_store=store)
    silent: Forward = lambda *record: None  # noqa: E731
    return context, context.bind(join), context.bind(TableSource("plans"), forward=silent)


def test_only_the_stream_asks() -> None:
    """A click is joined with the current plan, with its own time and headers; a plan alone produces no output."""
    _, click, plan = stream_and_table(left=False)
    assert click("ann", "c1", 5) == []
    assert plan("ann", "free", 9) == []
    assert click("ann", "c2", 7, HEADERS) == [("ann", "c2/free", 7, HEADERS)]
    plan("ann", None, 10)
    assert click("ann", "c3", 11) == []


def test_a_left_join_gives_clicks_without_plan() -> None:
    """Without a plan, or without a key, the click is emitted unmatched."""
    context, click, plan = stream_and_table(left=True)
    plan("ann", "free", 0)
    assert click("ann", "c1", 1) == [("ann", "c1/free", 1)]
    assert click("bob", "c2", 1) == [("bob", "c2/-", 1)]
    assert click(None, "c3", 1) == [(None, "c3/-", 1)]
    assert click("ann", None, 1) == click(None, None, 1) == []
    assert context.reasons() == ["null value", "null value"]


def test_an_inner_join_drops_null_keys() -> None:
    """A click without a key is dropped."""
    context, click, _ = stream_and_table(left=False)
    assert click(None, "c", 1) == []
    assert context.reasons() == ["null key"]


def test_a_versioned_table_is_asked_as_of_the_time_of_the_click() -> None:
    """An old click is joined with the plan valid at its time."""
    _, click, plan = stream_and_table(left=True, versioned=True)
    plan("ann", "free", 10)
    plan("ann", "pro", 20)
    assert click("ann", "c1", 15) == [("ann", "c1/free", 15)]
    assert click("ann", "c2", 25) == [("ann", "c2/pro", 25)]
    assert click("ann", "c3", 5) == [("ann", "c3/-", 5)]


def test_with_grace_clicks_wait_for_plans_that_come_late() -> None:
    """A click waits until stream time has passed it by the grace; then it sees rows that arrived meanwhile."""
    _, click, plan = stream_and_table(left=True, grace=5, versioned=True)
    plan("a", "x", 5)
    assert click("a", "p", 10) == click("a", "q", 8, HEADERS) == click("b", "r", 10) == []
    assert click("a", "s", 13) == [("a", "q/x", 8, HEADERS)]
    plan("a", "y", 9)
    assert click("a", "t", 20) == [("a", "p/y", 10), ("b", "r/-", 10), ("a", "s/y", 13)]
    assert click("a", "late", 9) == [("a", "late/y", 9)]
    assert click("a", "edge", 15) == [("a", "edge/y", 15)]


def test_a_click_that_waited_still_knows_where_it_came_from() -> None:
    """Downstream sees topic, partition and offset of the click that waited, not of the one that released it."""
    context, _, _ = stream_and_table(left=True, grace=5, versioned=True)
    seen: list[RecordMetadata | None] = []

    def look(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        seen.append(context.metadata())

    join = StreamTableJoin(MaterializedView("plans", True), pair, left=True, grace_ms=5, buffer_store="buffer")
    click = context.bind(join, forward=look)
    click("a", "first", 1)
    click("a", "second", 9)
    assert seen == [RecordMetadata("in", 0, 0)]
    assert context.metadata() == RecordMetadata("in", 0, 1)


def test_with_grace_a_left_join_fails_for_a_click_without_a_key() -> None:
    """The buffer needs a key, as in Kafka Streams; an inner join drops the click."""
    _, click, _ = stream_and_table(left=True, grace=5, versioned=True)
    with pytest.raises(ProcessingError, match="expected a record with a key, got a null key") as caught:
        click(None, "c", 3)
    assert caught.value.java == "key cannot be null"
    context, click, _ = stream_and_table(left=False, grace=5, versioned=True)
    assert click(None, "c", 3) == click(None, None, 3) == []
    assert context.reasons() == ["null key", "null value"]


def test_a_click_whose_joiner_fails_stays_in_the_buffer() -> None:
    """It is joined again with the next click, as in Kafka Streams; the click that released it is the one that fails."""
    context, _, _ = stream_and_table(left=True, grace=5, versioned=True)
    fails = [True]

    def joiner(left: Any, right: Any) -> str:
        if fails.pop():
            raise ValueError(left)
        return str(left)

    join = StreamTableJoin(MaterializedView("plans", True), joiner, left=True, grace_ms=5, buffer_store="buffer")
    click = context.bind(join)
    click("a", "first", 1)
    with pytest.raises(ValueError, match="first"):
        click("a", "second", 9)
    assert context.metadata() == RecordMetadata("in", 0, 1)
    fails[:] = [False]
    assert click("a", "third", 9) == [("a", "first", 1)]


def test_the_key_of_a_global_table_is_chosen_for_null_values_too() -> None:
    """The key selector sees every record, as in Kafka Streams, so one that cannot read null fails."""
    context = FakeContext(StoreSpec("countries", "timestamped_key_value"))
    view = MaterializedView("countries", False)
    order = context.bind(StreamTableJoin(view, pair, key_selector=lambda key, value: value[:2]))
    with pytest.raises(TypeError):
        order("k", None, 3)


@pytest.mark.parametrize("left", [False, True])
def test_a_global_table_is_asked_for_a_chosen_key(left: bool) -> None:
    """The key comes from the record; a null one matches nothing."""
    context = FakeContext(StoreSpec("countries", "timestamped_key_value"))
    context.store("countries").put("de", ("Germany", 0))
    view = MaterializedView("countries", False)
    order = context.bind(
        StreamTableJoin(view, pair, left=left, key_selector=lambda key, value: (value or "")[:2] or None)
    )
    assert order(None, "de-1", 3, HEADERS) == [(None, "de-1/Germany", 3, HEADERS)]
    assert order("k", "fr-1", 3) == ([("k", "fr-1/-", 3)] if left else [])
    assert order("k", "", 3) == ([("k", "/-", 3)] if left else [])
    assert order("k", None, 3) == []
    assert context.reasons() == (["null value"] if left else ["null key", "null value"])


def test_operators_are_values() -> None:
    """Two joins with the same fields are equal, so that topologies can be compared."""

    def bind_of(operator: Any) -> Process:
        context: BindContext = FakeContext(StoreSpec("plans", "timestamped_key_value"))
        return operator.bind(context, lambda *record: None)

    one, other = (StreamTableJoin(MaterializedView("plans", False), pair) for _ in range(2))
    assert one == other
    assert bind_of(one) is not bind_of(one)
