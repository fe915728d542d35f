"""Checks of the arguments of public calls: each refuses a value of the wrong type at the user's line."""

from __future__ import annotations

from collections.abc import Iterable
from types import UnionType

from kstreamnb.errors import ConfigError


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
        kinds = kind.__args__ if isinstance(kind, UnionType) else (kind,)
        names = " or ".join("None" if each is type(None) else each.__name__ for each in kinds)
        shown = (
            repr(value) if isinstance(value, str | int | float) or value is None else f'type "{type(value).__name__}"'
        )
        raise ConfigError(f"{what} must be {names}, got {shown}", hint=hint)


def expect_number(value: object, what: str) -> None:
    """Raise ConfigError when an argument is not a whole number."""
    if not isinstance(value, int) or isinstance(value, bool):
        expect(None if isinstance(value, bool) else value, int, what)


def expect_texts(values: object, what: str) -> tuple[str, ...]:
    """Return the texts of an iterable; raise ConfigError for one text alone, and for anything else in it."""
    if isinstance(values, str):
        raise ConfigError(f"{what} must be a list, got {values!r}", hint=f"write [{values!r}]")
    expect(values, Iterable, what)
    assert isinstance(values, Iterable)
    texts = tuple(values)
    for each in texts:
        expect(each, str, f"each of {what}")
    return texts
