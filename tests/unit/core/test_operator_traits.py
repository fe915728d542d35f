"""Operators declare their traits, and nothing outside core recognizes an operator by its attributes or class name."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import kstreamnb
from kstreamnb.core.operator import BlockOperator, Operator, Stateless
from kstreamnb.core.processor import UserProcessor
from kstreamnb.core.traits import BufferTraits, JoinTraits, OperatorTraits
from kstreamnb.core.windows import TimeWindows
from kstreamnb.operators import aggregates, foreign_key, stateless, stream_joins, table_joins, tables
from kstreamnb.operators.derived_tables import DerivedTable, TableFilter, TableTransformValues
from kstreamnb.operators.folding import WindowedFold

PACKAGE = Path(kstreamnb.__file__).parent
BASES = {BlockOperator, Stateless, DerivedTable, WindowedFold}


def _operators() -> list[type[Operator]]:
    for module in pkgutil.iter_modules([str(PACKAGE / "operators")], "kstreamnb.operators."):
        importlib.import_module(module.name)
    found, ahead = set[type[Operator]](), [Operator]
    while ahead:
        below = [each for each in ahead.pop().__subclasses__() if each.__module__.startswith("kstreamnb.")]
        # a measuring wrapper has the traits of its operator
        below = [each for each in below if not each.__module__.startswith("kstreamnb.tools.")]
        found.update(below)
        ahead += below
    return sorted(found - BASES, key=lambda each: each.__name__)


def _classes_with_bind() -> Iterator[type]:
    """Return the operators' classes that bind themselves to a task and forward records."""
    for module in pkgutil.iter_modules([str(PACKAGE / "operators")], "kstreamnb.operators."):
        for each in vars(importlib.import_module(module.name)).values():
            if isinstance(each, type) and "forward" in inspect.signature(getattr(each, "bind", lambda: 0)).parameters:
                yield each


def test_every_operator_declares_its_traits() -> None:
    """None inherits the abstract property, and each is a frozen dataclass."""
    operators = _operators()
    assert len(operators) > 30
    for operator in operators:
        assert not inspect.isabstract(operator), operator
        assert operator.__dataclass_params__.frozen, operator  # type: ignore[attr-defined]


def test_everything_that_is_bound_like_an_operator_is_one() -> None:
    """Every class of the operators' modules is covered."""
    found = list(_classes_with_bind())
    assert len(found) > 20
    assert [each for each in found if not issubclass(each, Operator)] == []


def test_only_operators_with_a_field_send_old_declare_that_they_send_old_values() -> None:
    """Lowering sets the field on exactly these."""
    for operator in _operators():
        fields = {field.name for field in dataclasses.fields(operator)}  # type: ignore[arg-type]
        assert _any_of(operator).traits.sends_old == ("send_old" in fields), operator


def test_an_operator_without_traits_cannot_be_made() -> None:
    """A new operator that declares no traits fails at the first read."""

    class Undeclared(Operator):
        def bind(self, context: object, forward: object) -> object:  # type: ignore[override]
            return forward

    with pytest.raises(TypeError, match=r"abstract.*traits"):
        Undeclared()  # type: ignore[abstract]


class _View:
    stores = ("above", "rows")
    versioned = False

    def bind(self, context: object) -> object:
        raise NotImplementedError


