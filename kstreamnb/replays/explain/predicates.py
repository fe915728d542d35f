"""Explains which part of a predicate's condition rejected a record, with the values it compared.

The condition comes from the predicate's source (files and notebook cells). `pure_eval` computes its parts from the
record: attribute lookups with side effects and calls of user code are never repeated, so explaining changes nothing.
"""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Callable, Iterator
from types import CellType, FunctionType

from pure_eval import CannotEval, Evaluator

from kstreamnb.core.formatting import format_value, join_list
from kstreamnb.topology.user_names import expression_of


def unmet(predicate: Callable[..., object], *args: object, negate: bool = False) -> str | None:
    """Explain why a predicate is false for some arguments (or, with ``negate``, why it is true).

    Return None if the source is not available, is more than one expression, or cannot be evaluated without side
    effects.

    Example:
        >>> limit = 70
        >>> unmet(lambda key, value: value["risk"] > limit, "ann", {"risk": 0})
        'risk was 0, the condition is > 70'
    """
    function = inspect.unwrap(predicate)
    if not isinstance(function, FunctionType) or (condition := expression_of(function.__code__)) is None:
        return None
    names = {**vars(builtins), **function.__globals__, **_closure(function)}
    names |= dict(zip(function.__code__.co_varnames, args, strict=False))
    try:
        return join_list(dict.fromkeys(_facts(condition, _DictReader(names), wanted=negate)), most=3) or None
    except CannotEval:
        return None


def _closure(function: FunctionType) -> dict[str, object]:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {name: cell.cell_contents for name, cell in cells if cell != CellType()}


class _DictReader(Evaluator):
    """Evaluates what has no side effects, ``dict.get`` included."""

    def _handle_call(self, node: ast.Call) -> object:
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr == "get" and not node.keywords:
            mapping, *arguments = (self[each] for each in (function.value, *node.args))
            if type(mapping) is dict and arguments and isinstance(arguments[0], (str, int, bytes, float)):
                return mapping.get(*arguments)
        return super()._handle_call(node)  # type: ignore[no-untyped-call]


def _facts(node: ast.expr, values: Evaluator, *, wanted: bool) -> Iterator[str]:
    """Yield the parts of a condition whose truth is ``wanted``, as text."""
    if isinstance(node, ast.BoolOp):
        for part in node.values:
            if bool(values[part]) == wanted:
                yield from _facts(part, values, wanted=wanted)
                if isinstance(node.op, ast.And) != wanted:  # short circuit: the parts after it were not evaluated
                    return
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield from _facts(node.operand, values, wanted=not wanted)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        condition = f"{_WORDS[type(node.ops[0])]} {format_value(values[node.comparators[0]])}".lstrip()
        yield f"{_named(node.left)} was {format_value(values[node.left])}, the condition is {condition}"
    else:
        yield f"{_named(node)} was {format_value(values[node])}"


def _named(node: ast.expr) -> str:
    """Return the short name of what an expression looks up: the key, the attribute, or the expression itself."""
    look_up = node.slice if isinstance(node, ast.Subscript) else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get" and node.args:
        look_up = node.args[0]
    if isinstance(look_up, ast.Constant) and isinstance(look_up.value, str):
        return look_up.value
    return node.attr if isinstance(node, ast.Attribute) else ast.unparse(node)


_WORDS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.Is: "", ast.IsNot: "not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip
