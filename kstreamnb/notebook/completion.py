"""Completes ``%ks``, and attributes of streams, tables and builders: operators first, usual next ones before others."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher

from kstreamnb.dsl.builder import StreamsBuilder
from kstreamnb.dsl.declarations import Handle
from kstreamnb.notebook.functions import value_of
from kstreamnb.notebook.handle_display import NEXT
from kstreamnb.notebook.magics import following

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

COMPLETION = "kstreamnb.operators_first"
"""The id of the matcher."""
_BEGUN = re.compile(r"\.(?P<begun>\w*)$")
_MAGIC = re.compile(r"%%?ks ")
_START = re.compile(r"(?<![\w.])[^\W\d]\w*(?=\s*\.)")
_DSL = "kstreamnb.dsl."
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
        kind = None if call is None else _kind_before(line[: call.start() + 1], shell.user_ns)
        if call is None or kind is None:
            return SimpleMatcherResult(completions=[])
        begun = call["begun"]
        names = [name for name in operators_first(kind) if name.startswith(begun)]
        completions = [SimpleCompletion(name, type=_type(kind, name)) for name in names]
        return SimpleMatcherResult(
            completions=completions, matched_fragment=begun, ordered=True, suppress=_OTHERS if names else False
        )

    return match


def _kind_before(text: str, names: Mapping[str, Any]) -> type[Handle | StreamsBuilder] | None:
    """Return the class of the expression that ends with the last dot of a text; None if it is not a handle or builder.

    Nothing is called, because a call would declare an operation: the classes of results follow from annotations.
    """
    for start in _START.finditer(text):
        try:
            expression = ast.parse(text[start.start() : -1].strip(), mode="eval").body
        except (SyntaxError, ValueError):  # the text has an open bracket: try the next name
            continue
        value = value_of(expression, names)
        kind = value if isinstance(value, type) else type(value)
        return kind if issubclass(kind, Handle | StreamsBuilder) else None
    return None


def _type(kind: type, name: str) -> str:
    return "function" if callable(getattr(kind, name, None)) else "instance"
