"""Checks the signatures of users' functions when they are passed, not when a record arrives."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dis import get_instructions, hasconst, hasname
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar

from kstreamnb.core.arguments import expect
from kstreamnb.errors import ConfigError, SerdeError

F = TypeVar("F")

RECORD, REDUCE = ("key", "value"), ("aggregate", "value")
FOLD, MERGE = ("key", "value", "aggregate"), ("key", "left", "right")
_MOST_SHOWN = 30
_METHODS = ("apply", "handle", "extract", "partitions", "partition", "test", "punctuate", "serialize", "deserialize")
_READ = re.compile(r"LOAD_FAST(_BORROW)? (DICT_UPDATE|DICT_MERGE|LOAD_(CONST|SMALL_INT) BINARY_(SUBSCR|OP)\b)")
"""Instructions of Python 3.11 to 3.14 for ``**name`` and ``name[constant]``; other operators fail for dicts."""
_FRAMES = frozenset({"locals", "vars", "dir", "eval", "exec"})  # they see arguments that the code does not name


def taking(
    function: F, *arguments: str, key: bool = False, many: bool = False, hint: str | None = None, what: str = "function"
) -> F:
    """Return a user's function if it can be called with these arguments, preceded by the key if there is a ``key``.

    Functions whose signature is unknown, such as those written in C, are accepted. A function of ``many`` results may
    be a generator function; ``what`` names it in errors.

    Raises: ConfigError if it is not a function, takes other arguments, or would not run when it is called.

    Example:
        >>> try:
        ...     taking(lambda value: value > 2, *RECORD)
        ... except ConfigError as error:
        ...     print(error)
        expected a function taking (key, value), but this one takes (value)
    """
    expect(key, bool, "with_key")
    arguments = ("key", *arguments) if key else arguments
    hint = method_hint(function) or hint
    wanted = f"expected a {what} taking ({', '.join(arguments)})"
    start = f"write it as {' '.join(('lambda', ', '.join(arguments))).strip()}: "
    if not callable(function):
        hint = hint or start + _result(function, arguments)
        raise ConfigError(f'{wanted}, got type "{type(function).__name__}"', hint=hint)
    check_runs(function, many=many)
    try:
        # Their second argument, an encoding or a base, is never a record's; float takes one, and has a signature.
        signature = inspect.signature(float if function in (str, bytes, int) else function, follow_wrapped=False)
    except (TypeError, ValueError):
        return function
    try:
        if function is sum and len(arguments) > 1:  # its second argument is a start
            raise TypeError
        signature.bind(*arguments)
    except TypeError:
        takes = inspect.Signature([each.replace(annotation=each.empty) for each in signature.parameters.values()])
        keyed = arguments == ("value",) and len(takes.parameters) == 2
        hint = hint or ("with_key=True gives it the key as well" if keyed else f"{start}…")
        if arguments[:1] == ("self",):
            raise _other_method(function, takes, arguments[1:]) from None
        raise ConfigError(f"{wanted}, but this one takes {takes}", hint=hint) from None
    return function


def _result(given: object, arguments: tuple[str, ...]) -> str:
    """Return what a function probably has to return if this was given instead of it: the value, or its field."""
    if isinstance(given, str) and arguments in (RECORD, ("value",)):
        return f'value["{given}"]' if given.isidentifier() else "…"
    shown = repr(given) if not arguments and isinstance(given, int | float | list | dict) else ""
    return shown if 0 < len(shown) <= _MOST_SHOWN else "…"


def method_hint(value: object) -> str | None:
    """Return how to pass a class, or its instance, that implements an interface of Java; None for other values.

    Example:
        >>> class Total:
        ...     def apply(self, key, value, total):
        ...         return total + value
        >>> method_hint(Total())
        'pass its method: Total(…).apply'
    """
    kind = value if isinstance(value, type) else type(value)
    methods = () if hasattr(kind, "serialize") and hasattr(kind, "deserialize") else _METHODS  # a serde is not meant
    # Text, bytes and arrays have a method "partition", too, which is not written in Python.
    name = next((each for each in methods if inspect.isfunction(getattr(kind, each, None))), None)
    owner = "self" if name == "punctuate" and hasattr(kind, "process") else f"{kind.__name__}(…)"
    return name and f"pass its method: {owner}.{name}"


def check_runs(function: object, *, many: bool = False) -> None:
    """Raise ConfigError for a function whose call only makes a coroutine or a generator, which nobody would run.

    Args:
        function: a function, or an object with ``__call__``.
        many: accept generator functions.
    """
    for each in (function, getattr(type(function), "__call__", None)):  # noqa: B004 - of an object, not whether it has one
        if inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each):
            kind, hint = "an async function", "write def instead of async def, and call nothing with await"
        elif inspect.isgeneratorfunction(each) and not many:
            kind, hint = "a generator function", "write return instead of yield, or take flat_map or flat_map_values"
            hint = "call self.context.forward(record) instead of yield" if name_of(each).endswith(".process") else hint
        else:
            continue
        fact = f'expected a plain function, got {kind}, "{name_of(function)}"'
        raise ConfigError(fact, detail="a call does not run it", hint=hint)


def adopt_serde(kind: Any) -> None:
    """Check the methods of a user's class of serdes, name it, and make errors of ``serialize`` those of serdes.

    Raises: ConfigError for the methods of Java's serdes.
    """
    for name, argument in (("serialize", "value"), ("deserialize", "data")):
        if isinstance(vars(kind).get(f"{name}r"), FunctionType) and name not in vars(kind):
            raise ConfigError(f"nothing calls {kind.__name__}.{name}r()", hint=f"write {name}(self, {argument})")
        if isinstance(method := vars(kind).get(name), FunctionType):  # not a static or class method
            taking(method, "self", argument)  # Java's has the topic as well
            if name == "serialize":
                kind.serialize = _guarded(method)
    if not hasattr(kind, "name") and "name" not in vars(kind).get("__annotations__", ()):
        kind.name = kind.__name__


def _guarded(serialize: Callable[[Any, object], Any]) -> Callable[[Any, object], bytes | None]:
    @wraps(serialize)
    def guarded(serde: Any, value: object) -> bytes | None:
        try:
            # A TypeError for other types than bytes, such as text.
            return None if (data := serialize(serde, value)) is None else b"".join((data,))
        except SerdeError:
            raise
        except Exception as error:
            raise serde._unwritable(value, f"{type(error).__name__}: {error}") from error  # noqa: SLF001

    return guarded


def only_reads(function: object, at: int) -> bool:
    """Return whether a user's function only reads its argument at an index, as ``**value`` or ``value[constant]``.

    Such a function can neither change the argument nor return it, if it is a dict of immutable values.

    Example:
        >>> only_reads(lambda key, value: value["n"] + 1, 1), only_reads(lambda key, value: (key, value), 1)
        (True, False)
    """
    code = function.__code__ if isinstance(function, FunctionType) else None
    if code is None or code.co_argcount <= at or _FRAMES.intersection(code.co_names):
        return False
    steps, name = list(get_instructions(code)), code.co_varnames[at]
    uses = [n for n, step in enumerate(steps) if step.opcode not in (*hasconst, *hasname) and name in step.argrepr]
    return all(_READ.match(" ".join(step.opname for step in steps[n : n + 3])) for n in uses)


def name_of(function: object) -> str:
    """Return the name of a function, or that of an object's class, for errors."""
    return str(getattr(function, "__qualname__", type(function).__name__)).rpartition("<locals>.")[2]


def _other_method(method: Any, takes: inspect.Signature, arguments: tuple[str, ...]) -> ConfigError:
    """Return the error about a method of a class, which is called with other arguments."""
    wanted = ", ".join(arguments)
    bound = takes.replace(parameters=list(takes.parameters.values())[1:])
    fact = f"{name_of(method)} takes {bound}, expected ({wanted})"
    return ConfigError(fact, hint=f"write it as def {method.__name__}(self, {wanted}):")
