"""Finds functions: the user's in declarations, and those that expressions name; compares functions by their code."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType, MethodType

from kstreamnb.dsl.declarations import Declaration

_DEPTH = 5


def functions_of(declaration: Declaration) -> tuple[object, ...]:
    """Return the user's functions and classes in a declaration's arguments, each once, in order."""
    functions = {id(each): each for each in _within(declaration.arguments, _DEPTH) if _is_users(each)}
    return tuple(functions.values())


def file_of(function: object) -> str | None:
    """Return the code file of a function, or of the first method of a class."""
    return next((code.co_filename for code in _codes(function)), None)


def same_code(one: object, other: object) -> bool:
    """Return True if two functions (or classes) have equal code, defaults and closures."""
    if one is other:
        return True
    own, theirs = ([*map(_without_place, _codes(each))] for each in (one, other))
    return own == theirs and _bound(one) == _bound(other)


def same_functions(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    """Return True if two declarations were made with the same functions."""
    return len(one) == len(other) and all(same_code(a, b) for a, b in zip(one, other, strict=True))


def _within(thing: object, depth: int) -> Iterator[object]:
    if isinstance(thing, FunctionType | MethodType | type):
        yield thing
    elif depth and isinstance(thing, Mapping):
        for part in thing.values():
            yield from _within(part, depth - 1)
    elif depth and isinstance(thing, list | tuple):
        for part in thing:
            yield from _within(part, depth - 1)
    elif depth and dataclasses.is_dataclass(thing):
        for field in dataclasses.fields(thing):
            yield from _within(getattr(thing, field.name), depth - 1)
    elif depth and type(thing).__module__ == "__main__":
        yield type(thing)


def _is_users(thing: object) -> bool:
    return getattr(thing, "__module__", None) == "__main__"


def _codes(thing: object) -> Iterator[CodeType]:
    """Yield the code of a function; for a class, that of its methods in definition order."""
    if isinstance(thing, MethodType):
        yield thing.__func__.__code__
    elif isinstance(thing, FunctionType):
        yield thing.__code__
    elif isinstance(thing, type):
        for part in vars(thing).values():
            function = getattr(part, "__func__", getattr(part, "fget", part))
            if isinstance(function, FunctionType) and function.__module__ == thing.__module__:
                yield function.__code__


def _bound(thing: object) -> tuple[object, ...]:
    """Return what a function carries besides its code: defaults and closure values."""
    function = getattr(thing, "__func__", thing)
    if not isinstance(function, FunctionType):
        return ()
    cells = tuple(repr(cell.cell_contents) for cell in function.__closure__ or ())
    return (repr(function.__defaults__), repr(function.__kwdefaults__), cells)


def _without_place(code: CodeType) -> CodeType:
    """Return code that equals that of every function with the same text, wherever and under whichever name."""
    consts = tuple(_without_place(each) if isinstance(each, CodeType) else each for each in code.co_consts)
    placeless = code.replace(co_filename="", co_firstlineno=1, co_linetable=b"", co_name="", co_qualname="")
    return placeless.replace(co_consts=consts)
