"""Checks the names of topics, stores, nodes and applications by Kafka's rules."""

from __future__ import annotations

import re

from kstreamnb.core.signatures import method_hint
from kstreamnb.errors import KStreamError, TopologyError

_LONGEST_NAME = 249
_DASH = re.compile("[\u2010-\u2015\u2212]")
LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")


def check_text(name: object, kind: str = "name") -> str:
    """Return a name if it is a string: all that Kafka Streams asks of branches and of the stores of a processor.

    Args:
        name: the name to check.
        kind: the kind of thing, for errors. Default: "name".

    Raises: TopologyError when it is not text.

    Example:
        >>> check_text("large orders")
        'large orders'
    """
    if isinstance(name, str):
        return name
    hint = method_hint(name) if hasattr(name, "extract") else None  # a TopicNameExtractor of Java
    hint = "pass the names as separate arguments" if isinstance(name, list | tuple) else hint or 'name it: "orders"'
    raise TopologyError(f'{kind} must be a string, got type "{type(name).__name__}"', hint=hint)


def check_resource_name(name: object, kind: str = "name", *, error: type[KStreamError] = TopologyError) -> str:
    """Return a name if topics, stores and nodes may have it.

    Args:
        name: the name to check.
        kind: the kind of thing, for errors. Default: "name".
        error: the class of the error. Default: `TopologyError`.

    Raises: TopologyError when it is not text; ``error`` when it is empty, too long, "." or "..", or has other
        characters than letters, digits, ".", "_" and "-".

    Example:
        >>> check_resource_name("orders-2026")
        'orders-2026'
    """
    hint, name = None, check_text(name, kind)
    if not name:
        message, java = f"{kind} must not be empty", "Name is illegal, it can't be empty"
    elif name in (".", ".."):
        message, java = f'{kind} "{name}" is not allowed', 'Name cannot be "." or ".."'
    elif len(name) > _LONGEST_NAME:
        message = f"{kind} has {len(name)} characters, more than {_LONGEST_NAME}"
        java = f"Name is illegal, it can't be longer than {_LONGEST_NAME} characters, name: {name}"
    elif not LEGAL_NAME.fullmatch(name):
        message = f'{kind} "{name}" has a character other than letters, digits, ".", "_" and "-"'
        java = f"Name \"{name}\" is illegal, it contains a character other than ASCII alphanumerics, '.', '_' and '-'"
        illegal = "".join(dict.fromkeys(LEGAL_NAME.sub("", name)))
        hint = f"remove {illegal!a}"
    else:
        return name
    raise error(message, hint=hint, java=f"Invalid topology: {java}" if error is TopologyError else None)


def check_topic_name(name: object, kind: str = "topic name") -> str:
    """Return the name of a topic that a topology reads or writes, or of an application.

    Kafka Streams leaves legality to the broker, and so do declarations here. Only dashes that look like a hyphen, which
    editors and web pages substitute, are refused: the broker's error about them would be incomprehensible.

    Args:
        name: the name to check.
        kind: the kind of name, for errors. Default: "topic name".

    Raises: TopologyError when it is not text or has a typographic dash.

    Example:
        >>> check_topic_name("orders-2026")
        'orders-2026'
    """
    name = check_text(name, kind)
    if dash := _DASH.search(name):
        raise TopologyError(f'{kind} "{name}" contains the dash {dash[0]!a}', hint='use "-"')
    return name