def _any_of(operator: type[Operator]) -> Operator:
    """Return an operator with a value of the right type in each field that has no default."""
    values = {
        "store": "rows", "view": _View(), "other": _View(), "windows": TimeWindows(10), "how": "left",
        "predicates": (bool, bool), "children": ("a", "b", None), "is_left": True,
    }  # fmt: skip
    required = [
        field.name
        for field in dataclasses.fields(operator)  # type: ignore[arg-type]
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    return operator(**{name: values.get(name, 1) for name in required})


def test_joins_declare_where_they_find_partners() -> None:
    """Joins are compared by kind, store and reach; the reach is that of the node's own side."""
    view = _View()
    joins = {
        stream_joins.StreamStreamJoin(False, "left", 3, 5, 7, bool, outer=True): JoinTraits(
            "streams", "left", 5, 3, keeps_unmatched=True
        ),
        stream_joins.StreamTableJoin(view, bool, left=True, key_selector=max): JoinTraits(  # type: ignore[arg-type]
            "lookup", "rows", keeps_unmatched=True, key_selector=max
        ),
        table_joins.TableTableJoin(True, "left", view, bool): JoinTraits("tables", "rows", keeps_unmatched=True),  # type: ignore[arg-type]
        table_joins.TableTableJoin(False, "left", view, bool): JoinTraits("tables", "rows"),  # type: ignore[arg-type]
        foreign_key.SubscriptionJoin(view): JoinTraits("answer", "rows"),  # type: ignore[arg-type]
        foreign_key.ForeignTableJoin("subscriptions"): JoinTraits("notify", "subscriptions"),
    }
    for operator, traits in joins.items():
        assert operator.traits.join == traits, operator
    joining = {each.__name__ for each in _operators() if _any_of(each).traits.join is not None}
    assert joining == {type(each).__name__ for each in joins}


def test_buffers_declare_how_long_records_wait() -> None:
    """A suppression, one side of an outer join, and a join with grace on a versioned table."""
    outer = stream_joins.StreamStreamJoin(True, "right", 3, 5, 7, bool, pending_store="waiting", tracker="J")
    graceful = stream_joins.StreamTableJoin(_View(), bool, grace_ms=4, buffer_store="early")  # type: ignore[arg-type]
    assert tables.Suppress("held", 9, window_end=True).traits.buffer == BufferTraits(
        "change", "held", 9, window_end=True
    )
    assert outer.traits.buffer == BufferTraits("partner", "waiting", 5, 7, is_left=True, clock="J-time")
    assert graceful.traits.buffer == BufferTraits("row", "early", 4)
    assert stream_joins.StreamTableJoin(_View(), bool).traits.buffer is None  # type: ignore[arg-type]
    bounds = [tables.Suppress("held", 9, max_records=1), tables.Suppress("held", 9, max_bytes=1)]
    assert all(each.traits.buffer is not None and each.traits.buffer.bounded for each in bounds)


def test_users_code_predicates_and_windows_are_declared() -> None:
    """The traits are those needed by the plan for Spark, the explanations and the checks."""
    assert UserProcessor(list).traits == OperatorTraits("any", user_code=True, changes_key=True, changes_value=True)
    assert TableTransformValues(list).traits.user_code
    assert {each.__name__ for each in _operators() if _any_of(each).traits.user_code} == {
        "TableTransformValues", "UserFixedKeyProcessor", "UserProcessor",
    }  # fmt: skip
    assert stateless.Filter(max, negate=True).traits.condition == (max, True, None)
    assert TableFilter(max).traits.condition == (max, False, None)
    split = stateless.Branch((max, min), ("high", None, "rest")).traits.branches
    assert split == ((max, False, "high"), (min, False, None))
    windows = TimeWindows(10)
    fold = aggregates.WindowAggregate("counts", windows, None, max, emit_on_close=True).traits
    assert (fold.windows, fold.emit_on_close, fold.store, fold.row_use) == (windows, True, "counts", "fold")


def test_only_changes_of_records_are_declared_as_such() -> None:
    """Repartitions follow from them, and which serdes remain valid."""
    declared = {
        each.__name__: (traits.changes_key, traits.changes_value)
        for each in _operators()
        if (traits := _any_of(each).traits).changes_key or traits.changes_value
    }
    assert declared == {
        "FlatMap": (True, True),
        "FlatMapValues": (False, True),
        "Map": (True, True),
        "MapValues": (False, True),
        "SelectKey": (True, False),
        "UserFixedKeyProcessor": (False, True),  # of processors, only what they may change
        "UserProcessor": (True, True),
    }


def _sniffing(path: Path) -> Iterator[str]:
    """Find calls that ask an operator for an attribute or its class's name, or a node whether it has an operator."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
            asked = ast.unparse(node.args[0])
            about = asked.split(".")[-1].strip("()").endswith("operator") or "'operator'" in ast.unparse(node)
            if node.func.id in ("hasattr", "getattr", "vars") and about:
                yield f"{path.name}:{node.lineno}: {ast.unparse(node)}"
        if isinstance(node, ast.Attribute) and node.attr == "__name__" and isinstance(node.value, ast.Call):
            called = ast.unparse(node.value)
            if called.startswith("type(") and called.endswith("operator)"):
                yield f"{path.name}:{node.lineno}: {ast.unparse(node)}"


def test_no_operator_is_recognized_by_its_attributes_outside_core() -> None:
    """Traits are read instead; only a description prints the name of an operator's class."""
    outside = [path for path in PACKAGE.rglob("*.py") if path.parent.name != "core"]
    found = [hit for path in outside for hit in _sniffing(path)]
    assert [hit.split(":")[0::2] for hit in found] == [["description.py", " type(node.operator).__name__"]]


def test_sniffing_is_recognized(tmp_path: Path) -> None:
    """The search finds every form that was in use."""
    lines = [
        'hasattr(operator, "view")',
        'getattr(node.operator, "store", None)',
        'getattr(getattr(node, "operator", None), "windows", None)',
        "type(operator).__name__",
        "vars(operator)",
    ]
    for line in lines:
        (tmp_path / "x.py").write_text(line)
        assert list(_sniffing(tmp_path / "x.py")), line
