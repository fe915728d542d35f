"""The keywords that methods of the DSL accept instead of option objects, and how both are combined."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeAlias, TypedDict, TypeVar

import attrs

from kstreamnb.core.codec import StreamPartitioner
from kstreamnb.core.serde import Serde
from kstreamnb.core.stores import StoreSpec
from kstreamnb.core.time import Duration
from kstreamnb.dsl.option_fields import ExtractorLike, Named, Options, StoreType, check_known
from kstreamnb.dsl.options import Materialized
from kstreamnb.dsl.type_vars import SK, SV
from kstreamnb.errors import ConfigError

F = TypeVar("F", bound=Callable[..., object])
Chosen = TypeVar("Chosen", bound=Options)

TableOption: TypeAlias = Named | Materialized
"""An option object that may follow the arguments, as in Java."""


class GroupedKeywords(TypedDict, Generic[SK, SV], total=False):
    """Keywords of `Grouped`."""

    key_serde: Serde[SK] | str | None
    value_serde: Serde[SV] | str | None
    name: str | None


class ConsumedKeywords(GroupedKeywords[SK, SV], Generic[SK, SV], total=False):
    """Keywords of `Consumed`."""

    timestamp_extractor: ExtractorLike | None
    offset_reset: str | None


class ProducedKeywords(GroupedKeywords, total=False):
    """Keywords of `Produced`."""

    partitioner: StreamPartitioner | None


class RepartitionedKeywords(ProducedKeywords, total=False):
    """Keywords of `Repartitioned`."""

    partitions: int | None


class MaterializedKeywords(TypedDict, Generic[SK, SV], total=False):
    """Keywords of every method whose result can be stored: the operator's name, and the fields of `Materialized`."""

    name: str | None
    store: str | StoreSpec | None
    materialized: Materialized | None
    key_serde: Serde[SK] | str | None
    value_serde: Serde[SV] | str | None
    retention: Duration | None
    cached: bool | None
    logged: bool | None
    store_type: StoreType | None
    versioned: Duration | None


class TableSourceKeywords(MaterializedKeywords[SK, SV], Generic[SK, SV], total=False):
    """Keywords of a table that is read from a topic: those of `Consumed` and of `Materialized`."""

    timestamp_extractor: ExtractorLike | None
    offset_reset: str | None


_SHARED = {
    "name": "name of the operator's node in the topology. Default: a generated name.",
    "materialized": "an option object with the settings of the store; keywords win. Default: none.",
}
_ENTRY = re.compile(r"^    (\w+): (.*(?:\n     +\S.*)*)", re.MULTILINE)

_LATER_LINE, _INDENT = re.compile(r"\n +"), "\n" + " " * 8


def documented_arguments(doc: str | None) -> dict[str, str]:
    """Return the entries of the section "Args" of a docstring by name."""
    section = re.search(r"^Args:\n((?:    .*\n?)+)", inspect.cleandoc(doc or ""), re.MULTILINE)
    return dict(_ENTRY.findall(section[1])) if section else {}


def spelled_out(*options: type[Options]) -> Callable[[F], F]:
    """Show and document one by one the keywords that a method takes as ``**keywords: Unpack[…]``.

    A type checker reads the keywords from the TypedDict. At run time, ``inspect.signature`` and ``help`` get them, with
    their descriptions from the docstrings of the option classes.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        *arguments, rest = signature.parameters.values()
        kind = rest.annotation.removeprefix("Unpack[").rstrip("]").partition("[")[0]
        types = function.__globals__[kind].__annotations__
        keywords = [name for name in types if name not in signature.parameters]
        shown = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in keywords]
        function.__signature__ = signature.replace(parameters=[*arguments, *shown])  # type: ignore[attr-defined]
        texts = dict(_SHARED)
        for each in options:
            texts |= documented_arguments(each.__doc__)
        if function.__doc__:  # python -OO has none
            known = [name for name in keywords if name in texts]
            entries = [f"    {name}: {_LATER_LINE.sub(_INDENT, texts[name])}\n" for name in known]
            before, after = inspect.cleandoc(function.__doc__).split("\nArgs:\n", 1)  # Python 3.13 cleans it itself
            section, gap, following = after.partition("\n\n")
            function.__doc__ = f"{before}\nArgs:\n{section}\n{''.join(entries)}{gap[1:]}{following}"
        return function

    return decorate


def combined(kind: type[Chosen], options: Chosen | None, **keywords: object) -> Chosen:
    """Return ``options``, or new ones of that kind, with the keywords that are not None put in.

    Raises: ConfigError when ``options`` have a different kind, or a keyword is not one of their fields.
    """
    if options is not None and not isinstance(options, kind):
        fact = f'expected {kind.__name__} options, got type "{type(options).__name__}"'
        known = ", ".join(each.name for each in attrs.fields(kind))
        raise ConfigError(fact, hint=f"write {kind.__name__}(…), or give keywords: {known}")
    base = kind() if options is None else options
    check_known(kind, keywords)
    return base.changed(**{name: value for name, value in keywords.items() if value is not None})


def by_keyword(options: Iterable[object], keywords: Mapping[str, object], **kinds: type) -> dict[str, Any]:
    """Return the keywords, and the option objects that follow the arguments as in Java, each under its keyword.

    Args:
        options: the objects that follow the arguments.
        keywords: the user's keywords; those that are None are left out.
        kinds: the keyword of each kind of object. Default: a name and a `Materialized`.

    Raises: ConfigError for an object of a different kind, or one that is also given as a keyword.
    """
    kinds = kinds or {"materialized": Materialized, "name": Named}
    merged: dict[str, Any] = {name: value for name, value in keywords.items() if value is not None}
    for option in options:
        name = next((name for name, kind in kinds.items() if isinstance(option, kind)), None)
        if name is None:
            expected = " or ".join(kind.__name__ for kind in kinds.values())
            fact = f'expected {expected} options, got type "{type(option).__name__}"'
            raise ConfigError(fact, hint='pass the name of a store as store="…", that of an operator as name="…"')
        if name in merged:
            raise ConfigError(f"{name} was passed twice", hint="remove one of them")
        merged[name] = option
    return merged
