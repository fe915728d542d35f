"""`Serdes`: every built-in serde under the name that Java gives it, in snake_case, and by its own name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

from kstreamnb.core.durations import duration_ms
from kstreamnb.core.serde import FunctionSerde, Serde
from kstreamnb.core.serdes_json import JsonSerde
from kstreamnb.core.serdes_nested import ListSerde, SessionWindowedSerde, TimeWindowedSerde
from kstreamnb.core.serdes_scalar import SCALARS
from kstreamnb.errors import ConfigError

_NAMED: dict[str, Serde] = {serde.name: serde for serde in (*SCALARS, JsonSerde())}
_ALIASES = {"str": "string", "int": "integer", "bool": "boolean", "byte_array": "bytes", "byte_buffer": "bytes"}


class Serdes:
    """The built-in serdes, and ways to make one's own.

    Example:
        >>> Serdes.long().serialize(258).hex()
        '0000000000000102'
        >>> Serdes.list_serde(Serdes.string()).name
        'list<string>'
    """

    @staticmethod
    def string() -> Serde:
        """Text as UTF-8; the default for keys."""
        return _NAMED["string"]

    @staticmethod
    def json(*, sort_keys: bool = False) -> Serde:
        """JSON as compact UTF-8; the default for values. As a key it needs sorted names."""
        return JsonSerde(sort_keys=sort_keys)

    @staticmethod
    def long() -> Serde:
        """Whole numbers of 64 bits."""
        return _NAMED["long"]

    @staticmethod
    def integer() -> Serde:
        """Whole numbers of 32 bits."""
        return _NAMED["integer"]

    @staticmethod
    def short() -> Serde:
        """Whole numbers of 16 bits."""
        return _NAMED["short"]

    @staticmethod
    def float() -> Serde:
        """Numbers of single precision; Python's float is `double`."""
        return _NAMED["float"]

    @staticmethod
    def double() -> Serde:
        """Numbers of double precision, as Python's float."""
        return _NAMED["double"]

    @staticmethod
    def boolean() -> Serde:
        """True and False."""
        return _NAMED["boolean"]

    @staticmethod
    def uuid() -> Serde:
        """UUIDs, as their text."""
        return _NAMED["uuid"]

    @staticmethod
    def bytes() -> Serde:
        """Bytes as they are."""
        return _NAMED["bytes"]

    byte_array = bytes
    byte_buffer = bytes

    @staticmethod
    def void() -> Serde:
        """Only None."""
        return _NAMED["void"]

    @staticmethod
    def list_serde(inner: Serde) -> Serde:
        """Lists of what ``inner`` writes."""
        return ListSerde(inner)

    @staticmethod
    def time_windowed(inner: Serde | None = None, size: timedelta | str | int | None = None) -> Serde:
        """Keys within windows of one size; without the size, windows that are read have no end.

        A whole number of milliseconds is taken too, as Java's serde has it. Without ``inner`` the key is written by
        the application's default.
        """
        whole = size is None or (isinstance(size, int) and not isinstance(size, bool))
        return TimeWindowedSerde(inner, size if whole else duration_ms(size, "window size"))  # type: ignore[arg-type]

    @staticmethod
    def session_windowed(inner: Serde | None = None) -> Serde:
        """Keys within sessions; without ``inner`` the key is written by the application's default."""
        return SessionWindowedSerde(inner)

    @staticmethod
    def serde_from(
        serializer: Callable[[Any], Any],
        deserializer: Callable[[Any], Any],
        *,
        name: str = "custom",
        immutable: Iterable[type] = (),
    ) -> Serde:
        """A serde of two functions: value to bytes, bytes to value; neither ever gets None."""
        return FunctionSerde(name, serializer, deserializer, frozenset(immutable))

    @staticmethod
    def named(name: str) -> Serde:
        """The built-in serde of that name, such as ``long`` or ``list<string>``."""
        return serde_named(name)


def name_serdes(value: Any) -> None:
    """Put built-in serdes in place of their names in ``key_serde`` and ``value_serde`` of a frozen value."""
    for field in ("key_serde", "value_serde"):
        name = getattr(value, field)
        if isinstance(name, str):
            object.__setattr__(value, field, serde_named(name))


def serde_named(name: str) -> Serde:
    """The built-in serde of a name, the inverse of ``serde.name``; raises ConfigError for other words.

    Example:
        >>> serde_named("list<long>") == Serdes.list_serde(Serdes.long())
        True
    """
    word = name.strip()
    if inner := re.fullmatch(r"list<(.+)>", word):
        return ListSerde(serde_named(inner[1]))
    if inner := re.fullmatch(r"windowed<(.+)> (time|session)", word):
        return (TimeWindowedSerde if inner[2] == "time" else SessionWindowedSerde)(serde_named(inner[1]))
    word = _ALIASES.get(word, word)
    if word not in _NAMED:
        near = difflib.get_close_matches(word, _NAMED, 1)
        raise ConfigError(
            f'no built-in serde is called "{name}"',
            detail=f"there are {', '.join(_NAMED)}, list<…>, windowed<…> time and windowed<…> session",
            hint=f'did you mean "{near[0]}"?' if near else None,
        )
    return _NAMED[word]
