"""Looking up rows of tables that are not materialized."""

from __future__ import annotations

from typing import Any

import pytest

from kstreamnb.core.record import Windowed
from kstreamnb.core.stores import StoreSpec
from kstreamnb.operators.derived_tables import DerivedView, TableFilter, TableMapValues, TableTransformValues
from kstreamnb.operators.tables import MaterializedView
from tests.unit.operators.fake_context import FakeContext


@pytest.fixture
def context() -> FakeContext:
    """A task with one row "a" of "x" at 5, which was "w" earlier in its history."""
    context = FakeContext(
        StoreSpec("rows", "timestamped_key_value"),
        StoreSpec("history", "versioned", history_ms=100),
        StoreSpec("windows", "timestamped_window", retention_ms=100, window_size_ms=10),
        StoreSpec("sessions", "session", retention_ms=100),
    )
    context.store("rows").put("a", ("x", 5))
    context.store("history").put("a", "w", 2)
    context.store("history").put("a", "x", 5)
    context.store("windows").put("a", ("x", 15), 10)
    context.store("sessions").put(Windowed("a", 3, 7), "x")
    return context


ROWS, HISTORY = MaterializedView("rows"), MaterializedView("history", versioned=True)
MAPPED = {
    "key": DerivedView(ROWS, TableMapValues(lambda k, v: k + v, with_key=True)),
    "value": DerivedView(ROWS, TableMapValues(str.upper)),
}


@pytest.mark.parametrize(
    ("view", "key", "expected"),
    [
        (ROWS, "a", ("x", 5)),
        (ROWS, "b", None),
        (HISTORY, "a", ("x", 5)),
        (HISTORY, "b", None),
        (MaterializedView("windows"), Windowed("a", 10, 20), ("x", 15)),
        (MaterializedView("windows"), Windowed("a", 20, 30), None),
        (MaterializedView("sessions"), Windowed("a", 3, 7), ("x", 7)),
        (MaterializedView("sessions"), Windowed("a", 3, 8), None),
        (DerivedView(ROWS, TableFilter(lambda k, v: v == "x")), "a", ("x", 5)),
        (DerivedView(ROWS, TableFilter(lambda k, v: v == "x", negate=True)), "a", None),
        (DerivedView(ROWS, TableFilter(lambda k, v: v == "x")), "b", None),
        (MAPPED["value"], "a", ("X", 5)),
        (MAPPED["key"], "a", ("ax", 5)),
        (MAPPED["value"], "b", None),
        (DerivedView(ROWS, TableMapValues(lambda v: None)), "a", None),
        (DerivedView(ROWS, TableTransformValues(lambda: lambda k, v: f"{k}{v}")), "a", ("ax", 5)),
        (DerivedView(ROWS, TableTransformValues(lambda: lambda k, v: f"{k}{v}")), "b", ("bNone", -1)),
        (DerivedView(ROWS, TableTransformValues(lambda: lambda k, v: None)), "a", None),
    ],
)
def test_a_view_gives_the_row_as_its_table_would(
    context: FakeContext, view: Any, key: Any, expected: tuple[Any, int] | None
) -> None:
    """Value and time, or None."""
    assert expected == view.bind(context)(key)


@pytest.mark.parametrize(
    ("view", "as_of_ms", "expected"),
    [
        (HISTORY, 4, ("w", 2)),
        (HISTORY, 1, None),
        (DerivedView(HISTORY, TableFilter(lambda k, v: v == "w")), 4, ("w", 2)),
        (DerivedView(HISTORY, TableFilter(lambda k, v: v == "w")), 5, None),
        (DerivedView(HISTORY, TableMapValues(str.upper)), 4, ("W", 2)),
        (DerivedView(HISTORY, TableMapValues(str.upper)), 1, None),
        (DerivedView(HISTORY, TableTransformValues(lambda: lambda k, v: f"{k}{v}")), 4, ("aw", 2)),
    ],
)
def test_a_view_of_a_versioned_table_gives_the_row_as_of_a_time(
    context: FakeContext, view: Any, as_of_ms: int, expected: tuple[Any, int] | None
) -> None:
    """A table applies its function to its parent's old rows, too."""
    assert view.versioned
    assert expected == view.bind(context)("a", as_of_ms)


@pytest.mark.parametrize("view", [ROWS, MaterializedView("windows"), MaterializedView("sessions"), MAPPED["value"]])
def test_other_tables_have_no_history(context: FakeContext, view: Any) -> None:
    """Looking them up as of a time is a bug in the kit."""
    assert not view.versioned
    with pytest.raises(TypeError, match="positional argument"):
        view.bind(context)("a", 4)


def test_a_view_names_the_stores_that_its_node_must_be_connected_to() -> None:
    """Those of its parents."""
    assert ("rows",) == DerivedView(DerivedView(ROWS, TableMapValues(str.upper)), TableFilter(bool)).stores
