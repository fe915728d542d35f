"""Notes for Python's own errors about calls of the kit: a hint, or the signature, missing arguments and an example."""

from __future__ import annotations

import ast
import contextlib
import inspect
import linecache
import re
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import shorten
from types import TracebackType

import kstreamnb as ks
from kstreamnb.dsl.keywords import documented_arguments
from kstreamnb.hints import did_you_mean, for_python
from kstreamnb.source_location import LIBRARIES, PACKAGE


def python_notes(error: BaseException, trace: TracebackType | None) -> list[str]:
    """Return the notes for an error of Python's own; none if it is not about a call of the kit.

    A call in Java's shape, such as ``record.headers.add``, gets the hint that the kit's own errors have.
    """
    users = up_to_user(trace)
    line = ["", *(frame.line or "" for frame in traceback.extract_tb(users))][-1]
    hint = for_python(error, line, dir(ks))
    return [f"Hint: {hint}"] if hint else [*_call_notes(users)] if isinstance(error, TypeError) else []


def up_to_user(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback that ends with the user's last frame, if a frame of the kit follows it."""
    entries, entry = [], trace
    while entry is not None:
        entries.append(entry)
        entry = entry.tb_next
    files = [each.tb_frame.f_code.co_filename for each in entries]
    last = max((at for at, file in enumerate(files) if not file.startswith((PACKAGE, *LIBRARIES))), default=-1)
    inner = files[last + 1 :]
    # contextlib wraps calls that need an extra; it is the last frame if their arguments do not fit.
    first = next((file for file in inner if file != contextlib.__file__), PACKAGE)
    if last < 0 or not inner or not first.startswith(PACKAGE):
        return trace
    users: TracebackType | None = None
    for each in reversed(entries[: last + 1]):
        users = TracebackType(users, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return users


def _call_notes(trace: TracebackType | None) -> Iterator[str]:
    """Yield notes for a trace that ends with a call of the kit that does not fit the signature."""
    while trace is not None and (inner := trace.tb_next) and inner.tb_frame.f_code.co_filename != contextlib.__file__:
        trace = inner
    call = None if trace is None else _call_at(inspect.getframeinfo(trace))
    if trace is None or call is None:
        return
    names = {**trace.tb_frame.f_globals, **trace.tb_frame.f_locals}
    called = value_of(call.func, names)
    if not callable(called) or not str(called.__module__).startswith("kstreamnb"):
        return
    given = [part for each in (*call.args, *call.keywords) for part in _elements(each, names)]
    call.args = [each for each in given if isinstance(each, ast.expr)]
    call.keywords = [each for each in given if isinstance(each, ast.keyword)]
    if any(isinstance(each, ast.Starred) for each in call.args) or None in (each.arg for each in call.keywords):
        return  # only a call would tell the elements
    every = inspect.signature(called).parameters.values()
    signature = inspect.Signature([each.replace(annotation=each.empty) for each in every if each.name != "self"])
    try:
        signature.bind(*call.args, **{str(each.arg): each for each in call.keywords})
    except TypeError:
        if isinstance(called, type) and hasattr(called, "of"):  # windows: it takes durations, the class milliseconds
            yield f"Hint: write {ast.unparse(call.func)}.of(…)"
            return (yield from _example(f"{ast.unparse(call.func)}.of", inspect.getdoc(called) or ""))
        owner = getattr(called, "__self__", None)
        about = called, owner if isinstance(owner, type) else type(owner)
        yield from _fitting(call, signature.parameters, "\n\n".join(inspect.getdoc(each) or "" for each in about))


def _elements(argument: ast.AST, names: Mapping[str, object]) -> Iterable[ast.AST]:
    """Return what an argument passes: the elements of ``*args`` and ``**options``, if they are known."""
    match argument:
        case ast.Starred(ast.List(elements) | ast.Tuple(elements)):
            return elements
        case ast.Starred(whole) if isinstance(known := value_of(whole, names), Sequence):
            return [ast.Subscript(whole, ast.Constant(at)) for at in range(len(known))]
        case ast.keyword(None, whole) if isinstance(known := value_of(whole, names), Mapping):
            return [ast.keyword(str(name), whole) for name in known]
    return [argument]


def _call_at(frame: inspect.Traceback) -> ast.Call | None:
    """Return the call that a frame executes; its start would not distinguish it from the other calls of a chain."""
    end = frame.positions and (frame.positions.end_lineno, frame.positions.end_col_offset)
    tree = ast.parse("".join(linecache.getlines(frame.filename)))
    calls = (each for each in ast.walk(tree) if isinstance(each, ast.Call))
    return next((each for each in calls if (each.end_lineno, each.end_col_offset) == end), None)


def _fitting(call: ast.Call, parameters: Mapping[str, inspect.Parameter], doc: str) -> Iterator[str]:
    """Yield the signature, the missing arguments, the next action and an example for a call that does not fit."""
    function = ast.unparse(call.func)
    function = re.sub(r".*\W", "", function) if "(" in function else function
    shown = sorted(parameters.values(), key=lambda each: (each.kind, each.default is not each.empty))
    yield f"Signature: {shorten(f'{function}{inspect.Signature(shown)}', 110, placeholder=' …)')}"
    positional = [each.name for each in shown if each.kind < each.VAR_POSITIONAL]
    by_name = [each.name for each in shown if each.kind == each.KEYWORD_ONLY]
    given = [*positional[: len(call.args)], *(str(each.arg) for each in call.keywords)]
    needed = [each.name for each in shown if each.name in {*positional, *by_name} and each.default is each.empty]
    missing = [name for name in needed if name not in given]
    texts = documented_arguments(doc)
    yield from (f"{name}: {' '.join(texts[name].replace('`', '').split())}" for name in missing if name in texts)
    hints = [_by_name(ast.unparse(each), by_name) for each in call.args[len(positional) :]]
    meant = [did_you_mean(name, parameters) or f"leave out {name}=…" for name in given if name not in parameters]
    absent = [f"{name}=…" for name in missing if f'did you mean "{name}"?' not in meant]
    hints += [f"add {', '.join(absent)}"] if absent else []
    hints += meant
    yield f"Hint: {'; '.join(hints)}"
    yield from _example(function, doc)


def _by_name(argument: str, names: Sequence[str]) -> str:
    """Return the hint for a positional argument beyond the last parameter that takes one."""
    if argument in names:
        return f"write {argument}={argument}"
    known = ", ".join(f"{name}=…" for name in names[:3])
    return f"pass {argument} by name: {known}" if names else f"leave out {argument}"


def _example(function: str, doc: str) -> Iterator[str]:
    """Yield the first call of a function in the examples of its docstring, as the user calls it."""
    name = function.rpartition(".")[2]
    from doctest import DocTestParser  # it imports the debugger, which takes a tenth of the extension's time

    for example in DocTestParser().get_examples(doc):
        for node in ast.walk(ast.parse(example.source)):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == name:
                text = ast.get_source_segment(example.source, node) or ""
                begin = ast.get_source_segment(example.source, node.func) or ""
                return (yield f"Example: {function if '.' in function else begin}{text.removeprefix(begin)}")


def value_of(expression: ast.expr, names: Mapping[str, object]) -> object:
    """Return the value of a name or attribute; for a call, the class of its result by annotation; otherwise None.

    Nothing is called, because a call would declare an operation; nor is a property of a class of the user's.
    """
    match expression:
        case ast.Name(name):
            return names.get(name)
        case ast.Attribute(of, name):
            owner = value_of(of, names)
            is_computed = isinstance(inspect.getattr_static(type(owner), name, None), property)
            is_ours = type(owner).__module__.startswith("kstreamnb")
            return getattr(owner, name, None) if is_ours or not is_computed else None
        case ast.Call(function):
            called = value_of(function, names)
            if not inspect.isroutine(called):
                return called if isinstance(called, type) else None
            result = str(inspect.signature(called).return_annotation).partition("[")[0]
            if result == "Self" and isinstance(function, ast.Attribute):
                owned = value_of(function.value, names)
                return owned if isinstance(owned, type) else type(owned)
            return getattr(ks, result) if result in dir(ks) else None
    return None
