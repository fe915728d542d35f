"""Checks of the arguments of public calls: each refuses a value of the wrong type at the user's line."""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from numbers import Integral, Real
from types import UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin

from kstreamnb.data_files import rows_of
from kstreamnb.errors import ConfigError
from kstreamnb.hints import did_you_mean

_MOST_SHOWN = 100

_Test: TypeAlias = Callable[[Any], bool]
_NUMBERS: Mapping[object, tuple[type, type]] = {int: (Integral, bool), float: (Real, bool)}


def expect(value: object, kind: type | UnionType, what: str, *, hint: str | None = None) -> None:
    """Raise ConfigError when an argument is not of a type.

    Args:
        value: the argument.
        kind: a type, or types in a union.
        what: its name for the user, such as "name of a store".
        hint: what to write instead. Default: none.

    Example:
        >>> try:
        ...     expect(5, str, "name of a store")
        ... except ConfigError as error:
        ...     print(error)
        name of a store must be str, got 5
    """
    if not isinstance(value, kind):
        raise ConfigError(f"{what} must be {_words(kind)}, got {_shown(value)}", hint=hint or _hint(value, kind))


def _hint(value: object, kind: object = None) -> str | None:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    kinds = {type(each).__name__ for each in (value, *parts)}
    kinds.add(f"{type(value).__name__} for {getattr(kind, '__name__', '')}")
    if "TopicRecord" in f"{kind}":
        kinds.add("records by topic" if "Mapping" in f"{kind}" and parts else "TopicRecord")
    return next((hint for name, hint in rows_of("kstreamnb", "argument_hints.tsv") if name in kinds), None)


def _shown(value: object) -> str:
    if isinstance(value, list | tuple) and value:
        kinds = dict.fromkeys(type(each).__name__ for each in value[:_MOST_SHOWN])
        return f"a {type(value).__name__} of {' and '.join(kinds)}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return repr(value) if isinstance(value, str | int | float) or value is None else f'type "{type(value).__name__}"'


def expect_number(value: object, what: str, *, hint: str | None = None) -> None:
    """Raise ConfigError, with a hint about what to write instead, if an argument is not a whole number."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigError(f"{what} must be int, got {_shown(value)}", hint=hint or _hint(value))


def at_least(least: int, value: int, what: str) -> None:
    """Raise ConfigError when a number is too small."""
    if value < least:
        raise ConfigError(f"{what} must be at least {least}, got {value}")


def expect_texts(values: object, what: str) -> tuple[str, ...]:
    """Return the texts of an iterable; raise ConfigError for a single text, and for items of other types."""
    if isinstance(values, str):
        raise ConfigError(f"{what} must be a list, got {values!r}", hint=f"write [{values!r}]")
    expect(values, Iterable, what)
    assert isinstance(values, Iterable)
    texts = tuple(values)
    for each in texts:
        expect(each, str, f"each of {what}")
    return texts


def check_arguments(function: Callable[..., object], arguments: Mapping[str, object]) -> None:
    """Raise ConfigError for the first argument that is not of the type in the function's signature.

    A public function calls it first, with ``locals()``. Text is not a list of texts, and a bool is not a number. Items
    of Python's containers are checked, of other iterables the first one, of iterators none: they are not consumed.

    Args:
        function: the function whose annotations are read.
        arguments: values by name; other names are ignored.

    Example:
        >>> def repeat(text: str, times: int | None = None) -> None:
        ...     check_arguments(repeat, locals())
        >>> try:
        ...     repeat("a", "b")
        ... except ConfigError as error:
        ...     print(error)
        times must be int or None, got 'b'
    """
    for name, hint, test in _tests_of(function):
        value = arguments[name]
        if not test(value):
            choices = _choices(hint) if isinstance(value, str) else []
            shown = f'"{value}"' if choices else _shown(value)
            near = did_you_mean(value, choices) or _hint(value, hint)
            raise ConfigError(f"{name} must be {_words(hint)}, got {shown}", hint=near)


class _Unknown:
    """A type that is imported for type checkers only: anything passes for it."""

    __class_getitem__ = classmethod(lambda cls, _: cls)


class _Scope(dict[str, object]):
    def __missing__(self, name: str) -> type:
        return _Unknown


@cache
def _tests_of(function: Callable[..., object]) -> list[tuple[str, object, _Test]]:
    plain = inspect.unwrap(function)
    names = _Scope(vars(builtins) | plain.__globals__)
    hints = {name: eval(text, {}, names) for name, text in plain.__annotations__.items() if name != "return"}
    return [(name, hint, test) for name, hint in hints.items() if (test := _test_of(hint)) is not _anything]


def _anything(value: object) -> bool:
    return True


def _test_of(hint: Any) -> _Test:
    """Return a function that tells whether a value has a type."""
    kind, parts = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, UnionType):
        choices = [_test_of(each) for each in parts]
        return _anything if _anything in choices else lambda value: any(test(value) for test in choices)
    if kind is Literal:
        return lambda value: any(type(value) is type(each) and value == each for each in parts)
    unchecked = getattr(kind, "_is_protocol", False) and not getattr(kind, "_is_runtime_protocol", False)
    if not isinstance(kind, type) or kind in (Any, object, _Unknown) or unchecked:
        return _anything
    if kind is tuple and parts and ... not in parts:
        return lambda value: isinstance(value, tuple) and len(value) == len(parts)
    accepted, refused = _NUMBERS.get(kind, (kind, ()))
    if parts and (kind in (Mapping, Iterable, Collection, Sequence, list) or ... in parts):
        of_items = _of_items([_test_of(each) for each in parts if each is not ...])
        return lambda value: isinstance(value, accepted) and not isinstance(value, str | bytes) and of_items(value)
    return lambda value: isinstance(value, accepted) and not isinstance(value, refused)


def _of_items(tests: list[_Test]) -> _Test:
    if len(tests) == 2:  # of a mapping
        of_key, of_value = tests
        return lambda value: all(of_key(key) and of_value(item) for key, item in value.items())
    return lambda value: (
        isinstance(value, Iterator)
        or all(map(tests[0], value if isinstance(value, list | tuple | set | frozenset) else islice(value, 1)))
    )


def _choices(hint: Any) -> list[str]:
    """Return the texts of all choices in a hint."""
    parts = get_args(hint)
    return [each for each in parts if isinstance(each, str)] or [text for each in parts for text in _choices(each)]


def _words(hint: Any) -> str:
    """Return the names of the types in a hint."""
    kind, parts = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(_words, parts)))
    if kind is Literal:
        return " or ".join(f'"{each}"' if isinstance(each, str) else repr(each) for each in parts)
    of = f" of {_words(parts[-1])}" if parts and kind in (Iterable, Collection, Sequence, list) else ""
    return "None" if kind is type(None) else getattr(kind, "__name__", "anything") + of
