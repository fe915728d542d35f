"""Completes attributes of streams, tables and builders: operators first, the usual next ones before all others."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher

from kstreamnb.dsl.builder import StreamsBuilder
from kstreamnb.dsl.declarations import Handle
from kstreamnb.notebook.handle_display import NEXT

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

COMPLETION = "kstreamnb.operators_first"
"""The id of the matcher."""
_ATTRIBUTE = re.compile(r"(?:^|[^\w.])(?P<variable>[^\W\d]\w*)\.(?P<begun>\w*)$")
_DSL = "kstreamnb.dsl."
_FIRST = {"builder": "stream, table, global_table, build, sample"}
_OTHERS = {"IPCompleter.jedi_matcher", "IPCompleter.python_matcher"}
"""Matchers of IPython that list attributes by name, and would come first."""


def operators_first(thing: Handle | StreamsBuilder) -> list[str]:
    """Return the public attributes of a handle or builder: the usual next ones, its other operators, the rest.

    Example:
        >>> names = operators_first(StreamsBuilder().stream("orders"))
        >>> names[:6], names[-1]
        (['filter', 'map_values', 'group_by_key', 'join', 'to', 'filter_not'], 'upstream')
    """
    public = [name for name in dir(thing) if not name.startswith("_")]
    kind = thing.kind if isinstance(thing, Handle) else "builder"
    usual = {**NEXT, **_FIRST}[kind].split(", ")
    declaring = [each for each in type(thing).__mro__ if each.__module__.startswith(_DSL) and each is not Handle]
    own = [name for name in public if any(callable(vars(each).get(name)) for each in declaring)]
    return [name for name in dict.fromkeys([*usual, *own, *public]) if name in public]


def matcher_of(shell: InteractiveShell) -> Callable[[CompletionContext], SimpleMatcherResult]:
    """Return the matcher for ``IPCompleter.custom_matchers``."""

    @context_matcher(identifier=COMPLETION)
    def match(context: CompletionContext) -> SimpleMatcherResult:
        found = _ATTRIBUTE.search(context.text_until_cursor)
        thing: Any = None if found is None else shell.user_ns.get(found["variable"])
        if found is None or not isinstance(thing, Handle | StreamsBuilder):
            return SimpleMatcherResult(completions=[])
        begun = found["begun"]
        names = [name for name in operators_first(thing) if name.startswith(begun)]
        completions = [SimpleCompletion(name, type=_type(thing, name)) for name in names]
        return SimpleMatcherResult(
            completions=completions, matched_fragment=begun, ordered=True, suppress=_OTHERS if names else False
        )

    return match


def _type(thing: object, name: str) -> str:
    return "function" if callable(getattr(type(thing), name, None)) else "instance"
