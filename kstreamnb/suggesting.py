"""A mixin that answers an unknown attribute with the name that was probably meant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from kstreamnb.errors import UnknownNameError


class _SuggestingType(type):
    """The same for attributes of a class, such as its factories."""

    if not TYPE_CHECKING:

        def __getattr__(cls, name):
            if name.startswith("_"):
                return type.__getattribute__(cls, name)
            raise UnknownNameError(cls.__name__, name, dir(cls), cls._elsewhere.get(name))


class Suggesting(metaclass=_SuggestingType):
    """Mixin that answers an unknown attribute with the name that was probably meant.

    Names with an underscore are probed by Python and by notebooks, and get Python's own answer.
    """

    __slots__ = ()
    _elsewhere: ClassVar[Mapping[str, str]] = {}
    """Our name of a method, by the different name that it has in other libraries."""

    if not TYPE_CHECKING:  # a type checker would accept every name otherwise

        def __getattr__(self, name):
            kind = type(self)
            if name.startswith("_") or any(name in vars(each) for each in kind.__mro__):
                return object.__getattribute__(self, name)
            article = "an" if kind.__name__[0] in "AEIOU" else "a"
            raise UnknownNameError(f"{article} {kind.__name__}", name, dir(self), self._elsewhere.get(name))
