"""Type variables with a default, which Python has since 3.13 and type checkers know from `typing_extensions`."""

import sys
import typing
from typing import TYPE_CHECKING

__all__ = ["TypeVar"]

if TYPE_CHECKING:
    from typing_extensions import TypeVar
else:

    def TypeVar(name, *, default):
        """Return a type variable without the default: a class without a parameter is one of any values."""
        variable = typing.TypeVar(name)
        variable.__module__ = sys._getframe(1).f_globals["__name__"]  # noqa: SLF001 - where pickle looks for it
        return variable
