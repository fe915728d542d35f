"""Names that users gave in their code: the variable that a statement binds, and the text of a short lambda."""

from __future__ import annotations

import ast
import inspect
import linecache
from functools import lru_cache
from types import CodeType

from executing import Source

from kstreamnb.core.operator import functions_in
from kstreamnb.source_location import PACKAGE, SourceLocation

_LONGEST = 40


def bound_variable(origin: SourceLocation | None, method: str | None) -> str | None:
    """Return the variable that holds the result of a call.

    Args:
        origin: the line of the call.
        method: the method that was called. Only the last call of a chain creates the variable's value.
    """
    bound = {} if origin is None else _bound_by_calls(tuple(linecache.getlines(origin.file)))
    return None if origin is None else bound.get((origin.line, method))


@lru_cache(maxsize=64)
def _bound_by_calls(lines: tuple[str, ...]) -> dict[tuple[int | None, str | None], str]:
    """Return the variables of assignments by the line and the method of the call that creates their value."""
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError):  # the file changed since it was imported, or holds no Python
        return {}
    names: dict[tuple[int | None, str | None], str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Assign([ast.Name(variable)], ast.Call(ast.Attribute(attr=method, end_lineno=line))):
                names[line, method] = variable
    return names


def short_code(operator: object) -> str | None:
    """Return the expression of an operator's only function if it is a short lambda, or the function's name."""
    functions = [inspect.unwrap(each) for each in functions_in(operator)]
    codes = [each.__code__ for each in functions if not each.__code__.co_filename.startswith(PACKAGE)]
    return _short_text(codes[0]) if len(codes) == 1 else None


@lru_cache(maxsize=2048)
def _short_text(code: CodeType) -> str | None:
    expression = expression_of(code) if code.co_name == "<lambda>" else None
    source = Source.for_filename(code.co_filename).text
    text = " ".join((ast.get_source_segment(source, expression) or "").split()) if expression else code.co_name
    return text if 0 < len(text) <= _LONGEST and text != "<lambda>" else None


@lru_cache(maxsize=2048)
def expression_of(code: CodeType) -> ast.expr | None:
    """Return the expression of a function that consists of a single return; None if its source is not known."""
    for node in ast.walk(Source.for_filename(code.co_filename).tree or ast.Module([], [])):
        if isinstance(node, ast.Lambda) and _is_lambda(node, code):
            return node.body
        if isinstance(node, ast.FunctionDef) and (node.name, _first_line(node)) == (code.co_name, code.co_firstlineno):
            *before, last = node.body
            plain = all(isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) for each in before)
            return last.value if plain and isinstance(last, ast.Return) else None
    return None


def _first_line(node: ast.FunctionDef) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _is_lambda(node: ast.Lambda, code: CodeType) -> bool:
    """Return True if a code object was compiled from this lambda: all its instructions are within the body."""
    names = [arg.arg for arg in (*node.args.posonlyargs, *node.args.args)]
    if code.co_name != "<lambda>" or names != list(code.co_varnames[: code.co_argcount]):
        return False
    marked = ((line, column) for line, _, column, _ in code.co_positions() if line is not None and column is not None)
    positions = {*marked} - {(code.co_firstlineno, 0)}  # RESUME has no position
    body = node.body
    first, last = (body.lineno, body.col_offset), (body.end_lineno or 0, body.end_col_offset or 0)
    return bool(positions) and first <= min(positions) and max(positions) <= last
