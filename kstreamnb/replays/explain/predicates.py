"""What a predicate saw: the part of its condition that a record did not meet, with the values in it.

The predicate's source is found as tracebacks find it (files and notebook cells), and the parts of its condition are
computed again for the record. Where there is no source, only its answer is known.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

from kstreamnb.core.formatting import listed, said

__all__ = ["unmet"]


def unmet(predicate: Callable[..., Any], *args: Any, negate: bool = False) -> str | None:
    """Why a predicate did not hold for some arguments (or, with ``negate``, why it held); None when that is unknown.

    Example:
        >>> limit = 70
        >>> unmet(lambda key, value: value["risk"] > limit, "ann", {"risk": 0})
        'risk was 0, the condition is > 70'
    """
    function = inspect.unwrap(predicate)
    condition = _condition(function)
    if condition is None:
        return None
    names = {**getattr(function, "__globals__", {}), **_closure(function)}
    names |= dict(zip(function.__code__.co_varnames, args, strict=False))
    try:
        facts = list(_facts(condition, names, wanted=negate))
    except Exception:  # the user's expression failed on this record: then the predicate itself would have
        return None
    return listed(dict.fromkeys(facts), most=3) or None


def _closure(function: Callable[..., Any]) -> dict[str, Any]:
    cells = getattr(function, "__closure__", None) or ()
    return {
        name: cell.cell_contents
        for name, cell in zip(function.__code__.co_freevars, cells, strict=True)
        if _filled(cell)
    }


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - an empty cell raises
    except ValueError:
        return False
    return True


def _condition(function: Any) -> ast.expr | None:
    """The expression that a function of one expression gives."""
    code: CodeType | None = getattr(function, "__code__", None)
    if code is None:
        return None
    try:
        lines, _ = inspect.findsource(code)
        tree = ast.parse("".join(lines))
    except (OSError, SyntaxError, IndentationError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, (ast.Lambda, ast.FunctionDef)) and _is_code(node, code):
            if isinstance(node, ast.Lambda):
                return node.body
            *before, last = node.body
            plain = all(isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) for each in before)
            return last.value if plain and isinstance(last, ast.Return) else None
    return None


def _is_code(node: ast.Lambda | ast.FunctionDef, code: CodeType) -> bool:
    """Whether a node of the source is what a code object was compiled from."""
    names = [arg.arg for arg in (*node.args.posonlyargs, *node.args.args)]
    if names != list(code.co_varnames[: code.co_argcount]):
        return False
    if isinstance(node, ast.FunctionDef):
        return node.name == code.co_name and node.lineno >= code.co_firstlineno
    if code.co_name != "<lambda>":
        return False
    places = [(line, column) for line, _, column, _ in code.co_positions() if line is not None and column is not None]
    body = node.body
    return bool(places) and all(
        (body.lineno, body.col_offset) <= place <= (body.end_lineno or body.lineno, body.end_col_offset or 0)
        for place in places
        if place != (code.co_firstlineno, 0)
    )


def _facts(node: ast.expr, names: dict[str, Any], *, wanted: bool) -> Iterator[str]:
    """Parts of a condition whose truth is ``wanted``, in words."""
    if isinstance(node, ast.BoolOp):
        for value in node.values:
            if bool(_value(value, names)) == wanted:
                yield from _facts(value, names, wanted=wanted)
                if isinstance(node.op, ast.And) != wanted:  # the first one has decided
                    return
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield from _facts(node.operand, names, wanted=not wanted)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = _value(node.left, names), _value(node.comparators[0], names)
        word = _WORDS[type(node.ops[0])]
        yield f"{_named(node.left)} was {said(left)}, the condition is {f'{word} ' if word else ''}{said(right)}"
    else:
        yield f"{_named(node)} was {said(_value(node, names))}"


def _value(node: ast.expr, names: dict[str, Any]) -> Any:
    return eval(compile(ast.Expression(node), "<condition>", "eval"), names)


def _named(node: ast.expr) -> str:
    """How people call what an expression looks up."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
        return node.slice.value
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get" and node.args:
        first = node.args[0]
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            return first.value
    return ast.unparse(node)


_WORDS: dict[type, str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.Is: "", ast.IsNot: "not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip
