"""Completes ``%ks``, and names of the package and its objects: of streams, tables and builders, usual operators first.

Completing runs no code of the user's, declares nothing, and imports only what the text before the last dot names: Jedi
would load every public name, Spark among them, which takes longer than JupyterLab waits.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher

from kstreamnb.dsl.builder import StreamsBuilder
from kstreamnb.dsl.declarations import Handle
from kstreamnb.notebook.handle_display import NEXT
from kstreamnb.notebook.magics import following
from kstreamnb.tools.python_notes import value_of

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

COMPLETION = "kstreamnb.operators_first"
"""The id of the matcher."""
_BEGUN = re.compile(r"\.(?P<begun>\w*)$")
_MAGIC = re.compile(r"%%?ks ")
_START = re.compile(r"(?<![\w.])[^\W\d]\w*(?=\s*\.)")
_DSL = "kstreamnb.dsl."
_OPERATORS = (Handle, StreamsBuilder)
_OTHERS = {"IPCompleter.jedi_matcher", "IPCompleter.python_matcher"}
"""Matchers of IPython that list attributes by name, and would come first."""


def operators_first(kind: type[Handle | StreamsBuilder]) -> list[str]:
    """Return the public attributes of handles or builders: the usual next ones, the other operators, the rest.

    Example:
        >>> names = operators_first(type(StreamsBuilder().stream("orders")))
        >>> names[:6], names[-1]
        (['filter', 'map_values', 'group_by_key', 'join', 'to', 'filter_not'], 'upstream')
    """
    public = [name for name in dir(kind) if not name.startswith("_")]
    usual = NEXT[kind.kind if issubclass(kind, Handle) else "builder"].split(", ")
    declaring = [each for each in kind.__mro__ if each.__module__.startswith(_DSL) and each is not Handle]
    own = [name for name in public if any(callable(vars(each).get(name)) for each in declaring)]
    return [name for name in dict.fromkeys([*usual, *own, *public]) if name in public]


def matcher_of(shell: InteractiveShell) -> Callable[[CompletionContext], SimpleMatcherResult]:
    """Return the matcher for ``IPCompleter.custom_matchers``."""

    @context_matcher(identifier=COMPLETION)
    def match(context: CompletionContext) -> SimpleMatcherResult:
        line = context.text_until_cursor
        if _MAGIC.match(line) and (names := following(line, shell.user_ns)):
            completions, begun = [*map(SimpleCompletion, names)], line.rpartition(" ")[2]
            return SimpleMatcherResult(completions=completions, matched_fragment=begun, ordered=True, suppress=True)
        call = _BEGUN.search(line)
        owner = None if call is None else _value_before(line[: call.start() + 1], shell.user_ns)
        if call is None or owner is None:
            return SimpleMatcherResult(completions=[])
        begun = call["begun"]
        names = [name for name in _public(owner) if name.startswith(begun)]
        completions = [SimpleCompletion(name, type=_type(owner, name)) for name in names]
        others = _OTHERS if names else False
        return SimpleMatcherResult(completions=completions, matched_fragment=begun, ordered=True, suppress=others)

    return match


def _value_before(text: str, names: Mapping[str, Any]) -> object:
    """Return what ends with the last dot of a text, if it is the kit's; otherwise None.

    Nothing is called, because a call would declare an operation: of the result, only the class of a handle or builder
    is known, by annotation.
    """
    for start in _START.finditer(text):
        try:
            expression = ast.parse(text[start.start() : -1].strip(), mode="eval").body
        except (SyntaxError, ValueError):  # the text has an open bracket: try the next name
            continue
        value = value_of(expression, names)
        kind = _kind(value)
        known = isinstance(value, ModuleType) or issubclass(kind, _OPERATORS) or not isinstance(expression, ast.Call)
        home = value.__name__ if isinstance(value, ModuleType) else kind.__module__
        return value if known and home.partition(".")[0] == "kstreamnb" else None
    return None


def _kind(owner: object) -> type:
    return owner if isinstance(owner, type) else type(owner)


def _public(owner: object) -> list[str]:
    """Return the public names of a module, class or value."""
    if issubclass(kind := _kind(owner), _OPERATORS):
        return operators_first(kind)
    return [name for name in dir(owner) if not name.startswith("_")]


def _type(owner: object, name: str) -> str:
    """Return what JupyterLab shows beside a name; of a package by its spelling, because looking would import it."""
    if isinstance(owner, ModuleType):
        return "class" if name[0].isupper() else "function"
    return "function" if callable(getattr(_kind(owner), name, None)) else "instance"
